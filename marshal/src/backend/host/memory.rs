//! Device memory: an address range of its own, and a table of the blocks in it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::clock::Point;

/// What fresh memory is filled with. As an f16 it is a NaN, as an f32 or f64 huge, as a pointer no address, and no bool.
pub(super) const POISON: u8 = 0xFE;

const FIRST_ADDRESS: u64 = 0x7F00_0000_0000;
pub(super) const GRANULE: u64 = 512;
// Between the end of a block and the next one. Nothing is ever there.
const GUARD_BYTES: u64 = 16 << 20;
// Blocks that were freed are remembered, so that a use after free can say so; the oldest are forgotten.
const REMEMBERED: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Memory {
    blocks: BTreeMap<u64, Record>,
    freed: VecDeque<u64>,
    next: u64,
    base_offset: u64,
    capacity: u64,
    live_bytes: u64,
}

#[derive(Debug)]
struct Record {
    size_bytes: u64,
    allocated: Point,
    // None as long as nothing was written: all poison.
    bytes: Option<Arc<Vec<u8>>>,
    // Stream of the free that has run.
    freed: Option<u64>,
    last_write: Option<(u64, u64)>,
    // The last use of each stream that could know of the block.
    uses: BTreeMap<u64, u64>,
}

/// A rule that was broken.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) report: String,
    /// Another stream that had a part in it.
    pub(super) other: Option<u64>,
}

impl Violation {
    pub(super) fn new(report: String) -> Self {
        Self { report, other: None }
    }
}

/// Bytes as they were when they were read, whatever is written afterwards.
#[derive(Debug)]
pub(super) struct Snapshot {
    // None: all poison.
    bytes: Option<Arc<Vec<u8>>>,
    range: Range<usize>,
}

impl Snapshot {
    pub(super) fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        match &self.bytes {
            Some(bytes) => read(&bytes[self.range.clone()]),
            None => read(&vec![POISON; self.range.len()]),
        }
    }
}

impl Memory {
    pub(super) fn new(base_offset: u64, capacity: u64) -> Self {
        Self {
            blocks: BTreeMap::new(),
            freed: VecDeque::new(),
            next: FIRST_ADDRESS,
            base_offset,
            capacity,
            live_bytes: 0,
        }
    }

    pub(super) fn available(&self) -> u64 {
        self.capacity - self.live_bytes
    }

    /// Takes an address for a block; `None` where the device has no such memory. The content is poison.
    pub(super) fn allocate(&mut self, size_bytes: u64, allocated: Point) -> Option<u64> {
        if size_bytes > self.available() || usize::try_from(size_bytes).is_err() {
            return None;
        }
        // With the offset never an even multiple of the granule: no block has a larger alignment by luck.
        let odd = GRANULE - (self.base_offset & GRANULE);
        let slot = self.next.checked_next_multiple_of(2 * GRANULE)?.checked_add(odd)?;
        let address = slot.checked_add(self.base_offset)?;
        self.next = address.checked_add(size_bytes)?.checked_add(GUARD_BYTES)?;
        self.live_bytes += size_bytes;
        let record =
            Record { size_bytes, allocated, bytes: None, freed: None, last_write: None, uses: BTreeMap::new() };
        self.blocks.insert(address, record);
        Some(address)
    }

    /// Takes an allocation back that nobody has seen.
    pub(super) fn forget(&mut self, address: u64) {
        if let Some(record) = self.blocks.remove(&address) {
            self.live_bytes -= record.size_bytes;
        }
    }

    /// The free has run. Reports work on other streams that used the block and is not ordered before the free.
    pub(super) fn free(&mut self, address: u64, at: &Point) -> Result<(), Violation> {
        let Some(record) = self.blocks.get_mut(&address) else { return Ok(()) };
        record.freed = Some(at.stream);
        record.bytes = None;
        self.live_bytes -= record.size_bytes;
        let race = record.unordered_use(at).map(|user| Violation {
            report: format!(
                "the block of {} bytes at {address:#x} was freed on stream {} while stream {user} used it: let stream {} wait for an event behind that use before the block is dropped",
                record.size_bytes, at.stream, at.stream
            ),
            other: Some(user),
        });
        self.freed.push_back(address);
        if self.freed.len() > REMEMBERED
            && let Some(oldest) = self.freed.pop_front()
        {
            self.blocks.remove(&oldest);
        }
        race.map_or(Ok(()), Err)
    }

    /// The addresses of the block that holds `address`.
    pub(super) fn allocation_of(&self, address: u64) -> Option<Range<u64>> {
        let (&base, record) = self.blocks.range(..=address).next_back()?;
        (address - base < record.size_bytes && record.freed.is_none()).then(|| base..base + record.size_bytes)
    }

    /// Whether a block that is not freed yet holds all of the range.
    pub(super) fn check(&mut self, at: &Point, address: u64, size_bytes: u64) -> Result<(), Violation> {
        self.find("writing", at, address, size_bytes).map(drop)
    }

