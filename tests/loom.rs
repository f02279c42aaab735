//! A loom model of the cache's lease, run over every interleaving and every order that the memory model allows.
//!
//! It is a model, not the code: the same steps in the same order with loom's types (`cache.rs` tells the protocol, `block.rs` has
//! the counter). A block's bytes are a cell that loom watches: a write beside a read, or one that is not ordered behind it, fails.

#[path = "loom/ring.rs"]
mod ring;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// What stands on the device, and who works on it. Its own `Arc` is none of loom's: another stream reaches the memory without
/// holding the block.
struct Memory {
    bytes: UnsafeCell<u64>,
    lent: AtomicU64,
}

struct Block(std::sync::Arc<Memory>);

impl Memory {
    /// A kernel reads the arguments.
    fn read(&self) -> u64 {
        self.bytes.with(|bytes| {
            // SAFETY: loom checks that nobody writes meanwhile.
            unsafe { *bytes }
        })
    }
}

struct Set(Arc<Block>);

impl Set {
    fn read(&self) -> u64 {
        self.0.0.read()
    }
}

#[derive(Default)]
struct Cache {
    slots: Mutex<Vec<(Arc<Block>, u64)>>,
}

impl Cache {
    fn upload(&self, value: u64) -> Set {
        let mut slots = self.slots.lock().unwrap();
        // The same bytes: shared, held or not.
        if let Some((block, _)) = slots.iter().find(|(_, image)| *image == value) {
            return Set(Arc::clone(block));
        }
        // A block that no set holds, and that no other stream works on.
        for (block, image) in slots.iter_mut() {
            if let Some(free) = Arc::get_mut(block)
                && free.0.lent.load(Ordering::Acquire) == 0
            {
                free.0.bytes.with_mut(|bytes| {
                    // SAFETY: loom checks that nobody reads or writes meanwhile.
                    unsafe { *bytes = value }
                });
                *image = value;
                return Set(Arc::clone(block));
            }
        }
        let memory = Memory { bytes: UnsafeCell::new(value), lent: AtomicU64::new(0) };
        #[expect(clippy::arc_with_non_send_sync, reason = "loom checks who reaches the cell, and when")]
        let memory = std::sync::Arc::new(memory);
        let block = Arc::new(Block(memory));
        slots.push((Arc::clone(&block), value));
        Set(block)
    }
}

#[test]
fn a_held_set_is_never_rewritten() {
    loom::model(|| {
        let cache = Arc::new(Cache::default());
        let workers: Vec<_> = [1, 2]
            .map(|value| {
                let cache = Arc::clone(&cache);
                thread::spawn(move || {
                    let set = cache.upload(value);
                    assert_eq!(set.read(), value);
                    drop(set);
                    assert_eq!(cache.upload(value + 10).read(), value + 10);
                })
            })
            .into();
        let set = cache.upload(3);
        assert_eq!(set.read(), 3);
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(set.read(), 3);
    });
}

#[test]
fn sets_of_the_same_bytes_may_be_dropped_by_any_thread() {
    loom::model(|| {
        let cache = Arc::new(Cache::default());
        let (first, second) = (cache.upload(1), cache.upload(1));
        let worker = thread::spawn(move || assert_eq!(second.read(), 1));
        assert_eq!(first.read(), 1);
        drop(first);
        assert_eq!(cache.upload(2).read(), 2);
        worker.join().unwrap();
    });
}

#[test]
fn a_lent_block_is_written_only_when_it_was_given_back() {
    loom::model(|| {
        let cache = Arc::new(Cache::default());
        let set = cache.upload(1);
        // `on`: lent before the set may be dropped. The other stream does not hold the block.
        let memory = std::sync::Arc::clone(&set.0.0);
        memory.lent.fetch_add(1, Ordering::Relaxed);
        let other = thread::spawn(move || {
            assert_eq!(memory.read(), 1);
            // The set's stream waits for this one now; whoever sees that may write.
            memory.lent.fetch_sub(1, Ordering::Release);
        });
        drop(set);
        assert_eq!(cache.upload(2).read(), 2);
        other.join().unwrap();
        assert_eq!(cache.upload(3).read(), 3);
    });
}
