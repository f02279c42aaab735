//! Layout, image and pointers are the oracle's, wherever the image is made.

use std::sync::mpsc;

use marshal::host::{HostDevice, HostOptions};
use marshal::{Alignment, DeviceArgs, DevicePointer, ErrorKind, Layout};

use crate::columns::{Bound, Column, Columns, MOST, NAMES, Pointers};
use crate::oracle::{self, Image};
use crate::plan::Plan;

#[derive(Debug)]
pub(crate) struct Case {
    columns: Columns,
    /// The base is so many multiples of the alignment.
    base: u64,
    /// Bytes that lie around the image.
    around: usize,
    /// The image is cut to so many 256ths.
    cut: usize,
    /// Of the host backend's blocks.
    base_offset: u64,
}

pub(crate) const HEADER: usize = 4;

impl Case {
    pub(crate) fn read([base, around, cut, base_offset]: [u8; HEADER], columns: &[[u8; 4]]) -> Self {
        Self {
            columns: Columns(columns.iter().take(MOST).copied().map(Column::read).collect()),
            base: 1 + u64::from(base),
            around: usize::from(around % 64),
            cut: usize::from(cut),
            base_offset: 2 * u64::from(base_offset),
        }
    }
}

/// What no packer may touch.
const CANARY: u8 = 0x5A;
/// What every packer has to write over.
const DIRT: u8 = 0xA5;

pub(crate) fn check(case: &Case) {
    let expected = oracle::image(&case.columns.0);
    check_layout(&case.columns, &expected);
    check_pack(case, &expected);
    check_refusals(case, &expected);
    check_upload(case, &expected);
}

fn check_layout(columns: &Columns, expected: &Image) {
    let layout = columns.layout().unwrap();
    let total = expected.bytes.len();
    assert_eq!((layout.size_bytes(), layout.copy_bytes()), (total as u64, total as u64));
    assert_eq!((layout.alignment(), layout.columns().len()), (expected.alignment, columns.0.len()));
    for (index, (column, found)) in columns.0.iter().zip(layout.columns()).enumerate() {
        let (start, bytes) = (expected.offsets[index], column.bytes().len());
        let next = expected.offsets.get(index + 1).copied().unwrap_or(total);
        assert_eq!((found.name, found.len, found.offset), (NAMES[index], column.len as u64, start as u64));
        assert_eq!((found.element_bytes, found.alignment), (column.kind.size_bytes() as u64, column.alignment()));
        assert_eq!((found.size_bytes, found.padding), (bytes as u64, (next - start - bytes) as u64));
        assert_eq!(layout.column(NAMES[index]), Some(found));
    }
    let mut plan = Layout::builder();
    for (column, name) in columns.0.iter().zip(NAMES) {
        let (len, alignment) = (column.len as u64, Alignment::new(column.alignment).unwrap());
        column.kind.on(Plan { plan: &mut plan, name, len, alignment }).unwrap();
    }
    assert_eq!(plan.finish().unwrap(), layout);
}

fn check_pointers(columns: &Columns, expected: &Image, base: u64, pointers: &Pointers) {
    let bound = |(column, &offset): (&Column, &usize)| Bound { address: base + offset as u64, len: column.len };
    let right: Vec<Option<Bound>> = columns.0.iter().zip(&expected.offsets).map(bound).map(Some).collect();
    assert_eq!(pointers[..right.len()], right);
    assert!(pointers[right.len()..].iter().all(Option::is_none));
}

fn at(address: u64) -> DevicePointer<u8> {
    DevicePointer::from_raw(address).unwrap()
}

/// The image in the middle of memory, at any host address.
fn check_pack(case: &Case, expected: &Image) {
    let (total, base) = (expected.bytes.len(), case.base * expected.alignment);
    // With room to spare behind the image, and without.
    for room in [total, total + case.around] {
        let mut memory = vec![CANARY; case.around + room + case.around];
        let image = &mut memory[case.around..case.around + room];
        image.fill(DIRT);
        let pointers = case.columns.pack_into(at(base), image).unwrap();
        check_pointers(&case.columns, expected, base, &pointers);
        let (before, rest) = memory.split_at(case.around);
        let (image, rest) = rest.split_at(total);
        let (spare, after) = rest.split_at(room - total);
        assert_eq!(image, expected.bytes);
        assert!(before.iter().chain(after).all(|&byte| byte == CANARY), "bytes around the image were written");
        assert!(spare.iter().all(|&byte| byte == DIRT), "bytes behind the image were written");
    }
}

/// What does not fit is refused, and nothing is written.
fn check_refusals(case: &Case, expected: &Image) {
    let (total, base) = (expected.bytes.len(), case.base * expected.alignment);
    let cut = total * case.cut / 256;
    let mut image = vec![DIRT; total];
    if cut < total {
        let error = case.columns.pack_into(at(base), &mut image[..cut]).unwrap_err();
        let ends = expected.offsets[1..].iter().chain([&total]);
        let first = ends.zip(NAMES).find(|(end, _)| **end > cut).unwrap().1;
        let (needed, available) = (total as u64, cut as u64);
        assert_eq!(*error.kind(), ErrorKind::TooShort { column: first, needed, available });
    }
    if expected.alignment > 1 {
        let half = expected.alignment / 2;
        let error = case.columns.pack_into(at(base + half), &mut image).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Misaligned { needed: expected.alignment, found: half });
    }
    // The last multiple before the end of all addresses: what lies behind it has none.
    let last = u64::MAX - (expected.alignment - 1);
    let fits = (total as u64) < expected.alignment;
    let packed = case.columns.pack_into(at(last), &mut image);
    if fits {
        check_pointers(&case.columns, &oracle::image(&case.columns.0), last, &packed.unwrap());
    } else {
        assert!(matches!(packed.unwrap_err().kind(), ErrorKind::TooLarge { .. }));
        assert!(image.iter().all(|&byte| byte == DIRT), "an image that was refused was written");
    }
}

/// On the device, in a block whose allocator aligns as little as the case says.
fn check_upload(case: &Case, expected: &Image) {
    let device = HostDevice::with_options(HostOptions { base_offset: case.base_offset, ..HostOptions::default() });
    let stream = device.stream();
    let set = case.columns.upload(&stream).unwrap();
    let base = set.base().address();
    assert_eq!(base % expected.alignment, 0);
    assert_eq!(set.layout(), case.columns.layout().unwrap());
    check_pointers(&case.columns, expected, base, &set);
    let (sender, seen) = mpsc::channel();
    for (column, bound) in case.columns.0.iter().zip(set.iter().flatten().copied()).filter(|(column, _)| column.len > 0)
    {
        let (sender, bytes) = (sender.clone(), column.bytes());
        let kernel = move |memory: &marshal::host::DeviceMemory| {
            sender.send((memory.read_at(at(bound.address), bytes.len()).to_vec(), bytes.clone())).unwrap();
        };
        stream.launch(kernel).unwrap();
    }
    drop(sender);
    assert_eq!(set.read_back().unwrap(), expected.bytes);
    drop(set);
    stream.synchronize().unwrap();
    assert!(seen.try_iter().all(|(found, right)| found == right));
    assert_eq!(device.counters().live_device_blocks, 0);
}
