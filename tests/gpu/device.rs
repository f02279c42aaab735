//! A context with the tests' kernels, and the few raw calls that the tests make.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, LaunchConfig, PushKernelArg, result,
};
use cudarc::nvrtc::{Ptx, compile_ptx};
use marshal::{DeviceArgs, DeviceColumn, DevicePointer};

use crate::cases::Snapshot;

/// Sizes at which copies take different ways through the driver. Small ones pass by luck.
pub(crate) const SIZES: [usize; 3] = [64, 64 << 10, 4 << 20];

/// How long a gate stays closed at most: longer than any host work of a test.
const GATE_LIMIT: Duration = Duration::from_millis(400);

/// Whether compute-sanitizer watches: it makes the host ten times slower, and has device memory of its own.
pub(crate) fn is_watched() -> bool {
    std::env::var_os("WATCHED").is_some()
}

/// Bytes that were free before and are not any more.
pub(crate) fn lost(before: Option<usize>, after: Option<usize>) -> usize {
    before.zip(after).map_or(0, |(before, after)| before.saturating_sub(after))
}

pub(crate) struct Gpu {
    pub(crate) context: Arc<CudaContext>,
    module: Arc<CudaModule>,
}

#[derive(DeviceArgs)]
pub(crate) struct Words {
    pub(crate) words: Vec<u32>,
}

impl Words {
    /// `bytes` bytes that depend on `seed` everywhere.
    pub(crate) fn new(bytes: usize, seed: u32) -> Self {
        let len = u32::try_from(bytes / 4).unwrap();
        Self { words: (0..len).map(|i| i.wrapping_mul(2_654_435_761).wrapping_add(seed)).collect() }
    }

    /// What the kernel `checksum` makes of them.
    pub(crate) fn sum(&self) -> u64 {
        (1_u64..).zip(&self.words).fold(0, |sum, (i, &word)| sum.wrapping_add(i.wrapping_mul(word.into())))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }
}

impl Gpu {
    /// A context of its own: where no other is left, the device's context begins and ends with this one.
    pub(crate) fn new() -> Self {
        Self::on(0)
    }

    /// As [`new`](Self::new), on that device.
    pub(crate) fn on(ordinal: usize) -> Self {
        static PTX: OnceLock<Ptx> = OnceLock::new();
        let ptx = PTX.get_or_init(|| compile_ptx(include_str!("kernels.cu")).unwrap());
        let context = CudaContext::new(ordinal).unwrap();
        let module = context.load_module(ptx.clone()).unwrap();
        Self { context, module }
    }

    /// The device's free memory in bytes; `None` where it says nothing of ours.
    pub(crate) fn free_bytes(&self) -> Option<usize> {
        if is_watched() {
            println!("free memory is not compared: the watching tool has its own");
            return None;
        }
        Some(self.context.mem_get_info().unwrap().0)
    }

    pub(crate) fn function(&self, name: &str) -> CudaFunction {
        self.module.load_function(name).unwrap()
    }

    /// Streams of every kind that there is, with a name.
    pub(crate) fn streams(&self) -> Vec<(&'static str, Arc<CudaStream>)> {
        vec![
            ("legacy default", self.context.default_stream()),
            ("per-thread default", self.context.per_thread_stream()),
            ("created", self.context.new_stream().unwrap()),
            ("borrowed, blocking", self.borrowed_stream(StreamKind::Default)),
            ("borrowed, non-blocking", self.borrowed_stream(StreamKind::NonBlocking)),
        ]
    }

    /// A stream that cudarc did not make and does not destroy; left to the context's end.
    pub(crate) fn borrowed_stream(&self, kind: StreamKind) -> Arc<CudaStream> {
        self.context.bind_to_thread().unwrap();
        let raw = result::stream::create(kind).unwrap();
        // SAFETY: the stream was made in this context just now, and nobody destroys it.
        unsafe { self.context.wrap_borrowed_stream(raw) }
    }

    /// Keeps `stream` busy until the gate is dropped, or for `GATE_LIMIT`.
    pub(crate) fn gate(&self, stream: &Arc<CudaStream>) -> Gate {
        self.context.bind_to_thread().unwrap();
        // SAFETY: the memory is initialised next.
        let flag: *mut AtomicU32 = unsafe { result::malloc_host(size_of::<AtomicU32>(), 0) }.unwrap().cast();
        // SAFETY: the allocation is that large, page-aligned, and ours alone.
        unsafe { flag.write(AtomicU32::new(0)) };
        // SAFETY: written above, and never freed: the kernel may read it for as long as it likes.
        let flag: &'static AtomicU32 = unsafe { &*flag };
        let address = u64::try_from(flag.as_ptr().addr()).unwrap();
        let limit_ns = u64::try_from(GATE_LIMIT.as_nanos()).unwrap();
        let function = self.function("gate");
        let mut launch = stream.launch_builder(&function);
        launch.arg(&address).arg(&limit_ns);
        // SAFETY: the kernel takes a pointer and a u64; pinned memory has the same address on the device, and this is never freed.
        unsafe { launch.launch(one_thread()) }.unwrap();
        Gate { flag }
    }

