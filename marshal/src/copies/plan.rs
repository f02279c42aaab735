//! From what a batch was asked for to what is submitted: checked whole, merged, and with a place in staging. Pure arithmetic.

use core::ops::Range;

use crate::backend::{BatchCopy, Place};
use crate::error::{Error, ErrorKind};

/// One copy as it was asked for. It has a device address at one end at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) source: End,
    pub(crate) destination: End,
    /// Bytes; 0 is no copy.
    pub(crate) len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Device(u64),
    /// Borrowed host memory, in whose place the device uses staging.
    Staged,
    /// Owned host memory: which of the batch's owners.
    Owned(usize),
}

/// What is submitted.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) copies: Vec<BatchCopy>,
    /// Where each request stands in staging; meaningless for one that does not.
    pub(crate) offsets: Vec<usize>,
    /// Bytes of staging.
    pub(crate) staging_bytes: usize,
    // Requests in the order of the copies, and for each copy the end of its own among them.
    order: Vec<usize>,
    ends: Vec<usize>,
}

/// In staging a copy that cannot be joined to the last begins at a multiple of this: one cache line is written for one copy.
const STAGING_ALIGNMENT: usize = 64;

/// Refuses what the device must not be given, and what the open order inside a batch would leave to chance.
pub(crate) fn check(requests: &[Request]) -> Result<(), Error> {
    if is_one_way(requests)? {
        return Ok(());
    }
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for (entry, request) in requests.iter().enumerate().filter(|(_, request)| request.len != 0) {
        if let End::Device(address) = request.source {
            reads.push(span(entry, address, request.len)?);
        }
        if let End::Device(address) = request.destination {
            writes.push(span(entry, address, request.len)?);
        }
    }
    writes.sort_unstable_by_key(|write| write.start);
    if let Some([a, b]) = writes.array_windows().find(|[a, b]| b.start < a.end) {
        return Err(overlap(a, b, false));
    }
    // The writes are apart, so of those that end behind a read's start the first one decides.
    for read in &reads {
        let first = writes.partition_point(|write| write.end <= read.start);
        if let Some(write) = writes.get(first).filter(|write| write.start < read.end) {
            return Err(overlap(write, read, true));
        }
    }
    Ok(())
}

/// Whether the device is only read, or only written at rising addresses, as most batches do: then no copy can meet another one. Each
/// range is looked at, and nothing is sorted.
fn is_one_way(requests: &[Request]) -> Result<bool, Error> {
    let (mut reads, mut end, mut rises) = (false, 0, true);
    for (entry, request) in requests.iter().enumerate().filter(|(_, request)| request.len != 0) {
        if let End::Device(address) = request.source {
            span(entry, address, request.len)?;
            reads = true;
        }
        if let End::Device(address) = request.destination {
            rises &= end <= address;
            end = span(entry, address, request.len)?.end;
        }
    }
    Ok(end == 0 || rises && !reads)
}

/// Device addresses of one request.
#[derive(Debug)]
struct Span {
    start: u64,
    end: u64,
    entry: usize,
}

fn span(entry: usize, address: u64, len: usize) -> Result<Span, Error> {
    // usize is at most 64 bits wide on every target of Rust.
    match address.checked_add(len as u64) {
        Some(end) if address != 0 => Ok(Span { start: address, end, entry }),
        _ => Err(Error::new(ErrorKind::CopyRange { entry: entry as u64, address, len: len as u64 })),
    }
}

#[cold]
fn overlap(write: &Span, other: &Span, other_reads: bool) -> Error {
    Error::new(ErrorKind::CopyOverlap {
        entry: write.entry as u64,
        address: write.start,
        len: write.end - write.start,
        other: other.entry as u64,
        other_address: other.start,
        other_len: other.end - other.start,
        other_reads,
    })
}

