//! What people use today, each as the original does it. The addresses of the originals stand in the notes.

use cudarc::driver::{CudaSlice, DevicePtr};

use super::args::{COLUMNS, GroupedGemm, Touch};
use super::gpu::{BatchCopy, Device, Gpu, Pinned};
use super::way::{Consume, Entry, Job, Side, Way};

pub(crate) const EXAMPLE_24: &str = "CUTLASS example 24";
pub(crate) const KEPT: &str = "nine copies, kept allocations";
pub(crate) const EXTENSION: &str = "CUTLASS's generated extension";
pub(crate) const CUDARC: &str = "cudarc clone_htod a column";
pub(crate) const PINNED: &str = "nine pinned async copies";
pub(crate) const BATCHED: &str = "one batched copy of nine pinned";
pub(crate) const FLASHINFER: &str = "FlashInfer's plan";
pub(crate) const TRANSFORMER_ENGINE: &str = "TransformerEngine's multi-tensor";

pub(crate) const ENTRIES: [Entry; 8] = [
    Entry {
        name: EXAMPLE_24,
        side: Side::Peer,
        calls: "9 x (cuMemAlloc, cuMemcpyHtoD, cuMemFree)",
        note: "examples/24_gemm_grouped: a DeviceAllocation (tools/util device_memory.h) a column",
        setup: |job| Ok(Box::new(AllocateEach(Common::new(job)))),
    },
    Entry {
        name: KEPT,
        side: Side::Peer,
        calls: "9 x cuMemcpyHtoD",
        note: "the same with the allocations kept from call to call",
        setup: |job| Ok(Box::new(CopyEach { devices: job.args.columns().map(device_for), common: Common::new(job) })),
    },
    Entry {
        name: EXTENSION,
        side: Side::Peer,
        calls: "cuMemAlloc, cuMemcpyHtoD, cuMemFree",
        note: "python/cutlass/emit/pytorch.py, grouped: new uint8_t[], eight columns behind each other with 8-byte padding behind \
               the sizes, one DeviceAllocation; ldc serves as ldd there, so a group is 8 bytes less",
        setup: |job| Ok(Box::new(Extension(Common::new(job)))),
    },
    Entry {
        name: CUDARC,
        side: Side::Peer,
        calls: "9 x (cuMemAllocAsync, 2 cuEventCreate, cuMemcpyHtoDAsync from ordinary memory, cuEventRecord, 4 cuStreamWaitEvent, \
                cuMemFreeAsync, 2 cuEventDestroy)",
        note: "CudaStream::clone_htod, in a context with a created stream, where each slice is tracked by two events",
        setup: |job| Ok(Box::new(Slices(Common::new(job)))),
    },
    Entry {
        name: PINNED,
        side: Side::Peer,
        calls: "9 x cuMemcpyHtoDAsync from page-locked memory",
        note: "the columns live in page-locked memory and are written in place: nothing is packed, and nothing keeps the next call \
               from overwriting what a pending copy reads",
        setup: |job| Ok(Box::new(PinnedColumns::new(job, None))),
    },
    Entry {
        name: BATCHED,
        side: Side::Peer,
        calls: "cuMemcpyBatchAsync of 9, source read in stream order",
        note: "ICLDisco/parsec#791; columns in page-locked memory as above",
        setup: |job| {
            let batch = BatchCopy::find().ok_or("this driver has no cuMemcpyBatchAsync_v2")?;
            Ok(Box::new(PinnedColumns::new(job, Some(batch))))
        },
    },
    Entry {
        name: FLASHINFER,
        side: Side::Peer,
        calls: "cuMemcpyHtoDAsync from page-locked memory, of the bytes in use",
        note: "include/flashinfer/attention/scheduler.cuh: 16-byte offsets into one page-locked buffer, std::copy of each vector, one \
               copy. One buffer and no guard: wrong when the host runs ahead",
        setup: |job| Ok(Box::new(Plan::new(job))),
    },
    Entry {
        name: TRANSFORMER_ENGINE,
        side: Side::Peer,
        calls: "cuMemcpyHtoDAsync from ordinary memory",
        note: "transformer_engine/common/gemm/cutlass_grouped_gemm.cuh: one process-wide malloc of 4 MiB, columns at multiples of 128 \
               bytes, one copy; more than 4 MiB is refused. It has seven columns, here the nine",
        setup: |job| {
            let bytes = job.args.offsets(128).1;
            if bytes >= 4 << 20 {
                return Err(format!("the original refuses 4 MiB and more, this is {bytes} bytes"));
            }
            Ok(Box::new(Workspace::new(job)))
        },
    },
];

fn device_for(column: &[u8]) -> Device {
    Device::new(column.len())
}

/// What every peer has: the arguments as its caller has them.
struct Common<'g> {
    gpu: &'g Gpu,
    args: GroupedGemm,
    touch: Touch,
}

impl<'g> Common<'g> {
    fn new(Job { gpu, args, touch }: Job<'g>) -> Self {
        Self { gpu, args, touch }
    }
}

fn give(consume: Consume<'_>, columns: [u64; COLUMNS]) {
    if let Some(consume) = consume {
        consume(columns);
    }
}

struct AllocateEach<'g>(Common<'g>);

