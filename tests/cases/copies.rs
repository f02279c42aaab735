//! Batches of copies, whichever backend runs them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use marshal::backend::BackendStream;
use marshal::{
    CopyBatch, CopyStaging, DeviceArgs, DeviceRange, DeviceRangeMut, ErrorKind, PendingCopies, Ticket, Uploaded,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{Case, Rig};

/// Every case.
pub(crate) fn all<R: Rig>() -> Vec<Case<R>> {
    vec![
        ("random_batches_do_what_plain_copies_do", random_batches_do_what_plain_copies_do),
        ("thousands_of_copies_are_one_batch", thousands_of_copies_are_one_batch),
        ("borrowed_sources_are_free_when_submit_returns", borrowed_sources_are_free_when_submit_returns),
        ("borrowed_destinations_are_written_by_wait_alone", borrowed_destinations_are_written_by_wait_alone),
        ("leaked_copies_leave_their_staging_alone", leaked_copies_leave_their_staging_alone),
        ("owned_sources_live_until_their_copies_have_run", owned_sources_live_until_their_copies_have_run),
        ("an_owner_that_panics_keeps_every_copy_back", an_owner_that_panics_keeps_every_copy_back),
        ("what_depends_on_the_order_is_refused_whole", what_depends_on_the_order_is_refused_whole),
        ("lengths_that_differ_are_refused_by_number", lengths_that_differ_are_refused_by_number),
        ("empty_copies_count_and_do_nothing", empty_copies_count_and_do_nothing),
        ("another_stream_waits_for_the_copies", another_stream_waits_for_the_copies),
        ("columns_of_many_sets_come_back_in_one_batch", columns_of_many_sets_come_back_in_one_batch),
        ("a_set_of_another_stream_is_taken_through_on", a_set_of_another_stream_is_taken_through_on),
        ("eight_threads_share_one_staging", eight_threads_share_one_staging),
    ]
}

type B<R> = <<R as Rig>::Stream as BackendStream>::Backend;
type ArenaOf<R> = Uploaded<ArenaPointers, B<R>>;

/// Device memory whose content is known.
#[derive(DeviceArgs)]
struct Arena {
    bytes: Vec<u8>,
}

fn arena<R: Rig>(stream: &R::Stream, bytes: Vec<u8>) -> ArenaOf<R> {
    Arena { bytes }.upload(stream).unwrap()
}

/// `len` bytes of an arena, which outlives the copies and is used on its own stream.
fn part<'a, R: Rig>(arena: &'a ArenaOf<R>, offset: usize, len: usize) -> DeviceRange<'a, u8, B<R>> {
    // SAFETY: the range lies in the arena's block, whose free comes behind the copies on the same stream.
    unsafe { DeviceRange::from_raw(arena.base().checked_add(offset).unwrap(), len) }
}

fn part_mut<'a, R: Rig>(arena: &'a ArenaOf<R>, offset: usize, len: usize) -> DeviceRangeMut<'a, u8, B<R>> {
    // SAFETY: as in `part`; what reads the arena is ordered on the same stream.
    unsafe { DeviceRangeMut::from_raw(arena.base().checked_add(offset).unwrap(), len) }
}

fn random_bytes(rng: &mut StdRng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.random()).collect()
}

/// Cuts `len` bytes into pieces of very different lengths, some empty, and shuffles them.
fn pieces(rng: &mut StdRng, len: usize) -> Vec<(usize, usize)> {
    let (mut pieces, mut start) = (Vec::new(), 0);
    while start < len {
        let most = [1, 16, 64, 1000, 70_000][rng.random_range(0..5)];
        let piece = rng.random_range(0..=most).min(len - start);
        pieces.push((start, piece));
        start += piece;
    }
    pieces.shuffle(rng);
    pieces
}

