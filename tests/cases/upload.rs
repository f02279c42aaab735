//! One-shot uploads, whichever backend runs them.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use bytemuck::{NoUninit, Pod, Zeroable};
use marshal::{ColumnSpec, DeviceArgs, DevicePointer, Error, Layout, Visitor};

use super::{Case, Gemm, GemmColumns, GemmCoord, Rig, at, pattern, permutations};

/// Every case.
pub(crate) fn all<R: Rig>() -> Vec<Case<R>> {
    vec![
        ("columns_stand_where_the_map_says", columns_stand_where_the_map_says),
        ("gaps_are_zero_bytes_twice_in_a_row", gaps_are_zero_bytes_twice_in_a_row),
        ("elements_of_every_size_land_right_in_every_order", elements_of_every_size_land_right_in_every_order),
        ("rows_upload_as_the_columns_would", rows_upload_as_the_columns_would),
        ("every_container_is_a_column", every_container_is_a_column),
        ("values_whose_bytes_are_not_all_valid_upload", values_whose_bytes_are_not_all_valid_upload),
        ("null_pointers_are_kept_where_they_stand", null_pointers_are_kept_where_they_stand),
        ("empty_columns_point_into_the_block", empty_columns_point_into_the_block),
        ("a_set_of_no_bytes_is_a_set", a_set_of_no_bytes_is_a_set),
        ("over_aligned_columns_are_aligned_on_the_device", over_aligned_columns_are_aligned_on_the_device),
        ("a_vector_load_of_the_last_element_stays_inside", a_vector_load_of_the_last_element_stays_inside),
        ("arguments_may_be_dropped_and_memory_reused_at_once", arguments_may_be_dropped_and_memory_reused_at_once),
        ("a_set_keeps_its_bytes_while_others_come_and_go", a_set_keeps_its_bytes_while_others_come_and_go),
        ("another_stream_sees_the_arguments_through_on", another_stream_sees_the_arguments_through_on),
        ("uploads_from_eight_threads_are_right", uploads_from_eight_threads_are_right),
        ("arguments_that_change_under_the_upload_are_refused", arguments_that_change_under_the_upload_are_refused),
        ("many_groups_are_counted_exactly", many_groups_are_counted_exactly),
    ]
}

/// The slow, obvious way: every column behind the last, at a multiple of its alignment, the end rounded up.
pub(crate) fn oracle(columns: &[(u64, &[u8])]) -> (Vec<u64>, Vec<u8>) {
    let mut image: Vec<u8> = Vec::new();
    let mut offsets = Vec::new();
    let mut largest = 1;
    for &(alignment, bytes) in columns {
        while !(image.len() as u64).is_multiple_of(alignment) {
            image.push(0);
        }
        offsets.push(image.len() as u64);
        image.extend_from_slice(bytes);
        largest = largest.max(alignment);
    }
    while !(image.len() as u64).is_multiple_of(largest) {
        image.push(0);
    }
    (offsets, image)
}

fn patterns<T: Pod>(len: usize) -> Vec<T> {
    (0..len).map(|i| pattern(i as u64)).collect()
}

#[derive(DeviceArgs)]
struct GroupedGemm<'a> {
    problem_sizes: &'a [GemmCoord],
    ptr_a: Vec<DevicePointer<u16>>,
    ptr_c: Vec<Option<DevicePointer<f32>>>,
    lda: Vec<i64>,
    #[device(scalar)]
    alpha: f32,
    #[device(skip)]
    _label: &'a str,
}

