//! The arguments of a captured graph: what a replay with other arguments takes.
//!
//! Each graph copies the arguments from page-locked memory and launches the kernel that reads them.

use cudarc::driver::CudaGraph;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use marshal::cuda::Cuda;
use marshal::{ArgCache, CapturedGraph, DeviceArgs, Uploaded};

use super::args::{COLUMNS, GroupedGemm, GroupedGemmPointers, Touch};
use super::gpu::{Device, Gpu, Pinned};
use super::kernel::Kernel;
use super::measure::{Effort, Subject, back_to_back, in_turns, pipelined, single};
use super::ours::addresses;
use super::record::{Row, Table};
use super::way::Side;

pub(crate) const ALONE: &str = "raw graph launch, source untouched";
pub(crate) const HAND: &str = "nine memcpys into the source, raw graph launch";
pub(crate) const NINE: &str = "nine pinned columns written in place, graph of nine copies";
pub(crate) const REFRESHED: &str = "marshal, refresh and launch";

/// What a graph launches behind its copies.
pub(crate) type Launch<'k> = &'k dyn Fn([u64; COLUMNS]);

/// One way of replaying with other arguments.
pub(crate) trait Replay {
    /// Replays with the arguments of call `number`.
    fn replay(&mut self, number: u64);
    fn args(&self) -> &GroupedGemm;
}

/// The arguments' image in page-locked memory, and a graph that copies it.
pub(crate) struct OneCopy {
    args: GroupedGemm,
    touch: Option<Touch>,
    source: Pinned,
    _device: Device,
    graph: CudaGraph,
}

impl OneCopy {
    /// Without a `touch` the source stays as it is.
    pub(crate) fn new(gpu: &Gpu, args: GroupedGemm, touch: Option<Touch>, launch: Launch<'_>) -> Self {
        let (offsets, bytes) = args.offsets(16);
        let (mut source, device) = (Pinned::new(bytes), Device::new(bytes));
        args.pack_by_hand(source.write());
        let graph = capture(gpu, || {
            device.copy(&source, bytes, gpu);
            launch(offsets.map(|offset| device.address + offset as u64));
        });
        Self { args, touch, source, _device: device, graph }
    }
}

impl Replay for OneCopy {
    fn replay(&mut self, number: u64) {
        if let Some(touch) = self.touch {
            self.args.touch(touch, number);
            self.args.pack_by_hand(self.source.write());
        }
        self.graph.launch().expect("launched");
    }

    fn args(&self) -> &GroupedGemm {
        &self.args
    }
}

/// The columns in page-locked memory, and a graph that copies each.
pub(crate) struct NineCopies {
    args: GroupedGemm,
    touch: Touch,
    columns: [Pinned; COLUMNS],
    _devices: [Device; COLUMNS],
    graph: CudaGraph,
}

impl NineCopies {
    pub(crate) fn new(gpu: &Gpu, args: GroupedGemm, touch: Touch, launch: Launch<'_>) -> Self {
        let columns = args.columns().map(Pinned::holding);
        let devices = args.columns().map(|column| Device::new(column.len()));
        let graph = capture(gpu, || {
            for (device, column) in devices.iter().zip(&columns) {
                device.copy(column, column.read().len(), gpu);
            }
            launch(devices.each_ref().map(|device| device.address));
        });
        Self { args, touch, columns, _devices: devices, graph }
    }
}

impl Replay for NineCopies {
    fn replay(&mut self, number: u64) {
        self.args.touch(self.touch, number);
        let (column, row) = self.touch.place(self.args.groups());
        self.columns[column].write()[row * 8..row * 8 + 8].copy_from_slice(&Touch::word(number).to_ne_bytes());
        self.graph.launch().expect("launched");
    }

    fn args(&self) -> &GroupedGemm {
        &self.args
    }
}

/// An upload in a graph of marshal's own: its arguments are refreshed, guarded against the launches under way.
pub(crate) struct Refreshed {
    args: GroupedGemm,
    touch: Touch,
    graph: CapturedGraph<Uploaded<GroupedGemmPointers, Cuda>, Cuda>,
}

impl Refreshed {
    pub(crate) fn new(gpu: &Gpu, args: GroupedGemm, touch: Touch, launch: Launch<'_>) -> Self {
        let cache = ArgCache::new(&gpu.stream).expect("a stream of its own");
        cache.reserve(&args.layout().expect("it fits")).expect("memory for it");
        gpu.settle();
        let captured = cache.capture(|_| {
            let set = args.upload(&cache)?;
            launch(addresses(&set));
            Ok(set)
        });
        Self { graph: captured.expect("the stream is idle"), args, touch }
    }
}

