//! Ragged and scratch columns, tuples and batches, whichever backend runs them.

use bytemuck::{Pod, Zeroable};
use marshal::{ArgCache, Batch, DeviceArgs, DeviceColumn, DevicePointer, ErrorKind, Ragged, Scratch};

use super::{Case, Gemm, GemmCoord, Rig, at, pattern};

/// Every case.
pub(crate) fn all<R: Rig>() -> Vec<Case<R>> {
    vec![
        ("ragged_rows_are_values_offsets_and_pointers", ragged_rows_are_values_offsets_and_pointers),
        ("ragged_elements_of_every_size_are_aligned", ragged_elements_of_every_size_are_aligned),
        ("a_thousand_empty_rows_are_a_thousand_pointers", a_thousand_empty_rows_are_a_thousand_pointers),
        ("ragged_offsets_are_as_wide_as_asked_for", ragged_offsets_are_as_wide_as_asked_for),
        ("scratch_stands_behind_what_travels", scratch_stands_behind_what_travels),
        ("zeroed_scratch_is_zero_and_the_rest_is_left_alone", zeroed_scratch_is_zero_and_the_rest_is_left_alone),
        ("scratch_alone_is_allocated_and_zeroed", scratch_alone_is_allocated_and_zeroed),
        ("over_aligned_scratch_is_aligned_on_the_device", over_aligned_scratch_is_aligned_on_the_device),
        ("every_column_is_fetched_as_it_was_sent", every_column_is_fetched_as_it_was_sent),
        ("a_column_of_another_set_is_not_fetched", a_column_of_another_set_is_not_fetched),
        ("an_element_that_is_not_valid_is_named", an_element_that_is_not_valid_is_named),
        ("a_tuple_is_one_set", a_tuple_is_one_set),
        ("a_batch_is_one_set_with_pointers_for_each", a_batch_is_one_set_with_pointers_for_each),
        ("an_empty_batch_is_a_set", an_empty_batch_is_a_set),
    ]
}

/// The same in the cached mode.
pub(crate) fn cached<R: Rig>() -> Vec<Case<R>> {
    vec![
        ("ragged_rows_point_into_the_block_that_is_reused", ragged_rows_point_into_the_block_that_is_reused),
        ("scratch_is_zeroed_at_every_upload", scratch_is_zeroed_at_every_upload),
        ("scratch_is_never_shared_while_it_is_held", scratch_is_never_shared_while_it_is_held),
        ("scratch_on_another_stream_is_never_shared", scratch_on_another_stream_is_never_shared),
        ("scratch_alone_is_reused", scratch_alone_is_reused),
        ("content_is_part_of_the_shape", content_is_part_of_the_shape),
        ("batches_are_compared_and_reused_like_any_set", batches_are_compared_and_reused_like_any_set),
    ]
}

#[derive(DeviceArgs)]
struct Tokens {
    tokens: Ragged<u16>,
    last: Vec<u8>,
}

fn ragged_rows_are_values_offsets_and_pointers<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let tokens = Ragged::from_rows([&[][..], &[1, 2, 3], &[], &[], &[4], &[]]).unwrap();
    let dev = Tokens { tokens, last: vec![0xee] }.upload(&stream).unwrap();
    let base = dev.base().address();

    let layout = dev.layout();
    let names = ["tokens", "tokens.offsets", "tokens.rows", "last"];
    assert_eq!(names.map(|name| layout.column(name).unwrap().offset), [0, 16, 48, 96]);
    assert_eq!(names.map(|name| layout.column(name).unwrap().len), [4, 7, 6, 1]);
    assert!(layout.column("tokens.values").is_none() && layout.column("tokens.").is_none());

    let mut image = Vec::new();
    image.extend([1_u16, 2, 3, 4, 0, 0, 0, 0].map(u16::to_le_bytes).concat());
    image.extend([0_i32, 0, 3, 3, 3, 4, 4, 0].map(i32::to_le_bytes).concat());
    image.extend([base, base, base + 6, base + 6, base + 6, base + 8].map(u64::to_le_bytes).concat());
    image.extend([0xee, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(rig.read_device(&stream, dev.base(), image.len()), image);

    let rows = dev.fetch(&dev.tokens.rows).unwrap();
    assert_eq!(rig.read_device(&stream, rows[4].cast(), 2), [4, 0]);
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(16))]
struct Aligned16([u64; 2]);

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(128))]
struct Aligned128([u64; 16]);

