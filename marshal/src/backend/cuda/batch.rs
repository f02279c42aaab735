//! Batches of copies: one call of the driver where it may be used, else one copy after another.
//!
//! `cuMemcpyBatchAsync` came with CUDA 12.8 and lost a parameter, the index of the copy that failed, with 13.0. A driver has a function
//! for each signature, and [`cuGetProcAddress`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DRIVER__ENTRY__POINT.html) gives
//! the one of the version that is asked for. The older is asked for first, for its index.
//!
//! What its reference and others' reports say of it, and what follows here:
//! - The order of the copies is open, the batch as a whole is in the order of the stream. The legacy default stream is refused; the
//!   per-thread one is a stream like others.
//! - In a capture it is refused, and the capture stays valid without the copies: there each copy is a node.
//! - Source access order. `STREAM`: the source is read when the stream comes to it, be it pageable: right for device memory, and for
//!   host memory whose owner may have given it to earlier work. `ANY`: at any time until the copy is done: for memory that nothing
//!   on the stream writes, which is our staging. `DURING_API_CALL`, for memory that goes when the call returns, is not used: what
//!   a call that fails has begun to read, it does not say.
//! - Attributes apply from an index on. They are told one set a call, with as many zeros for indices as copies: right too for
//!   a driver that were to read one index a copy, as some understand the reference.
//! - Host addresses have to be addresses of the device too: not so under WSL 2, and the device says it.
//! - Calls of 50,000 copies have crashed drivers of CUDA 13.0 (vllm-project/vllm#49276); none of ours has more than [`MOST_COPIES`].

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ops::Range;
use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};
use libloading::Library;

use super::{Cuda, driver, stream};
use crate::backend::{BatchCopy, BatchFailure, BatchMemory, Place};
use crate::error::{Error, ErrorKind};

/// So many copies go into one call.
const MOST_COPIES: usize = 1024;

/// From so many copies on one call is faster: two small ones took 1.8 us in one call and 2.6 one after the other, sixteen 7.8 and 20.6
/// (one H200, driver 580).
const LEAST_COPIES: usize = 2;

/// `CUmemcpySrcAccessOrder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Order {
    Stream = 1,
    Any = 3,
}

/// `CUmemcpyAttributes_v1`. The hints are for managed memory: none.
#[repr(C)]
struct Attributes {
    source_order: Order,
    source_hint: Location,
    destination_hint: Location,
    flags: c_uint,
}

/// `CUmemLocation`; its kind 0 is none.
#[derive(Default)]
#[repr(C)]
struct Location {
    kind: c_uint,
    id: c_int,
}

const _: () = assert!(size_of::<Attributes>() == 24 && core::mem::offset_of!(Attributes, flags) == 20);

type Batch12 = unsafe extern "C" fn(
    *mut u64,
    *mut u64,
    *mut usize,
    usize,
    *mut Attributes,
    *mut usize,
    usize,
    *mut usize,
    sys::CUstream,
) -> sys::CUresult;
type Batch13 = unsafe extern "C" fn(
    *mut u64,
    *mut u64,
    *mut usize,
    usize,
    *mut Attributes,
    *mut usize,
    usize,
    sys::CUstream,
) -> sys::CUresult;
type GetProcAddress = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> sys::CUresult;

/// The call, by the signature of the version that it was found under.
#[derive(Clone, Copy)]
enum Call {
    V12080(Batch12),
    V13000(Batch13),
}

/// The driver's call, if it has one.
fn batch_call() -> Option<Call> {
    // The library stays loaded: cudarc never unloads it, and this handle neither.
    static CALL: OnceLock<Option<(Call, Library)>> = OnceLock::new();
    CALL.get_or_init(find).as_ref().map(|(call, _)| *call)
}

