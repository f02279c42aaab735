//! Host memory that a pending copy still reads.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::fault::{Call, fault};
use super::journal::Op;
use super::memory::{POISON, Violation};
use super::state::{DeviceHandle, State};
use super::stream::HostStream;
use crate::error::{Error, ErrorKind};

/// Page-locked host memory, as `cuMemHostAlloc` gives it: a copy reads it when it runs, not when it is submitted.
///
/// Writing to it or dropping it before the copy has run is the mistake that the emulation finds: the device gets the wrong
/// bytes, and the next wait for the stream says so. Fresh and freed staging is poisoned.
///
/// ```
/// use marshal::host::HostDevice;
///
/// let device = HostDevice::new();
/// let stream = device.stream();
/// let block = stream.alloc::<u8>(4)?;
/// let staging = device.alloc_staging(4)?;
/// staging.write(0, &[1, 2, 3, 4]);
/// stream.copy_staging(&staging, 0..4, block.pointer())?;
/// staging.write(0, &[9; 4]); // the copy has not run yet
/// assert!(stream.synchronize().unwrap_err().to_string().contains("was rewritten"));
/// # Ok::<(), marshal::Error>(())
/// ```
#[derive(Debug)]
pub struct HostStaging {
    region: Arc<Region>,
    device: Arc<DeviceHandle>,
    // Regions that were not given to a stream to be freed; 0 where the memory is used as a whole.
    regions: AtomicUsize,
    release: Mutex<Release>,
}

/// What the journal knows of the end of staging.
#[derive(Clone, Copy, Debug)]
enum Release {
    /// Nothing yet.
    Owed,
    /// That it is freed.
    Entered,
    /// Nothing, for the call has failed: the memory stays.
    Failed,
}

/// The memory behind it, which pending copies hold too.
#[derive(Debug)]
pub(super) struct Region {
    content: Mutex<Content>,
    address: u64,
    size_bytes: u64,
    // Copies in live graphs that read it.
    readers: AtomicUsize,
}

#[derive(Debug)]
struct Content {
    bytes: Vec<u8>,
    freed: bool,
}

impl Region {
    fn with_content<R>(&self, use_content: impl FnOnce(&mut Content) -> R) -> R {
        use_content(&mut self.content.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HostStaging {
    /// For a stream: in relaxed mode, which leaves captures of other streams alone.
    pub(super) fn allocate(device: &Arc<DeviceHandle>, size_bytes: usize, stream: Option<u64>) -> Result<Self, Error> {
        let mut state = device.lock();
        state.admit(Call::HostAlloc, stream)?;
        let bytes = vec![POISON; size_bytes];
        let (address, size_bytes) = (bytes.as_ptr().addr() as u64, size_bytes as u64);
        state.journal.enter(Op::HostAlloc { address, size_bytes });
        drop(state);
        let region = Region {
            content: Mutex::new(Content { bytes, freed: false }),
            address,
            size_bytes,
            readers: AtomicUsize::new(0),
        };
        Ok(Self {
            region: Arc::new(region),
            device: device.clone(),
            regions: AtomicUsize::new(0),
            release: Mutex::new(Release::Owed),
        })
    }

    /// The host address of the first byte.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.region.address
    }

    /// Bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.region.size_bytes
    }

    /// Writes `bytes` from `offset` on, at once. No copy that is still to run reads them then: that is the caller's duty.
    ///
    /// # Panics
    /// When the bytes pass the end.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.with_bytes(|staging| staging[offset..offset + bytes.len()].copy_from_slice(bytes));
    }

    /// Lends the bytes to `edit`, to be packed in place. Copies that run meanwhile wait.
    pub fn with_bytes<R>(&self, edit: impl FnOnce(&mut [u8]) -> R) -> R {
        self.region.with_content(|content| edit(&mut content.bytes))
    }

    pub(super) fn source(&self, range: Range<usize>) -> Option<Source> {
        let lies_inside = range.start <= range.end && range.end as u64 <= self.region.size_bytes;
        lies_inside.then(|| Source::of_region(self.region.clone(), range))
    }

    pub(super) fn device(&self) -> &Arc<DeviceHandle> {
        &self.device
    }
}

impl Drop for HostStaging {
    fn drop(&mut self) {
        match *self.release.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Release::Entered => {}
            Release::Failed => return,
            Release::Owed => {
                let mut state = self.device.lock();
                // A driver's callback may not free page-locked memory.
                if let Err(error) = state.admit(Call::HostFree, None) {
                    state.fail_device(error);
                    return;
                }
                state.journal.enter(Op::HostFree { address: self.region.address, size_bytes: self.region.size_bytes });
            }
        }
        if self.region.readers.load(Ordering::Relaxed) != 0 {
            let (address, size_bytes) = (self.region.address, self.region.size_bytes);
            self.device.lock().fail_device(fault(format!(
                "staging of {size_bytes} bytes at {address:#x} was freed while a graph is alive that copies from it: keep it as long as the graph"
            )));
        }
        self.region.with_content(|content| {
            content.bytes.fill(POISON);
            content.freed = true;
        });
    }
}

/// A part of staging that one copy is made from.
#[derive(Debug)]
pub struct HostRegion {
    staging: Arc<HostStaging>,
    range: Range<usize>,
}