#[derive(DeviceArgs)]
#[device(align = 1)]
struct RaggedOf<T: marshal::Element> {
    byte: [u8; 1],
    rows: Ragged<T>,
}

/// Nothing that the library adds stands between the values: each row begins where its elements may.
fn ragged_elements_of_every_size_are_aligned<R: Rig>(rig: &R) {
    fn check<R: Rig, T: Pod + PartialEq + std::fmt::Debug>(rig: &R) {
        let stream = rig.stream();
        for lens in [[1, 0, 3], [0, 0, 1], [7, 33, 2]] {
            let row = |len: u64| (0..len).map(|i| pattern::<T>(10 * len + i)).collect::<Vec<_>>();
            let rows = Ragged::from_rows(lens.map(row)).unwrap();
            let dev = RaggedOf { byte: [1], rows }.upload(&stream).unwrap();
            for (pointer, len) in dev.fetch(&dev.rows.rows).unwrap().into_iter().zip(lens) {
                assert_eq!(pointer.address() % align_of::<T>() as u64, 0, "{}", std::any::type_name::<T>());
                let bytes = rig.read_device(&stream, pointer.cast(), size_of::<T>() * usize::try_from(len).unwrap());
                assert_eq!(bytes, bytemuck::cast_slice::<T, u8>(&row(len)));
            }
        }
    }
    check::<R, u8>(rig);
    check::<R, [u8; 3]>(rig);
    check::<R, u64>(rig);
    check::<R, GemmCoord>(rig);
    check::<R, Aligned16>(rig);
    check::<R, Aligned128>(rig);
}

fn a_thousand_empty_rows_are_a_thousand_pointers<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let tokens = Ragged::from_rows(vec![[0_u16; 0]; 1000]).unwrap();
    let dev = Tokens { tokens, last: vec![0xa5; 16] }.upload(&stream).unwrap();
    assert!(dev.tokens.values.is_empty());
    assert_eq!(dev.fetch(&dev.tokens.offsets).unwrap(), [0; 1001]);
    assert_eq!(dev.fetch(&dev.tokens.rows).unwrap(), [dev.tokens.values.pointer(); 1000]);
    // What stands behind the tables is whole.
    assert_eq!(rig.read_device(&stream, dev.last.pointer(), 16), [0xa5; 16]);
}

#[derive(DeviceArgs)]
struct Wide {
    signed: Ragged<u8, i64>,
    unsigned: Ragged<u8, u32>,
}

fn ragged_offsets_are_as_wide_as_asked_for<R: Rig>(rig: &R) {
    let args = Wide {
        signed: Ragged::from_parts(vec![1, 2], vec![0, 2]).unwrap(),
        unsigned: Ragged::from_parts(vec![], vec![0]).unwrap(),
    };
    let dev = args.upload(&rig.stream()).unwrap();
    let signed: DeviceColumn<i64> = dev.signed.offsets;
    assert_eq!(dev.fetch(&signed).unwrap(), [0, 2]);
    assert_eq!(dev.fetch(&dev.unsigned.offsets).unwrap(), [0]);
    assert!(dev.unsigned.rows.is_empty());
}

#[derive(DeviceArgs)]
struct Work {
    sums: Scratch<f32>,
    first: Vec<u32>,
    semaphores: Scratch<u32>,
    second: Vec<u8>,
    #[device(align = 64)]
    more: Scratch<u16>,
}

fn work() -> Work {
    Work {
        sums: Scratch::uninit(3),
        first: vec![1, 2, 3],
        semaphores: Scratch::zeroed(5),
        second: vec![4],
        more: Scratch::zeroed(33),
    }
}

