//! What callers put into a batch, and how it is submitted.

use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{NoUninit, Pod};

use super::pending::{CopyBatchError, PendingCopies, Target, Ticket};
use super::plan::{End, Plan, Request, check};
use super::range::{DeviceRange, DeviceRangeMut, Memory};
use super::staging::{CopyStaging, Lease};
use crate::backend::{Backend, HostMemory};
use crate::error::{Error, ErrorKind};

/// Copies in any direction, collected from as many callers as wish, and submitted together. [`crate::copies`] tells what holds.
///
/// Copies are named by number, from 0, in the order in which the batch was given them; empty ones count. In which order they run
/// is open: no copy may read or write what another one writes.
///
/// ```
/// use marshal::host::HostDevice;
/// use marshal::{CopyBatch, CopyStaging};
///
/// let stream = HostDevice::new().stream();
/// let staging = CopyStaging::new(&stream);
/// let (mut a, mut b) = (stream.alloc::<u32>(2)?, stream.alloc::<u8>(3)?);
/// let counts = stream.clone_htod(&[7_u64, 8])?;
///
/// let mut sums = [0_u64; 2];
/// let mut batch = CopyBatch::new(&staging);
/// batch.htod(&[1, 2], &mut a)?;
/// batch.htod_owned(vec![3, 4, 5], &mut b)?;
/// batch.dtoh(&counts, &mut sums)?;
/// let ticket = batch.dtoh_owned(&counts)?;
/// let fetched = batch.submit()?.wait()?; // without `wait`: the device goes on, and `sums` stays as it is
///
/// assert_eq!(fetched.to_vec(&ticket), [7, 8]);
/// assert_eq!((sums, a.to_vec()?, b.to_vec()?), ([7, 8], vec![1, 2], vec![3, 4, 5]));
/// # Ok::<(), marshal::Error>(())
/// ```
#[must_use = "nothing is copied before `submit`"]
pub struct CopyBatch<'a, B: Backend> {
    staging: CopyStaging<B>,
    entries: Vec<Entry<'a>>,
    // In the order in which the entries name them, the source of an entry first; none for an empty one.
    memories: Vec<Memory<'a, B>>,
    owned: Vec<Arc<dyn HostMemory>>,
    id: u64,
}

/// One copy.
struct Entry<'a> {
    source: Source<'a>,
    destination: Destination<'a>,
    /// Bytes.
    len: usize,
}

enum Source<'a> {
    /// The next of the batch's memories.
    Device,
    Borrowed(&'a [u8]),
    /// Which of the batch's owners.
    Owned(usize),
}

enum Destination<'a> {
    /// The next of the batch's memories.
    Device,
    Borrowed(&'a mut [u8]),
    /// Staging that a ticket is for.
    Ticket,
}

/// The lists have room for so many copies at first, a few kilobytes: most batches are no larger, and do not grow step by step.
const ROOM: usize = 64;

/// `S` as bytes.
struct Owner<T, S> {
    memory: S,
    element: PhantomData<fn() -> T>,
}

impl<T: NoUninit, S: AsRef<[T]> + Send + Sync> HostMemory for Owner<T, S> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.memory.as_ref())
    }
}

