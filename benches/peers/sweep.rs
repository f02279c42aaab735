//! All ways of bringing one set of arguments to the device, at one size, in turns; each is checked for right bytes first.

use super::args::{GroupedGemm, Touch};
use super::attempt::attempt;
use super::gpu::Gpu;
use super::kernel::Kernel;
use super::measure::{Effort, Subject, in_turns, subject};
use super::record::{Row, Table};
use super::way::{Entry, Job, Way};
use super::{limits, ours, theirs};

/// The ways, in the order of the table.
pub(crate) fn entries() -> impl Iterator<Item = Entry> {
    limits::ENTRIES.into_iter().chain(theirs::ENTRIES).chain(ours::ENTRIES)
}

/// A way that is set up, or the reason why not.
pub(crate) type Ready<'g> = (Entry, Result<Box<dyn Way + 'g>, String>);

pub(crate) fn run(gpu: &Gpu, kernel: &Kernel, groups: usize, effort: Effort) -> Table {
    let args = GroupedGemm::new(groups);
    let bytes = args.offsets(16).1;
    let mut ready: Vec<Ready<'_>> = entries()
        .map(|entry| {
            let job = Job { gpu, args: args.clone(), touch: Touch::Early };
            (entry, attempt(|| (entry.setup)(job).and_then(|way| checked(way, gpu, kernel))))
        })
        .collect();
    let mut subjects: Vec<Subject<'_>> =
        ready.iter_mut().filter_map(|(_, way)| Some(subject(&mut **way.as_mut().ok()?, gpu, kernel, effort))).collect();
    let mut timings = in_turns(&mut subjects, effort.rounds).into_iter();
    drop(subjects);
    let rows = ready.iter().map(|(entry, way)| match way {
        Ok(_) => row(entry, timings.next().unwrap_or_default()),
        Err(why) => Row { not_run: Some(why.clone()), ..row(entry, Default::default()) },
    });
    Table { title: format!("{groups} groups, {bytes} bytes"), number: groups, bytes, rows: rows.collect() }
}

pub(crate) fn row(entry: &Entry, timings: super::measure::Timings) -> Row {
    Row {
        name: entry.name.into(),
        side: entry.side,
        calls: entry.calls.into(),
        note: entry.note.into(),
        timings,
        not_run: None,
    }
}

/// The way, when the kernel has read the bytes of two calls right: the second finds what only the first brings.
fn checked<'g>(mut way: Box<dyn Way + 'g>, gpu: &Gpu, kernel: &Kernel) -> Result<Box<dyn Way + 'g>, String> {
    for number in [u64::from(u32::MAX) - 1, u64::from(u32::MAX)] {
        let groups = way.args().groups();
        kernel.reset(gpu);
        way.call(number, Some(&mut |addresses| kernel.launch(gpu, addresses, groups)));
        kernel.verdict(gpu, [way.args()])?;
    }
    Ok(way)
}