fn columns_stand_where_the_map_says<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let problem_sizes =
        [GemmCoord { m: 1, n: 2, k: 3 }, GemmCoord { m: 4, n: 5, k: 6 }, GemmCoord { m: 7, n: 8, k: 9 }];
    let args = GroupedGemm {
        problem_sizes: &problem_sizes,
        ptr_a: vec![at(0x1000), at(0x2000), at(0x3000)],
        ptr_c: vec![Some(at(0x4000)), None, Some(at(0x5000))],
        lda: vec![-1, 64, 128],
        alpha: 0.5,
        _label: "stays on the host",
    };
    let dev = args.upload(&stream).unwrap();

    let base = dev.base().address();
    let places = [
        (dev.problem_sizes.pointer().address(), dev.problem_sizes.len()),
        (dev.ptr_a.pointer().address(), dev.ptr_a.len()),
        (dev.ptr_c.pointer().address(), dev.ptr_c.len()),
        (dev.lda.pointer().address(), dev.lda.len()),
        (dev.alpha.pointer().address(), dev.alpha.len()),
    ];
    assert_eq!(places, [(base, 3), (base + 48, 3), (base + 80, 3), (base + 112, 3), (base + 144, 1)]);

    let mut image = Vec::new();
    for word in [1_i32, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0] {
        image.extend(word.to_le_bytes());
    }
    for word in [0x1000_i64, 0x2000, 0x3000, 0, 0x4000, 0, 0x5000, 0, -1, 64, 128, 0] {
        image.extend(word.to_le_bytes());
    }
    image.extend(0.5_f32.to_le_bytes());
    image.extend([0; 12]);
    assert_eq!(dev.layout().copy_bytes(), 160);
    assert_eq!(dev.read_back().unwrap(), image);
    assert_eq!(rig.read_device(&stream, dev.base(), 160), image);
}

#[derive(DeviceArgs)]
#[device(align = 64)]
struct Gappy {
    a: Vec<u8>,
    b: [u16; 3],
    #[device(align = 256)]
    c: Vec<[u8; 5]>,
}

fn gaps_are_zero_bytes_twice_in_a_row<R: Rig>(rig: &R) {
    let stream = rig.stream();
    for _ in 0..2 {
        rig.poison(&stream, 512);
        let dev = Gappy { a: vec![0xff], b: [0xffff; 3], c: vec![[0xff; 5]; 2] }.upload(&stream).unwrap();
        let mut image = vec![0; 512];
        image[0] = 0xff;
        image[64..70].fill(0xff);
        image[256..266].fill(0xff);
        assert_eq!(dev.read_back().unwrap(), image);
    }
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(16))]
struct Aligned16([u64; 2]);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(128))]
struct Aligned128([u64; 16]);

/// Columns of seven element types in an order that is known at run time only.
struct Mixed {
    order: Vec<usize>,
    alignment: u64,
    bytes1: Vec<u8>,
    bytes2: Vec<u16>,
    bytes3: Vec<[u8; 3]>,
    bytes5: Vec<[u8; 5]>,
    bytes12: Vec<GemmCoord>,
    bytes16: Vec<Aligned16>,
    bytes128: Vec<Aligned128>,
}

impl Mixed {
    fn new(order: &[usize], alignment: u64, len: usize) -> Self {
        Self {
            order: order.to_vec(),
            alignment,
            bytes1: patterns(len),
            bytes2: patterns(len),
            bytes3: patterns(len),
            bytes5: patterns(len),
            bytes12: patterns(len),
            bytes16: patterns(len),
            bytes128: patterns(len),
        }
    }

    fn columns(&self) -> Vec<(u64, &[u8])> {
        let all: [(u64, &[u8]); 7] = [
            (1, &self.bytes1),
            (2, bytemuck::cast_slice(&self.bytes2)),
            (1, bytemuck::cast_slice(&self.bytes3)),
            (1, bytemuck::cast_slice(&self.bytes5)),
            (4, bytemuck::cast_slice(&self.bytes12)),
            (16, bytemuck::cast_slice(&self.bytes16)),
            (128, bytemuck::cast_slice(&self.bytes128)),
        ];
        self.order.iter().map(|&i| (all[i].0.max(self.alignment), all[i].1)).collect()
    }
}

/// Addresses only: the element types are in the order of `Mixed::order`.
impl DeviceArgs for Mixed {
    type Pointers = [u64; 7];

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<[u64; 7], Error> {
        let spec = ColumnSpec::new("mixed").with_alignment(self.alignment.try_into()?);
        let mut addresses = [0; 7];
        for (address, i) in addresses.iter_mut().zip(&self.order) {
            *address = match i {
                0 => visitor.column(spec, &self.bytes1)?.pointer().address(),
                1 => visitor.column(spec, &self.bytes2)?.pointer().address(),
                2 => visitor.column(spec, &self.bytes3)?.pointer().address(),
                3 => visitor.column(spec, &self.bytes5)?.pointer().address(),
                4 => visitor.column(spec, &self.bytes12)?.pointer().address(),
                5 => visitor.column(spec, &self.bytes16)?.pointer().address(),
                _ => visitor.column(spec, &self.bytes128)?.pointer().address(),
            };
        }
        Ok(addresses)
    }
}

