//! What a submitted batch leaves behind: copies that may not have run, what they fetched, and how a failure is told.

use core::fmt;
use core::marker::PhantomData;

use bytemuck::Pod;

use super::lists::{Target, emptied};
use super::staging::Lease;
use crate::backend::{Backend, BatchFailure};
use crate::error::{Error, ErrorKind};

/// Copies that were submitted. [`wait`](Self::wait) hands out what they fetch.
///
/// It may be dropped at any time, and waits for nothing then: what the copies use on the host is kept until they have run, what they
/// fetch is lost, and borrowed destinations stay as they were. Work that the stream is given afterwards comes behind them.
#[must_use = "without `wait`, what the copies fetch is lost"]
pub struct PendingCopies<'a, B: Backend> {
    pub(super) lease: Lease<B>,
    batch: u64,
    targets: Vec<Target<'a>>,
}

impl<'a, B: Backend> PendingCopies<'a, B> {
    pub(crate) fn new(lease: Lease<B>, batch: u64, targets: Vec<Target<'a>>) -> Self {
        Self { lease, batch, targets }
    }

    /// Waits until the copies have run, and writes the borrowed destinations. Waits for what the stream was given meanwhile, too.
    ///
    /// # Errors
    /// When the copies, or work before them, failed: then no destination is written. When they were captured into a graph.
    pub fn wait(mut self) -> Result<FetchedCopies<B>, Error> {
        self.lease.wait()?;
        self.lease.read(|staging| {
            for Target { entry, bytes } in &mut self.targets {
                let offset = self.lease.lists.plan.requests[*entry].offset;
                bytes.copy_from_slice(&staging[offset..offset + bytes.len()]);
            }
        });
        self.lease.lists.targets = emptied(self.targets);
        Ok(FetchedCopies { lease: self.lease, batch: self.batch })
    }

    /// Lets the work that `other` is given from now on wait for the copies. The host does not wait.
    ///
    /// ```
    /// use marshal::host::HostDevice;
    /// use marshal::{CopyBatch, CopyStaging};
    ///
    /// let device = HostDevice::new();
    /// let (stream, other) = (device.stream(), device.stream());
    /// let mut words = stream.alloc::<u32>(2)?;
    /// let column = words.column();
    /// let mut batch = CopyBatch::new(&CopyStaging::new(&stream));
    /// batch.htod(&[1, 2], &mut words)?;
    /// batch.submit()?.order_before(&other)?;
    /// other.launch(move |memory| assert_eq!(memory.read(column), [1, 2]))?;
    /// other.synchronize()?;
    /// # stream.wait(&other.record()?)?;
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the driver has no event, or the streams are of different devices.
    pub fn order_before(&self, other: &B::Stream) -> Result<(), Error> {
        let stream = self.lease.stream();
        if B::is_same_stream(stream, other) {
            return Ok(());
        }
        if !B::is_same_device(stream, other) {
            let (expected, found) = (B::device_name(stream), B::device_name(other));
            return Err(Error::new(ErrorKind::WrongDevice { expected, found }));
        }
        B::wait(other, &B::record(stream)?)
    }
}

/// What the copies of one batch fetched, in its staging. Dropping it gives the staging to later batches.
pub struct FetchedCopies<B: Backend> {
    lease: Lease<B>,
    batch: u64,
}

/// Names one copy of [`CopyBatch::dtoh_owned`](super::CopyBatch::dtoh_owned).
#[must_use = "the ticket alone tells where the copy arrives"]
pub struct Ticket<T> {
    batch: u64,
    entry: usize,
    bytes: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Ticket<T> {
    pub(crate) fn new(batch: u64, entry: usize, bytes: usize) -> Self {
        Self { batch, entry, bytes, element: PhantomData }
    }
}

impl<B: Backend> FetchedCopies<B> {
    /// Lends the elements to `read`, where they arrived.
    ///
    /// # Panics
    /// When the ticket is one of another batch.
    pub fn read<T: Pod, R>(&self, ticket: &Ticket<T>, read: impl FnOnce(&[T]) -> R) -> R {
        assert_eq!(ticket.batch, self.batch, "the ticket belongs to another batch");
        if ticket.bytes == 0 {
            return read(&[]);
        }
        let offset = self.lease.lists.plan.requests[ticket.entry].offset;
        self.lease.read(|staging| {
            let bytes = &staging[offset..offset + ticket.bytes];
            if let Ok(elements) = bytemuck::try_cast_slice(bytes) {
                return read(elements);
            }
            // Neighbours on the device may share an odd offset.
            let mut elements = vec![T::zeroed(); ticket.bytes / size_of::<T>()];
            bytemuck::cast_slice_mut(&mut elements).copy_from_slice(bytes);
            read(&elements)
        })
    }

