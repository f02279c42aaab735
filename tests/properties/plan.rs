//! Plans whose numbers come near the last u64: an error or the right number, and never one that has wrapped.

use bytemuck::CheckedBitPattern;
use marshal::host::{HostDevice, HostOptions};
use marshal::{Alignment, ArgCache, DeviceArgs, DevicePointer, Element, Error, ErrorKind, Layout, LayoutBuilder};

use crate::columns::{Column, Columns, Kind, MOST, NAMES, OnType};
use crate::oracle::round_up;

/// Places a column.
pub(crate) struct Plan<'p> {
    pub(crate) plan: &'p mut LayoutBuilder,
    pub(crate) name: &'static str,
    pub(crate) len: u64,
    pub(crate) alignment: Alignment,
}

impl OnType for Plan<'_> {
    type Output = Result<(), Error>;

    fn on<T: Element + CheckedBitPattern>(self) -> Result<(), Error> {
        self.plan.column_aligned::<T>(self.name, self.len, self.alignment).map(drop)
    }
}

#[derive(Debug)]
pub(crate) struct Planned {
    kind: Kind,
    len: u64,
    alignment: u64,
}

impl Planned {
    pub(crate) fn read([kind, shift, len, alignment]: [u8; 4]) -> Self {
        let kind = Kind::ALL[usize::from(kind) % Kind::ALL.len()];
        let (few, most) = (u64::from(len % 16), u64::MAX / kind.size_bytes() as u64);
        let len = match len / 16 {
            0..=3 => few,
            4..=7 => (u64::MAX >> (shift % 64)) - few.min(u64::MAX >> (shift % 64)),
            8..=11 => most - few,
            12 | 13 => most.saturating_add(few),
            _ => most / 2 + few,
        };
        Self { kind, len, alignment: 1 << (alignment % 64) }
    }
}

/// Where a column ends, in numbers that cannot overflow here.
fn place(end: u128, size_bytes: usize, len: u64, alignment: u64) -> (u128, u128) {
    let offset = round_up(end, alignment);
    (offset, offset + size_bytes as u128 * u128::from(len))
}

pub(crate) fn check(columns: &[Planned]) {
    const LAST: u128 = u64::MAX as u128;
    let mut plan = Layout::builder();
    let (mut end, mut largest) = (0_u128, 1);
    let mut placed = Vec::new();
    for (column, name) in columns.iter().zip(NAMES.iter().cycle()) {
        let alignment = column.alignment.max(column.kind.alignment());
        let (offset, next) = place(end, column.kind.size_bytes(), column.len, alignment);
        let asked = Alignment::new(column.alignment).unwrap();
        let added = column.kind.on(Plan { plan: &mut plan, name, len: column.len, alignment: asked });
        if next <= LAST {
            added.unwrap();
            placed.push((u64::try_from(offset).unwrap(), u64::try_from(next - offset).unwrap()));
            (end, largest) = (next, alignment.max(largest));
        } else {
            let (element_bytes, offset) = (column.kind.size_bytes() as u64, u64::try_from(end).unwrap());
            let overflow = ErrorKind::Overflow { column: name, len: column.len, element_bytes, offset };
            assert_eq!(*added.unwrap_err().kind(), overflow);
        }
    }
    let total = round_up(end, largest);
    match plan.finish() {
        Ok(layout) => {
            assert_eq!(u128::from(layout.size_bytes()), total);
            let found: Vec<_> = layout.columns().iter().map(|column| (column.offset, column.size_bytes)).collect();
            assert_eq!(found, placed);
            let sum =
                layout.columns().iter().map(|column| u128::from(column.size_bytes + column.padding)).sum::<u128>();
            assert_eq!(sum, total, "columns and their padding make up the whole");
            assert_eq!(layout.to_string().lines().count(), placed.len() + 2);
        }
        Err(error) => {
            assert!(total > LAST, "{error}");
            assert!(matches!(error.kind(), ErrorKind::Overflow { .. }), "{error}");
        }
    }
}

/// A few elements, so far apart that no host has such memory.
pub(crate) fn far_apart(columns: &[[u8; 4]]) -> Columns {
    let far = |bytes: [u8; 4]| Column { alignment: 1 << (40 + bytes[2] % 24), ..Column::read(bytes) };
    Columns(columns.iter().take(MOST).copied().map(far).collect())
}

/// Every way to upload refuses them, and nothing is left behind.
pub(crate) fn check_far_apart(columns: &Columns) {
    let mut end = 0;
    for column in &columns.0 {
        end = place(end, column.kind.size_bytes(), column.len as u64, column.alignment).1;
    }
    let largest = columns.0.iter().map(|column| column.alignment).max().unwrap_or(1);
    let total = round_up(end, largest);
    let device = HostDevice::with_options(HostOptions { memory_bytes: 1 << 30, ..HostOptions::default() });
    let stream = device.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let mut image = [0xA5; 64];
    let base = DevicePointer::from_raw(largest).unwrap();
    let packed = columns.pack_into(base, &mut image);
    if total == 0 {
        packed.unwrap();
        assert!(columns.upload(&stream).unwrap().read_back().unwrap().is_empty());
        assert!(columns.upload(&cache).unwrap().read_back().unwrap().is_empty());
    } else {
        let errors = [packed.unwrap_err(), columns.upload(&stream).unwrap_err(), columns.upload(&cache).unwrap_err()];
        if total > u128::from(u64::MAX) {
            assert!(errors.iter().all(|error| matches!(error.kind(), ErrorKind::Overflow { .. })), "{errors:?}");
        } else {
            let [packed, one_shot, cached] = errors.each_ref().map(Error::kind);
            let total = u64::try_from(total).unwrap();
            if total > u64::MAX - largest {
                assert_eq!(*packed, ErrorKind::TooLarge { needed: total, available: u64::MAX - largest });
            } else {
                assert!(matches!(packed, ErrorKind::TooShort { needed, available: 64, .. } if *needed == total));
            }
            assert!(matches!(one_shot, ErrorKind::Driver { .. } | ErrorKind::TooLarge { .. }), "{one_shot:?}");
            assert!(matches!(cached, ErrorKind::CacheFull { .. } | ErrorKind::TooLarge { .. }), "{cached:?}");
        }
    }
    assert_eq!(image, [0xA5; 64]);
    drop(cache);
    stream.synchronize().unwrap();
    let counters = device.counters();
    assert_eq!((counters.live_device_blocks, counters.live_host_blocks), (0, 0));
}