fn find() -> Option<(Call, Library)> {
    let library = driver::library()?;
    let address = |version: c_int| {
        // SAFETY: every driver since 12.0 exports the function under this name and with this signature (cuda.h); a driver with the
        // batch call is newer.
        let get = unsafe { library.get::<GetProcAddress>(b"cuGetProcAddress_v2\0") }.ok()?;
        let (mut address, mut status) = (core::ptr::null_mut(), 0);
        // SAFETY: the name is a C string, the results go to locals; flags 0 ask for the plain variant of stream 0.
        let found = unsafe { get(c"cuMemcpyBatchAsync".as_ptr(), &raw mut address, version, 0, &raw mut status) };
        (found == sys::CUresult::CUDA_SUCCESS && !address.is_null()).then_some(address)
    };
    let call = if let Some(address) = address(12080) {
        // SAFETY: what the driver gives for version 12.8 has the signature of 12.8 (`PFN_cuMemcpyBatchAsync_v12080` of cudaTypedefs.h).
        Call::V12080(unsafe { core::mem::transmute::<*mut c_void, Batch12>(address) })
    } else {
        let address = address(13000)?;
        // SAFETY: as above, for 13.0.
        Call::V13000(unsafe { core::mem::transmute::<*mut c_void, Batch13>(address) })
    };
    Some((call, library))
}

/// What decides between one call and one a copy.
#[derive(Clone, Copy, Debug)]
struct Facts {
    copies: usize,
    has_call: bool,
    is_legacy: bool,
    is_capturing: bool,
    /// Every end that is host memory has an address that the device can use.
    is_addressable: bool,
}

impl Facts {
    fn allow_batch(self) -> bool {
        self.has_call && self.copies >= LEAST_COPIES && !self.is_legacy && !self.is_capturing && self.is_addressable
    }
}

/// Copies, ordered on `stream` as a whole.
///
/// # Safety
/// As for [`Backend::copy_batch`](crate::backend::Backend::copy_batch).
pub(super) unsafe fn submit(
    stream: &Arc<CudaStream>,
    memory: &BatchMemory<'_, Cuda>,
    copies: &[BatchCopy],
    is_capturing: bool,
) -> Result<bool, BatchFailure> {
    let before = |error| BatchFailure { error, failed: None, submitted: 0 };
    let handle = stream::own_handle(stream);
    let _bound = driver::bind(stream.context()).map_err(driver::failed("cuCtxSetCurrent")).map_err(before)?;
    let is_legacy = stream::is_legacy(stream);
    if is_legacy && is_capturing {
        // It cannot be captured; a copy on it would break the capture of a blocking stream.
        let refused = DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        return Err(before(driver::failed("cuMemcpyAsync")(refused)));
    }
    let call = batch_call();
    let facts = Facts {
        copies: copies.len(),
        has_call: call.is_some(),
        is_legacy,
        is_capturing,
        is_addressable: memory.region.is_none() && memory.owned.is_empty() || host_is_addressable(stream.context()),
    };
    let mut ends = KEPT.try_with(Cell::take).unwrap_or_default();
    let submitted = ends.resolve(memory, copies).and_then(|()| {
        // Copies from pageable memory, which an owner may have given, could be synchronous, which CUDA may hold against a capture of
        // some other stream.
        let _relaxed = (!memory.owned.is_empty()).then(driver::Relaxed::enter);
        if let Some(call) = call.filter(|_| facts.allow_batch()) {
            // SAFETY: the caller promises that the ranges are good until the stream has passed the copies.
            unsafe { by_batch(call, handle, copies, &mut ends) }?;
            // In a capture that another thread has begun since, the call is refused.
            return Ok(false);
        }
        // SAFETY: as above.
        unsafe { one_by_one(handle, copies, &ends) }?;
        // The legacy default stream is never captured; where another stream is, the driver says of it what sounds like that.
        let is_captured = || driver::insist(|| stream::is_capturing(handle)).unwrap_or(true);
        Ok(!is_legacy && (is_capturing || is_captured()))
    });
    ends.keep();
    submitted
}

/// The addresses of both ends of each copy, and its bytes: as the driver takes them.
#[derive(Default)]
struct Ends {
    sources: Vec<u64>,
    destinations: Vec<u64>,
    sizes: Vec<usize>,
    /// Zeros.
    indices: Vec<usize>,
}

thread_local! {
    /// For the thread's next batch, so that it allocates nothing. None in a thread that is ending, or while an owner that is asked for
    /// its bytes submits a batch itself.
    static KEPT: Cell<Ends> = Cell::default();
}

/// Lists of more copies than this are not kept.
const MOST_KEPT: usize = 16 << 10;

