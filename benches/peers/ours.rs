//! marshal, in each of the ways that it offers for one set of arguments.

use marshal::cuda::Cuda;
use marshal::{ArgCache, DeviceArgs, Uploaded};

use super::args::{COLUMNS, Gemm, GroupedGemm, GroupedGemmPointers, Touch};
use super::gpu::Gpu;
use super::way::{Consume, Entry, Job, Side, Way};

pub(crate) const ONE_SHOT: &str = "marshal, one-shot";
pub(crate) const CHANGED: &str = "marshal, cached, changed";
pub(crate) const LAST: &str = "marshal, cached, only the last column changed";
pub(crate) const ROWS: &str = "marshal, cached, rows, changed";
pub(crate) const UNCHANGED: &str = "marshal, cached, unchanged";
pub(crate) const HELD: &str = "marshal, held";

pub(crate) const ENTRIES: [Entry; 6] = [
    Entry {
        name: ONE_SHOT,
        side: Side::Marshal,
        calls: "cuStreamIsCapturing, cuMemAllocAsync, cuMemcpyHtoDAsync from ordinary memory, cuEventRecord, cuMemFreeAsync",
        note: "args.upload(&stream)",
        setup: |Job { gpu, args, touch }| Ok(Box::new(OneShot { gpu, args, touch })),
    },
    Entry {
        name: CHANGED,
        side: Side::Marshal,
        calls: "cuStreamIsCapturing, cuMemcpyHtoDAsync from page-locked memory, an event once in many",
        note: "args.upload(&cache): one element of ptr_a is new",
        setup: |job| Ok(Box::new(Cached::new(job, true)?)),
    },
    Entry {
        name: LAST,
        side: Side::Marshal,
        calls: "cuStreamIsCapturing, cuMemcpyHtoDAsync from page-locked memory, an event once in many",
        note: "the last element of ldd is new: the comparison reads all columns first",
        setup: |job| Ok(Box::new(Cached::new(Job { touch: Touch::Last, ..job }, true)?)),
    },
    Entry {
        name: ROWS,
        side: Side::Marshal,
        calls: "cuStreamIsCapturing, cuMemcpyHtoDAsync from page-locked memory, an event once in many",
        note: "rows.upload(&cache): the columns are made of a slice of structs on the way",
        setup: |job| Ok(Box::new(CachedRows::new(job)?)),
    },
    Entry {
        name: UNCHANGED,
        side: Side::Marshal,
        calls: "cuStreamIsCapturing",
        note: "args.upload(&cache) of the same bytes: compared, and not copied",
        setup: |job| Ok(Box::new(Cached::new(job, false)?)),
    },
    Entry {
        name: HELD,
        side: Side::Marshal,
        calls: "none",
        note: "the caller keeps the set: nothing is called",
        setup: |job| {
            let set = job.args.upload(&job.gpu.stream).map_err(|error| error.to_string())?;
            Ok(Box::new(Held { set, args: job.args }))
        },
    },
];

/// The addresses of a set's columns.
pub(crate) fn addresses(pointers: &GroupedGemmPointers) -> [u64; COLUMNS] {
    [
        pointers.problem_sizes.pointer().address(),
        pointers.ptr_a.pointer().address(),
        pointers.ptr_b.pointer().address(),
        pointers.ptr_c.pointer().address(),
        pointers.ptr_d.pointer().address(),
        pointers.lda.pointer().address(),
        pointers.ldb.pointer().address(),
        pointers.ldc.pointer().address(),
        pointers.ldd.pointer().address(),
    ]
}

struct OneShot<'g> {
    gpu: &'g Gpu,
    args: GroupedGemm,
    touch: Touch,
}

impl Way for OneShot<'_> {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        self.args.touch(self.touch, number);
        let set = self.args.upload(&self.gpu.stream).expect("uploaded");
        if let Some(consume) = consume {
            consume(addresses(&set));
        }
    }

    fn args(&self) -> &GroupedGemm {
        &self.args
    }
}

struct Cached {
    cache: ArgCache<Cuda>,
    args: GroupedGemm,
    touch: Option<Touch>,
}

impl Cached {
    fn new(job: Job<'_>, changes: bool) -> Result<Self, String> {
        let cache = ArgCache::new(&job.gpu.stream).map_err(|error| error.to_string())?;
        Ok(Self { cache, args: job.args, touch: changes.then_some(job.touch) })
    }
}

impl Way for Cached {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        if let Some(touch) = self.touch {
            self.args.touch(touch, number);
        }
        let set = self.args.upload(&self.cache).expect("uploaded");
        if let Some(consume) = consume {
            consume(addresses(&set));
        }
    }

    fn args(&self) -> &GroupedGemm {
        &self.args
    }
}

struct CachedRows {
    cache: ArgCache<Cuda>,
    rows: Vec<Gemm>,
    // The same in columns, for the check.
    args: GroupedGemm,
    touch: Touch,
}

impl CachedRows {
    fn new(job: Job<'_>) -> Result<Self, String> {
        let cache = ArgCache::new(&job.gpu.stream).map_err(|error| error.to_string())?;
        Ok(Self { cache, rows: job.args.to_rows(), args: job.args, touch: job.touch })
    }
}

impl Way for CachedRows {
    fn call(&mut self, number: u64, consume: Consume<'_>) {
        self.args.touch(self.touch, number);
        let (_, row) = self.touch.place(self.rows.len());
        self.rows[row] = self.args.row(row);
        let set = self.rows.upload(&self.cache).expect("uploaded");
        if let Some(consume) = consume {
            consume(row_addresses(&set));
        }
    }

    fn args(&self) -> &GroupedGemm {
        &self.args
    }
}

fn row_addresses(pointers: &super::args::GemmPointers) -> [u64; COLUMNS] {
    [
        pointers.problem_size.pointer().address(),
        pointers.ptr_a.pointer().address(),
        pointers.ptr_b.pointer().address(),
        pointers.ptr_c.pointer().address(),
        pointers.ptr_d.pointer().address(),
        pointers.lda.pointer().address(),
        pointers.ldb.pointer().address(),
        pointers.ldc.pointer().address(),
        pointers.ldd.pointer().address(),
    ]
}

struct Held {
    set: Uploaded<GroupedGemmPointers, Cuda>,
    args: GroupedGemm,
}

impl Way for Held {
    fn call(&mut self, _: u64, consume: Consume<'_>) {
        if let Some(consume) = consume {
            consume(addresses(&self.set));
        }
    }

    fn args(&self) -> &GroupedGemm {
        &self.args
    }
}
