//! What cannot be beaten: one raw copy, and what a careful hand writes.

use super::args::{COLUMNS, GroupedGemm, Touch};
use super::gpu::{Device, Gpu, Pinned};
use super::way::{Consume, Entry, Job, Side, Way};

pub(crate) const F: &str = "F: one raw copy, source untouched";
pub(crate) const L: &str = "L: nine memcpys and one raw copy";

pub(crate) const ENTRIES: [Entry; 2] = [
    Entry {
        name: F,
        side: Side::Limit,
        calls: "cuMemcpyHtoDAsync",
        note: "the floor of one copy: page-locked memory that nobody writes, so the arguments never change",
        setup: |job| {
            let mut image = vec![0; job.args.offsets(16).1];
            job.args.pack_by_hand(&mut image);
            Ok(Box::new(Floor { source: Pinned::holding(&image), block: Block::new(&job) }))
        },
    },
    Entry {
        name: L,
        side: Side::Limit,
        calls: "cuMemcpyHtoDAsync",
        note: "what a careful hand writes: nine memcpys with the right padding into one of two page-locked buffers in turn. No \
               lock, check, comparison or fence, so it is wrong when the host runs ahead",
        setup: |job| {
            let bytes = job.args.offsets(16).1;
            let touch = job.touch;
            Ok(Box::new(Hand { buffers: [Pinned::new(bytes), Pinned::new(bytes)], block: Block::new(&job), touch }))
        },
    },
];

/// One kept allocation, and the arguments that it is for.
struct Block<'g> {
    gpu: &'g Gpu,
    device: Device,
    columns: [u64; COLUMNS],
    bytes: usize,
    args: GroupedGemm,
}

impl<'g> Block<'g> {
    fn new(job: &Job<'g>) -> Self {
        let (offsets, bytes) = job.args.offsets(16);
        let device = Device::new(bytes);
        let columns = offsets.map(|offset| device.address + offset as u64);
        Self { gpu: job.gpu, device, columns, bytes, args: job.args.clone() }
    }

    fn copy(&self, source: &Pinned, consume: Consume<'_>) {
        self.device.copy(source, self.bytes, self.gpu);
        if let Some(consume) = consume {
            consume(self.columns);
        }
    }
}

struct Floor<'g> {
    source: Pinned,
    block: Block<'g>,
}

impl Way for Floor<'_> {
    fn call(&mut self, _: u64, consume: Consume<'_>) {
        self.block.copy(&self.source, consume);
    }

    fn args(&self) -> &GroupedGemm {
        &self.block.args
    }
}

struct Hand<'g> {
    buffers: [Pinned; 2],
    block: Block<'g>,
    touch: Touch,
}

impl Way for Hand<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        self.block.args.touch(self.touch, number);
        let [even, odd] = &mut self.buffers;
        let buffer = if number.is_multiple_of(2) { even } else { odd };
        self.block.args.pack_by_hand(buffer.write());
        self.block.copy(buffer, consume);
    }

    fn args(&self) -> &GroupedGemm {
        &self.block.args
    }
}
