//! From a batch to copies on the stream: what was collected is checked, arranged, gathered, and submitted.

use super::batch::{CopyBatch, TrackedEnd};
use super::lists::{Lists, Source, emptied};
use super::pending::{CopyBatchError, PendingCopies};
use super::plan::{End, Plan, Request};
use super::staging::Lease;
use crate::backend::Backend;
use crate::error::{Error, ErrorKind};

impl<'a, B: Backend> CopyBatch<'a, B> {
    /// Submits all copies on the stream, behind the work that it was given. Returns without waiting for them, but waits for an
    /// older batch where staging is at its cap.
    ///
    /// # Errors
    /// Before anything is submitted: when a range is null or passes the last address, copies depend on their order, memory
    /// belongs to another stream or device, or staging is not to be had. Afterwards: when the driver refuses a copy; no further
    /// ones are submitted then, and the error tells which were.
    pub fn submit(self) -> Result<PendingCopies<'a, B>, CopyBatchError<B>> {
        let Self { staging, lists, mut tracked, refused, not_capturable, id } = self;
        let Lists { plan, sources, targets, owned } = lists;
        // A handle of its own: tracked memory holds on to the stream until the copies are submitted.
        let home = staging.clone();
        let (stream, mut uses) = (home.stream(), Vec::new());
        let mut pending = PendingCopies::new(staging.lease(plan, owned), id, targets);
        let prepared = is_capturing::<B>(stream, refused, not_capturable).and_then(|is_capturing| {
            begin(stream, &mut tracked, &mut pending.lease.lists.plan, &mut uses)?;
            fill(&mut pending.lease, stream, sources, is_capturing)?;
            Ok(is_capturing)
        });
        let submitted = prepared.map(|is_capturing| pending.lease.submit(is_capturing));
        B::end_uses(stream, uses);
        match submitted {
            Ok(Ok(())) => Ok(pending),
            Ok(Err(failure)) => Err(CopyBatchError::after(failure, pending.lease)),
            Err(error) => Err(CopyBatchError::before(error)),
        }
    }
}

/// Whether the copies go to a graph. A graph keeps no borrow, and nobody could wait for its copies to the host.
fn is_capturing<B: Backend>(
    stream: &B::Stream,
    refused: Option<Error>,
    not_capturable: Option<u64>,
) -> Result<bool, Error> {
    let is_capturing = B::is_capturing(stream)?;
    match (not_capturable, refused) {
        (Some(entry), _) if is_capturing => Err(Error::new(ErrorKind::NotCapturable { entry })),
        (_, Some(error)) => Err(error),
        (_, None) => Ok(is_capturing),
    }
}

/// Lets the stream wait for what tracked memory waits for, and writes down where it is.
fn begin<'s, B: Backend>(
    stream: &'s B::Stream,
    tracked: &'s mut [TrackedEnd<'_, B>],
    plan: &mut Plan,
    uses: &mut Vec<B::Use<'s>>,
) -> Result<(), Error> {
    for TrackedEnd { owner, entry, is_source } in tracked {
        let (address, used) = owner.begin(stream)?;
        uses.push(used);
        let request = &mut plan.requests[*entry];
        *(if *is_source { &mut request.source } else { &mut request.destination }) = End::Device(address);
    }
    Ok(())
}

/// Checks and arranges the copies, and fills their staging with what they read from it.
fn fill<B: Backend>(
    lease: &mut Lease<B>,
    stream: &B::Stream,
    sources: Vec<Source<'_>>,
    is_capturing: bool,
) -> Result<(), Error> {
    let plan = &mut lease.lists.plan;
    // A graph reads page-locked memory alone: captured, owned memory goes through staging too.
    let staged = if is_capturing { stage_owned(plan) } else { Vec::new() };
    plan.check()?;
    plan.arrange(|address| B::allocation_of(stream, address))?;
    lease.take_region(is_capturing)?;
    lease.write(|lists, staging| {
        let owned = staged.iter().map(|&(entry, owner)| (entry, lists.owned[owner].bytes()));
        for (entry, bytes) in sources.iter().map(|source| (source.entry, source.bytes)).chain(owned) {
            let Request { offset, len, .. } = lists.plan.requests[entry];
            staging[offset..offset + len].copy_from_slice(bytes);
        }
    });
    lease.lists.sources = emptied(sources);
    if is_capturing {
        lease.lists.owned.clear();
    }
    Ok(())
}

/// Has owned memory go through staging, each for the copy that it is given with.
fn stage_owned(plan: &mut Plan) -> Vec<(usize, usize)> {
    let mut staged = Vec::new();
    for (entry, request) in plan.requests.iter_mut().enumerate() {
        if let (End::Owned(owner), 1..) = (request.source, request.len) {
            request.source = End::Staged;
            staged.push((entry, owner));
        }
    }
    staged
}