fn random_batches_do_what_plain_copies_do<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let staging = CopyStaging::new(&stream);
    for seed in 0..24 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let len = [64, 4096, 200_000][rng.random_range(0..3)];
        // The first half of the device's bytes is read, the second half written.
        let mut model = random_bytes(rng, 2 * len);
        let arena = arena::<R>(&stream, model.clone());
        let host = random_bytes(rng, len);
        let mut fetched_into: Vec<Vec<u8>> = Vec::new();
        let (written, read) = (pieces(rng, len), pieces(rng, len));
        let targets: Vec<_> = read.iter().filter(|_| rng.random_bool(0.5)).copied().collect();
        targets.iter().for_each(|&(_, len)| fetched_into.push(vec![0xcc; len]));

        let mut batch = CopyBatch::new(&staging);
        let mut tickets: Vec<((usize, usize), Ticket<u8>)> = Vec::new();
        for &(start, piece) in &written {
            let source = start..start + piece;
            let destination = part_mut::<R>(&arena, len + start, piece);
            match rng.random_range(0..3) {
                0 => batch.htod(&host[source.clone()], destination).unwrap(),
                1 => batch.htod_owned(host[source.clone()].to_vec(), destination).unwrap(),
                _ => {
                    batch.dtod(part::<R>(&arena, start, piece), destination).unwrap();
                    model.copy_within(source, len + start);
                    continue;
                }
            }
            model[len + start..][..piece].copy_from_slice(&host[source]);
        }
        for (&(start, piece), target) in targets.iter().zip(&mut fetched_into) {
            batch.dtoh(part::<R>(&arena, start, piece), target).unwrap();
        }
        for &(start, piece) in read.iter().take(20) {
            tickets.push(((start, piece), batch.dtoh_owned(part::<R>(&arena, start, piece)).unwrap()));
        }
        let fetched = batch.submit().unwrap().wait().unwrap();

        assert_eq!(arena.read_back().unwrap()[..2 * len], model, "seed {seed}");
        for ((start, piece), ticket) in &tickets {
            assert_eq!(fetched.to_vec(ticket), model[*start..][..*piece], "seed {seed}");
        }
        for ((start, piece), target) in targets.iter().zip(&fetched_into) {
            assert_eq!(target, &model[*start..][..*piece], "seed {seed}");
        }
    }
}

fn thousands_of_copies_are_one_batch<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let staging = CopyStaging::new(&stream);
    let words: Vec<u64> = (1..=2500).collect();
    let arena = arena::<R>(&stream, vec![0; 16 * words.len()]);
    let mut batch = CopyBatch::new(&staging);
    for (index, word) in words.iter().enumerate() {
        // 8 bytes between any two: none are neighbours.
        batch.htod(bytemuck::bytes_of(word), part_mut::<R>(&arena, 16 * index, 8)).unwrap();
    }
    batch.submit().unwrap().wait().unwrap();
    let mut back = vec![0_u64; words.len()];
    let mut batch = CopyBatch::new(&staging);
    for (index, word) in back.iter_mut().enumerate() {
        batch.dtoh(part::<R>(&arena, 16 * index, 8), bytemuck::bytes_of_mut(word)).unwrap();
    }
    batch.submit().unwrap().wait().unwrap();
    assert_eq!(back, words);
}

fn borrowed_sources_are_free_when_submit_returns<R: Rig>(rig: &R) {
    for len in [64, 64 << 10, 4 << 20] {
        let stream = rig.stream();
        let staging = CopyStaging::new(&stream);
        let arena = arena::<R>(&stream, vec![0; 2 * len]);
        stream_is_idle::<R>(&stream);
        let (mut first, second) = (vec![1_u8; len], vec![2_u8; len]);
        let blocked = rig.block(&stream);
        let mut batch = CopyBatch::new(&staging);
        batch.htod(&first, part_mut::<R>(&arena, 0, len)).unwrap();
        batch.htod(&second, part_mut::<R>(&arena, len, len)).unwrap();
        drop(batch.submit().unwrap());
        first.fill(9);
        drop(second);
        // Whoever takes staging next does not get that of the pending copies.
        let other = vec![7_u8; len];
        let mut batch = CopyBatch::new(&staging);
        batch.htod(&other[..1], part_mut::<R>(&arena, 0, 1)).unwrap();
        drop(batch.submit().unwrap());
        drop(blocked);
        let back = arena.read_back().unwrap();
        assert_eq!(back[0], 7);
        assert!(
            back[1..len].iter().all(|&byte| byte == 1) && back[len..2 * len].iter().all(|&byte| byte == 2),
            "{len}"
        );
    }
}

fn stream_is_idle<R: Rig>(stream: &R::Stream) {
    <B<R> as marshal::backend::Backend>::synchronize(stream).unwrap();
}

