use std::marker::PhantomData;

use marshal::{Column, ColumnSpec, DeviceArgs, DeviceColumn, Error, KernelStruct, Member, Visitor};

struct Owned(u64);

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Borrowed<'a>(DeviceColumn<u64>, PhantomData<&'a Owned>);

impl KernelStruct for Borrowed<'_> {
    const NAME: &'static str = "Borrowed";
    const MEMBERS: &'static [Member] = &[Member::new::<DeviceColumn<u64>>("column")];
}

impl<'a> Column for &'a Owned {
    type Pointers = Borrowed<'a>;

    fn visit<V: Visitor>(&self, spec: ColumnSpec, visitor: &mut V) -> Result<Borrowed<'a>, Error> {
        Ok(Borrowed(visitor.column(spec, std::slice::from_ref(&self.0))?, PhantomData))
    }
}

#[derive(DeviceArgs)]
struct Args<'a, 'b> {
    #[device(borrow)]
    owned: &'a Owned,
    count: &'b [u32],
}

fn main() {
    let stream = marshal::host::HostDevice::new().stream();
    let owned = Owned(1);
    let dev = {
        let count = [1];
        Args { owned: &owned, count: &count }.upload(&stream).unwrap()
    };
    drop(owned);
    let _ = dev.owned;
}