fn elements_of_every_size_land_right_in_every_order<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let orders = permutations(&[0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(orders.len(), 5040);
    for (n, order) in orders.iter().enumerate() {
        // Every order once, with another length and alignment each time.
        let (len, alignment) = ([1, 3, 7, 0, 33][n % 5], [1, 16, 32, 256][n % 4]);
        let args = Mixed::new(order, alignment, len);
        let (offsets, image) = oracle(&args.columns());
        let dev = args.upload(&stream).unwrap();
        let addresses: Vec<u64> = offsets.iter().map(|offset| dev.base().address() + offset).collect();
        assert_eq!(*dev, *addresses, "order {order:?}");
        for ((alignment, _), address) in args.columns().iter().zip(*dev) {
            assert_eq!(address % alignment, 0, "order {order:?}");
        }
        assert_eq!(dev.read_back().unwrap(), image, "order {order:?}, {len} elements, alignment {alignment}");
    }
}

fn rows_upload_as_the_columns_would<R: Rig>(rig: &R) {
    let stream = rig.stream();
    // Around the rows of one 16 KiB tile (48 bytes a row: 341), and several tiles.
    for len in [0, 1, 2, 340, 341, 342, 682, 1000] {
        let rows: Vec<Gemm> = (0..len)
            .map(|i| Gemm {
                size: pattern(i),
                a: at(0x1000 + 16 * i),
                c: (i % 3 != 0).then(|| at(0x10_0000 + 4 * i)),
                tag: pattern(i),
                lda: pattern(i),
                _host: 7,
            })
            .collect();
        let columns = GemmColumns {
            size: rows.iter().map(|r| r.size).collect(),
            a: rows.iter().map(|r| r.a).collect(),
            c: rows.iter().map(|r| r.c).collect(),
            tag: rows.iter().map(|r| r.tag).collect(),
            lda: rows.iter().map(|r| r.lda).collect(),
        };
        let from_rows = rows.upload(&stream).unwrap();
        let from_columns = columns.upload(&stream).unwrap();
        assert_eq!(from_rows.layout(), from_columns.layout());
        assert_eq!(from_rows.read_back().unwrap(), from_columns.read_back().unwrap(), "{len} rows");
        assert_eq!(from_rows.tag.pointer().address() % 64, 0);
        assert_eq!(
            from_rows.tag.pointer().address() - from_rows.base().address(),
            columns.layout().unwrap().column("tag").unwrap().offset
        );
        assert_eq!(rows[..].upload(&stream).unwrap().lda.len(), rows.len());
    }
}

#[derive(DeviceArgs)]
struct Containers<'a> {
    vec: Vec<u32>,
    slice: &'a [u32],
    array: [u32; 2],
    boxed: Box<[u32]>,
    shared: Arc<[u32]>,
    borrowed: Cow<'a, [u32]>,
    owned: Cow<'a, [u32]>,
    by_reference: &'a Vec<u32>,
}

