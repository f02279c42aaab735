//! The soak of [`cases::soak`](crate::cases::soak) on a GPU, with a cap on the memory that uploads may have. `SOAK` says for how many
//! seconds; a few will do beside the other tests.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::CUmemPool_attribute::{
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
};
use cudarc::driver::sys::{CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUresult};
use cudarc::driver::{CudaContext, CudaStream, LaunchConfig, PushKernelArg, result, sys};
use marshal::{DeviceArgs, DevicePointer, Error, ErrorKind};

use super::Test;
use super::device::{Gpu, Words, is_watched};
use crate::CudaRig;
use crate::cases::Rig;
use crate::cases::soak::{Options, Soaked, soak};

pub(crate) const ALL: &[Test] =
    &[("everything_at_once_is_right_and_leaves_nothing", everything_at_once_is_right_and_leaves_nothing)];

/// Digests, and how many there are. Allocated without a pool: the cap is on uploads alone.
pub(crate) struct Notes {
    context: Arc<CudaContext>,
    // The count stands first.
    address: u64,
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.context.bind_to_thread().unwrap();
        // SAFETY: allocated by `notes`, freed once; the call waits for kernels that still use it.
        unsafe { result::free_sync(self.address) }.unwrap();
    }
}

impl Soaked for CudaRig {
    type Notes = Notes;

    fn notes(&self, stream: &Arc<CudaStream>, room: usize) -> Notes {
        let context = Arc::clone(stream.context());
        context.bind_to_thread().unwrap();
        let bytes = 8 * (1 + room);
        // SAFETY: the memory is initialised next.
        let address = unsafe { result::malloc_sync(bytes) }.unwrap();
        // SAFETY: allocated above with that many bytes. Ordered on the stream that uses it.
        unsafe { result::memset_d8_async(address, 0, bytes, stream.cu_stream()) }.unwrap();
        Notes { context, address }
    }

    fn note(&self, stream: &Arc<CudaStream>, from: DevicePointer<u8>, len: usize, notes: &Notes) {
        let (from, len, count_at) = (from.address(), u64::try_from(len).unwrap(), notes.address);
        let notes_at = count_at + 8;
        let function = self.gpu.function("note");
        let mut launch = stream.launch_builder(&function);
        launch.arg(&from).arg(&len).arg(&notes_at).arg(&count_at);
        let shape = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel takes pointers, u64 and pointers. The notes are taken before there is no room, and live until then; the
        // caller's set keeps the bytes.
        unsafe { launch.launch(shape) }.unwrap();
    }

    fn take_notes(&self, stream: &Arc<CudaStream>, notes: &Notes) -> Vec<u64> {
        stream.synchronize().unwrap();
        notes.context.bind_to_thread().unwrap();
        let mut count = [0_u64];
        // SAFETY: the count is there, and the stream is idle.
        unsafe { result::memcpy_dtoh_sync(&mut count, notes.address) }.unwrap();
        let mut noted = vec![0_u64; usize::try_from(count[0]).unwrap()];
        if !noted.is_empty() {
            // SAFETY: so many notes are there, and the stream is idle.
            unsafe { result::memcpy_dtoh_sync(&mut noted, notes.address + 8) }.unwrap();
        }
        // SAFETY: the count is there. Ordered on the stream whose kernels use it next.
        unsafe { result::memset_d8_async(notes.address, 0, 8, stream.cu_stream()) }.unwrap();
        noted
    }

    // The cap is trouble enough: the driver itself cannot be told to fail.
    fn trouble(&self, _: u64) {}

    fn may_fail(&self, error: &Error) -> bool {
        let out_of_memory = CUresult::CUDA_ERROR_OUT_OF_MEMORY as i32;
        matches!(error.kind(), ErrorKind::Driver { code, needed: Some(_), .. } if *code == out_of_memory)
    }
}

/// `CUmemPoolProps` of every toolkit since 12.2: the bindings name the parts of a location differently.
#[repr(C)]
struct PoolProps {
    allocation: c_uint,
    handles: c_uint,
    location: [c_int; 2],
    security: *mut c_void,
    max_size: usize,
    reserved: [u8; 56],
}

const _: () = assert!(size_of::<PoolProps>() == size_of::<CUmemPoolProps>());

/// What `cuMemAllocAsync` allocates from on the device, while it lives: a pool that grows to so many bytes.
struct CappedPool {
    context: Arc<CudaContext>,
    pool: CUmemoryPool,
    before: CUmemoryPool,
}