    /// The elements.
    ///
    /// # Panics
    /// When the ticket is one of another batch.
    #[must_use]
    pub fn to_vec<T: Pod>(&self, ticket: &Ticket<T>) -> Vec<T> {
        self.read(ticket, <[T]>::to_vec)
    }
}

/// A batch that was not submitted, or not as a whole.
///
/// Copies are named by number, in the order in which the batch was given them. Whatever was submitted is kept, on the host, until
/// the stream has passed it, be the error dropped or not; of what it fetched, nothing is handed out. Device memory that it writes
/// holds the old bytes or the new ones once the stream has run.
pub struct CopyBatchError<B: Backend> {
    // Boxed: the happy path moves one word.
    failed: Box<Failed<B>>,
}

struct Failed<B: Backend> {
    error: Error,
    failed: Vec<usize>,
    submitted: Vec<usize>,
    lease: Option<Lease<B>>,
}

impl<B: Backend> CopyBatchError<B> {
    #[cold]
    pub(crate) fn before(error: Error) -> Self {
        Self { failed: Box::new(Failed { error, failed: Vec::new(), submitted: Vec::new(), lease: None }) }
    }

    #[cold]
    pub(crate) fn after(failure: BatchFailure, lease: Lease<B>) -> Self {
        let failed = failure.failed.map_or(Vec::new(), |copy| lease.lists.plan.requests_of(copy));
        let submitted = lease.lists.plan.requests_of_first(failure.submitted);
        Self { failed: Box::new(Failed { error: failure.error, failed, submitted, lease: Some(lease) }) }
    }

    /// What went wrong.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.failed.error
    }

    /// The copies that the driver refused: one, or several that were submitted as one. None where the driver does not say, or was
    /// not asked.
    #[must_use]
    pub fn failed(&self) -> &[usize] {
        &self.failed.failed
    }

    /// The copies that were submitted, or may have been: none where the batch was refused before. The driver may have begun the one
    /// that it failed at, so that may be among them.
    #[must_use]
    pub fn submitted(&self) -> &[usize] {
        &self.failed.submitted
    }

    /// Waits until the stream has passed what was submitted. Nothing of the batch is in flight then.
    ///
    /// # Errors
    /// When that, or work before it, failed.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.failed.lease.as_mut().map_or(Ok(()), Lease::wait)
    }
}

impl<B: Backend> From<CopyBatchError<B>> for Error {
    fn from(error: CopyBatchError<B>) -> Self {
        error.failed.error
    }
}

impl<B: Backend> fmt::Display for CopyBatchError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failed { error, failed, submitted, .. } = &*self.failed;
        match (failed.as_slice(), submitted.len()) {
            ([], 0) => write!(f, "no copy was submitted: {error}"),
            ([], copies) => write!(f, "{copies} copies may have been submitted: {error}"),
            (failed, copies) => write!(f, "copies {failed:?} failed, {copies} may have been submitted: {error}"),
        }
    }
}

impl<B: Backend> fmt::Debug for CopyBatchError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failed { error, failed, submitted, .. } = &*self.failed;
        f.debug_struct("CopyBatchError")
            .field("error", error)
            .field("failed", failed)
            .field("submitted", submitted)
            .finish_non_exhaustive()
    }
}

impl<B: Backend> core::error::Error for CopyBatchError<B> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.failed.error)
    }
}

impl<B: Backend> fmt::Debug for PendingCopies<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCopies")
            .field("copies", &self.lease.lists.plan.requests.len())
            .field("captured", &self.lease.is_captured())
            .finish_non_exhaustive()
    }
}

impl<B: Backend> fmt::Debug for FetchedCopies<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchedCopies").field("copies", &self.lease.lists.plan.requests.len()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("entry", &self.entry).finish_non_exhaustive()
    }
}
