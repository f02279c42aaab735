//! Thirty-two sets at once, as the layers of a model have them: until all are on the device.

use marshal::cuda::Cuda;
use marshal::{ArgCache, Batch, DeviceArgs, Uploaded};

use super::args::{COLUMNS, GroupedGemm, GroupedGemmPointers, Touch};
use super::gpu::{Device, Gpu, Pinned};
use super::kernel::Kernel;
use super::measure::{Effort, Subject, back_to_back, in_turns, single};
use super::ours::addresses;
use super::record::{Row, Table};
use super::way::Side;

const LAYERS: usize = 32;

pub(crate) const RAW: &str = "one raw copy of all bytes, source untouched";
pub(crate) const HAND: &str = "32 packs by hand and one raw copy";
pub(crate) const EACH: &str = "marshal, 32 cached uploads, changed";
pub(crate) const BATCH: &str = "marshal, a batch of 32, changed";

/// What uses the columns of each layer.
type Consume<'c> = Option<&'c mut dyn FnMut([u64; COLUMNS])>;

/// One way of bringing all layers' arguments to the device.
trait Way {
    fn call(&mut self, number: u64, consume: Consume<'_>);
    fn args(&self) -> &[GroupedGemm];
}

struct Entry {
    name: &'static str,
    side: Side,
    calls: &'static str,
    setup: for<'g> fn(&'g Gpu, Vec<GroupedGemm>) -> Box<dyn Way + 'g>,
}

const ENTRIES: [Entry; 4] = [
    Entry {
        name: RAW,
        side: Side::Limit,
        calls: "cuMemcpyHtoDAsync",
        setup: |gpu, args| Box::new(Hand::new(gpu, args, false)),
    },
    Entry {
        name: HAND,
        side: Side::Limit,
        calls: "cuMemcpyHtoDAsync",
        setup: |gpu, args| Box::new(Hand::new(gpu, args, true)),
    },
    Entry {
        name: EACH,
        side: Side::Marshal,
        calls: "32 x cuMemcpyHtoDAsync",
        setup: |gpu, args| {
            let cache = ArgCache::new(&gpu.stream).expect("a stream of its own");
            Box::new(Each { cache, sets: Vec::with_capacity(args.len()), args })
        },
    },
    Entry {
        name: BATCH,
        side: Side::Marshal,
        calls: "cuMemcpyHtoDAsync",
        setup: |gpu, args| {
            let cache = ArgCache::new(&gpu.stream).expect("a stream of its own");
            Box::new(Together { cache, batch: Batch::new(args) })
        },
    },
];

pub(crate) fn run(gpu: &Gpu, kernel: &Kernel, groups: usize, effort: Effort) -> Table {
    let args = vec![GroupedGemm::new(groups); LAYERS];
    let bytes = LAYERS * args[0].offsets(16).1;
    let mut ways: Vec<_> = ENTRIES
        .iter()
        .map(|entry| {
            let mut way = (entry.setup)(gpu, args.clone());
            let verdict = check(&mut *way, gpu, kernel);
            (entry, way, verdict.err())
        })
        .collect();
    let mut subjects: Vec<Subject<'_>> = ways.iter_mut().map(|(_, way, _)| subject(&mut **way, gpu, effort)).collect();
    let timings = in_turns(&mut subjects, effort.rounds);
    drop(subjects);
    let rows = ways.into_iter().zip(timings).map(|((entry, _, wrong), timings)| Row {
        name: entry.name.into(),
        side: entry.side,
        calls: entry.calls.into(),
        note: String::new(),
        timings: if wrong.is_some() { Default::default() } else { timings },
        not_run: wrong,
    });
    Table {
        title: format!("{LAYERS} sets of {groups} groups, {bytes} bytes in all"),
        number: groups,
        bytes,
        rows: rows.collect(),
    }
}