fn borrowed_destinations_are_written_by_wait_alone<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let staging = CopyStaging::new(&stream);
    let arena = arena::<R>(&stream, vec![5; 64]);
    let mut target = vec![0_u8; 64];
    for leak in [false, true] {
        let mut batch = CopyBatch::new(&staging);
        batch.dtoh(part::<R>(&arena, 0, 64), &mut target).unwrap();
        let pending = batch.submit().unwrap();
        if leak {
            core::mem::forget(pending)
        } else {
            drop(pending)
        }
        stream_is_idle::<R>(&stream);
        assert_eq!(target, [0; 64]);
    }
    let mut batch = CopyBatch::new(&staging);
    batch.dtoh(part::<R>(&arena, 0, 64), &mut target).unwrap();
    batch.submit().unwrap().wait().unwrap();
    assert_eq!(target, [5; 64]);
}

fn leaked_copies_leave_their_staging_alone<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let staging = CopyStaging::new(&stream);
    let arena = arena::<R>(&stream, vec![0; 40 * 64]);
    let blocked = rig.block(&stream);
    for round in 0..40_u8 {
        let source = vec![round; 64];
        let mut batch = CopyBatch::new(&staging);
        batch.htod(&source, part_mut::<R>(&arena, 64 * usize::from(round), 64)).unwrap();
        let pending = batch.submit().unwrap();
        if round % 2 == 0 { core::mem::forget(pending) } else { drop(pending) }
    }
    drop(staging);
    drop(blocked);
    let expected: Vec<u8> = (0..40).flat_map(|round| [round; 64]).collect();
    assert_eq!(arena.read_back().unwrap(), expected);
}

/// Bytes that tell when they go.
struct Telling {
    bytes: Vec<u8>,
    gone: Arc<AtomicBool>,
}

impl AsRef<[u8]> for Telling {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.bytes.fill(0xee);
        self.gone.store(true, Ordering::Relaxed);
    }
}

fn owned_sources_live_until_their_copies_have_run<R: Rig>(rig: &R) {
    for len in [64, 64 << 10, 4 << 20] {
        let stream = rig.stream();
        let staging = CopyStaging::new(&stream);
        let arena = arena::<R>(&stream, vec![0; len]);
        stream_is_idle::<R>(&stream);
        let blocked = rig.block(&stream);
        let gone = Arc::new(AtomicBool::new(false));
        let mut batch = CopyBatch::new(&staging);
        let source = Telling { bytes: vec![3; len], gone: gone.clone() };
        batch.htod_owned(source, part_mut::<R>(&arena, 0, len)).unwrap();
        let pending = batch.submit().unwrap();
        assert!(!gone.load(Ordering::Relaxed));
        drop(pending);
        drop(staging);
        // A larger copy may have waited for the stream: then there is nothing to see.
        assert!(len > 64 || !gone.load(Ordering::Relaxed));
        drop(blocked);
        assert_eq!(arena.read_back().unwrap(), vec![3; len]);
    }
    // Waited for, it goes with the copies.
    let stream = rig.stream();
    let arena = arena::<R>(&stream, vec![0; 64]);
    let gone = Arc::new(AtomicBool::new(false));
    let mut batch = CopyBatch::new(&CopyStaging::new(&stream));
    let source = Telling { bytes: vec![3; 64], gone: gone.clone() };
    batch.htod_owned(source, part_mut::<R>(&arena, 0, 64)).unwrap();
    drop(batch.submit().unwrap().wait().unwrap());
    assert!(gone.load(Ordering::Relaxed));
}

/// Bytes that can be asked for once.
struct Once(AtomicBool);

impl AsRef<[u8]> for Once {
    fn as_ref(&self) -> &[u8] {
        assert!(!self.0.swap(true, Ordering::Relaxed), "asked again");
        &[9; 8]
    }
}

