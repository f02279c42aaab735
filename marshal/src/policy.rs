//! Which memory an upload gets, and what goes when room is short: decisions on numbers, without memory.

/// What the cache may take, and what an upload does when staging is short. Bytes are u64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Device bytes of all blocks together. Above it the shape that was used least recently goes; a block that a set holds
    /// never does. 256 MiB by default.
    pub device_bytes: u64,
    /// Page-locked host bytes of all staging together. 256 MiB by default.
    pub staging_bytes: u64,
    /// What an upload does when all staging of its shape is still read by pending copies. Grows by default.
    pub when_exhausted: WhenExhausted,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { device_bytes: 256 << 20, staging_bytes: 256 << 20, when_exhausted: WhenExhausted::default() }
    }
}

/// What an upload does when every staging region of its shape is still read by a pending copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenExhausted {
    /// Waits, on the host, until the oldest copy has run.
    Wait,
    /// Allocates as many regions again, while the cache's staging bytes allow it; then waits. So a stream that runs far behind
    /// the host gets the staging that it needs, once.
    #[default]
    Grow,
    /// Returns an error, and changes nothing.
    Error,
}

/// Bytes on the device and in staging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) device: u64,
    pub(crate) staging: u64,
}

/// What is known of one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenant {
    pub(crate) room: Room,
    pub(crate) last_used: u64,
    pub(crate) is_held: bool,
}

/// A new slot's room, rounded up so that shapes of about one size can use each other's: by a quarter of a power of two at
/// most, 512 bytes at least.
pub(crate) fn capacity(size_bytes: u64) -> u64 {
    let step = (size_bytes.checked_next_power_of_two().unwrap_or(u64::MAX) / 8).max(512);
    size_bytes.checked_next_multiple_of(step).unwrap_or(size_bytes)
}

/// What must go so that `needed` fits within `options`: the indices of the tenants used least recently, held ones left out.
/// `None` where even that is not enough.
pub(crate) fn evict(tenants: &[Tenant], needed: Room, options: &CacheOptions) -> Option<Vec<usize>> {
    let sum = |of: fn(&Tenant) -> u64| tenants.iter().map(of).fold(0, u64::saturating_add);
    let mut taken = Room { device: sum(|t| t.room.device), staging: sum(|t| t.room.staging) };
    let fits = |taken: Room| {
        taken.device.saturating_add(needed.device) <= options.device_bytes
            && taken.staging.saturating_add(needed.staging) <= options.staging_bytes
    };
    let mut order: Vec<usize> = (0..tenants.len()).filter(|&i| !tenants[i].is_held).collect();
    order.sort_by_key(|&i| tenants[i].last_used);
    let mut gone = Vec::new();
    let mut order = order.into_iter();
    while !fits(taken) {
        let index = order.next()?;
        taken.device -= tenants[index].room.device;
        taken.staging -= tenants[index].room.staging;
        gone.push(index);
    }
    Some(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(device: u64, last_used: u64, is_held: bool) -> Tenant {
        Tenant { room: Room { device, staging: 1 }, last_used, is_held }
    }

    fn options(device_bytes: u64) -> CacheOptions {
        CacheOptions { device_bytes, ..CacheOptions::default() }
    }

    #[test]
    fn the_least_recently_used_go_and_no_more_than_needed() {
        let tenants = [tenant(10, 5, false), tenant(10, 2, false), tenant(10, 3, false)];
        let needed = Room { device: 15, staging: 0 };
        assert_eq!(evict(&tenants, needed, &options(45)), Some(vec![]));
        assert_eq!(evict(&tenants, needed, &options(44)), Some(vec![1]));
        assert_eq!(evict(&tenants, needed, &options(30)), Some(vec![1, 2]));
        assert_eq!(evict(&tenants, needed, &options(15)), Some(vec![1, 2, 0]));
        assert_eq!(evict(&tenants, needed, &options(14)), None);
    }

    #[test]
    fn what_a_set_holds_never_goes() {
        let tenants = [tenant(10, 1, true), tenant(10, 2, false)];
        let needed = Room { device: 10, staging: 0 };
        assert_eq!(evict(&tenants, needed, &options(20)), Some(vec![1]));
        assert_eq!(evict(&tenants, needed, &options(19)), None);
    }

    #[test]
    fn staging_is_bounded_too() {
        let tenants = [tenant(10, 1, false), tenant(10, 2, false)];
        let options = CacheOptions { staging_bytes: 3, ..CacheOptions::default() };
        assert_eq!(evict(&tenants, Room { device: 0, staging: 2 }, &options), Some(vec![0]));
        assert_eq!(evict(&tenants, Room { device: 0, staging: 4 }, &options), None);
    }

    #[test]
    fn a_capacity_wastes_at_most_a_quarter_above_its_floor() {
        let rounded = [0, 1, 512, 513, 4096, 4097, 5000, 1 << 20, (1 << 20) + 1].map(capacity);
        assert_eq!(rounded, [0, 512, 512, 1024, 4096, 5120, 5120, 1 << 20, (1 << 20) + (1 << 18)]);
        for size in (2048..1 << 20).step_by(977) {
            assert!(capacity(size) >= size && capacity(size) * 4 <= size * 5, "{size}");
        }
    }
}