fn scratch_stands_behind_what_travels<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let dev = work().upload(&stream).unwrap();
    let layout = dev.layout();
    let names: Vec<_> = layout.columns().iter().map(|column| (column.name, column.offset)).collect();
    assert_eq!(names, [("sums", 256), ("first", 0), ("semaphores", 64), ("second", 16), ("more", 128)]);
    assert_eq!((layout.copy_bytes(), layout.size_bytes(), layout.alignment()), (32, 272, 64));
    let base = dev.base().address();
    let addresses = [dev.sums.pointer().address(), dev.semaphores.pointer().address(), dev.more.pointer().address()];
    assert_eq!(addresses, [base + 256, base + 64, base + 128]);
    let mut image = [1_u32, 2, 3, 0].map(u32::to_le_bytes).concat();
    image.extend([4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(dev.read_back().unwrap(), image);
    assert_eq!(rig.read_device(&stream, dev.base(), 32), image);
}

fn zeroed_scratch_is_zero_and_the_rest_is_left_alone<R: Rig>(rig: &R) {
    let stream = rig.stream();
    for _ in 0..2 {
        rig.poison(&stream, 272);
        let dev = work().upload(&stream).unwrap();
        assert_eq!(dev.fetch(&dev.semaphores).unwrap(), [0; 5]);
        assert_eq!(dev.fetch(&dev.more).unwrap(), [0; 33]);
        assert_eq!(rig.read_device(&stream, dev.semaphores.pointer().cast(), 20), [0; 20]);
        rig.fill(&stream, dev.sums.pointer().cast(), 12, 0x3f);
        assert_eq!(dev.fetch(&dev.sums).unwrap(), [f32::from_bits(0x3f3f_3f3f); 3]);
        // Neighbours of what a kernel wrote are whole.
        assert_eq!((dev.fetch(&dev.first).unwrap(), dev.fetch(&dev.second).unwrap()), (vec![1, 2, 3], vec![4]));
        assert_eq!(dev.fetch(&dev.more).unwrap(), [0; 33]);
    }
}

fn alone(zeroed: usize, uninit: usize) -> Work {
    Work {
        sums: Scratch::uninit(uninit),
        first: vec![],
        semaphores: Scratch::zeroed(zeroed),
        second: vec![],
        more: Scratch::zeroed(0),
    }
}

fn scratch_alone_is_allocated_and_zeroed<R: Rig>(rig: &R) {
    let stream = rig.stream();
    for (zeroed, uninit) in [(1000, 0), (0, 1000), (3, 5), (0, 0)] {
        rig.poison(&stream, 4096);
        let dev = alone(zeroed, uninit).upload(&stream).unwrap();
        assert_eq!(dev.layout().copy_bytes(), 0);
        assert_eq!((dev.semaphores.len(), dev.sums.len()), (zeroed, uninit));
        assert_eq!(dev.fetch(&dev.semaphores).unwrap(), vec![0; zeroed]);
        assert!(dev.read_back().unwrap().is_empty());
        rig.fill(&stream, dev.sums.pointer().cast(), 4 * uninit, 1);
        assert_eq!(dev.fetch(&dev.sums).unwrap(), vec![f32::from_bits(0x0101_0101); uninit]);
    }
}

#[derive(DeviceArgs)]
struct OverAligned {
    one: [u8; 1],
    #[device(align = 4096)]
    page: Scratch<u8>,
    #[device(align = 512)]
    wide: Scratch<u8>,
}

fn over_aligned_scratch_is_aligned_on_the_device<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let args = || OverAligned { one: [7], page: Scratch::uninit(1), wide: Scratch::zeroed(1) };
    let sets: Vec<_> = (0..5).map(|_| args().upload(&stream).unwrap()).collect();
    for dev in &sets {
        assert_eq!((dev.page.pointer().address() % 4096, dev.wide.pointer().address() % 512), (0, 0));
        assert_eq!(dev.layout().copy_bytes(), 16);
        assert_eq!((dev.fetch(&dev.one).unwrap(), dev.fetch(&dev.wide).unwrap()), (vec![7], vec![0]));
    }
}

#[derive(DeviceArgs)]
struct Kinds {
    flags: Vec<bool>,
    letters: Vec<char>,
    pointers: Vec<DevicePointer<f32>>,
    nullable: Vec<Option<DevicePointer<f32>>>,
    none: Vec<u64>,
}

