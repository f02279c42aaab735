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
    entries: Vec<Entry>,
    memories: Vec<Memory<'a, B>>,
    sources: Vec<&'a [u8]>,
    owned: Vec<Arc<dyn HostMemory>>,
    targets: Vec<&'a mut [u8]>,
    id: u64,
}

/// One copy: where its two ends are among the batch's lists.
struct Entry {
    source: Side,
    destination: Side,
    /// Bytes.
    len: usize,
}

#[derive(Clone, Copy)]
enum Side {
    Memory(usize),
    Borrowed(usize),
    Owned(usize),
    /// Staging that a ticket is for.
    Ticket,
}

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
            sources: Vec::new(),
            owned: Vec::new(),
            targets: Vec::new(),
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
        let destination = self.memory(bytes, destination.into_memory());
        self.sources.push(bytemuck::cast_slice(source));
        self.add(Side::Borrowed(self.sources.len() - 1), destination, bytes)
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
        let destination = self.memory(bytes, destination.into_memory());
        self.owned.push(owner);
        self.add(Side::Owned(self.owned.len() - 1), destination, bytes)
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
        let source = self.memory(bytes, source.into_memory());
        self.targets.push(bytemuck::cast_slice_mut(destination));
        self.add(source, Side::Borrowed(self.targets.len() - 1), bytes)
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
        let source = self.memory(bytes, source.into_memory());
        self.add(source, Side::Ticket, bytes)?;
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
        let source = self.memory(bytes, source.into_memory());
        let destination = self.memory(bytes, destination.into_memory());
        self.add(source, destination, bytes)
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
            let targets = self.targets_at(&offsets);
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
        let addresses = memories.iter_mut().map(|memory| memory.begin(stream, uses)).collect::<Result<Vec<_>, _>>()?;
        let requests = self.requests(&addresses, is_capturing);
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
        let is_address = |side| !matches!(side, Side::Memory(index) if !matches!(memories[index], Memory::Address(_)));
        let refused = |entry: &Entry| {
            let goes_to_host = !matches!(entry.destination, Side::Memory(_));
            entry.len != 0 && (goes_to_host || !is_address(entry.source) || !is_address(entry.destination))
        };
        match self.entries.iter().position(refused) {
            Some(entry) => Err(Error::new(ErrorKind::NotCapturable { entry: entry as u64 })),
            None => Ok(()),
        }
    }

    /// The copies by address. Captured, owned memory goes through staging too: a graph reads page-locked memory alone.
    fn requests(&self, addresses: &[u64], is_capturing: bool) -> Vec<Request> {
        let end = |side| match side {
            Side::Memory(index) => End::Device(addresses[index]),
            Side::Owned(index) if !is_capturing => End::Owned(index),
            Side::Borrowed(_) | Side::Owned(_) | Side::Ticket => End::Staged,
        };
        let request = |entry: &Entry| match entry.len {
            0 => Request { source: End::Staged, destination: End::Staged, len: 0 },
            len => Request { source: end(entry.source), destination: end(entry.destination), len },
        };
        self.entries.iter().map(request).collect()
    }

    /// Copies what is read from staging to its place there.
    fn gather(&self, requests: &[Request], offsets: &[usize], staging: &mut [u8]) {
        for ((entry, request), &offset) in self.entries.iter().zip(requests).zip(offsets) {
            let bytes = match entry.source {
                Side::Borrowed(index) if entry.len != 0 => self.sources[index],
                Side::Owned(index) if entry.len != 0 && request.source == End::Staged => self.owned[index].bytes(),
                _ => continue,
            };
            staging[offset..offset + entry.len].copy_from_slice(bytes);
        }
    }

    /// The borrowed destinations, each with its place.
    fn targets_at(&mut self, offsets: &[usize]) -> Vec<Target<'a>> {
        let borrowed = |(entry, &offset): (&Entry, &usize)| match entry.destination {
            Side::Borrowed(_) => Some((offset, entry.len)),
            _ => None,
        };
        let places = self.entries.iter().zip(offsets).filter_map(borrowed);
        places
            .zip(core::mem::take(&mut self.targets))
            .filter(|((_, len), _)| *len != 0)
            .map(|((offset, _), bytes)| Target { offset, bytes })
            .collect()
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
    fn memory(&mut self, bytes: usize, memory: Memory<'a, B>) -> Side {
        if bytes != 0 {
            self.memories.push(memory);
        }
        Side::Memory(self.memories.len().wrapping_sub(1))
    }

    fn add(&mut self, source: Side, destination: Side, len: usize) -> Result<(), Error> {
        self.entries.push(Entry { source, destination, len });
        Ok(())
    }
}

impl<B: Backend> fmt::Debug for CopyBatch<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyBatch").field("copies", &self.entries.len()).finish_non_exhaustive()
    }
}
