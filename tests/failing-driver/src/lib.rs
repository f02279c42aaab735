//! Stands in front of the CUDA driver, under its name, and lets one call fail: the nth of a thread while it counts. It also keeps a list
//! of what has been made and not ended: memory, events, graphs.
//!
//! It has the calls that the backend of marshal makes; every other symbol is looked up in the driver behind it, which this library is
//! linked to. What the tests say to it goes by the `failing_driver_` functions.
//!
//! A call fails in one of two ways, since CUDA has both. It is *refused*: nothing happens. Or it is *blamed*: it is made, and returns
//! an error all the same, as the reference allows ("may also return error codes from previous, asynchronous launches"). Calls that give
//! work to a stream fail in both ways. What ends something is always made, or nobody could keep from leaking; all others are refused.

mod ledger;
mod plan;

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::ledger::Kind;
use crate::plan::Verdict;

/// `CUDA_ERROR_EXTERNAL_DEVICE`: one that nothing here meets otherwise.
const FAILED: u32 = 911;
const NOT_SUPPORTED: u32 = 801;

/// The driver behind this one. It is found by the name that this library does not have.
fn driver() -> &'static Library {
    static DRIVER: OnceLock<Library> = OnceLock::new();
    DRIVER.get_or_init(|| {
        // SAFETY: the driver's initialisers have no preconditions, and have run: this library is linked to it.
        unsafe { Library::new("libcuda.so.1") }.expect("the driver is there")
    })
}

/// What a call does, as far as it matters for its failure.
#[derive(Clone, Copy)]
enum Effect {
    /// Asks, or changes what belongs to the thread.
    Asks,
    /// Gives work to a stream, or waits for it.
    Works,
    /// Makes something, whose handle it writes to the address.
    Makes(Kind, usize),
    /// Ends what has the handle.
    Ends(Kind, usize),
    /// Ends a capture, which is over however it goes, and makes a graph.
    EndsCapture(usize),
}

fn pass(name: &'static CStr, effect: Effect, real: impl Fn() -> u32) -> u32 {
    let verdict = plan::next(name, matches!(effect, Effect::Works));
    match (verdict, effect) {
        (Verdict::Passes, Effect::Makes(kind, at)) => {
            let made = real();
            if made == 0 {
                ledger::begin(kind, handle_at(at));
            }
            made
        }
        (Verdict::Passes, Effect::EndsCapture(at)) => {
            let ended = real();
            if ended == 0 {
                ledger::begin(Kind::Graph, handle_at(at));
            }
            ended
        }
        (Verdict::Passes, Effect::Ends(kind, handle)) => {
            // Before the handle can be another's.
            ledger::end(kind, handle);
            real()
        }
        (Verdict::Passes, Effect::Asks | Effect::Works) => real(),
        (Verdict::Refused | Verdict::Blamed, Effect::Ends(kind, handle)) => {
            ledger::end(kind, handle);
            real();
            FAILED
        }
        (Verdict::Refused | Verdict::Blamed, Effect::EndsCapture(at)) => {
            if real() == 0 {
                destroy_graph(handle_at(at));
            }
            FAILED
        }
        (Verdict::Blamed, Effect::Works) => {
            real();
            FAILED
        }
        (Verdict::Refused | Verdict::Blamed, _) => FAILED,
    }
}

/// What the driver has written for its caller.
fn handle_at(at: usize) -> usize {
    // SAFETY: the caller gave the driver this address for a handle, and the driver has written it.
    unsafe { *std::ptr::with_exposed_provenance::<usize>(at) }
}

fn destroy_graph(graph: usize) {
    type Destroy = unsafe extern "C" fn(usize) -> u32;
    // SAFETY: the driver has the function with this signature.
    let destroy = unsafe { driver().get::<Destroy>(c"cuGraphDestroy") }.expect("the driver has the call");
    // SAFETY: the graph was made just now, and nobody else has its handle.
    unsafe { destroy(graph) };
}

/// Parameters are words: an integer or pointer of up to eight bytes is passed as one on the machines that CUDA runs on.
type Word = usize;

macro_rules! word {
    ($argument:ident) => {
        Word
    };
}