impl Ends {
    /// All of them before the first copy is submitted: an owner that is asked for its bytes may panic.
    fn resolve(&mut self, memory: &BatchMemory<'_, Cuda>, copies: &[BatchCopy]) -> Result<(), BatchFailure> {
        let address = |place, len| match place {
            Place::Device(address) => Some(address),
            Place::Staging(offset) => {
                memory.region?.address_of(offset, len).map(|first| first.expose_provenance() as u64)
            }
            Place::Owned(owner) => {
                let bytes = memory.owned.get(owner)?.bytes().get(..len)?;
                Some(bytes.as_ptr().expose_provenance() as u64)
            }
        };
        for list in [&mut self.sources, &mut self.destinations] {
            list.clear();
            list.reserve(copies.len());
        }
        self.sizes.clear();
        self.sizes.extend(copies.iter().map(|copy| copy.len));
        for (index, copy) in copies.iter().enumerate() {
            let both = address(copy.source, copy.len).zip(address(copy.destination, copy.len));
            let Some((source, destination)) = both else {
                let error = Error::new(ErrorKind::TooLarge { needed: copy.len as u64, available: 0 });
                return Err(BatchFailure { error, failed: Some(index), submitted: 0 });
            };
            self.sources.push(source);
            self.destinations.push(destination);
        }
        Ok(())
    }

    fn keep(self) {
        if self.sizes.capacity() <= MOST_KEPT {
            let _ = KEPT.try_with(|kept| kept.set(self));
        }
    }
}

/// # Safety
/// The ranges are good until the stream has passed the copies.
unsafe fn by_batch(
    call: Call,
    handle: sys::CUstream,
    copies: &[BatchCopy],
    ends: &mut Ends,
) -> Result<(), BatchFailure> {
    let most = copies.len().min(MOST_COPIES);
    ends.indices.resize(most.max(ends.indices.len()), 0);
    for Range { start, end } in calls(copies) {
        let (destinations, sources) = (&mut ends.destinations[start..end], &mut ends.sources[start..end]);
        let (sizes, count, mut failed) = (&mut ends.sizes[start..end], end - start, usize::MAX);
        let mut attributes = Attributes {
            source_order: order(&copies[start]),
            source_hint: Location::default(),
            destination_hint: Location::default(),
            flags: 0,
        };
        let (destinations, sources, sizes) = (destinations.as_mut_ptr(), sources.as_mut_ptr(), sizes.as_mut_ptr());
        let (attributes, indices) = (&raw mut attributes, ends.indices.as_mut_ptr());
        let submitted = match call {
            // SAFETY: the three lists are `count` long, and so is `indices` at least, of which `attributes` asks one; the driver
            // reads all of them before it returns. The ranges are good, as the caller promises.
            Call::V12080(batch) => unsafe {
                batch(destinations, sources, sizes, count, attributes, indices, 1, &raw mut failed, handle)
            },
            // SAFETY: as above.
            Call::V13000(batch) => unsafe {
                batch(destinations, sources, sizes, count, attributes, indices, 1, handle)
            },
        };
        submitted.result().map_err(|error| BatchFailure {
            error: driver::failed("cuMemcpyBatchAsync")(error),
            failed: (failed < count).then(|| start + failed),
            // What a call has begun before it failed it does not say.
            submitted: end,
        })?;
    }
    Ok(())
}

/// # Safety
/// The ranges are good until the stream has passed the copies.
unsafe fn one_by_one(handle: sys::CUstream, copies: &[BatchCopy], ends: &Ends) -> Result<(), BatchFailure> {
    let both = ends.sources.iter().zip(&ends.destinations);
    for (index, (copy, (&source, &destination))) in copies.iter().zip(both).enumerate() {
        let host = |address: u64| core::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0));
        let (name, submitted) = match (copy.source, copy.destination) {
            (Place::Device(_), Place::Device(_)) => {
                // SAFETY: the ranges are good, as the caller promises, and do not overlap.
                let copied = unsafe { result::memcpy_dtod_async(destination, source, copy.len, handle) };
                ("cuMemcpyDtoDAsync_v2", copied)
            }
            (Place::Device(_), _) => {
                // SAFETY: as above; the destination is page-locked memory of the batch.
                let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(host(destination), source, copy.len, handle) };
                ("cuMemcpyDtoHAsync_v2", copied.result())
            }
            (_, _) => {
                // SAFETY: as above; the source stays as it is until the copy has run.
                let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(destination, host(source), copy.len, handle) };
                ("cuMemcpyHtoDAsync_v2", copied.result())
            }
        };
        submitted.map_err(|error| BatchFailure {
            error: driver::failed(name)(error),
            failed: Some(index),
            // The code may be that of earlier work, and this copy on its way all the same.
            submitted: index + 1,
        })?;
    }
    Ok(())
}