fn an_owner_that_panics_keeps_every_copy_back<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let staging = CopyStaging::new(&stream);
    // More than one call of the driver takes.
    for copies in [2, 1500] {
        let arena = arena::<R>(&stream, vec![0; 16 * copies]);
        let at = |copy| part_mut::<R>(&arena, 16 * copy, 8);
        let mut batch = CopyBatch::new(&staging);
        (1..copies).for_each(|copy| batch.htod_owned(vec![9; 8], at(copy - 1)).unwrap());
        batch.htod_owned(Once(AtomicBool::new(false)), at(copies - 1)).unwrap();
        let submitted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| batch.submit().map(drop)));
        assert!(submitted.is_err());
        assert!(arena.read_back().unwrap().iter().all(|&byte| byte == 0), "{copies} copies");

        let mut batch = CopyBatch::new(&staging);
        batch.htod(&[7; 8], at(0)).unwrap();
        batch.submit().unwrap().wait().unwrap();
        assert_eq!(arena.read_back().unwrap()[..16], [7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}

fn what_depends_on_the_order_is_refused_whole<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let staging = CopyStaging::new(&stream);
    let arena = arena::<R>(&stream, vec![1; 256]);
    let base = arena.base().address();
    let overlap = |entry, address, len, other, other_address, other_len, other_reads| ErrorKind::CopyOverlap {
        entry,
        address: base + address,
        len,
        other,
        other_address: base + other_address,
        other_len,
        other_reads,
    };
    type Fill<R> = for<'a> fn(&mut CopyBatch<'a, B<R>>, &'a ArenaOf<R>, &'a [u8]);
    let batches: [(Fill<R>, ErrorKind); 3] = [
        (
            |batch, arena, host| {
                batch.htod(&host[..32], part_mut::<R>(arena, 128, 32)).unwrap();
                batch.htod(&host[..16], part_mut::<R>(arena, 0, 16)).unwrap();
                batch.htod_owned(vec![2; 16], part_mut::<R>(arena, 15, 16)).unwrap();
            },
            overlap(1, 0, 16, 2, 15, 16, false),
        ),
        (
            |batch, arena, host| {
                batch.dtod(part::<R>(arena, 64, 16), part_mut::<R>(arena, 0, 16)).unwrap();
                batch.htod(&host[..8], part_mut::<R>(arena, 79, 8)).unwrap();
            },
            overlap(1, 79, 8, 0, 64, 16, true),
        ),
        (
            |batch, arena, _| batch.dtod(part::<R>(arena, 64, 16), part_mut::<R>(arena, 72, 16)).unwrap(),
            overlap(0, 72, 16, 0, 64, 16, true),
        ),
    ];
    let host = [2; 32];
    for (fill, expected) in batches {
        let mut batch = CopyBatch::new(&staging);
        fill(&mut batch, &arena, &host);
        let error = batch.submit().unwrap_err();
        assert_eq!(*error.error().kind(), expected);
        assert!(error.submitted().is_empty() && error.failed().is_empty());
        assert_eq!(arena.read_back().unwrap(), [1; 256]);
    }
}

fn lengths_that_differ_are_refused_by_number<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let staging = CopyStaging::new(&stream);
    let arena = arena::<R>(&stream, vec![1; 16]);
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&[2; 4], part_mut::<R>(&arena, 0, 4)).unwrap();
    let error = batch.htod(&[2; 5], part_mut::<R>(&arena, 4, 4)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CopyLength { entry: 1, source: 5, destination: 4 });
    let error = batch.dtod(part::<R>(&arena, 4, 3), part_mut::<R>(&arena, 8, 4)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::CopyLength { entry: 1, source: 3, destination: 4 });
    // The batch is as it was.
    assert_eq!(batch.len(), 1);
    batch.submit().unwrap().wait().unwrap();
    assert_eq!(arena.read_back().unwrap()[..8], [2, 2, 2, 2, 1, 1, 1, 1]);
}

fn empty_copies_count_and_do_nothing<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let staging = CopyStaging::new(&stream);
    CopyBatch::new(&staging).submit().unwrap().wait().unwrap();

    let arena = arena::<R>(&stream, vec![1; 16]);
    // SAFETY: nobody uses a range without elements.
    let nowhere = || unsafe { DeviceRangeMut::from_raw(marshal::DevicePointer::from_raw(u64::MAX).unwrap(), 0) };
    let mut target: [u8; 0] = [];
    let mut batch = CopyBatch::new(&staging);
    batch.htod::<u8>(&[], nowhere()).unwrap();
    batch.htod_owned::<u8, _>(Vec::new(), nowhere()).unwrap();
    batch.dtoh(part::<R>(&arena, 0, 0), &mut target).unwrap();
    let ticket = batch.dtoh_owned(part::<R>(&arena, 0, 0)).unwrap();
    batch.htod(&[4], part_mut::<R>(&arena, 3, 1)).unwrap();
    assert_eq!(batch.len(), 5);
    let fetched = batch.submit().unwrap().wait().unwrap();
    assert!(fetched.to_vec(&ticket).is_empty());
    assert_eq!(arena.read_back().unwrap()[..5], [1, 1, 1, 4, 1]);
}