macro_rules! calls {
    ($($name:ident($($argument:ident),*) $effect:expr;)*) => {$(
        /// # Safety
        /// As the driver's call of this name says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: Word),*) -> u32 {
            static REAL: OnceLock<unsafe extern "C" fn($(word!($argument)),*) -> u32> = OnceLock::new();
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            let real = REAL.get_or_init(|| {
                // SAFETY: the parameters are as many words as the driver's.
                *unsafe { driver().get(NAME) }.expect("the driver has the call")
            });
            // SAFETY: the arguments are the caller's, who keeps the driver's rules.
            pass(NAME, $effect, || unsafe { real($($argument),*) })
        }
    )*};
}

use Effect::{Asks, Ends, EndsCapture, Makes, Works};

calls! {
    cuCtxGetCurrent(context) Asks;
    cuCtxSetCurrent(context) Asks;
    cuCtxSynchronize_v2(context) Works;
    cuCtxSynchronize() Works;
    cuDeviceGetName(name, len, device) Asks;
    cuMemGetInfo_v2(free, total) Asks;
    cuMemGetAddressRange_v2(base, size, address) Asks;
    cuThreadExchangeStreamCaptureMode(mode) Asks;
    cuMemAlloc_v2(address, size) Makes(Kind::DeviceMemory, address);
    cuMemAllocAsync(address, size, stream) Makes(Kind::DeviceMemory, address);
    cuMemFree_v2(address) Ends(Kind::DeviceMemory, address);
    cuMemFreeAsync(address, stream) Ends(Kind::DeviceMemory, address);
    cuMemHostAlloc(memory, size, flags) Makes(Kind::PageLockedMemory, memory);
    cuMemFreeHost(memory) Ends(Kind::PageLockedMemory, memory);
    cuMemsetD8Async(address, value, len, stream) Works;
    cuMemcpyHtoDAsync_v2(to, from, len, stream) Works;
    cuMemcpyDtoHAsync_v2(to, from, len, stream) Works;
    cuMemcpyDtoDAsync_v2(to, from, len, stream) Works;
    cuEventCreate(event, flags) Makes(Kind::Event, event);
    cuEventDestroy_v2(event) Ends(Kind::Event, event);
    cuEventRecord(event, stream) Works;
    cuEventQuery(event) Works;
    cuEventSynchronize(event) Works;
    cuStreamWaitEvent(stream, event, flags) Works;
    cuStreamSynchronize(stream) Works;
    cuStreamIsCapturing(stream, status) Asks;
    cuStreamBeginCapture_v2(stream, mode) Asks;
    cuStreamEndCapture(stream, graph) EndsCapture(graph);
    cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count) Asks;
    cuGraphGetNodes(graph, nodes, count) Asks;
    cuGraphNodeGetType(node, kind) Asks;
    cuGraphMemcpyNodeGetParams(node, params) Asks;
    cuGraphExecMemcpyNodeSetParams_v2(exec, node, params, context) Asks;
    cuGraphExecMemcpyNodeSetParams(exec, node, params, context) Asks;
    cuGraphInstantiateWithFlags(exec, graph, flags) Makes(Kind::ExecutableGraph, exec);
    cuGraphLaunch(exec, stream) Works;
    cuGraphExecDestroy(exec) Ends(Kind::ExecutableGraph, exec);
    cuGraphDestroy(graph) Ends(Kind::Graph, graph);
    cuUserObjectCreate(object, what, release, count, flags) Asks;
    cuUserObjectRelease(object, count) Asks;
    cuGraphRetainUserObject(graph, object, count, flags) Asks;
}

/// `CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED`.
const MEMORY_POOLS: Word = 115;

/// Says of every device that it has no memory pools, while [`failing_driver_hides_pools`] asks for that.
///
/// # Safety
/// As the driver's call of this name says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut i32, attribute: Word, device: Word) -> u32 {
    type Get = unsafe extern "C" fn(*mut i32, Word, Word) -> u32;
    static REAL: OnceLock<Get> = OnceLock::new();
    let real = REAL.get_or_init(|| {
        // SAFETY: the parameters are as many words as the driver's.
        *unsafe { driver().get(c"cuDeviceGetAttribute") }.expect("the driver has the call")
    });
    pass(c"cuDeviceGetAttribute", Asks, || {
        // SAFETY: the arguments are the caller's, who keeps the driver's rules.
        let asked = unsafe { real(value, attribute, device) };
        // An enum in C: the upper half of the word is whatever was there.
        if asked == 0 && attribute & 0xffff_ffff == MEMORY_POOLS && plan::hides_pools() {
            // SAFETY: the driver has just written it.
            unsafe { *value = 0 };
        }
        asked
    })
}

