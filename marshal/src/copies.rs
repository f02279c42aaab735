//! Copies that cannot be one: between memory that exists already, in any direction, submitted together, with a failure that says
//! how far it came.
//!
//! An upload is one copy. Arguments that must land in buffers which are there already, and results that come back from several sets,
//! are many: a [`CopyBatch`] collects them and gives them to the stream at once.
//!
//! # Who touches what
//!
//! No destructor has to run for any of this, so a value that is leaked with [`core::mem::forget`] breaks nothing.
//!
//! - **Borrowed host memory is touched by the calling thread alone**: [`submit`](CopyBatch::submit) reads the sources into page-locked
//!   staging, [`wait`](PendingCopies::wait) writes the destinations from it. The device never has their address; so the borrow of
//!   a source could end with `submit`, and a destination whose `PendingCopies` was dropped or leaked is just not written. What the
//!   host's copy costs the driver would spend as well: it stages pageable memory itself, call by call, and waits. What is large goes
//!   by value.
//! - **Owned host memory** is kept until a fence behind the copies has passed. It goes when the batch is waited for, with a later batch on
//!   the same [`CopyStaging`], or behind the stream's work when that is dropped. Staging goes back to its [`CopyStaging`] under the
//!   number of its batch, and is taken again only when that batch has run; leaked, it is not used again.
//! - **Device memory is freed and rewritten in the order of a stream**, and the order is made in `submit`, before it returns. A range
//!   of a set is taken on the set's own stream, behind whose work its block is freed, or through
//!   [`Uploaded::on`](crate::Uploaded::on). A slice of cudarc makes the stream wait for what is pending on the slice, and its
//!   events are recorded behind the copies, so that cudarc frees and rewrites it behind them. An address is yours to answer for,
//!   in an unsafe call: a pointer is a number, and written to it could be any memory that the device can reach.
//!
//! # What is submitted
//!
//! The batch is checked whole before: null, past the last address, destinations that overlap, a source that another copy writes.
//! Copies that are neighbours on the device and lie in one allocation become one, wherever their borrowed ends are on the host:
//! they are gathered in the order of the device's addresses.
//!
//! On CUDA a batch is one call of `cuMemcpyBatchAsync` where the driver has it (12.8 and later), and one call a copy where it may not
//! be used: on the legacy default stream, in a capture, where the device cannot use host addresses, and for one copy alone.
//! Whatever host memory it reads is owned by the batch.
//!
//! # What it costs
//!
//! A batch allocates nothing that the one before it had not, but for an owner each of what it owns. Copies that come in the order of
//! their addresses are not sorted. Besides the call that copies, the driver is asked whether the stream is being captured, and for the
//! current context; every 16 batches that use host memory, or behind 4 MiB, a fence is recorded, and about as often asked for.
//!
//! Staging takes 2 MiB before the driver is asked for it. A host that runs ahead finds twice as much whenever there is too little, up to
//! 64 MiB: to page-lock memory takes far longer than to copy through it.
//!
//! # When it fails
//!
//! [`CopyBatchError`] tells which copy failed, where the driver says, and which may have been submitted; nothing is submitted behind
//! a failure. What was submitted keeps its memory until the stream has passed it.
//!
//! # Capture
//!
//! On a stream that is being captured each copy becomes a node. It may go to the device alone, and device ranges are given by
//! address, since a graph outlives every borrow. All host memory goes through staging, which has to be there before, by
//! [`CopyStaging::reserve`], and which the graph keeps until it is gone.

mod batch;
mod lists;
mod overlap;
mod parked;
mod pending;
mod plan;
mod pool;
mod range;
mod staging;
mod submit;

pub use self::batch::CopyBatch;
pub use self::pending::{CopyBatchError, FetchedCopies, PendingCopies, Ticket};
pub(crate) use self::range::Memory;
pub use self::range::{DeviceRange, DeviceRangeMut};
pub use self::staging::CopyStaging;