    /// Sums `column` on `stream`.
    pub(crate) fn checksum(&self, stream: &Arc<CudaStream>, column: DeviceColumn<u32>) -> CudaSlice<u64> {
        let mut sum = stream.alloc_zeros::<u64>(1).unwrap();
        let len = u64::try_from(column.len()).unwrap();
        let function = self.function("checksum");
        let mut launch = stream.launch_builder(&function);
        launch.arg(&column).arg(&len).arg(&mut sum);
        let shape = LaunchConfig { grid_dim: (64, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel takes `const unsigned*`, u64 and `u64*`; the column has `len` words, and its set is freed behind this
        // stream's work, or that of a stream which waits for it.
        unsafe { launch.launch(shape) }.unwrap();
        sum
    }
}

/// Device memory that the kernel `append` appends entries of `len` bytes to.
pub(crate) struct Log {
    entries: CudaSlice<u8>,
    count: CudaSlice<u64>,
    // As numbers: a capture waits for no event of cudarc's slices.
    entries_at: u64,
    count_at: u64,
    len: usize,
    takes_ns: u64,
}

impl Log {
    pub(crate) fn new(stream: &Arc<CudaStream>, len: usize, entries: usize, is_slow: bool) -> Self {
        let (entries, count) = (stream.alloc_zeros(len * entries).unwrap(), stream.alloc_zeros(1).unwrap());
        let entries_at = marshal::cuda::pointer_to(&entries, stream).unwrap().address();
        let count_at = marshal::cuda::pointer_to(&count, stream).unwrap().address();
        stream.synchronize().unwrap();
        // So that a host which packs and launches is always ahead.
        let takes_ns = if is_slow { 100_000 } else { 0 };
        Self { entries, count, entries_at, count_at, len, takes_ns }
    }

    pub(crate) fn append(&self, gpu: &Gpu, stream: &Arc<CudaStream>, from: DevicePointer<u8>) {
        let (from, len) = (from.address(), u64::try_from(self.len).unwrap());
        let function = gpu.function("append");
        let mut launch = stream.launch_builder(&function);
        launch.arg(&from).arg(&len).arg(&self.entries_at).arg(&self.count_at).arg(&self.takes_ns);
        let shape = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel takes pointers, u64, pointers and u64; the log has room for the entries that the test appends, and lives
        // until it has been read.
        unsafe { launch.launch(shape) }.unwrap();
    }

    pub(crate) fn read(&self, stream: &Arc<CudaStream>) -> Vec<Vec<u8>> {
        stream.synchronize().unwrap();
        let count = usize::try_from(value(stream, &self.count)).unwrap();
        let bytes = stream.clone_dtoh(&self.entries.slice(..count * self.len)).unwrap();
        bytes.chunks_exact(self.len).map(<[u8]>::to_vec).collect()
    }
}

/// Opens when it is dropped.
pub(crate) struct Gate {
    flag: &'static AtomicU32,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.flag.store(1, Ordering::Release);
    }
}

pub(crate) fn one_thread() -> LaunchConfig {
    LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 }
}

/// The one value of `slice`.
pub(crate) fn value<T: cudarc::driver::DeviceRepr + Clone + Default>(
    stream: &Arc<CudaStream>,
    slice: &CudaSlice<T>,
) -> T {
    stream.clone_dtoh(slice).unwrap().remove(0)
}

/// Copies from `pointer` to the host by a call of its own, once `stream` has run.
pub(crate) fn read(stream: &Arc<CudaStream>, pointer: DevicePointer<u8>, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.context().bind_to_thread().unwrap();
    // SAFETY: `bytes` lives until the stream is synchronised; the caller's set keeps the memory.
    unsafe { result::memcpy_dtoh_async(&mut bytes, pointer.address(), stream.cu_stream()) }.unwrap();
    stream.synchronize().unwrap();
    bytes
}

/// Copies what stands at `pointer` when the stream comes to it; the returned closure waits and gives the bytes.
pub(crate) fn snapshot(stream: &Arc<CudaStream>, pointer: DevicePointer<u8>, len: usize) -> Snapshot {
    if len == 0 {
        // Of no bytes there is no memory, and nothing to copy.
        return Box::new(Vec::new);
    }
    // SAFETY: the memory is written by the copy before it is read.
    let copy: CudaSlice<u8> = unsafe { stream.alloc(len) }.unwrap();
    let target = marshal::cuda::pointer_to(&copy, stream).unwrap();
    // SAFETY: both ranges are `len` bytes; the caller's set keeps the source, and `copy` lives until it has been read.
    unsafe { result::memcpy_dtod_async(target.address(), pointer.address(), len, stream.cu_stream()) }.unwrap();
    let stream = stream.clone();
    Box::new(move || {
        let bytes = read(&stream, target, len);
        drop(copy);
        bytes
    })
}

/// Fills memory of `bytes` with 0xa5 and frees it, in the order of `stream`.
pub(crate) fn poison(stream: &Arc<CudaStream>, bytes: usize) {
    stream.context().bind_to_thread().unwrap();
    // SAFETY: the memory is written next.
    let address = unsafe { result::malloc_async(stream.cu_stream(), bytes) }.unwrap();
    // SAFETY: allocated above with that many bytes, on the same stream.
    unsafe { result::memset_d8_async(address, 0xa5, bytes, stream.cu_stream()) }.unwrap();
    // SAFETY: allocated above, freed once, behind its last use.
    unsafe { result::free_async(address, stream.cu_stream()) }.unwrap();
}

/// Fills `len` bytes from `pointer` on, in the order of `stream`.
pub(crate) fn fill(stream: &Arc<CudaStream>, pointer: DevicePointer<u8>, len: usize, byte: u8) {
    if len == 0 {
        return;
    }
    stream.context().bind_to_thread().unwrap();
    // SAFETY: the caller's set keeps the memory, and no Rust value lives in it.
    unsafe { result::memset_d8_async(pointer.address(), byte, len, stream.cu_stream()) }.unwrap();
}