    pub(super) fn read(&mut self, at: &Point, address: u64, size_bytes: usize) -> Result<Snapshot, Violation> {
        let (record, start) = self.find("reading", at, address, size_bytes as u64)?;
        if let Some((writer, sequence)) = record.last_write
            && !at.follows(writer, sequence)
        {
            return Err(Violation::new(format!(
                "reading {size_bytes} bytes at {address:#x} on stream {} races with stream {writer}, which wrote the block: let stream {} wait for an event of stream {writer}",
                at.stream, at.stream
            )));
        }
        record.note_use(at);
        Ok(Snapshot { bytes: record.bytes.clone(), range: start..start + size_bytes })
    }

    pub(super) fn write(&mut self, at: &Point, address: u64, source: &[u8]) -> Result<(), Violation> {
        self.edit(at, address, source.len(), |bytes| bytes.copy_from_slice(source))
    }

    pub(super) fn fill(&mut self, at: &Point, address: u64, size_bytes: usize, value: u8) -> Result<(), Violation> {
        self.edit(at, address, size_bytes, |bytes| bytes.fill(value))
    }

    fn edit(
        &mut self,
        at: &Point,
        address: u64,
        size_bytes: usize,
        edit: impl FnOnce(&mut [u8]),
    ) -> Result<(), Violation> {
        let (record, start) = self.find("writing", at, address, size_bytes as u64)?;
        if let Some(user) = record.unordered_use(at) {
            return Err(Violation {
                report: format!(
                    "writing {size_bytes} bytes at {address:#x} on stream {} races with stream {user}, which uses the block: let stream {} wait for an event behind that use",
                    at.stream, at.stream
                ),
                other: Some(user),
            });
        }
        record.last_write = Some((at.stream, at.sequence));
        record.note_use(at);
        let len = usize::try_from(record.size_bytes).unwrap_or(usize::MAX);
        let bytes = record.bytes.get_or_insert_with(|| Arc::new(vec![POISON; len]));
        edit(&mut Arc::make_mut(bytes)[start..start + size_bytes]);
        Ok(())
    }

    /// The block that holds all of the range, and the range's start in it.
    fn find(
        &mut self,
        verb: &str,
        at: &Point,
        address: u64,
        size_bytes: u64,
    ) -> Result<(&mut Record, usize), Violation> {
        let stream = at.stream;
        let nearest = self.blocks.range_mut(..=address).next_back();
        let Some((&base, record)) = nearest.filter(|(base, record)| address - **base < record.size_bytes + GUARD_BYTES)
        else {
            return Err(Violation::new(format!(
                "{verb} {size_bytes} bytes at {address:#x} on stream {stream}: no block of this device is near; is it a host address, or a value that was never written?"
            )));
        };
        let block = format_args!("block of {} bytes at {base:#x}", record.size_bytes);
        if let Some(by) = record.freed {
            return Err(Violation::new(format!(
                "{verb} {size_bytes} bytes at {address:#x} on stream {stream}: the {block} was freed on stream {by}; keep its owner until the work is submitted, and order other streams by an event"
            )));
        }
        let start = address - base;
        let room = record.size_bytes.saturating_sub(start);
        if size_bytes > room {
            return Err(Violation::new(format!(
                "{verb} {size_bytes} bytes at {address:#x} on stream {stream} passes the end of the {block} by {} bytes: check the length",
                size_bytes - room
            )));
        }
        // No more than the block's size, which is a usize.
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        Ok((record, start))
    }
}

impl Record {
    /// Work that cannot know of the block, because nothing orders it behind the allocation, has its own mistake and is none
    /// of others' concern.
    fn note_use(&mut self, at: &Point) {
        if at.follows(self.allocated.stream, self.allocated.sequence) {
            let last = self.uses.entry(at.stream).or_default();
            *last = (*last).max(at.sequence);
        }
    }

    /// A stream that used the block in work that is not ordered before `at`.
    fn unordered_use(&self, at: &Point) -> Option<u64> {
        let mut uses = self.uses.iter().map(|(&stream, &sequence)| (stream, sequence)).chain(self.last_write);
        uses.find(|&(stream, sequence)| !at.follows(stream, sequence)).map(|(stream, _)| stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_freed_blocks_are_forgotten() {
        let point = Point { stream: 0, sequence: 1, before: Arc::default() };
        let mut memory = Memory::new(0, 1);
        let mut addresses = (0..REMEMBERED + 2).map(|_| {
            let address = memory.allocate(1, point.clone()).unwrap();
            memory.free(address, &point).unwrap();
            address
        });
        let first = addresses.next().unwrap();
        let last = addresses.last().unwrap();
        assert_eq!((memory.blocks.len(), memory.freed.len(), memory.available()), (REMEMBERED, REMEMBERED, 1));
        assert!(memory.read(&point, last, 1).unwrap_err().report.contains("was freed on stream 0"));
        assert!(memory.read(&point, first, 1).unwrap_err().report.contains("no block"));
    }
}
