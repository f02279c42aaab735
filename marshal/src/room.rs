//! Staging for one more set: from the pool, by an allocation, or from a block that can do without.

use crate::backend::Backend;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::policy::{self, CacheOptions, CacheStats, WhenExhausted};
use crate::shared::Shared;
use crate::slots::{Pools, State, staging_bytes};
use crate::staging::{Image, Pool, Timeline, regions_for};

/// Whether there is no staging, and no room for any.
pub(crate) fn is_staging_full(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::StagingFull { .. })
}

/// The size of the staging regions for that layout.
pub(crate) fn region_bytes_of(layout: &Layout) -> Result<usize, Error> {
    let needed = policy::region_bytes(layout.copy_bytes());
    usize::try_from(needed).map_err(|_| Error::new(ErrorKind::TooLarge { needed, available: usize::MAX as u64 }))
}

/// Sees to it that so many regions of that size may be written without asking the driver.
pub(crate) fn make_ready_regions<B: Backend>(
    shared: &Shared<B>,
    state: &mut State<B>,
    region_bytes: usize,
    regions: usize,
) -> Result<(), Error> {
    if region_bytes == 0 {
        return Ok(());
    }
    let State { pools, timeline, .. } = state;
    let pool = pools.entry(region_bytes).or_insert_with(|| Pool::new(&shared.stream, region_bytes));
    if pool.ready_regions(timeline) < regions {
        timeline.settle(&shared.stream)?;
    }
    loop {
        let ready = state.pools.get(&region_bytes).map_or(0, |pool| pool.ready_regions(&state.timeline));
        if ready >= regions {
            return Ok(());
        }
        let room = shared.options.staging_bytes.saturating_sub(state.staging_bytes());
        let full = || Error::new(ErrorKind::StagingFull { needed: region_bytes as u64, available: room });
        let more = regions_for(region_bytes, room).ok_or_else(full)?;
        state.pools.get_mut(&region_bytes).ok_or_else(full)?.add(more)?;
    }
}

/// Sees to it that there is a region of this size that is no image, if any is needed: one more where the cap allows it, else one that
/// a block gives up which nobody holds.
#[cold]
pub(crate) fn make_staging<B: Backend>(
    state: &mut State<B>,
    stream: &B::Stream,
    region_bytes: usize,
    options: &CacheOptions,
) -> Result<(), Error> {
    if region_bytes == 0 {
        return Ok(());
    }
    loop {
        let room = options.staging_bytes.saturating_sub(state.staging_bytes());
        let pool = state.pools.entry(region_bytes).or_insert_with(|| Pool::new(stream, region_bytes));
        if pool.free_regions() != 0 {
            return Ok(());
        }
        if let Some(regions) = regions_for(region_bytes, room) {
            return pool.add(regions);
        }
        let (tenants, places) = state.tenants();
        let is_used = |size: usize, pool: &Pool<B>| {
            size == region_bytes || !pool.is_whole() || tenants.iter().any(|tenant| tenant.region_bytes == size)
        };
        if state.pools.iter().any(|(&size, pool)| !is_used(size, pool)) {
            state.pools.retain(|&size, pool| is_used(size, pool));
            continue;
        }
        let Some(gone) = policy::free_staging(&tenants, region_bytes) else {
            return Err(Error::new(ErrorKind::StagingFull { needed: region_bytes as u64, available: room }));
        };
        // A pool that is whole then goes next.
        let gone = state.take(&gone, &places);
        state.let_go(gone);
    }
}

/// The pool of that size, whose next region may be written.
#[inline]
pub(crate) fn ready_pool<'p, B: Backend>(
    stream: &B::Stream,
    pools: &'p mut Pools<B>,
    region_bytes: usize,
    timeline: &mut Timeline<B>,
    stats: &mut CacheStats,
    options: &CacheOptions,
    image: Option<&mut Option<Image<B>>>,
) -> Result<&'p mut Pool<B>, Error> {
    let is_ready = match pools.get(&region_bytes) {
        Some(pool) => pool.is_ready(timeline)?,
        None => false,
    };
    if !is_ready {
        make_ready(stream, pools, region_bytes, timeline, stats, options, image)?;
    }
    Ok(pools.entry(region_bytes).or_insert_with(|| Pool::new(stream, region_bytes)))
}

/// No region is free to be written: adds some, waits for one, or refuses, as the options say.
#[cold]
fn make_ready<B: Backend>(
    stream: &B::Stream,
    pools: &mut Pools<B>,
    region_bytes: usize,
    timeline: &mut Timeline<B>,
    stats: &mut CacheStats,
    options: &CacheOptions,
    image: Option<&mut Option<Image<B>>>,
) -> Result<(), Error> {
    let room = options.staging_bytes.saturating_sub(staging_bytes(pools));
    let pool = pools.entry(region_bytes).or_insert_with(|| Pool::new(stream, region_bytes));
    let is_empty = pool.free_regions() == 0;
    if (is_empty || options.when_exhausted == WhenExhausted::Grow)
        && let Some(regions) = regions_for(region_bytes, room)
    {
        return pool.add(regions);
    }
    if is_empty {
        let Some(image) = image.and_then(Option::take) else {
            return Err(Error::new(ErrorKind::StagingFull { needed: region_bytes as u64, available: room }));
        };
        pool.give_back(image, timeline);
        if pool.is_ready(timeline)? {
            return Ok(());
        }
    }
    if options.when_exhausted == WhenExhausted::Error {
        return Err(Error::new(ErrorKind::StagingExhausted { in_flight: pool.size_bytes() }));
    }
    pool.wait(timeline)?;
    stats.waits += 1;
    Ok(())
}
