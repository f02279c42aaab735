//! What a cache shares with the graphs that it was captured into, and the lock around it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::Backend;
use crate::error::Error;
use crate::lock::{Guard, Lock};
use crate::policy::CacheOptions;
use crate::slots::{Slot, State};

/// A cache, behind its handle. A graph keeps it, and with it the stream, while the graph lives.
pub(crate) struct Shared<B: Backend> {
    pub(crate) stream: B::Stream,
    pub(crate) options: CacheOptions,
    state: Lock<State<B>>,
    // Slots whose graph is gone. A lock of its own, which is held for a push and nothing else: a graph may go wherever a value
    // may be dropped, in a walk too.
    returned: Mutex<Vec<Box<Slot<B>>>>,
}

impl<B: Backend> Shared<B> {
    pub(crate) fn new(stream: &B::Stream, options: CacheOptions) -> Self {
        Self { stream: stream.clone(), options, state: Lock::new(State::default()), returned: Mutex::new(Vec::new()) }
    }

    /// Locks the state. Refused to a walk that runs under this very lock.
    #[inline]
    pub(crate) fn lock(&self) -> Result<Locked<'_, B>, Error> {
        Ok(Locked { state: self.state.lock()?, shared: self })
    }

    /// Whether this very thread has the lock.
    pub(crate) fn is_mine(&self) -> bool {
        self.state.is_mine()
    }

    /// Takes slots back whose graph is gone. They are in use again with the next call that looks for them.
    pub(crate) fn return_slots(&self, slots: impl IntoIterator<Item = Box<Slot<B>>>) {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).extend(slots);
    }

    fn take_returned(&self) -> Vec<Box<Slot<B>>> {
        core::mem::take(&mut *self.returned.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state, locked.
pub(crate) struct Locked<'c, B: Backend> {
    pub(crate) state: Guard<'c, State<B>>,
    shared: &'c Shared<B>,
}

impl<B: Backend> Locked<'_, B> {
    /// Has the slots join the cache whose graph is gone; whether there were any.
    #[cold]
    pub(crate) fn take_returned(&mut self) -> bool {
        // What graphs of the user's own have left.
        B::reclaim(&self.shared.stream);
        let returned = self.shared.take_returned();
        let any = !returned.is_empty();
        for slot in returned {
            self.state.take_back(slot);
        }
        any
    }
}

/// What a graph of the user's own keeps: a slot, until the graph is gone.
pub(crate) struct Kept<B: Backend> {
    shared: Arc<Shared<B>>,
    // None only while it is dropped.
    slot: Option<Box<Slot<B>>>,
}

impl<B: Backend> Kept<B> {
    pub(crate) fn new(shared: &Arc<Shared<B>>, slot: Box<Slot<B>>) -> Self {
        Self { shared: Arc::clone(shared), slot: Some(slot) }
    }
}

impl<B: Backend> Drop for Kept<B> {
    fn drop(&mut self) {
        self.shared.return_slots(self.slot.take());
    }
}