impl<'a, B: Backend> CopyBatch<'a, B> {
    /// An empty batch, for the stream of `staging`.
    pub fn new(staging: &CopyStaging<B>) -> Self {
        static BATCHES: AtomicU64 = AtomicU64::new(0);
        Self {
            staging: staging.clone(),
            entries: Vec::new(),
            memories: Vec::new(),
            owned: Vec::new(),
            id: BATCHES.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Copies `source` to the device. [`submit`](Self::submit) takes the bytes, through page-locked staging.
    ///
    /// # Errors
    /// When the lengths differ.
    pub fn htod<T: NoUninit>(
        &mut self,
        source: &'a [T],
        destination: impl Into<DeviceRangeMut<'a, T, B>>,
    ) -> Result<(), Error> {
        let destination = destination.into();
        let bytes = self.bytes::<T>(source.len(), destination.len())?;
        self.memory(bytes, destination.into_memory());
        self.add(Source::Borrowed(bytemuck::cast_slice(source)), Destination::Device, bytes);
        Ok(())
    }

    /// Copies `source` to the device from where it is, and keeps it until then: `Vec`, `Box<[T]>`, `Arc<[T]>`, `&'static [T]`, or
    /// page-locked memory behind a type of yours. For what is large: it is not copied on the host.
    ///
    /// # Errors
    /// When the lengths differ.
    pub fn htod_owned<T: NoUninit, S: AsRef<[T]> + Send + Sync + 'static>(
        &mut self,
        source: S,
        destination: impl Into<DeviceRangeMut<'a, T, B>>,
    ) -> Result<(), Error> {
        let destination = destination.into();
        let owner = Arc::new(Owner { memory: source, element: PhantomData });
        let bytes = self.bytes::<T>(owner.bytes().len() / size_of::<T>().max(1), destination.len())?;
        self.memory(bytes, destination.into_memory());
        self.add(Source::Owned(self.owned.len()), Destination::Device, bytes);
        self.owned.push(owner);
        Ok(())
    }

    /// Copies device memory to `destination`, which is written by [`PendingCopies::wait`] and by nothing else.
    ///
    /// # Errors
    /// When the lengths differ.
    pub fn dtoh<T: Pod>(
        &mut self,
        source: impl Into<DeviceRange<'a, T, B>>,
        destination: &'a mut [T],
    ) -> Result<(), Error> {
        let source = source.into();
        let bytes = self.bytes::<T>(source.len(), destination.len())?;
        self.memory(bytes, source.into_memory());
        self.add(Source::Device, Destination::Borrowed(bytemuck::cast_slice_mut(destination)), bytes);
        Ok(())
    }

    /// Copies device memory to the host; [`FetchedCopies`](super::FetchedCopies) gives it for the ticket. Nothing is borrowed on
    /// the host.
    ///
    /// # Errors
    /// When there are more bytes than this host can address.
    pub fn dtoh_owned<T: Pod>(&mut self, source: impl Into<DeviceRange<'a, T, B>>) -> Result<Ticket<T>, Error> {
        let source = source.into();
        let bytes = self.bytes::<T>(source.len(), source.len())?;
        let ticket = Ticket::new(self.id, self.entries.len(), bytes);
        self.memory(bytes, source.into_memory());
        self.add(Source::Device, Destination::Ticket, bytes);
        Ok(ticket)
    }

    /// Copies device memory to device memory.
    ///
    /// # Errors
    /// When the lengths differ.
    pub fn dtod<T>(
        &mut self,
        source: impl Into<DeviceRange<'a, T, B>>,
        destination: impl Into<DeviceRangeMut<'a, T, B>>,
    ) -> Result<(), Error> {
        let (source, destination) = (source.into(), destination.into());
        let bytes = self.bytes::<T>(source.len(), destination.len())?;
        self.memory(bytes, source.into_memory());
        self.memory(bytes, destination.into_memory());
        self.add(Source::Device, Destination::Device, bytes);
        Ok(())
    }

    /// Copies that the batch was given, empty ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it was given none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Submits all copies on the stream, behind the work that it was given. Returns without waiting for them, but waits for an
    /// older batch where staging is at its cap.
    ///
    /// # Errors
    /// Before anything is submitted: when a range is null or passes the last address, copies depend on their order, memory
    /// belongs to another stream or device, or staging is not to be had. Afterwards: when the driver refuses a copy; no further
    /// ones are submitted then, and the error tells which were.
    pub fn submit(mut self) -> Result<PendingCopies<'a, B>, CopyBatchError<B>> {
        let (staging, mut memories) = (self.staging.clone(), core::mem::take(&mut self.memories));
        let (stream, mut uses) = (staging.stream(), Vec::new());
        let prepared = self.prepare(stream, &mut memories, &mut uses);
        let submitted =
            prepared.map_err(CopyBatchError::before).and_then(|(mut lease, plan, is_capturing)| {
                match lease.submit(&plan.copies, is_capturing) {
                    Ok(()) => Ok((lease, plan.offsets)),
                    Err(failure) => Err(CopyBatchError::after(failure, lease, &plan)),
                }
            });
        B::end_uses(stream, uses);
        submitted.map(|(lease, offsets)| {
            let targets = targets_at(self.entries, &offsets);
            PendingCopies::new(lease, self.id, offsets, targets)
        })
    }

