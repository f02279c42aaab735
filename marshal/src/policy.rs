//! What the cache may take, what it says of itself, and what goes when room is short: numbers and decisions on them, without memory.

/// What the cache may take, and what an upload does when staging is short. Bytes are u64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Device bytes of all blocks together. Above it the block that was used least recently goes; one that a set holds never
    /// does. 256 MiB by default.
    pub device_bytes: u64,
    /// Page-locked host bytes of all staging together. 256 MiB by default.
    pub staging_bytes: u64,
    /// What an upload does when all staging of its size is still read by pending copies. Grows by default.
    pub when_exhausted: WhenExhausted,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { device_bytes: 256 << 20, staging_bytes: 256 << 20, when_exhausted: WhenExhausted::default() }
    }
}

/// What an upload does when every staging region of its size is still read by a pending copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenExhausted {
    /// Waits, on the host, until the oldest copy has run.
    Wait,
    /// Allocates more, while the cache's staging bytes allow it; then waits. So a stream that runs far behind the host gets the
    /// staging that it needs, once.
    #[default]
    Grow,
    /// Returns an error, and changes nothing.
    Error,
}

/// What a cache did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Uploads that returned a set.
    pub uploads: u64,
    /// Copies to the device.
    pub copies: u64,
    /// Bytes of those copies.
    pub copied_bytes: u64,
    /// Device blocks that were allocated.
    pub allocations: u64,
    /// Uploads that wrote a block of the same shape again.
    pub shape_hits: u64,
    /// Uploads whose bytes stood in a block already: nothing was copied.
    pub byte_hits: u64,
    /// Blocks that went to make room.
    pub evictions: u64,
    /// Uploads that waited, on the host, for a staging region.
    pub waits: u64,
    /// Device bytes of all blocks now, those left out that only a set still holds.
    pub device_bytes: u64,
    /// Page-locked host bytes of all staging now.
    pub staging_bytes: u64,
}

/// What is known of one block of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenant {
    /// Its device bytes.
    pub(crate) device: u64,
    /// The size of the staging region that holds its image.
    pub(crate) region_bytes: usize,
    /// Whether it has one.
    pub(crate) has_region: bool,
    pub(crate) last_used: u64,
    pub(crate) is_held: bool,
}

/// The size of the staging regions for images of `size_bytes`: rounded up, so that shapes of about one size share them. By a
/// quarter of a power of two at most, 512 bytes at least.
pub(crate) fn region_bytes(size_bytes: u64) -> u64 {
    let step = (size_bytes.checked_next_power_of_two().unwrap_or(u64::MAX) / 8).max(512);
    size_bytes.checked_next_multiple_of(step).unwrap_or(size_bytes)
}

/// The tenants that go so that `needed` device bytes fit under `cap`: those used least recently, held ones never. `Err` with the
/// bytes that the cap leaves beside the held ones, where that is not enough.
pub(crate) fn evict(tenants: &[Tenant], needed: u64, cap: u64) -> Result<Vec<usize>, u64> {
    let mut taken = tenants.iter().map(|tenant| tenant.device).fold(0, u64::saturating_add);
    let mut gone = Vec::new();
    for index in by_age(tenants) {
        if taken.saturating_add(needed) <= cap {
            break;
        }
        taken -= tenants[index].device;
        gone.push(index);
    }
    if taken.saturating_add(needed) <= cap { Ok(gone) } else { Err(cap.saturating_sub(taken)) }
}

/// The tenants that go so that there is a staging region of `region_bytes`: the one of that size that was used least recently,
/// whose region is free then; else all of another size, none of them held, whose staging goes as a whole.
pub(crate) fn free_staging(tenants: &[Tenant], region_bytes: usize) -> Option<Vec<usize>> {
    let of_size = |size: usize| by_age(tenants).into_iter().filter(move |&i| tenants[i].region_bytes == size);
    if let Some(oldest) = of_size(region_bytes).find(|&index| tenants[index].has_region) {
        return Some(vec![oldest]);
    }
    let is_held = |size: usize| tenants.iter().any(|tenant| tenant.region_bytes == size && tenant.is_held);
    // A block of scratch alone has no staging to give.
    let can_give = |size: usize| size != 0 && !is_held(size);
    let oldest = by_age(tenants).into_iter().find(|&index| can_give(tenants[index].region_bytes))?;
    Some(of_size(tenants[oldest].region_bytes).collect())
}

/// Those that nobody holds, the one used least recently first.
fn by_age(tenants: &[Tenant]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tenants.len()).filter(|&index| !tenants[index].is_held).collect();
    order.sort_by_key(|&index| tenants[index].last_used);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(device: u64, last_used: u64, is_held: bool) -> Tenant {
        Tenant { device, region_bytes: 512, has_region: true, last_used, is_held }
    }

    #[test]
    fn the_least_recently_used_go_and_no_more_than_needed() {
        let tenants = [tenant(10, 5, false), tenant(10, 2, false), tenant(10, 3, false)];
        assert_eq!(evict(&tenants, 15, 45), Ok(vec![]));
        assert_eq!(evict(&tenants, 15, 44), Ok(vec![1]));
        assert_eq!(evict(&tenants, 15, 30), Ok(vec![1, 2]));
        assert_eq!(evict(&tenants, 15, 15), Ok(vec![1, 2, 0]));
        assert_eq!(evict(&tenants, 15, 14), Err(14));
    }

    #[test]
    fn what_a_set_holds_never_goes() {
        let tenants = [tenant(10, 1, true), tenant(10, 2, false)];
        assert_eq!(evict(&tenants, 10, 20), Ok(vec![1]));
        assert_eq!(evict(&tenants, 10, 19), Err(9));
        assert_eq!(free_staging(&tenants, 512), Some(vec![1]));
        assert_eq!(free_staging(&tenants[..1], 512), None);
    }

    #[test]
    fn staging_comes_from_the_same_size_first_and_then_from_a_whole_other_one() {
        let of =
            |region_bytes, last_used, is_held| Tenant { device: 1, region_bytes, has_region: true, last_used, is_held };
        let tenants =
            [of(512, 4, false), of(1024, 1, false), of(1024, 3, false), of(2048, 0, false), of(2048, 9, true)];
        assert_eq!(free_staging(&tenants, 512), Some(vec![0]));
        assert_eq!(free_staging(&tenants, 4096), Some(vec![1, 2]), "2048 is older, but held in part");
        assert_eq!(free_staging(&tenants[3..], 4096), None);
        assert_eq!(
            free_staging(&[of(0, 1, false), of(512, 2, false)], 4096),
            Some(vec![1]),
            "scratch alone has no staging"
        );
    }

    #[test]
    fn a_region_wastes_at_most_a_quarter_above_its_floor() {
        let rounded = [0, 1, 512, 513, 4096, 4097, 5000, 1 << 20, (1 << 20) + 1].map(region_bytes);
        assert_eq!(rounded, [0, 512, 512, 1024, 4096, 5120, 5120, 1 << 20, (1 << 20) + (1 << 18)]);
        for size in (2048..1 << 20).step_by(977) {
            assert!(region_bytes(size) >= size && region_bytes(size) * 4 <= size * 5, "{size}");
        }
    }
}
