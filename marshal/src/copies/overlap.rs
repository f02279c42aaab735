//! What a batch must not hold: ranges that are none, and copies that depend on their order.

use super::plan::{End, Request};
use crate::error::{Error, ErrorKind};

/// Device addresses of the requests. Filled where copies may meet, and kept for the next batch.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    reads: Vec<Span>,
    writes: Vec<Span>,
}

/// Device addresses of one request.
#[derive(Debug)]
struct Span {
    start: u64,
    end: u64,
    entry: usize,
}

impl Spans {
    /// Refuses what the device must not be given, and what the open order inside a batch would leave to chance.
    pub(crate) fn check(&mut self, requests: &[Request]) -> Result<(), Error> {
        if are_apart(requests)? {
            return Ok(());
        }
        let Self { reads, writes } = self;
        reads.clear();
        writes.clear();
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
        for read in reads.iter() {
            let first = writes.partition_point(|write| write.end <= read.start);
            if let Some(write) = writes.get(first).filter(|write| write.start < read.end) {
                return Err(overlap(write, read, true));
            }
        }
        Ok(())
    }
}

/// Whether destinations come at rising addresses and no source lies among them, as in most batches: then no copy can meet another one.
/// Each range is looked at, and nothing is sorted.
fn are_apart(requests: &[Request]) -> Result<bool, Error> {
    // From the first address that is read to the end of the last, and the same of what is written; of nothing, the wrong way round.
    let (mut first_read, mut read_end) = (u64::MAX, 0);
    let (mut first_written, mut written_end, mut rises) = (u64::MAX, 0, true);
    for (entry, request) in requests.iter().enumerate().filter(|(_, request)| request.len != 0) {
        if let End::Device(address) = request.source {
            let Span { start, end, .. } = span(entry, address, request.len)?;
            (first_read, read_end) = (first_read.min(start), read_end.max(end));
        }
        if let End::Device(address) = request.destination {
            let Span { start, end, .. } = span(entry, address, request.len)?;
            rises &= written_end <= start;
            (first_written, written_end) = (first_written.min(start), end);
        }
    }
    Ok(rises && (read_end <= first_written || written_end <= first_read))
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

    fn check(requests: &[Request]) -> Result<(), Error> {
        Spans::default().check(requests)
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
        // Side by side, and a source between two destinations.
        check(&[across(0x1000, 0x1010, 16), across(0x1030, 0x1020, 16)]).unwrap();
        let requests = [across(0x1000, 0x1010, 16), across(0x101f, 0x1030, 16)];
        assert_eq!(kind(&requests), overlap(0, 0x1010, 16, 1, 0x101f, 16, true));
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
    }
}