/// Two calls, each read by a kernel a layer.
fn check(way: &mut dyn Way, gpu: &Gpu, kernel: &Kernel) -> Result<(), String> {
    let groups = way.args()[0].groups();
    for number in [u64::from(u32::MAX) - 1, u64::from(u32::MAX)] {
        kernel.reset(gpu);
        way.call(number, Some(&mut |addresses| kernel.launch(gpu, addresses, groups)));
        kernel.verdict(gpu, way.args())?;
    }
    Ok(())
}

fn subject<'s>(way: &'s mut dyn Way, gpu: &'s Gpu, effort: Effort) -> Subject<'s> {
    let mut number = 0;
    Box::new(move |samples| {
        samples.back_to_back.push(back_to_back(gpu, effort.calls, || {
            number += 1;
            way.call(number, None);
        }));
        for _ in 0..effort.singles {
            number += 1;
            let (host, to_idle) = single(gpu, || way.call(number, None));
            samples.host.push(host);
            samples.to_idle.push(to_idle);
        }
    })
}

/// Each layer other than its neighbours: a mix-up would be seen.
fn touch(args: &mut [GroupedGemm], number: u64) {
    for (layer, args) in args.iter_mut().enumerate() {
        args.touch(Touch::Early, number.wrapping_mul(LAYERS as u64).wrapping_add(layer as u64));
    }
}

/// One block, with the layers' images behind each other; without the packing it is the raw copy.
struct Hand<'g> {
    gpu: &'g Gpu,
    args: Vec<GroupedGemm>,
    buffers: [Pinned; 2],
    device: Device,
    bytes: usize,
    packs: bool,
}

impl<'g> Hand<'g> {
    fn new(gpu: &'g Gpu, args: Vec<GroupedGemm>, packs: bool) -> Self {
        let bytes = args[0].offsets(16).1;
        let all = bytes * args.len();
        let mut buffers = [Pinned::new(all), Pinned::new(all)];
        for buffer in &mut buffers {
            for (image, args) in buffer.write().chunks_exact_mut(bytes).zip(&args) {
                args.pack_by_hand(image);
            }
        }
        Self { gpu, args, buffers, device: Device::new(all), bytes, packs }
    }
}

impl Way for Hand<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        let [even, odd] = &mut self.buffers;
        let buffer = if number.is_multiple_of(2) { even } else { odd };
        if self.packs {
            touch(&mut self.args, number);
            for (image, args) in buffer.write().chunks_exact_mut(self.bytes).zip(&self.args) {
                args.pack_by_hand(image);
            }
        }
        self.device.copy(buffer, self.bytes * self.args.len(), self.gpu);
        if let Some(consume) = consume {
            let (offsets, _) = self.args[0].offsets(16);
            for layer in 0..self.args.len() {
                let base = self.device.address + (layer * self.bytes) as u64;
                consume(offsets.map(|offset| base + offset as u64));
            }
        }
    }

    fn args(&self) -> &[GroupedGemm] {
        &self.args
    }
}

/// An upload a layer; all sets are held until the step is over, as the layers' launches need them.
struct Each {
    cache: ArgCache<Cuda>,
    args: Vec<GroupedGemm>,
    sets: Vec<Uploaded<GroupedGemmPointers, Cuda>>,
}

impl Way for Each {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        touch(&mut self.args, number);
        self.sets.extend(self.args.iter().map(|args| args.upload(&self.cache).expect("uploaded")));
        if let Some(consume) = consume {
            self.sets.iter().for_each(|set| consume(addresses(set)));
        }
        self.sets.clear();
    }

    fn args(&self) -> &[GroupedGemm] {
        &self.args
    }
}

/// All layers as one set: one block and one copy.
struct Together {
    cache: ArgCache<Cuda>,
    batch: Batch<GroupedGemm>,
}

impl Way for Together {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        touch(self.batch.sets_mut(), number);
        let set = self.batch.upload(&self.cache).expect("uploaded");
        if let Some(consume) = consume {
            set.iter().for_each(|pointers| consume(addresses(pointers)));
        }
    }

    fn args(&self) -> &[GroupedGemm] {
        self.batch.sets()
    }
}
