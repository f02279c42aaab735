//! Rows are columns: the same layout, the same image, the same pointers.

use std::cell::RefCell;

use bytemuck::CheckedBitPattern;
use marshal::{Alignment, ColumnSpec, DeviceArgs, DevicePointer, Element, Error, Row, RowVisitor};

use crate::columns::{Bound, Column, Columns, MOST, NAMES, OnType, Pointers};
use crate::oracle;

thread_local! {
    // A row's fields are a matter of its type: those of a drawn row are here, each with the byte of the row that it starts at.
    static FIELDS: RefCell<Vec<(Column, usize)>> = const { RefCell::new(Vec::new()) };
}

/// A row of `N` bytes, the fields among them.
struct Bytes<const N: usize>([u8; N]);

impl<const N: usize> Row for Bytes<N> {
    type Pointers = Pointers;

    fn fields<V: RowVisitor<Self>>(visitor: &mut V) -> Result<Pointers, Error> {
        let fields = FIELDS.with_borrow(Clone::clone);
        let mut pointers = [None; MOST];
        for (((column, start), name), pointer) in fields.into_iter().zip(NAMES).zip(&mut pointers) {
            let spec = ColumnSpec::new(name).with_alignment(Alignment::try_from(column.alignment)?);
            *pointer = Some(column.kind.on(Field::<_, N> { spec, start, visitor })?);
        }
        Ok(pointers)
    }
}

struct Field<'v, V, const N: usize> {
    spec: ColumnSpec,
    start: usize,
    visitor: &'v mut V,
}

impl<V: RowVisitor<Bytes<N>>, const N: usize> OnType for Field<'_, V, N> {
    type Output = Result<Bound, Error>;

    fn on<T: Element + CheckedBitPattern>(self) -> Result<Bound, Error> {
        let range = self.start..self.start + size_of::<T>();
        let get = |row: &Bytes<N>| bytemuck::checked::pod_read_unaligned::<T>(&row.0[range.clone()]);
        let column = self.visitor.field(self.spec, get)?;
        Ok(Bound { address: column.pointer().address(), len: column.len() })
    }
}

/// The columns' bytes, one row after the other.
fn rows<const N: usize>(columns: &Columns, len: usize) -> Vec<Bytes<N>> {
    let sources: Vec<Vec<u8>> = columns.0.iter().map(Column::bytes).collect();
    let fields = FIELDS.with_borrow(Clone::clone);
    let row = |index: usize| {
        let mut row = [0xEE; N];
        for ((column, start), source) in fields.iter().zip(&sources) {
            let size_bytes = column.kind.size_bytes();
            row[*start..start + size_bytes].copy_from_slice(&source[index * size_bytes..][..size_bytes]);
        }
        Bytes(row)
    };
    (0..len).map(row).collect()
}

#[derive(Debug)]
pub(crate) struct Case {
    columns: Columns,
    rows: usize,
    size: u8,
}

impl Case {
    pub(crate) fn read(rows: u16, size: u8, columns: &[[u8; 4]]) -> Self {
        let rows = usize::from(rows) % if size.is_multiple_of(4) { 600 } else { 50 };
        let columns = columns.iter().take(MOST).map(|&bytes| Column { len: rows, ..Column::read(bytes) });
        Self { columns: Columns(columns.collect()), rows, size }
    }
}

pub(crate) fn check(case: &Case) {
    let mut end = 0;
    let fields = case.columns.0.iter().map(|&column| {
        let start = end;
        end += column.kind.size_bytes();
        (column, start)
    });
    FIELDS.set(fields.collect());
    // From many rows in a tile of the transpose to one that is larger than a tile.
    match case.size % 4 {
        0 if end <= 64 => check_rows::<64>(case),
        0 | 1 => check_rows::<768>(case),
        2 => check_rows::<8000>(case),
        _ => check_rows::<20_000>(case),
    }
}

fn check_rows<const N: usize>(case: &Case) {
    let rows = rows::<N>(&case.columns, case.rows);
    let expected = oracle::image(&case.columns.0);
    assert_eq!(rows.layout().unwrap(), case.columns.layout().unwrap());
    let base = DevicePointer::from_raw(3 * expected.alignment).unwrap();
    let (mut by_rows, mut by_columns) = (vec![0xA5; expected.bytes.len()], vec![0x5A; expected.bytes.len()]);
    let pointers = rows.pack_into(base, &mut by_rows).unwrap();
    assert_eq!(pointers, case.columns.pack_into(base, &mut by_columns).unwrap());
    assert_eq!(by_rows, expected.bytes);
    assert_eq!(by_columns, expected.bytes);
}
