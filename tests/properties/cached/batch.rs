//! The part of a program that is about batches of copies.

use std::sync::Arc;

use marshal::host::{Host, HostBuffer, HostStream};
use marshal::{CopyBatch, CopyStaging, DevicePointer, DeviceRange, DeviceRangeMut, Error, PendingCopies, Ticket};

use super::model::Model;
use super::run::{Held, Set, index};

/// A piece of the buffer: the first is written from the host, the second from a set, the third is read.
const PIECE: usize = 64;

/// Batches under way, and a buffer of the user's that they write.
pub(crate) struct Batches {
    staging: CopyStaging<Host>,
    buffer: HostBuffer<u8>,
    // What stands in it behind the work that was given so far; `None` where a batch has failed in part.
    content: Option<Vec<u8>>,
    pending: Vec<Pending>,
}

struct Pending {
    copies: PendingCopies<'static, Host>,
    /// What each has to bring; `None` where nobody knows.
    tickets: Vec<(Ticket<u8>, Option<Vec<u8>>)>,
    /// What the copies read, and of which blocks of the cache.
    sets: Vec<(Set, Option<u64>)>,
}

fn range(from: DevicePointer<u8>, len: usize) -> DeviceRange<'static, u8, Host> {
    // SAFETY: sets and buffer are of the batch's stream, and are kept until the copies have run: a set by the batch, the buffer by
    // `Batches`, which lets go of it last.
    unsafe { DeviceRange::from_raw(from, len) }
}

fn range_mut(to: DevicePointer<u8>, len: usize) -> DeviceRangeMut<'static, u8, Host> {
    // SAFETY: as for `range`; what else uses the buffer is given to the same stream.
    unsafe { DeviceRangeMut::from_raw(to, len) }
}

impl Batches {
    pub(crate) fn new(home: &HostStream) -> Self {
        let buffer = home.clone_htod(&[0_u8; 3 * PIECE]).unwrap();
        Self { staging: CopyStaging::new(home), buffer, content: Some(vec![0; 3 * PIECE]), pending: Vec::new() }
    }

    /// Fetches some sets and a piece of the buffer, and writes the two others.
    pub(crate) fn submit(
        &mut self,
        home: &HostStream,
        model: &mut Model,
        held: &[Held],
        [set, sets]: [usize; 2],
        byte: u8,
    ) {
        let at = |offset: usize| self.buffer.pointer().checked_add(offset).unwrap();
        // What a batch that has failed left there, nobody knows.
        let before = self.content.take().unwrap_or_else(|| {
            home.memset(at(0), 3 * PIECE, 0).unwrap();
            vec![0; 3 * PIECE]
        });
        let mut after = before.clone();
        let mut batch = CopyBatch::new(&self.staging);
        let len = usize::from(byte) % PIECE;
        batch.htod_owned(vec![byte; len], range_mut(at(0), len)).unwrap();
        after[..len].fill(byte);
        let mut tickets =
            vec![(batch.dtoh_owned(range(at(2 * PIECE), PIECE)).unwrap(), Some(before[2 * PIECE..].to_vec()))];
        let mut kept = Vec::new();
        let mut knows = true;
        for (number, held) in
            (0..sets).filter_map(|more| index(set.wrapping_add(more), held)).map(|set| &held[set]).enumerate()
        {
            let content = held.content.borrow().clone();
            let len = usize::try_from(held.set.layout().copy_bytes()).unwrap();
            if len == 0 {
                continue;
            }
            if number == 0 {
                let len = len.min(PIECE);
                batch.dtod(range(held.set.base(), len), range_mut(at(PIECE), len)).unwrap();
                match &content {
                    Some(content) => after[PIECE..PIECE + len].copy_from_slice(&content[..len]),
                    None => knows = false,
                }
            }
            tickets.push((batch.dtoh_owned(range(held.set.base(), len)).unwrap(), content));
            kept.push((Arc::clone(&held.set), held.generation));
        }
        match batch.submit() {
            Ok(copies) => {
                self.pending.push(Pending { copies, tickets, sets: kept });
                self.content = knows.then_some(after);
            }
            Err(mut error) => {
                // What was submitted is done before its memory goes.
                error.wait().unwrap_or_else(|error| model.expect_failure(&error));
                home.synchronize().unwrap();
                model.expect_failure(&Error::from(error));
            }
        }
    }

    /// The sets that batches keep.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &(Set, Option<u64>)> {
        self.pending.iter().flat_map(|pending| &pending.sets)
    }

    /// What a batch has fetched is what stood there when it was submitted; or nobody asks.
    pub(crate) fn settle(&mut self, model: &mut Model, batch: usize, wait: bool) {
        let Some(index) = index(batch, &self.pending) else { return };
        let Pending { copies, tickets, sets: _sets } = self.pending.swap_remove(index);
        if !wait {
            return drop(copies);
        }
        match copies.wait() {
            Ok(fetched) => {
                for (ticket, right) in &tickets {
                    let Some(right) = right else { continue };
                    assert_eq!(fetched.to_vec(ticket), *right, "a batch has fetched other bytes");
                }
            }
            Err(error) => model.expect_failure(&error),
        }
    }

    pub(crate) fn settle_all(&mut self, model: &mut Model) {
        while !self.pending.is_empty() {
            self.settle(model, 0, true);
        }
        if let Some(content) = &self.content {
            assert_eq!(self.buffer.to_vec().unwrap(), *content, "the buffer has other bytes than it was given");
        }
    }
}