impl Plan {
    /// Sorts the requests by direction and device address, joins neighbours, and places in staging what is borrowed.
    ///
    /// Requests that are neighbours on the device become neighbours in staging, wherever on the host they are. A copy must not
    /// pass the end of an allocation, be it that another one begins there: `allocation_of` tells the bounds, and is asked only
    /// where neighbours are found. The requests were [checked](check).
    pub(crate) fn new(requests: &[Request], allocation_of: impl Fn(u64) -> Option<Range<u64>>) -> Result<Self, Error> {
        let order = in_order(requests);
        let mut plan = Self {
            copies: Vec::with_capacity(order.len()),
            offsets: vec![0; requests.len()],
            ends: Vec::with_capacity(order.len()),
            ..Self::default()
        };
        let (mut sources, mut destinations) = (Bounds::default(), Bounds::default());
        // Where a neighbour of the last copy begins.
        let mut behind = None;
        for (position, &entry) in order.iter().enumerate() {
            let request = &requests[entry];
            let mut copy = request.at(plan.staging_bytes);
            let last = plan.copies.last_mut().filter(|last| {
                behind == Some((copy.source, copy.destination))
                    && sources.hold(last.source, last.len + copy.len, &allocation_of)
                    && destinations.hold(last.destination, last.len + copy.len, &allocation_of)
            });
            if let Some(last) = last {
                last.len += copy.len;
                plan.ends.pop();
            } else {
                if request.is_staged() {
                    let aligned = plan.staging_bytes.checked_next_multiple_of(STAGING_ALIGNMENT);
                    plan.staging_bytes = aligned.ok_or_else(too_large)?;
                    copy = request.at(plan.staging_bytes);
                }
                plan.copies.push(copy);
            }
            plan.ends.push(position + 1);
            behind = end(copy.source, copy.len).zip(end(copy.destination, copy.len));
            if request.is_staged() {
                plan.offsets[entry] = plan.staging_bytes;
                plan.staging_bytes = plan.staging_bytes.checked_add(request.len).ok_or_else(too_large)?;
            }
        }
        plan.order = order;
        Ok(plan)
    }

    /// The requests that copy number `copy` does.
    pub(crate) fn requests_of(&self, copy: usize) -> &[usize] {
        let start = copy.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.order[start..self.ends[copy]]
    }

    /// The requests that the first `copies` copies do, in their own order.
    pub(crate) fn requests_of_first(&self, copies: usize) -> Vec<usize> {
        let end = copies.checked_sub(1).map_or(0, |last| self.ends[last]);
        let mut requests = self.order[..end].to_vec();
        requests.sort_unstable();
        requests
    }
}

impl Request {
    pub(crate) fn is_staged(&self) -> bool {
        self.source == End::Staged || self.destination == End::Staged
    }

    /// The copy, with its borrowed end at `offset` of the staging.
    fn at(&self, offset: usize) -> BatchCopy {
        let place = |end| match end {
            End::Device(address) => Place::Device(address),
            End::Staged => Place::Staging(offset),
            End::Owned(owner) => Place::Owned(owner),
        };
        BatchCopy { source: place(self.source), destination: place(self.destination), len: self.len }
    }
}

/// The requests that are copies, by their keys.
fn in_order(requests: &[Request]) -> Vec<usize> {
    let entries = || requests.iter().enumerate().filter(|(_, request)| request.len != 0);
    if entries().is_sorted_by_key(|(_, request)| key(request)) {
        return entries().map(|(entry, _)| entry).collect();
    }
    // The keys beside them, so that the sort need not reach for the requests.
    let mut keyed: Vec<_> = entries().map(|(entry, request)| (key(request), entry)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, entry)| entry).collect()
}

/// Copies of one kind together, by device address.
fn key(request: &Request) -> (u8, u64) {
    match (request.source, request.destination) {
        (End::Staged, End::Device(address)) => (0, address),
        (End::Device(address), End::Staged) => (1, address),
        (End::Device(_), End::Device(address)) => (2, address),
        (End::Owned(_), End::Device(address)) => (3, address),
        // No such request is made.
        (_, End::Staged | End::Owned(_)) => (4, 0),
    }
}

