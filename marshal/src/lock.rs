//! A lock that refuses the thread which has it already, instead of waiting for ever: walks over arguments are code of the user's.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind};

pub(crate) struct Lock<T> {
    value: Mutex<T>,
    // The thread that has the lock, by `here`; 0 for none.
    owner: AtomicUsize,
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), owner: AtomicUsize::new(0) }
    }

    /// Waits for another thread. Refused to the one that has the lock.
    #[inline]
    pub(crate) fn lock(&self) -> Result<Guard<'_, T>, Error> {
        if self.is_mine() {
            return Err(Error::new(ErrorKind::Reentrant));
        }
        // What is locked holds at every point at which a walk may panic: see the protocols.
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner.store(here(), Ordering::Relaxed);
        Ok(Guard { value, owner: &self.owner })
    }

    /// Whether this very thread has the lock, and would wait for itself.
    #[inline]
    pub(crate) fn is_mine(&self) -> bool {
        // Only this thread stores its own mark.
        self.owner.load(Ordering::Relaxed) == here()
    }
}

pub(crate) struct Guard<'l, T> {
    value: MutexGuard<'l, T>,
    owner: &'l AtomicUsize,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

/// A mark of this thread: the address of a thread-local. Never the 0 that means nobody; 1 while the thread ends.
#[inline]
fn here() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.try_with(|here| core::ptr::from_ref(here).addr()).unwrap_or(1)
}
