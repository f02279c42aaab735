//! What a batch of copies is to a backend: places, lengths, and a failure that says how far it came.

use core::fmt;
use std::sync::Arc;

use super::Backend;
use crate::error::Error;

/// Host memory with an owner, which a batch keeps until its copies have run. The bytes stay where and what they are while the
/// owner lives.
pub trait HostMemory: Send + Sync {
    /// All of it. It may panic, so a backend asks for it before it submits the first copy.
    fn bytes(&self) -> &[u8];
}

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A device address.
    Device(u64),
    /// An offset in the batch's staging, in bytes.
    Staging(usize),
    /// The first bytes of one of the batch's owners: which of them.
    Owned(usize),
}

/// One copy of a batch. One end at least is on the device; host memory that is owned is read and never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCopy {
    /// Where the bytes are.
    pub source: Place,
    /// Where they go.
    pub destination: Place,
    /// How many; not 0.
    pub len: usize,
}

/// The host memory of a batch.
pub struct BatchMemory<'m, B: Backend> {
    /// Its staging.
    pub region: Option<&'m B::Region>,
    /// What it owns besides.
    pub owned: &'m [Arc<dyn HostMemory>],
}

/// A batch that was not submitted as a whole.
#[derive(Debug)]
pub struct BatchFailure {
    /// What the call returned.
    pub error: Error,
    /// The copy that it was about, where that is known.
    pub failed: Option<usize>,
    /// So many of the first copies have been submitted, or may have been.
    pub submitted: usize,
}

/// Device memory whose owner keeps account of the streams that use it.
pub trait Tracked<B: Backend>: Send {
    /// Lets `stream` wait for what it must not run beside. Gives the address, and what tells the owner, once the copies are
    /// submitted, that the stream uses the memory.
    ///
    /// # Errors
    /// When the memory cannot be used on this stream.
    fn begin<'s>(&'s mut self, stream: &'s B::Stream) -> Result<(u64, B::Use<'s>), Error>;
}

impl<B: Backend> fmt::Debug for BatchMemory<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchMemory")
            .field("staging", &self.region.is_some())
            .field("owned", &self.owned.len())
            .finish()
    }
}
