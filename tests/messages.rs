//! What values say of themselves, in messages and in a debugger: the sentences that a user reads, written out.

use std::collections::{BTreeSet, HashSet};
use std::sync::mpsc;

use marshal::host::HostDevice;
use marshal::vector::{Float4, UChar2};
use marshal::{
    Alignment, ArgCache, Batch, CacheOptions, ColumnSpec, Content, CopyBatch, CopyStaging, DeviceArgs, DevicePointer,
    DeviceRange, DeviceRangeMut, ErrorKind, Layout, Ragged, Scratch,
};

#[derive(Clone, Debug, DeviceArgs)]
struct Args {
    sizes: Vec<[i32; 3]>,
    rows: Ragged<u8>,
    counts: Scratch<u32>,
    sums: Scratch<f64>,
}

#[derive(Clone, Debug, DeviceArgs)]
struct Bytes {
    bytes: Vec<u8>,
}

fn bytes(of: &[u8]) -> Bytes {
    Bytes { bytes: of.to_vec() }
}

fn args() -> Args {
    Args {
        sizes: vec![[1, 2, 3], [4, 5, 6]],
        rows: Ragged::from_rows(&[vec![7, 8], vec![], vec![9]]).unwrap(),
        counts: Scratch::zeroed(3),
        sums: Scratch::uninit(2),
    }
}

#[test]
fn a_layout_draws_its_map_to_the_last_column() {
    let map = "\
column        element            align  len  offset  bytes  padding
sizes         [i32; 3]              16    2       0     24        8
rows          u8                    16    3      32      3       13
rows.offsets  i32                   16    4      48     16        0
rows.rows     DevicePointer<u8>     16    3      64     24        8
counts        u32                   16    3      96     12        4
sums          f64                   16    2     112     16        0
total 128 bytes, alignment 16, 96 copied, 16 zeroed
";
    assert_eq!(args().layout().unwrap().to_string(), map);
    let empty = Layout::builder().finish().unwrap();
    assert_eq!(empty.to_string(), "column  element  align  len  offset  bytes  padding\ntotal 0 bytes, alignment 1\n");
}

#[test]
fn a_layout_is_shown_with_every_number() {
    let layout = args().layout().unwrap();
    let shown = format!("{layout:?}");
    for part in [
        "sizes (Copied): 2 x [i32; 3] of 12 bytes at 0, 24 bytes and 8 of padding, alignment 16",
        "rows.offsets (Copied): 4 x i32 of 4 bytes at 48, 16 bytes and 0 of padding, alignment 16",
        "counts (Zeroed): 3 x u32 of 4 bytes at 96, 12 bytes and 4 of padding, alignment 16",
        "sums (Uninit): 2 x f64 of 8 bytes at 112, 16 bytes and 0 of padding, alignment 16",
        "copy_bytes: 96, size_bytes: 128, alignment: 16",
    ] {
        assert!(shown.contains(part), "`{part}` is not in {shown}");
    }
    assert_eq!(format!("{:?}", Alignment::new(64).unwrap()), "Alignment(64)");
    assert_eq!(Alignment::new(64).unwrap().to_string(), "64");
    assert_eq!(ColumnSpec::new("a").with_part("b").name(), "a");
}

#[test]
fn columns_and_sets_are_shown() {
    assert_eq!(format!("{:?}", args().rows), "[[7, 8], [], [9]]");
    assert_eq!(format!("{:?}", args().counts), "Scratch(3 x u32, Zeroed)");
    assert_eq!((args().counts.len(), Scratch::<u8>::uninit(0).is_empty()), (3, true));
    assert_eq!(Ragged::<u8>::default(), Ragged::new());
    let batch: Batch<Bytes> = [bytes(&[1]), bytes(&[2])].into_iter().collect();
    assert_eq!(format!("{batch:?}"), "Batch([Bytes { bytes: [1] }, Bytes { bytes: [2] }])");
    assert_eq!(format!("{:?}", Batch::from(vec![bytes(&[3])]).clone()), "Batch([Bytes { bytes: [3] }])");
    assert_eq!(batch.into_sets()[1].bytes, [2]);
}

#[test]
fn what_is_on_the_device_is_shown_by_its_addresses() {
    let device = HostDevice::new();
    let (stream, other) = (device.stream(), device.stream());
    let dev = args().upload(&stream).unwrap();
    let base = dev.base().address();
    let shown = format!("{dev:?}");
    for part in [
        "Uploaded { pointers: ArgsPointers { sizes: ",
        &format!("{base:#x}"),
        &format!("rows: RaggedPointers {{ values: {:?}", dev.rows.values),
        "layout: Layout { columns: ",
    ] {
        assert!(shown.contains(part), "`{part}` is not in {shown}");
    }
    let lent = dev.on(&other).unwrap();
    assert!(format!("{lent:?}").starts_with("OnStream { pointers: ArgsPointers { sizes: "));
    assert_eq!(lent.as_kernel_arg().sizes.pointer(), dev.sizes.pointer());
    let batch = Batch::new(vec![bytes(&[1]), bytes(&[2, 3])]).upload(&stream).unwrap();
    assert_eq!(format!("{:?}", batch.clone()), format!("[{:?}, {:?}]", batch[0], batch[1]));
}