type Batch = unsafe extern "C" fn(Word, Word, Word, Word, Word, Word, Word, Word, Word) -> u32;
static BATCH: OnceLock<Batch> = OnceLock::new();

/// The batch call of the version 12.8, whose parameters are nine words.
unsafe extern "C" fn batch(
    to: Word,
    from: Word,
    sizes: Word,
    count: Word,
    attributes: Word,
    indices: Word,
    kinds: Word,
    failed: Word,
    stream: Word,
) -> u32 {
    let Some(real) = BATCH.get() else { return NOT_SUPPORTED };
    pass(c"cuMemcpyBatchAsync", Works, || {
        // SAFETY: the arguments are the caller's, who keeps the driver's rules.
        unsafe { real(to, from, sizes, count, attributes, indices, kinds, failed, stream) }
    })
}

/// Gives its own batch call in place of the driver's of version 12.8.
///
/// # Safety
/// As the driver's call of this name says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    address: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut u32,
) -> u32 {
    type Get = unsafe extern "C" fn(*const c_char, *mut *mut c_void, i32, u64, *mut u32) -> u32;
    // SAFETY: the driver has the function with this signature.
    let real = unsafe { driver().get::<Get>(c"cuGetProcAddress_v2") }.expect("the driver has the call");
    // SAFETY: the arguments are the caller's, who keeps the driver's rules.
    let found = unsafe { real(name, address, version, flags, status) };
    // SAFETY: the caller gave a C string.
    let is_batch = unsafe { CStr::from_ptr(name) } == c"cuMemcpyBatchAsync";
    // SAFETY: the driver has written the address if it found the function.
    if found == 0 && is_batch && version == 12080 && !unsafe { *address }.is_null() {
        // SAFETY: the driver's function of this version takes nine words (`PFN_cuMemcpyBatchAsync_v12080` of cudaTypedefs.h).
        BATCH.get_or_init(|| unsafe { std::mem::transmute::<*mut c_void, Batch>(*address) });
        // SAFETY: the caller gave the address for a function's.
        unsafe { *address = batch as *mut c_void };
    }
    found
}

/// Lets the nth call of this thread fail that is made while it counts; 0 for none. A `blamed` one is made all the same: then those
/// alone count that give work to a stream.
#[unsafe(no_mangle)]
pub extern "C" fn failing_driver_fail(nth: u64, blamed: bool) {
    plan::set(nth, if blamed { Verdict::Blamed } else { Verdict::Refused });
}

/// Lets calls of this name alone count on this thread, from now on; null lets all.
///
/// # Safety
/// The name is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn failing_driver_only(name: *const c_char) {
    // SAFETY: the caller gave null or a C string.
    plan::only((!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_owned()));
}

/// Whether calls of this thread count.
#[unsafe(no_mangle)]
pub extern "C" fn failing_driver_count(counts: bool) {
    plan::count(counts);
}

/// The name of the call that has failed since `failing_driver_fail`; null where none has.
#[unsafe(no_mangle)]
pub extern "C" fn failing_driver_failed() -> *const c_char {
    plan::failed().map_or(std::ptr::null(), CStr::as_ptr)
}

/// Writes how many of each kind there are that have been made and not ended: device memory, page-locked memory, events, graphs,
/// executable graphs; and how often something was ended that was not there.
#[unsafe(no_mangle)]
pub extern "C" fn failing_driver_ledger(counts: &mut [u64; 6]) {
    *counts = ledger::counts();
}

/// Whether devices are to have no memory pools.
#[unsafe(no_mangle)]
pub extern "C" fn failing_driver_hides_pools(hides: bool) {
    plan::hide_pools(hides);
}