/// The copies of each call: of one source order, and not too many.
fn calls(copies: &[BatchCopy]) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    let runs = copies.chunk_by(|a, b| order(a) == order(b)).flat_map(|run| run.chunks(MOST_COPIES));
    runs.map(move |call| {
        let start = end;
        end += call.len();
        start..end
    })
}

fn order(copy: &BatchCopy) -> Order {
    if matches!(copy.source, Place::Staging(_)) { Order::Any } else { Order::Stream }
}

/// Whether host memory has one address for the host and the device. Each device is asked until it has answered.
fn host_is_addressable(context: &CudaContext) -> bool {
    static KNOWN: [OnceLock<bool>; 64] = [const { OnceLock::new() }; 64];
    let known = KNOWN.get(context.ordinal());
    if let Some(&answer) = known.and_then(OnceLock::get) {
        return answer;
    }
    let Ok(answer) = ask_whether_addressable(context) else { return false };
    known.map_or(answer, |known| *known.get_or_init(|| answer))
}

fn ask_whether_addressable(context: &CudaContext) -> Result<bool, DriverError> {
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM as REGISTERED,
        CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING as UNIFIED,
    };
    for attribute in [UNIFIED, REGISTERED] {
        // SAFETY: the device is that of a live context.
        if unsafe { result::device::get_attribute(context.cu_device(), attribute) }? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The allocation that `address` lies in.
pub(super) fn allocation_of(stream: &CudaStream, address: u64) -> Option<Range<u64>> {
    let _bound = driver::bind(stream.context()).ok()?;
    let (mut base, mut size) = (0, 0);
    // SAFETY: the results go to locals; for an address that is none of the device's the driver returns an error.
    let found = unsafe { sys::cuMemGetAddressRange_v2(&raw mut base, &raw mut size, address) };
    found.result().ok()?;
    Some(base..base.checked_add(size as u64)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Facts =
        Facts { copies: LEAST_COPIES, has_call: true, is_legacy: false, is_capturing: false, is_addressable: true };

    #[test]
    fn the_batch_call_is_used_where_nothing_speaks_against_it() {
        assert!(GOOD.allow_batch());
        assert!(!Facts { has_call: false, ..GOOD }.allow_batch());
        assert!(!Facts { is_legacy: true, ..GOOD }.allow_batch());
        assert!(!Facts { is_capturing: true, ..GOOD }.allow_batch());
        assert!(!Facts { is_addressable: false, ..GOOD }.allow_batch());
        assert!(!Facts { copies: LEAST_COPIES - 1, ..GOOD }.allow_batch());
    }

    #[test]
    fn calls_are_of_one_source_order_and_bounded() {
        let of = |source, len| vec![BatchCopy { source, destination: Place::Device(1), len: 1 }; len];
        let copies = [of(Place::Staging(0), 2 * MOST_COPIES + 1), of(Place::Device(9), 3)].concat();
        let expected = [0..1024, 1024..2048, 2048..2049, 2049..2052];
        assert_eq!(calls(&copies).collect::<Vec<_>>(), expected);
        assert_eq!(calls(&[]).count(), 0);
    }

    #[test]
    fn owned_and_device_sources_are_read_in_stream_order() {
        let of = |source| order(&BatchCopy { source, destination: Place::Device(1), len: 1 });
        assert_eq!(of(Place::Staging(0)), Order::Any);
        assert_eq!(of(Place::Owned(0)), Order::Stream);
        assert_eq!(of(Place::Device(1)), Order::Stream);
    }
}