fn every_container_is_a_column<R: Rig>(rig: &R) {
    let by_reference = vec![15, 16];
    let args = Containers {
        vec: vec![1, 2],
        slice: &[3, 4],
        array: [5, 6],
        boxed: vec![7, 8].into(),
        shared: vec![9, 10].into(),
        borrowed: Cow::Borrowed(&[11, 12]),
        owned: Cow::Owned(vec![13, 14]),
        by_reference: &by_reference,
    };
    let image = args.upload(&rig.stream()).unwrap().read_back().unwrap();
    let values: Vec<u32> = image
        .chunks_exact(16)
        .flat_map(|column| [&column[..4], &column[4..8]])
        .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    assert_eq!(values, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
}

#[derive(Clone, Copy, NoUninit)]
#[repr(u8)]
enum Op {
    Copy = 3,
    Add = 250,
}

#[derive(DeviceArgs)]
struct Checked {
    flags: Vec<bool>,
    letters: Vec<char>,
    counts: Vec<NonZeroU32>,
    ops: Vec<Op>,
}

fn values_whose_bytes_are_not_all_valid_upload<R: Rig>(rig: &R) {
    let args = Checked {
        flags: vec![true, false, true],
        letters: vec!['a', 'é'],
        counts: vec![NonZeroU32::new(9).unwrap()],
        ops: vec![Op::Copy, Op::Add],
    };
    let layout = args.layout().unwrap();
    let strides: Vec<_> = layout.columns().iter().map(|c| c.element_bytes).collect();
    assert_eq!(strides, [1, 4, 4, 1]);
    let image = args.upload(&rig.stream()).unwrap().read_back().unwrap();
    assert_eq!(image[..3], [1, 0, 1]);
    assert_eq!(image[16..24], [b'a', 0, 0, 0, 0xe9, 0, 0, 0]);
    assert_eq!(image[32..36], [9, 0, 0, 0]);
    assert_eq!(image[48..50], [3, 250]);
}

#[derive(DeviceArgs)]
struct Nullable {
    pointer: Vec<Option<DevicePointer<f64>>>,
    len: Vec<u32>,
}

fn null_pointers_are_kept_where_they_stand<R: Rig>(rig: &R) {
    let args = Nullable { pointer: vec![None, Some(at(0xdead_0000)), None], len: vec![0, 4, 0] };
    let image = args.upload(&rig.stream()).unwrap().read_back().unwrap();
    let words: Vec<u64> = image[..24].chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(words, [0, 0xdead_0000, 0]);
}

fn empty_columns_point_into_the_block<R: Rig>(rig: &R) {
    let stream = rig.stream();
    for full in 0..3 {
        let mut args = Gappy { a: vec![], b: [1; 3], c: vec![] };
        if full == 1 {
            args.a = vec![1; 65];
        }
        if full == 2 {
            args.c = vec![[1; 5]; 100];
        }
        let dev = args.upload(&stream).unwrap();
        let (base, end) = (dev.base().address(), dev.base().address() + dev.layout().size_bytes());
        for (address, alignment) in [(dev.a.pointer().address(), 64), (dev.c.pointer().address(), 256)] {
            assert!((base..=end).contains(&address), "{address:#x} is outside of {base:#x}..={end:#x}");
            assert_eq!(address % alignment, 0);
        }
        assert_eq!(dev.a.is_empty(), full != 1);
        assert_eq!(dev.c.is_empty(), full != 2);
    }
}

#[derive(DeviceArgs)]
struct AllEmpty {
    a: Vec<u64>,
    #[device(align = 1024)]
    b: [u8; 0],
}

fn a_set_of_no_bytes_is_a_set<R: Rig>(rig: &R) {
    let stream = rig.stream();
    for len in [0, 3, 0] {
        let dev = AllEmpty { a: vec![7; len], b: [] }.upload(&stream).unwrap();
        assert_eq!(dev.layout().copy_bytes(), if len == 0 { 0 } else { 1024 });
        assert_eq!(dev.read_back().unwrap().len(), if len == 0 { 0 } else { 1024 });
        assert_eq!((dev.a.len(), dev.a.is_empty(), dev.b.is_empty()), (len, len == 0, true));
        assert_ne!(dev.a.pointer().address(), 0);
        assert_eq!(dev.b.pointer().address() % 1024, 0);
    }
    let rows: [Gemm; 0] = [];
    let dev = rows.upload(&stream).unwrap();
    assert!(dev.lda.is_empty());
    assert_eq!(dev.layout().columns().len(), 5);
}

#[derive(DeviceArgs)]
struct OverAligned {
    first: [u8; 1],
    #[device(align = 512)]
    wide: [u32; 3],
    #[device(align = 4096)]
    page: [u64; 2],
}

fn over_aligned_columns_are_aligned_on_the_device<R: Rig>(rig: &R) {
    let stream = rig.stream();
    // Several at once, so that the allocator cannot hand out the start of a page each time.
    let args = OverAligned { first: [1], wide: [2, 3, 4], page: [5, 6] };
    let sets: Vec<_> = (0..5).map(|_| args.upload(&stream).unwrap()).collect();
    for dev in &sets {
        assert_eq!(dev.wide.pointer().address() % 512, 0);
        assert_eq!(dev.page.pointer().address() % 4096, 0);
        let image = dev.read_back().unwrap();
        assert_eq!(image.len(), 8192);
        assert_eq!(image[0], 1);
        assert_eq!(image[512..524], [2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(image[4096..4112], [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    }
}

#[derive(DeviceArgs)]
struct Halves {
    first: Vec<u16>,
    last: Vec<u16>,
}

fn a_vector_load_of_the_last_element_stays_inside<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let dev = Halves { first: vec![1; 5], last: vec![2; 5] }.upload(&stream).unwrap();
    // 4-wide loads of 5 elements read 16 bytes, the last column too.
    let last_load_end = dev.last.pointer().address() + 16;
    assert_eq!(last_load_end, dev.base().address() + dev.layout().size_bytes());
    assert_eq!(
        rig.read_device(&stream, dev.last.pointer().cast(), 16),
        [2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0]
    );
}

#[derive(DeviceArgs)]
struct Bytes {
    data: Vec<u8>,
}

fn arguments_may_be_dropped_and_memory_reused_at_once<R: Rig>(rig: &R) {
    for len in [64, 64 << 10, 4 << 20] {
        let stream = rig.stream();
        let busy = rig.block(&stream);
        let mut args = Bytes { data: vec![0xaa; len] };
        let dev = args.upload(&stream).unwrap();
        args.data.fill(0xbb);
        drop(args);
        // The allocator hands out what was freed last: whatever the upload let go of is overwritten here.
        let scribbles: Vec<Vec<u8>> = (0..8).map(|i| vec![i; len]).collect();
        drop(busy);
        let image = dev.read_back().unwrap();
        assert!(image.iter().all(|&byte| byte == 0xaa), "{len} bytes");
        drop(scribbles);
    }
}

fn a_set_keeps_its_bytes_while_others_come_and_go<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let kept = Bytes { data: vec![1; 1000] }.upload(&stream).unwrap();
    for i in 0..100 {
        let other = Bytes { data: vec![2 + i; 1000] }.upload(&stream).unwrap();
        assert_ne!(other.base(), kept.base());
    }
    assert_eq!(kept.read_back().unwrap()[..1000], [1; 1000]);
}

fn another_stream_sees_the_arguments_through_on<R: Rig>(rig: &R) {
    for len in [64, 64 << 10, 4 << 20] {
        let (home, other) = (rig.stream(), rig.stream());
        let busy = rig.block(&home);
        let dev = Bytes { data: vec![0x5c; len] }.upload(&home).unwrap();
        let lent = dev.on(&other).unwrap();
        let pointer = lent.data.pointer();
        drop(busy);
        assert_eq!(rig.read_device(&other, pointer, len), vec![0x5c; len]);
        drop(lent);
        // On its own stream a set needs no event.
        assert_eq!(dev.on(&home).unwrap().data, dev.data);
    }
}

fn uploads_from_eight_threads_are_right<R: Rig>(rig: &R) {
    let stream = rig.stream();
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let stream = stream.clone();
            scope.spawn(move || {
                for i in 0..50 {
                    let byte = thread * 16 + i % 16;
                    let dev = Bytes { data: vec![byte; 333] }.upload(&stream).unwrap();
                    assert_eq!(dev.read_back().unwrap()[..333], [byte; 333]);
                }
            });
        }
    });
}

