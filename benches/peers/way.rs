//! One way of bringing the arguments to the device, and what is said of it.

use serde::Serialize;

use super::args::{COLUMNS, GroupedGemm, Touch};
use super::gpu::Gpu;

/// What uses the columns, at the addresses that it is given, before the way may free or rewrite them.
pub(crate) type Consume<'c> = Option<&'c mut dyn FnMut([u64; COLUMNS])>;

/// One way, set up for arguments of one size.
pub(crate) trait Way {
    /// Brings the arguments to the device, those of call `number`, and lets `consume` use them there.
    fn call(&mut self, number: u64, consume: Consume<'_>);

    /// The arguments of the last call: what has to stand on the device.
    fn args(&self) -> &GroupedGemm;
}

/// Who writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    /// No way of doing the job: what cannot be beaten, or is wrong without more.
    Limit,
    /// What people use today.
    Peer,
    Marshal,
}

/// What is set up: the arguments, and which of their elements is new in every call.
pub(crate) struct Job<'g> {
    pub(crate) gpu: &'g Gpu,
    pub(crate) args: GroupedGemm,
    pub(crate) touch: Touch,
}

/// Sets a way up, or says why it cannot do this job.
pub(crate) type Setup = for<'g> fn(Job<'g>) -> Result<Box<dyn Way + 'g>, String>;

/// An entry of the table.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) side: Side,
    /// The driver's calls, in order.
    pub(crate) calls: &'static str,
    /// Where it is from, and what it does or leaves out that another does not.
    pub(crate) note: &'static str,
    pub(crate) setup: Setup,
}