    /// All that comes before the first copy is submitted.
    fn prepare<'s>(
        &mut self,
        stream: &'s B::Stream,
        memories: &'s mut [Memory<'a, B>],
        uses: &mut Vec<B::Use<'s>>,
    ) -> Result<(Lease<B>, Plan, bool), Error> {
        let is_capturing = B::is_capturing(stream)?;
        if is_capturing {
            self.refuse_capture(memories)?;
        }
        let requests = self.requests(is_capturing, memories.iter_mut().map(|memory| memory.begin(stream, uses)))?;
        check(&requests)?;
        let plan = Plan::new(&requests, |address| B::allocation_of(stream, address))?;
        let mut lease = self.staging.lease(plan.staging_bytes, is_capturing)?;
        lease.write(|staging| self.gather(&requests, &plan.offsets, staging));
        if !is_capturing {
            lease.owned = core::mem::take(&mut self.owned);
        }
        Ok((lease, plan, is_capturing))
    }

    /// A graph keeps no borrow, and nobody could wait for its copies to the host.
    fn refuse_capture(&self, memories: &[Memory<'a, B>]) -> Result<(), Error> {
        let mut memories = memories.iter();
        let mut is_address = || matches!(memories.next(), Some(Memory::Address(_)));
        for (index, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.len != 0) {
            let reads_address = !matches!(entry.source, Source::Device) || is_address();
            let writes_address = matches!(entry.destination, Destination::Device) && is_address();
            if !(reads_address && writes_address) {
                return Err(Error::new(ErrorKind::NotCapturable { entry: index as u64 }));
            }
        }
        Ok(())
    }

    /// The copies by address; `addresses` are those of the memories. Captured, owned memory goes through staging too: a graph reads
    /// page-locked memory alone.
    fn requests(
        &self,
        is_capturing: bool,
        mut addresses: impl Iterator<Item = Result<u64, Error>>,
    ) -> Result<Vec<Request>, Error> {
        let mut device = || addresses.next().expect("each copy has given its memories").map(End::Device);
        let mut requests = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let len = entry.len;
            let source = match entry.source {
                _ if len == 0 => End::Staged,
                Source::Device => device()?,
                Source::Owned(index) if !is_capturing => End::Owned(index),
                Source::Borrowed(_) | Source::Owned(_) => End::Staged,
            };
            let destination = match entry.destination {
                Destination::Device if len != 0 => device()?,
                _ => End::Staged,
            };
            requests.push(Request { source, destination, len });
        }
        Ok(requests)
    }

    /// Copies what is read from staging to its place there.
    fn gather(&self, requests: &[Request], offsets: &[usize], staging: &mut [u8]) {
        for ((entry, request), &offset) in self.entries.iter().zip(requests).zip(offsets) {
            let bytes = match entry.source {
                Source::Borrowed(bytes) => bytes,
                Source::Owned(index) if entry.len != 0 && request.source == End::Staged => self.owned[index].bytes(),
                Source::Owned(_) | Source::Device => continue,
            };
            if entry.len != 0 {
                staging[offset..offset + entry.len].copy_from_slice(bytes);
            }
        }
    }

    /// Bytes of a copy between so many elements.
    fn bytes<T>(&self, source: usize, destination: usize) -> Result<usize, Error> {
        let entry = self.entries.len() as u64;
        if source != destination {
            let (source, destination) = (source as u64, destination as u64);
            return Err(Error::new(ErrorKind::CopyLength { entry, source, destination }));
        }
        let bytes = source.checked_mul(size_of::<T>());
        bytes.ok_or_else(|| Error::new(ErrorKind::TooLarge { needed: u64::MAX, available: usize::MAX as u64 }))
    }

    /// Keeps device memory; nothing of an empty range, whose address may be anything.
    fn memory(&mut self, bytes: usize, memory: Memory<'a, B>) {
        if self.memories.is_empty() {
            self.memories.reserve(ROOM);
        }
        if bytes != 0 {
            self.memories.push(memory);
        }
    }

    fn add(&mut self, source: Source<'a>, destination: Destination<'a>, len: usize) {
        if self.entries.is_empty() {
            self.entries.reserve(ROOM);
        }
        self.entries.push(Entry { source, destination, len });
    }
}

/// The borrowed destinations, each with its place.
fn targets_at<'a>(entries: Vec<Entry<'a>>, offsets: &[usize]) -> Vec<Target<'a>> {
    if !entries.iter().any(|entry| matches!(entry.destination, Destination::Borrowed(_))) {
        return Vec::new();
    }
    let target = |(entry, &offset): (Entry<'a>, &usize)| match entry.destination {
        Destination::Borrowed(bytes) if entry.len != 0 => Some(Target { offset, bytes }),
        _ => None,
    };
    entries.into_iter().zip(offsets).filter_map(target).collect()
}

impl<B: Backend> fmt::Debug for CopyBatch<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyBatch").field("copies", &self.entries.len()).finish_non_exhaustive()
    }
}