/// Where `len` bytes from `place` on end. Two owners are never neighbours.
fn end(place: Place, len: usize) -> Option<Place> {
    match place {
        // usize is at most 64 bits wide on every target of Rust.
        Place::Device(address) => address.checked_add(len as u64).map(Place::Device),
        Place::Staging(offset) => offset.checked_add(len).map(Place::Staging),
        Place::Owned(_) => None,
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
        Request { source: End::Staged, destination: End::Device(address), len }
    }

    fn down(address: u64, len: usize) -> Request {
        Request { source: End::Device(address), destination: End::Staged, len }
    }

    fn across(source: u64, destination: u64, len: usize) -> Request {
        Request { source: End::Device(source), destination: End::Device(destination), len }
    }

    /// One allocation from 0x1000 to 0x2000, another right behind it.
    fn allocation_of(address: u64) -> Option<Range<u64>> {
        match address {
            0x1000..0x2000 => Some(0x1000..0x2000),
            0x2000..0x3000 => Some(0x2000..0x3000),
            _ => None,
        }
    }

    fn copy(source: Place, destination: Place, len: usize) -> BatchCopy {
        BatchCopy { source, destination, len }
    }

    #[test]
    fn neighbours_on_the_device_are_one_copy_whatever_their_order() {
        let requests = [up(0x1010, 16), up(0x1100, 8), up(0x1000, 16), up(0x1020, 4), up(0x1040, 0)];
        let plan = Plan::new(&requests, allocation_of).unwrap();
        let expected =
            [copy(Place::Staging(0), Place::Device(0x1000), 36), copy(Place::Staging(64), Place::Device(0x1100), 8)];
        assert_eq!(plan.copies, expected);
        assert_eq!((plan.offsets[..4].to_vec(), plan.staging_bytes), (vec![16, 64, 0, 32], 72));
        assert_eq!((plan.requests_of(0), plan.requests_of(1)), (&[2, 0, 3][..], &[1][..]));
        assert_eq!((plan.requests_of_first(0), plan.requests_of_first(1)), (vec![], vec![0, 2, 3]));
    }

    #[test]
    fn copies_are_not_joined_across_allocations_or_where_nobody_knows_them() {
        for (first, second) in [(0x1ff0, 0x2000), (0x9000, 0x9010)] {
            assert_eq!(Plan::new(&[down(first, 16), down(second, 16)], allocation_of).unwrap().copies.len(), 2);
        }
        assert_eq!(Plan::new(&[down(0x1ff0, 8), down(0x1ff8, 8)], allocation_of).unwrap().copies.len(), 1);
    }

    #[test]
    fn device_copies_are_joined_where_both_ends_are_neighbours() {
        let plan = |requests: &[Request]| Plan::new(requests, allocation_of).unwrap().copies;
        let joined = [copy(Place::Device(0x1000), Place::Device(0x2000), 32)];
        assert_eq!(plan(&[across(0x1000, 0x2000, 16), across(0x1010, 0x2010, 16)]), joined);
        assert_eq!(plan(&[across(0x1000, 0x2000, 16), across(0x1020, 0x2010, 16)]).len(), 2);
        assert_eq!(plan(&[across(0x1000, 0x2000, 16), across(0x1010, 0x2020, 16)]).len(), 2);
    }

    #[test]
    fn owners_are_copied_from_where_they_are() {
        let owned = |owner, address| Request { source: End::Owned(owner), destination: End::Device(address), len: 16 };
        let plan = Plan::new(&[owned(0, 0x1000), owned(1, 0x1010)], allocation_of).unwrap();
        assert_eq!((plan.copies.len(), plan.staging_bytes), (2, 0));
        assert_eq!(plan.copies[1].source, Place::Owned(1));
    }

    #[test]
    fn what_depends_on_the_order_is_refused_by_name() {
        let kind = |requests: &[Request]| check(requests).unwrap_err().kind().clone();
        let overlap = |entry, address, len, other, other_address, other_len, other_reads| ErrorKind::CopyOverlap {
            entry,
            address,
            len,
            other,
            other_address,
            other_len,
            other_reads,
        };
        assert_eq!(kind(&[up(0x1010, 16), up(0x1000, 17)]), overlap(1, 0x1000, 17, 0, 0x1010, 16, false));
        assert_eq!(kind(&[up(0x1000, 8), up(0x1000, 8)]), overlap(0, 0x1000, 8, 1, 0x1000, 8, false));
        assert_eq!(kind(&[down(0x1000, 64), up(0x103f, 1)]), overlap(1, 0x103f, 1, 0, 0x1000, 64, true));
        assert_eq!(kind(&[across(0x1000, 0x1008, 16)]), overlap(0, 0x1008, 16, 0, 0x1000, 16, true));
        check(&[up(0x1010, 16), up(0x1000, 16), down(0x1020, 16), down(0x1028, 16), up(0x1024, 0)]).unwrap();
    }

    #[test]
    fn ranges_that_are_none_are_refused_and_empty_ones_are_no_copies() {
        assert_eq!(
            *check(&[up(0x1000, 8), down(0, 8)]).unwrap_err().kind(),
            ErrorKind::CopyRange { entry: 1, address: 0, len: 8 }
        );
        assert_eq!(
            *check(&[up(u64::MAX - 6, 8)]).unwrap_err().kind(),
            ErrorKind::CopyRange { entry: 0, address: u64::MAX - 6, len: 8 }
        );
        check(&[up(u64::MAX - 8, 8), down(0, 0)]).unwrap();
        assert!(Plan::new(&[down(0, 0)], |_| None).unwrap().copies.is_empty());
    }
}