impl Way for AllocateEach<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        self.0.args.touch(self.0.touch, number);
        let devices = self.0.args.columns().map(|column| {
            let device = device_for(column);
            device.copy_now(0, column);
            device
        });
        give(consume, devices.each_ref().map(|device| device.address));
    }

    fn args(&self) -> &GroupedGemm {
        &self.0.args
    }
}

struct CopyEach<'g> {
    common: Common<'g>,
    devices: [Device; COLUMNS],
}

impl Way for CopyEach<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        self.common.args.touch(self.common.touch, number);
        for (device, column) in self.devices.iter().zip(self.common.args.columns()) {
            device.copy_now(0, column);
        }
        give(consume, self.devices.each_ref().map(|device| device.address));
    }

    fn args(&self) -> &GroupedGemm {
        &self.common.args
    }
}

struct Extension<'g>(Common<'g>);

impl Way for Extension<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        let Common { args, touch, .. } = &mut self.0;
        args.touch(*touch, number);
        let columns = args.columns();
        let of_eight: usize = columns[..8].iter().map(|column| column.len()).sum();
        // 8, where a multiple of 8 needs none, as there.
        let padding = 8 - of_eight % 8;
        let mut host = Vec::with_capacity(of_eight + padding);
        let device = Device::new(of_eight + padding);
        let mut offsets = [0; COLUMNS];
        for (index, column) in columns[..8].iter().enumerate() {
            offsets[index] = host.len();
            host.extend_from_slice(column);
            if index == 0 {
                host.resize(host.len() + padding, 0);
            }
        }
        offsets[8] = offsets[7];
        device.copy_now(0, &host);
        give(consume, offsets.map(|offset| device.address + offset as u64));
    }

    fn args(&self) -> &GroupedGemm {
        &self.0.args
    }
}

struct Slices<'g>(Common<'g>);

impl Way for Slices<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        let Common { gpu, args, touch } = &mut self.0;
        args.touch(*touch, number);
        let stream = &gpu.stream;
        let slices = args.columns().map(|column| stream.clone_htod(column).expect("copied"));
        if let Some(consume) = consume {
            let tracked = slices.each_ref().map(|slice: &CudaSlice<u8>| slice.device_ptr(stream));
            consume(tracked.each_ref().map(|&(address, _)| address));
        }
    }

    fn args(&self) -> &GroupedGemm {
        &self.0.args
    }
}

/// The columns in page-locked memory, for nine copies or one batch.
struct PinnedColumns<'g> {
    common: Common<'g>,
    columns: [Pinned; COLUMNS],
    devices: [Device; COLUMNS],
    batch: Option<BatchCopy>,
}

impl<'g> PinnedColumns<'g> {
    fn new(job: Job<'g>, batch: Option<BatchCopy>) -> Self {
        let columns = job.args.columns().map(Pinned::holding);
        let devices = job.args.columns().map(device_for);
        Self { common: Common::new(job), columns, devices, batch }
    }
}

impl Way for PinnedColumns<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        let Common { gpu, args, touch } = &mut self.common;
        // In both: these are what the check compares with, the page-locked ones are what is sent.
        args.touch(*touch, number);
        let (column, row) = touch.place(args.groups());
        self.columns[column].write()[row * 8..row * 8 + 8].copy_from_slice(&Touch::word(number).to_ne_bytes());
        match &self.batch {
            Some(batch) => batch.copy(&self.devices, &self.columns, gpu),
            None => {
                for (device, column) in self.devices.iter().zip(&self.columns) {
                    device.copy(column, column.read().len(), gpu);
                }
            }
        }
        give(consume, self.devices.each_ref().map(|device| device.address));
    }

    fn args(&self) -> &GroupedGemm {
        &self.common.args
    }
}

struct Plan<'g> {
    common: Common<'g>,
    buffer: Pinned,
    device: Device,
    offsets: [usize; COLUMNS],
    used: usize,
}

impl<'g> Plan<'g> {
    /// What vLLM and SGLang give it.
    const WORKSPACE: usize = 8 << 20;

    fn new(job: Job<'g>) -> Self {
        let (offsets, used) = job.args.offsets(16);
        let workspace = used.max(Self::WORKSPACE);
        let (buffer, device) = (Pinned::new(workspace), Device::new(workspace));
        Self { common: Common::new(job), buffer, device, offsets, used }
    }
}

impl Way for Plan<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        self.common.args.touch(self.common.touch, number);
        self.common.args.copy_to(&self.offsets, self.buffer.write());
        self.device.copy(&self.buffer, self.used, self.common.gpu);
        give(consume, self.offsets.map(|offset| self.device.address + offset as u64));
    }

    fn args(&self) -> &GroupedGemm {
        &self.common.args
    }
}

struct Workspace<'g> {
    common: Common<'g>,
    buffer: Vec<u8>,
    device: Device,
    offsets: [usize; COLUMNS],
}

impl<'g> Workspace<'g> {
    fn new(job: Job<'g>) -> Self {
        let (offsets, used) = job.args.offsets(128);
        Self { common: Common::new(job), buffer: vec![0; used], device: Device::new(used), offsets }
    }
}

impl Way for Workspace<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        self.common.args.touch(self.common.touch, number);
        self.common.args.copy_to(&self.offsets, &mut self.buffer);
        self.device.copy_pageable(&self.buffer, self.common.gpu);
        give(consume, self.offsets.map(|offset| self.device.address + offset as u64));
    }

    fn args(&self) -> &GroupedGemm {
        &self.common.args
    }
}
