//! From what a batch was asked for to what is submitted: merged, and with a place in staging. Pure arithmetic.
//!
//! A [`Plan`] keeps its lists for the next batch.

use core::ops::Range;

use super::overlap::Spans;
use crate::backend::{BatchCopy, Place};
use crate::error::{Error, ErrorKind};

/// One copy as it was asked for. It has a device address at one end at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) source: End,
    pub(crate) destination: End,
    /// Bytes; 0 is no copy.
    pub(crate) len: usize,
    /// Where it stands in staging, once the plan was [arranged](Plan::arrange); meaningless where it does not.
    pub(crate) offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Device(u64),
    /// Borrowed host memory, or a ticket's, in whose place the device uses staging.
    Staged,
    /// Owned host memory: which of the batch's owners.
    Owned(usize),
}

/// What was asked for, and what is submitted for it.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) requests: Vec<Request>,
    pub(crate) copies: Vec<BatchCopy>,
    /// Bytes of staging.
    pub(crate) staging_bytes: usize,
    // Requests in the order of the copies.
    order: Vec<(Key, usize)>,
    spans: Spans,
}

/// In staging a copy that cannot be joined to the last begins at a multiple of this: one cache line is written for one copy.
const STAGING_ALIGNMENT: usize = 64;

impl Plan {
    /// Refuses what the device must not be given, and what the open order inside a batch would leave to chance.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.spans.check(&self.requests)
    }

    /// Sorts the requests by direction and device address, joins neighbours, and places in staging what is borrowed.
    ///
    /// Requests that are neighbours on the device become neighbours in staging, wherever on the host they are. A copy must not
    /// pass the end of an allocation, be it that another one begins there: `allocation_of` tells the bounds, and is asked only
    /// where neighbours are found. The requests were [checked](Self::check).
    pub(crate) fn arrange(&mut self, allocation_of: impl Fn(u64) -> Option<Range<u64>>) -> Result<(), Error> {
        self.copies.clear();
        self.copies.reserve(self.requests.len());
        self.order.clear();
        self.staging_bytes = 0;
        // The keys beside them, so that the sort need not reach for the requests.
        let copies = self.requests.iter().enumerate().filter(|(_, request)| request.len != 0);
        self.order.extend(copies.map(|(entry, request)| (key(request), entry)));
        // One walk where they come in this order, as in most batches.
        self.order.sort_unstable();
        let mut last = Last::default();
        (0..self.order.len()).try_for_each(|position| self.place(self.order[position], &mut last, &allocation_of))
    }

    /// Joins the request to the last copy, or makes it one of its own.
    #[inline]
    fn place(
        &mut self,
        ((_, address), entry): (Key, usize),
        last: &mut Last,
        allocation_of: &impl Fn(u64) -> Option<Range<u64>>,
    ) -> Result<(), Error> {
        let request = &mut self.requests[entry];
        request.offset = self.staging_bytes;
        if last.end == address
            && let Some(copy) = self.copies.last_mut()
            && last.is_continued(copy, request, allocation_of)
        {
            copy.len += request.len;
        } else {
            if request.is_staged() {
                let aligned = self.staging_bytes.checked_next_multiple_of(STAGING_ALIGNMENT);
                request.offset = aligned.ok_or_else(too_large)?;
            }
            self.copies.push(BatchCopy {
                source: request.place(request.source),
                destination: request.place(request.destination),
                len: request.len,
            });
        }
        last.end = address.wrapping_add(request.len as u64);
        if request.is_staged() {
            self.staging_bytes = request.offset.checked_add(request.len).ok_or_else(too_large)?;
        }
        Ok(())
    }

    /// The requests that copy number `copy` does.
    #[cold]
    pub(crate) fn requests_of(&self, copy: usize) -> Vec<usize> {
        let done = self.requests_of_first(copy);
        let mut requests = self.requests_of_first(copy + 1);
        requests.retain(|request| done.binary_search(request).is_err());
        requests
    }

    /// The requests that the first `copies` copies do, in their own order.
    #[cold]
    pub(crate) fn requests_of_first(&self, copies: usize) -> Vec<usize> {
        // A copy is as long as the requests that were joined to it.
        let mut bytes: usize = self.copies.iter().take(copies).map(|copy| copy.len).sum();
        let is_done = |&(_, entry): &(Key, usize)| {
            let is_done = bytes != 0;
            bytes = bytes.saturating_sub(self.requests[entry].len);
            is_done
        };
        let mut requests: Vec<usize> = self.order.iter().copied().take_while(is_done).map(|(_, entry)| entry).collect();
        requests.sort_unstable();
        requests
    }
}

impl Request {
    #[inline]
    fn is_staged(&self) -> bool {
        self.source == End::Staged || self.destination == End::Staged
    }

    /// One of its two ends, for the backend.
    #[inline]
    fn place(&self, end: End) -> Place {
        match end {
            End::Device(address) => Place::Device(address),
            End::Staged => Place::Staging(self.offset),
            End::Owned(owner) => Place::Owned(owner),
        }
    }
}

/// Kind and device address: copies of one kind together.
type Key = (u8, u64);

#[inline]
fn key(request: &Request) -> Key {
    match (request.source, request.destination) {
        (End::Staged, End::Device(address)) => (0, address),
        (End::Device(address), End::Staged) => (1, address),
        (End::Device(_), End::Device(address)) => (2, address),
        (End::Owned(_), End::Device(address)) => (3, address),
        // No such request is made.
        (_, End::Staged | End::Owned(_)) => (4, 0),
    }
}