impl Replay for Refreshed {
    fn replay(&mut self, number: u64) {
        self.args.touch(self.touch, number);
        self.graph.refresh(|set| set, &self.args).expect("the same shape");
        self.graph.launch().expect("launched");
    }

    fn args(&self) -> &GroupedGemm {
        &self.args
    }
}

/// The graph of what `give` gives to the stream.
pub(crate) fn capture(gpu: &Gpu, give: impl FnOnce()) -> CudaGraph {
    gpu.settle();
    gpu.stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED).expect("the stream is idle");
    give();
    let graph = gpu.stream.end_capture(CUgraphInstantiate_flags(0)).expect("it was captured").expect("it holds work");
    graph.upload().expect("the graph is on the device");
    graph
}

/// The ways, set up with what they launch. A graph keeps what it launches with, not the closure.
pub(crate) fn replays<'g>(
    gpu: &'g Gpu,
    args: &GroupedGemm,
    touch: Touch,
    launch: Launch<'_>,
) -> Vec<(&'static str, Side, &'static str, Box<dyn Replay + 'g>)> {
    vec![
        (
            ALONE,
            Side::Limit,
            "cuGraphLaunch of 1 copy and a kernel",
            Box::new(OneCopy::new(gpu, args.clone(), None, launch)),
        ),
        (
            HAND,
            Side::Limit,
            "cuGraphLaunch of 1 copy and a kernel",
            Box::new(OneCopy::new(gpu, args.clone(), Some(touch), launch)),
        ),
        (
            NINE,
            Side::Peer,
            "cuGraphLaunch of 9 copies and a kernel",
            Box::new(NineCopies::new(gpu, args.clone(), touch, launch)),
        ),
        (
            REFRESHED,
            Side::Marshal,
            "cuGraphExecMemcpyNodeSetParams, cuGraphLaunch of 1 copy and a kernel",
            Box::new(Refreshed::new(gpu, args.clone(), touch, launch)),
        ),
    ]
}

pub(crate) fn run(gpu: &Gpu, kernel: &Kernel, groups: usize, effort: Effort) -> Table {
    let args = GroupedGemm::new(groups);
    let bytes = args.offsets(16).1;
    let mut ways = replays(gpu, &args, Touch::Early, &|addresses| kernel.launch(gpu, addresses, groups));
    let wrong: Vec<Option<String>> = ways.iter_mut().map(|way| check(&mut *way.3, gpu, kernel).err()).collect();
    let mut subjects: Vec<Subject<'_>> =
        ways.iter_mut().map(|way| subject(&mut *way.3, gpu, effort.calls, effort.singles)).collect();
    let timings = in_turns(&mut subjects, effort.rounds);
    drop(subjects);
    let rows = ways.iter().zip(timings).zip(wrong).map(|((way, timings), wrong)| Row {
        name: way.0.into(),
        side: way.1,
        calls: way.2.into(),
        note: String::new(),
        timings: if wrong.is_some() { Default::default() } else { timings },
        not_run: wrong,
    });
    Table { title: format!("{groups} groups, {bytes} bytes"), number: groups, bytes, rows: rows.collect() }
}

fn check(way: &mut dyn Replay, gpu: &Gpu, kernel: &Kernel) -> Result<(), String> {
    for number in [u64::from(u32::MAX) - 1, u64::from(u32::MAX)] {
        kernel.reset(gpu);
        way.replay(number);
        kernel.verdict(gpu, [way.args()])?;
    }
    Ok(())
}

/// Replays back to back, alone, and in a pipeline.
pub(crate) fn subject<'s>(way: &'s mut dyn Replay, gpu: &'s Gpu, calls: u64, singles: u64) -> Subject<'s> {
    let mut number = 0;
    Box::new(move |samples| {
        let mut next = || {
            number += 1;
            way.replay(number);
        };
        samples.back_to_back.push(back_to_back(gpu, calls, &mut next));
        samples.pipelined.push(pipelined(gpu, calls, &mut next));
        for _ in 0..singles {
            let (host, to_kernel) = single(gpu, &mut next);
            samples.host.push(host);
            samples.to_kernel.push(to_kernel);
        }
    })
}