/// Its column is longer at the second walk than at the first.
struct Growing {
    walks: std::cell::Cell<usize>,
}

impl DeviceArgs for Growing {
    type Pointers = ();

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<(), Error> {
        let walk = self.walks.get();
        self.walks.set(walk + 1);
        visitor.column(ColumnSpec::new("growing"), &vec![1_u8; 16 * (1 + walk % 2)])?;
        Ok(())
    }
}

fn arguments_that_change_under_the_upload_are_refused<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let error = Growing { walks: 0.into() }.upload(&stream).unwrap_err();
    assert!(error.to_string().contains("`growing`"), "{error}");
    let error = Growing { walks: 1.into() }.upload(&stream).unwrap_err();
    assert!(error.to_string().contains("changed"), "{error}");
    assert_eq!(Bytes { data: vec![9; 16] }.upload(&stream).unwrap().read_back().unwrap(), [9; 16]);
}

fn many_groups_are_counted_exactly<R: Rig>(rig: &R) {
    let stream = rig.stream();
    for len in [65_535, 65_536, 131_072] {
        let dev = Nullable { pointer: vec![None; len], len: vec![0; len] }.upload(&stream).unwrap();
        assert_eq!((dev.pointer.len(), dev.len.len()), (len, len));
    }
    let layout: Layout = Nullable { pointer: vec![None; 1 << 20], len: vec![] }.layout().unwrap();
    assert_eq!(layout.copy_bytes(), 8 << 20);
}