/// Whether `next` begins where `len` bytes from `last` on end. Two owners are never neighbours.
fn continues(last: Place, len: usize, next: Place) -> bool {
    match (last, next) {
        (Place::Device(a), Place::Device(b)) => a.checked_add(len as u64) == Some(b),
        (Place::Staging(a), Place::Staging(b)) => a.checked_add(len) == Some(b),
        _ => false,
    }
}

/// What the next request may be joined to.
#[derive(Default)]
struct Last {
    /// Where the address of the last request's key ends: what begins elsewhere is no neighbour.
    end: u64,
    sources: Bounds,
    destinations: Bounds,
}

impl Last {
    /// Whether `request` goes on where `copy` ends, at both ends, and in their allocations.
    fn is_continued(
        &mut self,
        copy: &BatchCopy,
        request: &Request,
        allocation_of: &impl Fn(u64) -> Option<Range<u64>>,
    ) -> bool {
        let len = copy.len + request.len;
        continues(copy.destination, copy.len, request.place(request.destination))
            && continues(copy.source, copy.len, request.place(request.source))
            && self.sources.hold(copy.source, len, allocation_of)
            && self.destinations.hold(copy.destination, len, allocation_of)
    }
}

/// The allocation that was asked for last.
#[derive(Default)]
struct Bounds(Range<u64>);

impl Bounds {
    /// Whether `len` bytes from `place` on lie in one allocation. Of host memory: they do.
    fn hold(&mut self, place: Place, len: usize, allocation_of: &impl Fn(u64) -> Option<Range<u64>>) -> bool {
        let Place::Device(address) = place else { return true };
        if !self.0.contains(&address) {
            self.0 = allocation_of(address).unwrap_or_default();
        }
        self.0.contains(&address) && len as u64 <= self.0.end - address
    }
}

#[cold]
fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge { needed: u64::MAX, available: usize::MAX as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(address: u64, len: usize) -> Request {
        Request { source: End::Staged, destination: End::Device(address), len, offset: 0 }
    }

    fn down(address: u64, len: usize) -> Request {
        Request { source: End::Device(address), destination: End::Staged, len, offset: 0 }
    }

    fn across(source: u64, destination: u64, len: usize) -> Request {
        Request { source: End::Device(source), destination: End::Device(destination), len, offset: 0 }
    }

    /// One allocation from 0x1000 to 0x2000, another right behind it.
    fn allocation_of(address: u64) -> Option<Range<u64>> {
        match address {
            0x1000..0x2000 => Some(0x1000..0x2000),
            0x2000..0x3000 => Some(0x2000..0x3000),
            _ => None,
        }
    }

    fn plan(requests: &[Request]) -> Plan {
        let mut plan = Plan { requests: requests.to_vec(), ..Plan::default() };
        plan.arrange(allocation_of).unwrap();
        plan
    }

    fn copy(source: Place, destination: Place, len: usize) -> BatchCopy {
        BatchCopy { source, destination, len }
    }

    #[test]
    fn neighbours_on_the_device_are_one_copy_whatever_their_order() {
        let requests = [up(0x1010, 16), up(0x1100, 8), up(0x1000, 16), up(0x1020, 4), up(0x1040, 0)];
        let plan = plan(&requests);
        let expected =
            [copy(Place::Staging(0), Place::Device(0x1000), 36), copy(Place::Staging(64), Place::Device(0x1100), 8)];
        assert_eq!(plan.copies, expected);
        let offsets: Vec<usize> = plan.requests[..4].iter().map(|request| request.offset).collect();
        assert_eq!((offsets, plan.staging_bytes), (vec![16, 64, 0, 32], 72));
        assert_eq!((plan.requests_of(0), plan.requests_of(1)), (vec![0, 2, 3], vec![1]));
        assert_eq!((plan.requests_of_first(0), plan.requests_of_first(1)), (vec![], vec![0, 2, 3]));
    }

    #[test]
    fn copies_are_not_joined_across_allocations_or_where_nobody_knows_them() {
        for (first, second) in [(0x1ff0, 0x2000), (0x9000, 0x9010)] {
            assert_eq!(plan(&[down(first, 16), down(second, 16)]).copies.len(), 2);
        }
        assert_eq!(plan(&[down(0x1ff0, 8), down(0x1ff8, 8)]).copies.len(), 1);
    }

    #[test]
    fn device_copies_are_joined_where_both_ends_are_neighbours() {
        let joined = [copy(Place::Device(0x1000), Place::Device(0x2000), 32)];
        assert_eq!(plan(&[across(0x1000, 0x2000, 16), across(0x1010, 0x2010, 16)]).copies, joined);
        assert_eq!(plan(&[across(0x1000, 0x2000, 16), across(0x1020, 0x2010, 16)]).copies.len(), 2);
        assert_eq!(plan(&[across(0x1000, 0x2000, 16), across(0x1010, 0x2020, 16)]).copies.len(), 2);
    }

    #[test]
    fn owners_are_copied_from_where_they_are() {
        let owned = |owner, address| Request {
            source: End::Owned(owner),
            destination: End::Device(address),
            len: 16,
            offset: 0,
        };
        let plan = plan(&[owned(0, 0x1000), owned(1, 0x1010)]);
        assert_eq!((plan.copies.len(), plan.staging_bytes), (2, 0));
        assert_eq!(plan.copies[1].source, Place::Owned(1));
    }
}
