//! Whether a warm cache allocates: heap, page-locked memory, device memory.

use marshal::{ArgCache, DeviceArgs};

use super::args::{GroupedGemm, Touch};
use super::gpu::Gpu;
use super::heap;
use super::record::Counters;

/// Uploads before counting: staging that a stream which runs behind needs is taken in these, once.
const WARM: u64 = 2000;
const COUNTED: u64 = 1000;

/// Counts for changed bytes, a change in the last column, and unchanged bytes.
pub(crate) fn run(gpu: &Gpu, groups: usize) -> Vec<Counters> {
    // A thousand uploads of 76 MB would take half a minute and show no more than thirty.
    let divisor = if groups > 100_000 { 33 } else { 1 };
    [("changed", Some(Touch::Early)), ("last column changed", Some(Touch::Last)), ("unchanged", None)]
        .map(|(what, touch)| count(gpu, groups, what, touch, divisor))
        .into()
}

fn count(gpu: &Gpu, groups: usize, what: &'static str, touch: Option<Touch>, divisor: u64) -> Counters {
    let cache = ArgCache::new(&gpu.stream).expect("a stream of its own");
    let mut args = GroupedGemm::new(groups);
    let mut upload = |number| {
        if let Some(touch) = touch {
            args.touch(touch, number);
        }
        drop(args.upload(&cache).expect("uploaded"));
    };
    (0..WARM / divisor).for_each(&mut upload);
    gpu.settle();
    let (stats, free, heap) = (cache.stats(), gpu.free_bytes(), heap::allocations());
    (0..COUNTED / divisor).for_each(&mut upload);
    let heap = heap::allocations() - heap;
    gpu.settle();
    let (after, free_after) = (cache.stats(), gpu.free_bytes());
    Counters {
        groups,
        what,
        uploads: after.uploads - stats.uploads,
        copies: after.copies - stats.copies,
        heap_allocations: heap,
        pinned_bytes: i128::from(after.staging_bytes) - i128::from(stats.staging_bytes),
        block_allocations: after.allocations - stats.allocations,
        device_bytes: free as i128 - free_after as i128,
    }
}
