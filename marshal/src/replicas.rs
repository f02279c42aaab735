//! The same arguments for several devices: one shape, and a set on each.
//!
//! What a rank of a tensor-parallel group is given differs from the others' in its pointers alone. So the shapes are held against each
//! other, folded into 64 bits, before any device is touched, and the blocks share one layout. The rest is each device's own: its bytes are compared with its
//! last image, packed into its staging and copied on its stream. No image is packed once and patched for the others: a copy of packed
//! bytes costs the host nearly what packing them does, and which columns are common, nobody says.

use core::borrow::Borrow;

use crate::args::DeviceArgs;
use crate::backend::Backend;
use crate::cache::ArgCache;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::upload::{Uploaded, fold};

/// Uploads sets of one shape, each to a cache of its own: set 0 to the first cache, and so on. All are uploaded, or none.
///
/// For the ranks of a tensor-parallel group in one process: other base pointers, the same sizes, a cache on each device. The caches may
/// as well be of one device. Lengths are compared before anything else. Then each set is compared with its cache, packed and copied as by
/// [`upload`](DeviceArgs::upload), ordered on its own cache's stream; new blocks share one [`Layout`]. This saves no time beside a call
/// for each: what it gives is that the sets belong together. No two caches are locked at a time. A warm call allocates the returned vector
/// on the heap, and nothing else.
///
/// ```
/// use marshal::{ArgCache, DeviceArgs, DevicePointer, ErrorKind, host::HostDevice, upload_each};
///
/// #[derive(DeviceArgs)]
/// struct Shard<'a> {
///     m: &'a [i32],
///     weights: Vec<DevicePointer<f32>>,
/// }
///
/// let devices = [HostDevice::new(), HostDevice::new()];
/// let streams = devices.each_ref().map(HostDevice::stream);
/// let caches = [ArgCache::new(&streams[0])?, ArgCache::new(&streams[1])?];
///
/// let m = [3, 0, 5];
/// let weights = [0x7000_0000_0000, 0x7100_0000_0000].map(|base| DevicePointer::from_raw(base).unwrap());
/// let shards = weights.map(|base| Shard { m: &m, weights: vec![base; 3] });
/// let sets = upload_each(&shards, &caches)?;
/// for ((dev, stream), base) in sets.iter().zip(&streams).zip(weights) {
///     let column = dev.weights;
///     stream.launch(move |memory| assert_eq!(memory.read(column), [base; 3]))?;
///     stream.synchronize()?;
/// }
///
/// let uneven = [Shard { m: &m, weights: vec![] }, Shard { m: &m[1..], weights: vec![] }];
/// let error = upload_each(&uneven, &caches).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::UnequalShapes { set: 1, column: "m", expected: 3, found: 2 }));
/// # Ok::<(), marshal::Error>(())
/// ```
///
/// # Errors
/// When there are not as many caches as sets, or the sets are not of one shape: lengths that differ are found before any device is
/// touched, but for those that fold to the same 64 bits, which are found when they are uploaded. When an upload fails, the error says for which set and device. The sets before it are dropped then, and their blocks return to
/// their caches; in a capture, what they put into their graphs stays there, as it does whenever a set is dropped.
pub fn upload_each<A: DeviceArgs, B: Backend>(
    sets: &[A],
    caches: &[impl Borrow<ArgCache<B>>],
) -> Result<Vec<Uploaded<A::Pointers, B>>, Error> {
    if sets.len() != caches.len() {
        return Err(Error::new(ErrorKind::CacheForEach { sets: sets.len() as u64, caches: caches.len() as u64 }));
    }
    let replicas = || sets.iter().zip(caches.iter().map(Borrow::borrow)).enumerate();
    let mut key = None;
    for (index, (set, cache)) in replicas() {
        let folded = fold(set).map_err(|error| in_set(index, cache, error))?;
        if *key.get_or_insert(folded) != folded {
            return Err(unequal(index, &sets[0].layout()?, &set.layout()?));
        }
    }
    let Some(key) = key else { return Ok(Vec::new()) };
    let mut uploaded: Vec<Uploaded<A::Pointers, B>> = Vec::with_capacity(sets.len());
    for (index, (set, cache)) in replicas() {
        let like = uploaded.first().map(|first| first.block().layout());
        let replica = cache.upload_shaped(key, set, like).map_err(|error| in_set(index, cache, error))?;
        // The key is a hint. What stands in the blocks has been held against their layouts.
        if let Some(like) = like
            && !replica.block().layout().is_like(like)
        {
            return Err(unequal(index, like, replica.block().layout()));
        }
        uploaded.push(replica);
    }
    Ok(uploaded)
}

#[cold]
fn in_set<B: Backend>(set: usize, cache: &ArgCache<B>, error: Error) -> Error {
    Error::new(ErrorKind::InSet { set: set as u64, device: B::device_name(cache.stream()), error })
}

/// The error that names the first column in which set `set` differs from the first.
#[cold]
fn unequal(set: usize, first: &Layout, other: &Layout) -> Error {
    Error::new(match first.first_difference(other) {
        Some((column, expected, found)) => ErrorKind::UnequalShapes { set: set as u64, column, expected, found },
        // They are of one shape: the arguments are others than a moment ago.
        None => ErrorKind::Changed { column: "(last)", expected: first.copy_bytes(), found: other.copy_bytes() },
    })
}
