//! Fields whose pointers borrow: the pointer struct keeps their lifetimes.

use marshal::{ColumnSpec, Error, KernelStruct, Member, Visitor};

use crate::*;

/// Memory that somebody owns.
struct Owned(DevicePointer<f32>);

/// Its address, as long as it is borrowed.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Borrowed<'a> {
    column: DeviceColumn<DevicePointer<f32>>,
    owner: PhantomData<&'a Owned>,
}

impl KernelStruct for Borrowed<'_> {
    const NAME: &'static str = "Borrowed";
    const MEMBERS: &'static [Member] = &[Member::new::<DeviceColumn<DevicePointer<f32>>>("column")];
}

// A reference is the column, and what it refers to is none.
impl<'a> Column for &'a Owned {
    type Pointers = Borrowed<'a>;

    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<Borrowed<'a>, Error> {
        Ok(Borrowed { column: visitor.column(spec, std::slice::from_ref(&self.0))?, owner: PhantomData })
    }
}

#[derive(DeviceArgs)]
struct Args<'a, 'b, T: Pod> {
    values: &'b [T],
    #[device(borrow)]
    owned: &'a Owned,
    count: Vec<u32>,
}

#[derive(DeviceArgs)]
struct Bounded<'long, 'short, U: 'long>
where
    'long: 'short,
{
    #[device(borrow)]
    first: &'long Owned,
    #[device(borrow)]
    second: &'short Owned,
    marker: PhantomData<&'long U>,
}

#[test]
fn the_set_borrows_what_the_field_borrows_and_nothing_else() {
    let owned = Owned(DevicePointer::from_raw(0x1000).unwrap());
    let stream = HostDevice::new().stream();
    let dev = {
        let values = [1_u16, 2];
        Args { values: &values, owned: &owned, count: vec![3] }.upload(&stream).unwrap()
    };
    let pointers: ArgsPointers<'_, u16> = *dev;
    assert_eq!((pointers.owned.column.len(), pointers.values.len(), pointers.count.len()), (1, 2, 1));
    assert_eq!(dev.read_back().unwrap()[16..24], 0x1000_u64.to_le_bytes());
}

#[test]
fn bounds_between_lifetimes_are_kept() {
    let owned = Owned(DevicePointer::from_raw(0x1000).unwrap());
    let args = Bounded::<u8> { first: &owned, second: &owned, marker: PhantomData };
    let dev: BoundedPointers<'_, '_> = *args.upload(&HostDevice::new().stream()).unwrap();
    assert_eq!((dev.first.column.len(), dev.second.column.len()), (1, 1));
}