fn every_column_is_fetched_as_it_was_sent<R: Rig>(rig: &R) {
    let args = Kinds {
        flags: vec![true, false, true],
        letters: vec!['a', 'é'],
        pointers: vec![at(0x10), at(0x20)],
        nullable: vec![None, Some(at(0x30))],
        none: vec![],
    };
    let dev = args.upload(&rig.stream()).unwrap();
    assert_eq!(dev.fetch(&dev.flags).unwrap(), args.flags);
    assert_eq!(dev.fetch(&dev.letters).unwrap(), args.letters);
    assert_eq!(dev.fetch(&dev.pointers).unwrap(), args.pointers);
    assert_eq!(dev.fetch(&dev.nullable).unwrap(), args.nullable);
    assert_eq!(dev.fetch(&dev.none).unwrap(), args.none);
}

fn a_column_of_another_set_is_not_fetched<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let (dev, other) = (work().upload(&stream).unwrap(), work().upload(&stream).unwrap());
    let error = dev.fetch(&other.first).unwrap_err();
    let expected = ErrorKind::NotInBlock {
        address: other.first.pointer().address(),
        size_bytes: 12,
        base: dev.base().address(),
        block_bytes: 272,
    };
    assert_eq!(*error.kind(), expected);
}

#[derive(DeviceArgs)]
struct Flags {
    flags: Scratch<bool>,
}

fn an_element_that_is_not_valid_is_named<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let dev = Flags { flags: Scratch::zeroed(4) }.upload(&stream).unwrap();
    assert_eq!(dev.fetch(&dev.flags).unwrap(), [false; 4]);
    rig.fill(&stream, dev.flags.pointer().checked_add(2).unwrap().cast(), 1, 7);
    let error = dev.fetch(&dev.flags).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::InvalidElement { index: 2, element: "bool" });
}

#[derive(DeviceArgs)]
struct Sizes {
    m: Vec<u16>,
    out: Scratch<u16>,
}

fn sizes(m: u16, len: usize) -> Sizes {
    Sizes { m: vec![m; len], out: Scratch::zeroed(1) }
}

fn a_tuple_is_one_set<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let gemms: Vec<Gemm> =
        (0..3).map(|i| Gemm { size: pattern(i), a: at(1 + i), c: None, tag: 1, lda: pattern(i), _host: 0 }).collect();
    let borrowed = sizes(9, 2);
    let dev = (sizes(8, 3), &gemms[..], &borrowed).upload(&stream).unwrap();
    let (first, rows, second) = &*dev;
    assert_eq!((dev.fetch(&first.m).unwrap(), dev.fetch(&second.m).unwrap()), (vec![8; 3], vec![9; 2]));
    assert_eq!(dev.fetch(&rows.size).unwrap(), [pattern::<GemmCoord>(0), pattern(1), pattern(2)]);
    assert_eq!((dev.fetch(&first.out).unwrap(), dev.fetch(&second.out).unwrap()), (vec![0], vec![0]));
    let layout = dev.layout();
    let names: Vec<_> = layout.columns().iter().map(|column| column.name).collect();
    assert_eq!(names, ["m", "out", "size", "a", "c", "tag", "lda", "m", "out"]);
    // What travels stands together, whatever stands between in the declaration.
    let offsets = [&layout.columns()[0], &layout.columns()[2], &layout.columns()[7], &layout.columns()[1]];
    assert_eq!(offsets.map(|column| column.offset), [0, 16, 176, 192]);

    let twelve = (
        sizes(1, 1),
        sizes(2, 1),
        sizes(3, 1),
        sizes(4, 1),
        sizes(5, 1),
        sizes(6, 1),
        sizes(7, 1),
        sizes(8, 1),
        sizes(9, 1),
        sizes(10, 1),
        sizes(11, 1),
        (sizes(12, 1),),
    );
    let dev = twelve.upload(&stream).unwrap();
    assert_eq!((dev.fetch(&dev.0.m).unwrap(), dev.fetch(&dev.11.0.m).unwrap()), (vec![1], vec![12]));
    assert_eq!(dev.layout().copy_bytes(), 12 * 16);
}