#[test]
fn a_pointer_is_ordered_hashed_and_shown_by_its_address() {
    let [low, high] = [0x1000, 0x2000].map(|address| DevicePointer::<f32>::from_raw(address).unwrap());
    assert_eq!(format!("{low:?} {high:p}"), "0x1000 0x2000");
    assert!(low < high && low.max(high) == high);
    assert_eq!([high, low, low].into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), [low, high]);
    assert_eq!([high, low, low].into_iter().collect::<HashSet<_>>().len(), 2);
    // 2^62 elements of 4 bytes pass the last address, and so does one element from the last.
    assert_eq!(low.checked_add(1 << 62), None);
    assert_eq!(DevicePointer::<f32>::from_raw(u64::MAX - 3).unwrap().checked_add(1), None);
    assert_eq!(low.checked_add(3).unwrap().address(), 0x100c);
}

#[test]
fn caches_graphs_and_streams_are_shown_by_their_device() {
    let device = HostDevice::new();
    let stream = device.stream();
    let options = CacheOptions { device_bytes: 4096, ..CacheOptions::default() };
    let cache = ArgCache::with_options(&stream, options).unwrap();
    let shown = format!("{cache:?}");
    assert!(shown.contains("device_bytes: 4096") && shown.contains("host device"), "{shown}");
    assert!(format!("{stream:?}").starts_with("HostStream"));
    let graph = cache.capture(|_| Ok(5)).unwrap();
    assert_eq!(format!("{graph:?}"), "CapturedGraph { sets: 5, .. }");

    let fresh = format!("{:?}", HostDevice::new());
    assert!(fresh.contains("counters: Counters { device_allocs: 0, "), "{fresh}");
    let (sender, shown) = mpsc::channel();
    stream.begin_capture().unwrap();
    stream.launch(move |memory| sender.send(format!("{memory:?}")).unwrap()).unwrap();
    let graph = stream.end_capture().unwrap();
    assert_eq!(format!("{graph:?}"), "HostGraph { nodes: [Launch { stream: 0 }], .. }");
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(shown.recv().unwrap(), "DeviceMemory { stream: 0, .. }");
}

#[test]
fn lengths_and_lanes_are_what_was_put_in() {
    /// By the trait: these are `Copy`, and lints would have it so.
    fn twin<T: Clone>(of: &T) -> T {
        of.clone()
    }
    let stream = HostDevice::new().stream();
    let dev = args().upload(&stream).unwrap();
    assert_eq!(twin(&dev.counts).pointer(), dev.counts.pointer());
    assert_eq!(format!("{:?}", twin(&dev.rows)), format!("{:?}", dev.rows));
    assert_eq!(format!("{:?}", twin(&args().sums)), "Scratch(2 x f64, Uninit)");
    assert_eq!(Batch::new(vec![bytes(&[1]), bytes(&[2, 3])]).sets()[1].bytes, [2, 3]);

    let (mut some, mut none) = (stream.alloc::<u16>(3).unwrap(), stream.alloc::<u16>(0).unwrap());
    assert_eq!((some.len(), some.is_empty(), none.len(), none.is_empty()), (3, false, 0, true));
    let range = DeviceRangeMut::from(&mut some);
    assert_eq!((range.len(), range.is_empty()), (3, false));
    assert_eq!(format!("{range:?}"), "DeviceRangeMut { len: 3, .. }");
    assert!(DeviceRangeMut::from(&mut none).is_empty() && DeviceRange::from(&none).is_empty());

    assert_eq!(<[f32; 4]>::from(Float4::from([1.0, 2.0, 3.0, 4.0])), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(<[u8; 2]>::from(UChar2 { x: 5, y: 6 }), [5, 6]);
}

#[test]
fn batches_of_copies_are_shown_with_their_counts() {
    let stream = HostDevice::new().stream();
    let staging = CopyStaging::new(&stream);
    assert!(format!("{staging:?}").contains("host device"));
    let dev = bytes(&[1, 2]).upload(&stream).unwrap();
    let mut batch = CopyBatch::new(&staging);
    let range = dev.range(dev.bytes).unwrap();
    assert_eq!(format!("{range:?}"), "DeviceRange { len: 2, .. }");
    let ticket = batch.dtoh_owned(range).unwrap();
    assert_eq!(format!("{ticket:?}"), "Ticket { entry: 0, .. }");
    assert!(format!("{batch:?}").starts_with("CopyBatch"));
    let pending = batch.submit().unwrap();
    assert_eq!(format!("{pending:?}"), "PendingCopies { copies: 1, captured: false, .. }");
    let fetched = pending.wait().unwrap();
    assert_eq!(format!("{fetched:?}"), "FetchedCopies { copies: 1, .. }");
    assert_eq!(fetched.to_vec(&ticket), [1, 2]);
}

#[test]
fn an_error_says_its_numbers_and_what_to_do() {
    let error = Alignment::try_from(24).unwrap_err();
    assert_eq!(error.to_string(), "24 is no alignment: it must be a power of two");
    assert_eq!(format!("{error:?}"), "NotAnAlignment { bytes: 24 }");
    assert!(std::error::Error::source(&error).is_none());

    let mut plan = Layout::builder();
    plan.column::<u64>("a", 2).unwrap();
    assert_eq!(
        plan.column::<u64>("b", 1 << 61).unwrap_err().to_string(),
        "column `b` does not fit: 2305843009213693952 elements of 8 bytes at offset 16 pass the last u64"
    );

    let stream = HostDevice::new().stream();
    let cache = ArgCache::with_options(&stream, CacheOptions { device_bytes: 10, ..CacheOptions::default() }).unwrap();
    let error = bytes(&[0; 100]).upload(&cache).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::CacheFull { needed: 112, available: 10 }), "{error}");
    assert_eq!(
        error.to_string(),
        "a block of 112 bytes does not fit: the cache's device cap leaves 10 beside what sets and graphs hold: drop some or raise the cap"
    );
    assert_eq!(Content::Copied, args().layout().unwrap().columns()[0].content);
}