fn another_stream_waits_for_the_copies<R: Rig>(rig: &R) {
    let (stream, other) = (rig.stream(), rig.stream());
    let staging = CopyStaging::new(&stream);
    let arena = arena::<R>(&stream, vec![0; 64 << 10]);
    stream_is_idle::<R>(&stream);
    let source = vec![6_u8; 64 << 10];
    let blocked = rig.block(&stream);
    let mut batch = CopyBatch::new(&staging);
    batch.htod(&source, part_mut::<R>(&arena, 0, source.len())).unwrap();
    batch.submit().unwrap().order_before(&other).unwrap();
    let seen = rig.snapshot(&other, arena.base(), source.len());
    drop(blocked);
    assert_eq!(seen(), source);
    // The arena's own stream frees it behind the other's read.
    drop(arena.on(&other).unwrap());
}

fn columns_of_many_sets_come_back_in_one_batch<R: Rig>(rig: &R) {
    let stream = rig.stream();
    let staging = CopyStaging::new(&stream);
    let sets: Vec<_> = (0..50_u8).map(|seed| arena::<R>(&stream, vec![seed; 10 + usize::from(seed)])).collect();
    // The per-thread default stream is another one on every thread: there a set is lent.
    let per_thread = <B<R> as marshal::backend::Backend>::is_per_thread(&stream);
    let lent: Vec<_> = sets.iter().map(|set| set.on(&stream).unwrap()).collect();
    let range = |index: usize| {
        let set: &ArenaOf<R> = &sets[index];
        if per_thread { lent[index].range(set.bytes) } else { set.range(set.bytes) }
    };
    let mut batch = CopyBatch::new(&staging);
    let tickets: Vec<_> = (0..sets.len()).map(|index| batch.dtoh_owned(range(index).unwrap()).unwrap()).collect();
    let fetched = batch.submit().unwrap().wait().unwrap();
    for (seed, ticket) in (0..50_u8).zip(&tickets) {
        assert_eq!(fetched.to_vec(ticket), vec![seed; 10 + usize::from(seed)]);
    }
    let error = sets[0].range(sets[1].bytes).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotInBlock { size_bytes: 11, block_bytes: 16, .. }), "{error}");
}

fn a_set_of_another_stream_is_taken_through_on<R: Rig>(rig: &R) {
    let (home, other) = (rig.stream(), rig.stream());
    if <B<R> as marshal::backend::Backend>::is_same_stream(&home, &other) {
        return;
    }
    let set = arena::<R>(&home, vec![8; 100]);
    let staging = CopyStaging::new(&other);
    let mut batch = CopyBatch::new(&staging);
    let _ticket = batch.dtoh_owned(set.range(set.bytes).unwrap()).unwrap();
    let error = batch.submit().unwrap_err();
    assert!(matches!(error.error().kind(), ErrorKind::WrongStream { .. }), "{error}");

    let lent = set.on(&other).unwrap();
    let mut batch = CopyBatch::new(&staging);
    let ticket = batch.dtoh_owned(lent.range(set.bytes).unwrap()).unwrap();
    let pending: PendingCopies<'_, B<R>> = batch.submit().unwrap();
    // Leaked: the set goes behind the copy all the same.
    core::mem::forget(pending);
    drop(lent);
    let lent = set.on(&other).unwrap();
    let mut batch = CopyBatch::new(&staging);
    let again = batch.dtoh_owned(lent.range(set.bytes).unwrap()).unwrap();
    let fetched = batch.submit().unwrap().wait().unwrap();
    assert_eq!(fetched.to_vec(&again), [8; 100]);
    let foreign = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fetched.to_vec(&ticket)));
    assert!(foreign.is_err());
}

fn eight_threads_share_one_staging<R: Rig>(rig: &R) {
    let stream = rig.stream();
    if <B<R> as marshal::backend::Backend>::is_per_thread(&stream) {
        return; // Another stream on every thread: nothing orders the arena for them.
    }
    let staging = CopyStaging::new(&stream);
    let arena = arena::<R>(&stream, vec![0; 8 * 256]);
    thread::scope(|scope| {
        for thread in 0..8_u8 {
            let (staging, arena) = (&staging, &arena);
            scope.spawn(move || {
                for round in 0..50_u8 {
                    let source = [thread.wrapping_mul(50).wrapping_add(round); 256];
                    let mut batch = CopyBatch::new(staging);
                    let offset = 256 * usize::from(thread);
                    batch.htod(&source, part_mut::<R>(arena, offset, 256)).unwrap();
                    drop(batch.submit().unwrap());
                    let mut back = [0; 256];
                    let mut batch = CopyBatch::new(staging);
                    batch.dtoh(part::<R>(arena, offset, 256), &mut back).unwrap();
                    batch.submit().unwrap().wait().unwrap();
                    assert_eq!(back, source);
                }
            });
        }
    });
}