fn a_batch_is_one_set_with_pointers_for_each<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let layers: Vec<_> = (1..=32).map(|i| sizes(i, usize::from(i % 5))).collect();
    let borrowed = layers.iter().collect::<Batch<_>>().upload(&stream).unwrap();
    assert_eq!((borrowed.len(), borrowed.layout().columns().len()), (32, 64));
    for (i, layer) in (1..).zip(borrowed.iter()) {
        assert_eq!(borrowed.fetch(&layer.m).unwrap(), vec![i; usize::from(i % 5)]);
        assert_eq!(borrowed.fetch(&layer.out).unwrap(), [0]);
    }
    // The pointers outlive the set as plain addresses do, and are shared between clones.
    let pointers = borrowed.clone();
    let owned = Batch::new(layers).upload(&stream).unwrap();
    assert_eq!(owned.layout(), borrowed.layout());
    assert_eq!(owned.read_back().unwrap(), borrowed.read_back().unwrap());
    assert_eq!(pointers[3].m, borrowed[3].m);

    // Rows in a batch, and a batch in a tuple.
    let gemm = Gemm { size: pattern(1), a: at(1), c: None, tag: 1, lda: 5, _host: 0 };
    let groups = Batch::new(vec![vec![gemm; 2], vec![], vec![gemm; 3]]);
    let dev = (groups, sizes(7, 1)).upload(&stream).unwrap();
    let (groups, last) = &*dev;
    assert_eq!(dev.fetch(&groups[2].lda).unwrap(), [5; 3]);
    assert!(groups[1].lda.is_empty());
    assert_eq!(dev.fetch(&last.m).unwrap(), [7]);
}

fn an_empty_batch_is_a_set<R: Rig>(rig: &R) {
    let dev = Batch::<Sizes>::new(vec![]).upload(&rig.stream()).unwrap();
    assert!(dev.is_empty());
    assert_eq!(dev.layout().size_bytes(), 0);
}

fn ragged_rows_point_into_the_block_that_is_reused<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let args = |seed: u16| Tokens { tokens: Ragged::from_rows([&[seed, 2][..], &[], &[3]]).unwrap(), last: vec![] };
    let held = args(1).upload(&cache).unwrap();
    let same = args(1).upload(&cache).unwrap();
    assert_eq!(same.base(), held.base());
    // Two blocks with rows of their own: neither's table is taken for the other's.
    for seed in [2, 3, 2, 2] {
        let dev = args(seed).upload(&cache).unwrap();
        assert_ne!(dev.base(), held.base());
        let values = dev.tokens.values.pointer();
        let expected = [0, 2, 2].map(|index| values.checked_add(index).unwrap());
        assert_eq!(dev.fetch(&dev.tokens.rows).unwrap(), expected);
        assert_eq!(dev.fetch(&dev.tokens.values).unwrap(), [seed, 2, 3]);
    }
    let stats = cache.stats();
    assert_eq!((stats.allocations, stats.copies, stats.byte_hits), (2, 4, 2));
    // The same values in other rows are other bytes.
    let other = Tokens { tokens: Ragged::from_rows([&[1][..], &[2], &[3]]).unwrap(), last: vec![] };
    let dev = other.upload(&cache).unwrap();
    assert_eq!(dev.fetch(&dev.tokens.offsets).unwrap(), [0, 1, 2, 3]);
}

fn scratch_is_zeroed_at_every_upload<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let mut snapshots = Vec::new();
    let busy = rig.block(&stream);
    for round in 0..6 {
        let mut args = work();
        // Skipped copies and made ones.
        args.first[2] = round / 3;
        let dev = args.upload(&cache).unwrap();
        snapshots.push(rig.snapshot(&stream, dev.semaphores.pointer().cast(), 20));
        rig.fill(&stream, dev.semaphores.pointer().cast(), 20, 0xff);
        rig.fill(&stream, dev.more.pointer().cast(), 66, 0xff);
    }
    drop(busy);
    for snapshot in snapshots {
        assert_eq!(snapshot(), [0; 20]);
    }
    let stats = cache.stats();
    assert_eq!((stats.uploads, stats.copies, stats.byte_hits, stats.allocations), (6, 2, 4, 1));
}