impl CappedPool {
    fn new(context: &Arc<CudaContext>, bytes: usize) -> Self {
        context.bind_to_thread().unwrap();
        let device = context.cu_device();
        let (mut pool, mut before) = (std::ptr::null_mut(), std::ptr::null_mut());
        // CU_MEM_ALLOCATION_TYPE_PINNED, without handles, CU_MEM_LOCATION_TYPE_DEVICE of that ordinal.
        let location = [1, c_int::try_from(context.ordinal()).unwrap()];
        let props = PoolProps {
            allocation: 1,
            handles: 0,
            location,
            security: std::ptr::null_mut(),
            max_size: bytes,
            reserved: [0; 56],
        };
        // SAFETY: a pointer to write to, of a device that there is.
        unsafe { sys::cuDeviceGetMemPool(&raw mut before, device) }.result().unwrap();
        // SAFETY: the properties are laid out as the driver reads them, and a pointer to write to.
        unsafe { sys::cuMemPoolCreate(&raw mut pool, (&raw const props).cast()) }.result().unwrap();
        // SAFETY: the pool was made for that device, and is put back before it is destroyed.
        unsafe { sys::cuDeviceSetMemPool(device, pool) }.result().unwrap();
        Self { context: Arc::clone(context), pool, before }
    }

    fn attribute(&self, attribute: CUmemPool_attribute) -> u64 {
        let mut value = 0_u64;
        // SAFETY: the pool is live, and both attributes that are asked for are 64 bits wide.
        unsafe { sys::cuMemPoolGetAttribute(self.pool, attribute, (&raw mut value).cast()) }.result().unwrap();
        value
    }

    /// What is left when all work is done and the pool has given back what it can.
    fn left(&self) -> Left {
        self.context.synchronize().unwrap();
        // SAFETY: the pool is live.
        unsafe { sys::cuMemPoolTrimTo(self.pool, 0) }.result().unwrap();
        let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
        Left {
            used: self.attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
            reserved: self.attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
            free: self.context.mem_get_info().unwrap().0,
            files: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            resident_kib: resident_kib(),
        }
    }
}

impl Drop for CappedPool {
    fn drop(&mut self) {
        // SAFETY: the pool that was the device's before; ours is not used any more.
        unsafe { sys::cuDeviceSetMemPool(self.context.cu_device(), self.before) }.result().unwrap();
        // SAFETY: made by `new`, destroyed once.
        unsafe { sys::cuMemPoolDestroy(self.pool) }.result().unwrap();
    }
}

#[derive(Debug)]
struct Left {
    /// Bytes of allocations that live, of the pool.
    used: u64,
    /// Bytes that the pool keeps of the device.
    reserved: u64,
    free: usize,
    files: usize,
    threads: usize,
    /// Page-locked staging among them.
    resident_kib: u64,
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

fn everything_at_once_is_right_and_leaves_nothing(gpu: &Gpu) {
    let seconds = std::env::var("SOAK").map_or(4, |seconds| seconds.parse().unwrap());
    let device_bytes: usize = 64 << 20;
    let rig = CudaRig { gpu: Gpu::new(), open: |gpu| gpu.context.new_stream().unwrap() };
    let pool = CappedPool::new(&gpu.context, device_bytes);
    let run = |seconds, seed| {
        let takes = Duration::from_secs(seconds);
        let options = Options { takes, threads: 4, seed, device_bytes: device_bytes as u64, largest: 1 << 20 };
        let tally = soak(&rig, &options);
        // What copies may have read when it was given up is freed by later uploads.
        gpu.context.synchronize().unwrap();
        let stream = rig.stream();
        (0..100).for_each(|seed| drop(Words::new(64, seed).upload(&stream).unwrap()));
        tally
    };
    // Once before: the driver's own memory grows to what it needs.
    run(1, 1);
    let before = pool.left();
    let tally = run(seconds, 2);
    let after = pool.left();
    println!("{seconds} s: {tally:?}\nbefore: {before:?}\nafter: {after:?}");
    if is_watched() {
        println!("what is left is not compared: the watching tool has its own, and slows everything down");
        return;
    }
    assert!(tally.is_mixed(), "{tally:?}");
    assert_eq!((before.used, after.used), (0, 0), "device memory is left");
    assert!(after.reserved <= before.reserved, "the pool keeps memory");
    // A context's own memory grows by pieces of 2 MiB.
    assert!(before.free.saturating_sub(after.free) <= 8 << 20, "device memory is left beside the pool");
    // The driver opens a few when it likes.
    assert!(after.files <= before.files + 4 && after.threads <= before.threads + 4, "handles or threads are left");
    assert!(after.resident_kib.saturating_sub(before.resident_kib) <= 64 << 10, "host memory is left");
    gpu.context.check_err().unwrap();
}