/// Regions that are freed when the last of these is dropped.
#[derive(Clone, Debug)]
pub(super) struct Retired(#[expect(dead_code, reason = "held for its drop")] Arc<Vec<HostRegion>>);

impl Retired {
    pub(super) fn new(regions: Vec<HostRegion>) -> Self {
        Self(Arc::new(regions))
    }
}

impl HostRegion {
    pub(super) fn allocate(stream: &HostStream, region_bytes: usize, regions: usize) -> Result<Vec<Self>, Error> {
        let size_bytes = region_bytes
            .checked_mul(regions)
            .ok_or_else(|| Error::new(ErrorKind::TooLarge { needed: u64::MAX, available: usize::MAX as u64 }))?;
        let staging = HostStaging::allocate(stream.device_handle(), size_bytes, Some(stream.id()))?;
        staging.regions.store(regions, Ordering::Relaxed);
        let staging = Arc::new(staging);
        let region =
            |index| Self { staging: Arc::clone(&staging), range: index * region_bytes..(index + 1) * region_bytes };
        Ok((0..regions).map(region).collect())
    }

    pub(super) fn with_bytes<R>(&self, edit: impl FnOnce(&mut [u8]) -> R) -> R {
        self.staging.with_bytes(|bytes| edit(&mut bytes[self.range.clone()]))
    }

    /// The first `len` bytes, as a copy reads them.
    pub(super) fn source(&self, len: usize) -> Result<Source, Error> {
        let start = self.range.start;
        let source = (len <= self.range.len()).then(|| self.staging.source(start..start + len)).flatten();
        source.ok_or_else(|| fault(format!("{len} bytes pass the end of the staging region of {}", self.range.len())))
    }

    /// Enters the release of the memory in the journal with the last of its regions, as the free of a block is entered when it is
    /// submitted. The memory goes when the work before it is done.
    pub(super) fn retire(&self, state: &mut State) {
        let staging = &self.staging;
        if staging.regions.fetch_sub(1, Ordering::Relaxed) != 1 {
            return;
        }
        let release = match state.strike(Call::HostFree) {
            Ok(()) => {
                let (address, size_bytes) = (staging.region.address, staging.region.size_bytes);
                state.journal.enter(Op::HostFree { address, size_bytes });
                Release::Entered
            }
            Err(error) => {
                state.fail_device(error);
                Release::Failed
            }
        };
        *staging.release.lock().unwrap_or_else(PoisonError::into_inner) = release;
    }
}

/// A part of staging that a copy from the device writes.
#[derive(Clone)]
pub(super) struct Target {
    region: Arc<Region>,
    range: Range<usize>,
}

impl Target {
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    pub(super) fn write(&self, bytes: &[u8]) {
        self.region.with_content(|content| content.bytes[self.range.clone()].copy_from_slice(bytes));
    }
}

impl HostRegion {
    /// `len` bytes from `offset` on, as a copy reads them.
    pub(super) fn source_at(&self, offset: usize, len: usize) -> Option<Source> {
        self.staging.source(self.part(offset, len)?)
    }

    /// `len` bytes from `offset` on, as a copy writes them.
    pub(super) fn target_at(&self, offset: usize, len: usize) -> Option<Target> {
        Some(Target { region: self.staging.region.clone(), range: self.part(offset, len)? })
    }

    fn part(&self, offset: usize, len: usize) -> Option<Range<usize>> {
        let (start, room) = (self.range.start, self.range.len());
        let end = offset.checked_add(len).filter(|&end| end <= room)?;
        Some(start + offset..start + end)
    }
}

/// What a copy to the device reads.
pub(super) enum Source {
    /// Bytes that the copy owns.
    Owned(Arc<Vec<u8>>),
    /// A part of staging, and what it held when the copy was submitted.
    Staging { region: Arc<Region>, range: Range<usize>, checksum: u64 },
}

impl Source {
    /// The same source as it is now.
    pub(super) fn again(&self) -> Self {
        match self {
            Self::Owned(bytes) => Self::Owned(bytes.clone()),
            Self::Staging { region, range, .. } => Self::of_region(region.clone(), range.clone()),
        }
    }

    /// A live graph begins, or ceases, to read it.
    pub(super) fn count_reader(&self, begins: bool) {
        if let Self::Staging { region, .. } = self {
            if begins {
                region.readers.fetch_add(1, Ordering::Relaxed);
            } else {
                region.readers.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn of_region(region: Arc<Region>, range: Range<usize>) -> Self {
        let checksum = region.with_content(|content| checksum(&content.bytes[range.clone()]));
        Self::Staging { region, range, checksum }
    }

    pub(super) fn address(&self) -> u64 {
        match self {
            Self::Owned(bytes) => bytes.as_ptr().addr() as u64,
            Self::Staging { region, range, .. } => region.address + range.start as u64,
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        match self {
            Self::Owned(bytes) => bytes.len() as u64,
            Self::Staging { range, .. } => range.len() as u64,
        }
    }

    /// Reads the bytes as they are now, right or wrong, and then says what is wrong with them.
    pub(super) fn read(&self, read: impl FnOnce(&[u8]) -> Result<(), Violation>) -> Result<(), Violation> {
        match self {
            Self::Owned(bytes) => read(bytes),
            Self::Staging { region, range, checksum: submitted } => region.with_content(|content| {
                let bytes = &content.bytes[range.clone()];
                read(bytes)?;
                let mistake = if content.freed {
                    "freed"
                } else if checksum(bytes) != *submitted {
                    "rewritten"
                } else {
                    return Ok(());
                };
                Err(Violation::new(format!(
                    "staging of {} bytes at {:#x} was {mistake} before the copy that reads it had run: wait for an event behind the copy first",
                    range.len(),
                    self.address()
                )))
            }),
        }
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