fn scratch_is_never_shared_while_it_is_held<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let first = work().upload(&cache).unwrap();
    let second = work().upload(&cache).unwrap();
    assert_ne!(first.base(), second.base());
    rig.fill(&stream, first.semaphores.pointer().cast(), 20, 1);
    assert_eq!(second.fetch(&second.semaphores).unwrap(), [0; 5]);
    let third = work().upload(&cache).unwrap();
    assert_eq!(first.fetch(&first.semaphores).unwrap(), [0x0101_0101; 5]);
    // One that is free is taken without a copy.
    let base = second.base();
    drop(second);
    assert_eq!(work().upload(&cache).unwrap().base(), base);
    let stats = cache.stats();
    assert_eq!((stats.allocations, stats.copies, stats.byte_hits), (3, 3, 1));
    drop((first, third));
}

fn scratch_on_another_stream_is_never_shared<R: Rig>(rig: &R) {
    let (home, other) = (rig.stream(), rig.stream());
    let cache = ArgCache::new(&home).unwrap();
    let dev = work().upload(&cache).unwrap();
    let lent = dev.on(&other).unwrap();
    let busy = rig.block(&other);
    rig.fill(&other, lent.semaphores.pointer().cast(), 20, 9);
    let snapshot = rig.snapshot(&other, lent.semaphores.pointer().cast(), 20);
    drop(lent);
    drop(dev);
    // The block is used again, and zeroed behind the other stream's work.
    let next = work().upload(&cache).unwrap();
    drop(busy);
    assert_eq!(snapshot(), [9; 20]);
    assert_eq!(next.fetch(&next.semaphores).unwrap(), [0; 5]);
    assert_eq!(cache.stats().allocations, 1);
}

fn scratch_alone_is_reused<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    for _ in 0..3 {
        let dev = alone(64, 64).upload(&cache).unwrap();
        assert_eq!(dev.fetch(&dev.semaphores).unwrap(), [0; 64]);
        rig.fill(&stream, dev.semaphores.pointer().cast(), 256, 1);
    }
    let held = alone(64, 64).upload(&cache).unwrap();
    assert_ne!(alone(64, 64).upload(&cache).unwrap().base(), held.base());
    let stats = cache.stats();
    assert_eq!((stats.uploads, stats.allocations, stats.copies, stats.staging_bytes), (5, 2, 0, 0));
    cache.reserve(&alone(7, 7).layout().unwrap()).unwrap();
    assert_eq!(cache.stats().allocations, 3);
}

fn content_is_part_of_the_shape<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let mut args = work();
    drop(args.upload(&cache).unwrap());
    args.more = Scratch::uninit(33);
    let dev = args.upload(&cache).unwrap();
    assert_eq!(cache.stats().allocations, 2);
    assert_eq!(dev.layout().column("more").unwrap().offset, 128);
    assert_eq!(dev.layout().column("sums").unwrap().offset, 64);
}

fn batches_are_compared_and_reused_like_any_set<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let cache = ArgCache::new(&stream).unwrap();
    let mut batch: Batch<Tokens> = (0..8)
        .map(|i| Tokens { tokens: Ragged::from_rows([vec![i; usize::from(i)], vec![9]]).unwrap(), last: vec![] })
        .collect();
    let base = batch.upload(&cache).unwrap().base();
    assert_eq!(batch.upload(&cache).unwrap().base(), base);
    batch.sets_mut()[7].tokens = Ragged::from_rows([vec![8; 7], vec![9]]).unwrap();
    let dev = batch.upload(&cache).unwrap();
    assert_eq!(dev.base(), base);
    assert_eq!(dev.fetch(&dev[7].tokens.values).unwrap(), [8, 8, 8, 8, 8, 8, 8, 9]);
    assert_eq!(dev.fetch(&dev[6].tokens.values).unwrap(), [6, 6, 6, 6, 6, 6, 9]);
    let stats = cache.stats();
    assert_eq!((stats.allocations, stats.copies, stats.byte_hits), (1, 2, 1));
    // One set less is another shape.
    batch.sets_mut().pop();
    assert_eq!(batch.upload(&cache).unwrap().len(), 7);
    assert_eq!(cache.stats().allocations, 2);
}
