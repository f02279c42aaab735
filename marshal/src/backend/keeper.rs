//! What a captured graph keeps.

use std::sync::{Arc, Mutex, PoisonError};

/// A place in a captured graph, as [`Backend::keeper`](super::Backend::keeper) makes it. The graph has a clone; the last clone that
/// goes drops what was put there.
#[derive(Clone, Default)]
pub struct Keeper {
    // Locked to put something there, and never otherwise.
    kept: Arc<Mutex<Vec<Box<dyn Send>>>>,
}

impl Keeper {
    /// Keeps `what` as long as the graph and its launches are there.
    pub fn keep(&self, what: Box<dyn Send>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}
