//! Events: points in a stream's work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::clock::Point;
use super::fault::{Call, Code};
use super::journal::Op;
use super::state::DeviceHandle;
use crate::error::Error;

/// A point in the work of a stream, as [`HostStream::record`](super::HostStream::record) makes it.
#[derive(Debug)]
pub struct HostFence {
    device: Arc<DeviceHandle>,
    event: u64,
    position: Position,
    polls: AtomicU32,
}

/// Where a fence stands.
#[derive(Clone, Debug)]
pub(super) enum Position {
    /// Behind work of a stream.
    Work(Point),
    /// In the capture of this stream.
    Capture(u64),
}

impl HostFence {
    pub(super) fn new(device: Arc<DeviceHandle>, event: u64, position: Position) -> Self {
        Self { device, event, position, polls: AtomicU32::new(0) }
    }

    pub(super) fn set_position(&mut self, position: Position) {
        self.position = position;
        self.polls = AtomicU32::new(0);
    }

    pub(super) fn device(&self) -> &Arc<DeviceHandle> {
        &self.device
    }

    pub(super) fn event(&self) -> u64 {
        self.event
    }

    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    /// Whether the work before the fence is done. Who asks [`HostOptions::polls`](super::HostOptions::polls) times wants to know:
    /// the work is begun, and the answer comes when it is done, or when nothing moves any more.
    ///
    /// ```
    /// use marshal::host::{HostDevice, HostOptions};
    ///
    /// let device = HostDevice::with_options(HostOptions { polls: 2, ..HostOptions::default() });
    /// let stream = device.stream();
    /// stream.launch(|_| {})?;
    /// let fence = stream.record()?;
    /// assert!(!fence.query()?);
    /// assert!(fence.query()?);
    /// # Ok::<(), marshal::Error>(())
    /// ```
    ///
    /// # Errors
    /// When that work broke a rule, the fence was recorded in a capture, or a stream of the device is capturing.
    pub fn query(&self) -> Result<bool, Error> {
        self.ask(false)
    }

    /// [`query`](Self::query), in relaxed mode: a capture of another stream does not forbid it.
    pub(super) fn query_relaxed(&self) -> Result<bool, Error> {
        self.ask(true)
    }

    fn ask(&self, is_relaxed: bool) -> Result<bool, Error> {
        let mut state = self.device.lock();
        let on = match &self.position {
            Position::Work(point) if is_relaxed => Some(point.stream),
            _ => None,
        };
        state.admit(Call::EventQuery, on)?;
        let Position::Work(point) = &self.position else { return Err(Call::EventQuery.error(Code::CapturedEvent)) };
        let Point { stream, sequence, .. } = *point;
        let is_patient = self.polls.fetch_add(1, Ordering::Relaxed) + 1 >= self.device.shared.options.polls;
        if is_patient && !state.queue(stream).has_done(sequence) {
            state = self.device.shared.wait_while_moving(state, stream, sequence);
        }
        let reached = state.queue(stream).has_done(sequence);
        if reached {
            state.report(stream, sequence)?;
            state.host_passed(point);
        }
        state.journal.enter(Op::EventQuery { event: self.event, reached });
        Ok(reached)
    }

    /// Waits, on the host, for the work before the fence.
    ///
    /// # Errors
    /// When that work broke a rule, or the fence was recorded in a capture.
    pub fn synchronize(&self) -> Result<(), Error> {
        let mut state = self.device.lock();
        let Position::Work(point) = &self.position else { return Err(Call::Synchronize.error(Code::CapturedEvent)) };
        state.admit(Call::Synchronize, Some(point.stream))?;
        let Point { stream, sequence, .. } = *point;
        state.journal.enter(Op::Synchronize { stream: Some(stream) });
        let mut state = self.device.shared.wait_for(state, stream, sequence);
        state.host_passed(point);
        state.report(stream, sequence)
    }
}
