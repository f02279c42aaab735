//! What a run found, as data: the JSON that is kept, and what tables, plots and claims are made of.

use serde::Serialize;

use super::measure::{Spread, Timings};
use super::way::Side;

#[derive(Serialize)]
pub(crate) struct Run {
    pub(crate) machine: Machine,
    /// All ways, at each number of groups.
    pub(crate) sizes: Vec<Table>,
    /// Thirty-two sets at once.
    pub(crate) layers: Vec<Table>,
    /// The same through a CUDA graph.
    pub(crate) graphs: Vec<Table>,
    /// The grouped GEMM step.
    pub(crate) steps: Vec<Table>,
    /// The same in a graph.
    pub(crate) graph_steps: Vec<Table>,
    /// The same arguments for two devices.
    pub(crate) devices: Vec<Table>,
    /// What a cached upload is made of.
    pub(crate) pieces: Vec<Table>,
    pub(crate) counters: Vec<Counters>,
    /// Parts that could not run, and why.
    pub(crate) not_run: Vec<String>,
}

impl Run {
    pub(crate) fn new(machine: Machine) -> Self {
        Self {
            machine,
            sizes: Vec::new(),
            layers: Vec::new(),
            graphs: Vec::new(),
            steps: Vec::new(),
            graph_steps: Vec::new(),
            devices: Vec::new(),
            pieces: Vec::new(),
            counters: Vec::new(),
            not_run: Vec::new(),
        }
    }

    /// Everything that was timed.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        [&self.sizes, &self.layers, &self.graphs, &self.steps, &self.graph_steps, &self.devices, &self.pieces]
            .into_iter()
            .flatten()
    }
}

#[derive(Clone, Serialize)]
pub(crate) struct Machine {
    pub(crate) card: String,
    pub(crate) driver: String,
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) effort: String,
}

/// Subjects that took turns.
#[derive(Serialize)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Groups of each set; tokens in the steps.
    pub(crate) number: usize,
    /// Bytes that one raw copy of all arguments has.
    pub(crate) bytes: usize,
    pub(crate) rows: Vec<Row>,
}

#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) side: Side,
    pub(crate) calls: String,
    pub(crate) note: String,
    #[serde(flatten)]
    pub(crate) timings: Timings,
    /// Why there are no timings.
    pub(crate) not_run: Option<String>,
}

impl Table {
    pub(crate) fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The host time a call, back to back.
    pub(crate) fn back_to_back(&self, name: &str) -> Option<Spread> {
        self.row(name)?.timings.back_to_back
    }
}

/// What a thousand uploads of a warm cache took.
#[derive(Serialize)]
pub(crate) struct Counters {
    pub(crate) groups: usize,
    pub(crate) what: &'static str,
    pub(crate) uploads: u64,
    pub(crate) copies: u64,
    pub(crate) heap_allocations: u64,
    pub(crate) pinned_bytes: i128,
    pub(crate) block_allocations: u64,
    /// How many device bytes fewer are free, as the driver counts them.
    pub(crate) device_bytes: i128,
}

impl Counters {
    /// Nothing was taken. Memory that the driver gave back meanwhile is no fault.
    pub(crate) fn is_zero(&self) -> bool {
        self.heap_allocations == 0 && self.pinned_bytes == 0 && self.block_allocations == 0 && self.device_bytes <= 0
    }
}
