//! What callers put into a batch, and how it is submitted.

use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{NoUninit, Pod};

use super::lists::{Lists, Source, Target};
use super::pending::Ticket;
use super::plan::{End, Request};
use super::range::{DeviceRange, DeviceRangeMut, Memory, On};
use super::staging::CopyStaging;
use crate::backend::{Backend, HostMemory, Tracked};
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
    pub(super) staging: CopyStaging<B>,
    pub(super) lists: Lists<'a>,
    pub(super) tracked: Vec<TrackedEnd<'a, B>>,
    // What `submit` will say: the first range that cannot be used on this stream.
    pub(super) refused: Option<Error>,
    // The first copy that a graph could not keep.
    pub(super) not_capturable: Option<u64>,
    pub(super) id: u64,
}

/// An end of a copy whose owner gives the address when the copy is submitted.
pub(super) struct TrackedEnd<'a, B: Backend> {
    pub(super) owner: Box<dyn Tracked<B> + 'a>,
    pub(super) entry: usize,
    pub(super) is_source: bool,
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
            lists: staging.lists(),
            tracked: Vec::new(),
            refused: None,
            not_capturable: None,
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
        if bytes != 0 {
            self.lists.sources.push(Source { entry: self.len(), bytes: bytemuck::cast_slice(source) });
        }
        let destination = self.memory(bytes, destination.into_memory(), false);
        self.add(End::Staged, destination, bytes);
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
        let destination = self.memory(bytes, destination.into_memory(), false);
        self.lists.owned.push(owner);
        self.add(End::Owned(self.lists.owned.len() - 1), destination, bytes);
        Ok(())
    }

    /// Copies device memory to `destination`, which is written by [`PendingCopies::wait`](super::PendingCopies::wait) and by nothing
    /// else.
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
        let source = self.memory(bytes, source.into_memory(), true);
        if bytes != 0 {
            self.lists.targets.push(Target { entry: self.len(), bytes: bytemuck::cast_slice_mut(destination) });
        }
        self.add(source, End::Staged, bytes);
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
        let ticket = Ticket::new(self.id, self.len(), bytes);
        let source = self.memory(bytes, source.into_memory(), true);
        self.add(source, End::Staged, bytes);
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
        let source = self.memory(bytes, source.into_memory(), true);
        let destination = self.memory(bytes, destination.into_memory(), false);
        self.add(source, destination, bytes);
        Ok(())
    }

    /// Copies that the batch was given, empty ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lists.plan.requests.len()
    }

    /// Whether it was given none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lists.plan.requests.is_empty()
    }

    /// Bytes of a copy between so many elements.
    #[inline]
    fn bytes<T>(&self, source: usize, destination: usize) -> Result<usize, Error> {
        let entry = self.len() as u64;
        if source != destination {
            let (source, destination) = (source as u64, destination as u64);
            return Err(Error::new(ErrorKind::CopyLength { entry, source, destination }));
        }
        let bytes = source.checked_mul(size_of::<T>());
        bytes.ok_or_else(|| Error::new(ErrorKind::TooLarge { needed: u64::MAX, available: usize::MAX as u64 }))
    }

    /// The device end of the copy that is added next; of an empty one nothing, whose address may be anything.
    #[inline]
    fn memory(&mut self, bytes: usize, memory: Memory<'a, B>, is_source: bool) -> End {
        let entry = self.len();
        if bytes == 0 {
            return End::Staged;
        }
        if let Memory::Address(address) = memory {
            return End::Device(address);
        }
        self.ordered_memory(entry, memory, is_source)
    }

    /// Of memory that is no mere address.
    fn ordered_memory(&mut self, entry: usize, memory: Memory<'a, B>, is_source: bool) -> End {
        self.not_capturable.get_or_insert(entry as u64);
        match memory.on(self.staging.stream()) {
            Ok(On::Address(address)) => End::Device(address),
            Ok(On::Tracked(owner)) => {
                self.tracked.push(TrackedEnd { owner, entry, is_source });
                End::Staged
            }
            Err(error) => {
                self.refused.get_or_insert(error);
                End::Staged
            }
        }
    }

    #[inline]
    fn add(&mut self, source: End, destination: End, len: usize) {
        if destination == End::Staged && len != 0 {
            // Nobody could wait for it.
            self.not_capturable.get_or_insert(self.len() as u64);
        }
        self.lists.plan.requests.push(Request { source, destination, len, offset: 0 });
    }
}

impl<B: Backend> fmt::Debug for CopyBatch<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyBatch").field("copies", &self.len()).finish_non_exhaustive()
    }
}
