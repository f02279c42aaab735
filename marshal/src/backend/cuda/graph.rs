//! Capture of a stream into a graph, its launch, and the source of its copies.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::{CudaStream, DriverError, result, sys};
use libloading::Library;

use super::block::Block;
use super::postponed;
use super::staging::Region;
use super::{driver, stream};
use crate::backend::Keeper;
use crate::error::{Error, ErrorKind};

/// A captured graph of the CUDA backend, instantiated.
pub struct Graph {
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
    copies: Vec<Copy>,
    stream: Arc<CudaStream>,
}

/// A node that copies from the host to the device.
struct Copy {
    node: sys::CUgraphNode,
    params: sys::CUDA_MEMCPY3D,
}

// SAFETY: graphs belong to no thread; the driver asks only that calls on one graph do not run at the same time ("Graph object
// thread safety" of its reference), and every call here is made through `&mut` or by the owner.
unsafe impl Send for Graph {}

/// Begins to capture `stream`. Thread-local: what other threads call meanwhile is not held against the capture.
pub(super) fn begin_capture(stream: &Arc<CudaStream>) -> Result<(), Error> {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    driver::bind(stream.context())
        // SAFETY: the stream is borrowed, so live.
        .and_then(|_bound| unsafe { result::stream::begin_capture(stream::own_handle(stream), mode) })
        .map_err(driver::failed("cuStreamBeginCapture"))
}

impl Graph {
    /// Ends the capture of `stream`.
    pub(super) fn end_capture(stream: &Arc<CudaStream>) -> Result<Self, Error> {
        // A capture that is not ended would stay.
        let bound = driver::insist(|| driver::bind(stream.context()));
        let _bound = bound.map_err(driver::failed("cuCtxSetCurrent"))?;
        // SAFETY: the stream is borrowed, so live.
        let ended = unsafe { result::stream::end_capture(stream::own_handle(stream)) };
        // The capture is over, well or badly.
        postponed::settle();
        let graph = ended.map_err(driver::failed("cuStreamEndCapture"))?;
        let exec = core::ptr::null_mut();
        let mut captured = Self { graph, exec, copies: Vec::new(), stream: Arc::clone(stream) };
        captured.copies = captured.find_copies().map_err(driver::failed("cuGraphGetNodes"))?;
        // SAFETY: the graph is live: `captured` owns it.
        let instantiated = unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) };
        captured.exec = instantiated.map_err(driver::failed("cuGraphInstantiateWithFlags"))?;
        Ok(captured)
    }

    fn find_copies(&self) -> Result<Vec<Copy>, DriverError> {
        let mut count = 0;
        // SAFETY: the graph is live; without an array the driver writes the number of nodes.
        unsafe { sys::cuGraphGetNodes(self.graph, core::ptr::null_mut(), &raw mut count) }.result()?;
        let mut nodes = vec![core::ptr::null_mut(); count];
        if count != 0 {
            // SAFETY: the graph is live; the array has room for as many nodes as `count` says.
            unsafe { sys::cuGraphGetNodes(self.graph, nodes.as_mut_ptr(), &raw mut count) }.result()?;
        }
        let mut copies = Vec::new();
        for node in nodes {
            let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
            // SAFETY: the node is one of a live graph. The type is written by the driver, as one of the enum's values: nodes of a
            // capture are copies, fills, kernels, host functions, child graphs, events, empty or memory nodes.
            unsafe { sys::cuGraphNodeGetType(node, &raw mut kind) }.result()?;
            if kind != sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY {
                continue;
            }
            let mut params = core::mem::MaybeUninit::zeroed();
            // SAFETY: the node is a copy of a live graph.
            unsafe { sys::cuGraphMemcpyNodeGetParams(node, params.as_mut_ptr()) }.result()?;
            // SAFETY: the driver has written it; before that all bytes were zero, which is a value of every field.
            let params: sys::CUDA_MEMCPY3D = unsafe { params.assume_init() };
            if params.dstMemoryType == sys::CUmemorytype::CU_MEMORYTYPE_DEVICE
                && params.Height <= 1
                && params.Depth <= 1
            {
                copies.push(Copy { node, params });
            }
        }
        Ok(copies)
    }

    pub(super) fn launch(&self, stream: &CudaStream) -> Result<(), Error> {
        driver::bind(stream.context())
            // SAFETY: graph and stream are borrowed, so live.
            .and_then(|_bound| unsafe { result::graph::launch(self.exec, stream::own_handle(stream)) })
            .map_err(driver::failed("cuGraphLaunch"))
    }

    /// Lets the launches to come copy the first `len` bytes of `region` to `offset` of `block`.
    ///
    /// # Safety
    /// The region is neither written nor freed before every launch that reads it has run, and its context is alive.
    pub(super) unsafe fn set_source(
        &mut self,
        region: &Region,
        len: usize,
        block: &Block,
        offset: u64,
    ) -> Result<(), Error> {
        let too_large = || Error::new(ErrorKind::TooLarge { needed: len as u64, available: region.size_bytes() });
        let source = region.address(len).ok_or_else(too_large)?;
        let target = block.range(offset, len as u64)?;
        let call = "cuGraphExecMemcpyNodeSetParams";
        let goes_there = |copy: &&mut Copy| {
            let at = copy.params.dstDevice.checked_add(copy.params.dstXInBytes as u64);
            at == Some(target) && copy.params.WidthInBytes == len
        };
        let copy = self.copies.iter_mut().find(goes_there);
        let copy = copy.ok_or_else(|| driver::failed(call)(DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE)))?;
        let params = sys::CUDA_MEMCPY3D { srcXInBytes: 0, srcHost: source.cast(), ..copy.params };
        let context = self.stream.context();
        let _bound = driver::bind(context).map_err(driver::failed("cuCtxSetCurrent"))?;
        // SAFETY: the executable graph is live, and the node is one of the graph that it was made of, which is kept. Source and
        // destination are of the kinds and the context of the capture; what they point to is the caller's promise.
        let set =
            unsafe { sys::cuGraphExecMemcpyNodeSetParams(self.exec, copy.node, &raw const params, context.cu_ctx()) };
        set.result().map_err(driver::failed(call))?;
        copy.params = params;
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let context = self.stream.context();
        let _relaxed = driver::Relaxed::enter();
        let destroyed = driver::insist(|| driver::bind(context)).and_then(|_bound| {
            let mut destroyed = Ok(());
            if !self.exec.is_null() {
                // SAFETY: this is its owner's only destroy. Launches that are under way go on: the driver destroys it behind them.
                destroyed = unsafe { result::graph::exec_destroy(self.exec) };
            }
            if !self.graph.is_null() {
                // SAFETY: this is its owner's only destroy.
                destroyed = destroyed.and(unsafe { result::graph::destroy(self.graph) });
            }
            destroyed
        });
        context.record_err(destroyed);
        drop_released();
    }
}

/// What graphs kept that are gone. The driver says so in a callback, where its calls are forbidden; it is dropped by the next call
/// that may make them. In a static because it has no owner any more; nothing is looked up in it.
static RELEASED: Mutex<Vec<Keeper>> = Mutex::new(Vec::new());

/// A place in the graph that `stream` is being captured into, in the graphs made of it and in their launches.
pub(super) fn keeper(stream: &Arc<CudaStream>) -> Result<Keeper, Error> {
    // `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC` and `CU_GRAPH_USER_OBJECT_MOVE` of cuda.h.
    const NO_DESTRUCTOR_SYNC: u32 = 1;
    const MOVE: u32 = 1;
    let _bound = driver::bind(stream.context()).map_err(driver::failed("cuCtxSetCurrent"))?;
    let graph = captured_graph(stream::own_handle(stream)).map_err(driver::failed("cuStreamGetCaptureInfo"))?;
    let keeper = Keeper::default();
    let held: *mut Keeper = Box::into_raw(Box::new(keeper.clone()));
    let mut object = core::ptr::null_mut();
    // SAFETY: `release` takes what `held` points to; it is called once, when the last reference is gone.
    let created =
        unsafe { sys::cuUserObjectCreate(&raw mut object, held.cast(), Some(release), 1, NO_DESTRUCTOR_SYNC) };
    if let Err(error) = created.result() {
        // SAFETY: the pointer came from `into_raw` above, and there is no object that could release it.
        drop(unsafe { Box::from_raw(held) });
        return Err(driver::failed("cuUserObjectCreate")(error));
    }
    // SAFETY: graph and object are live; the one reference moves to the graph.
    let retained = unsafe { sys::cuGraphRetainUserObject(graph, object, 1, MOVE) };
    if let Err(error) = retained.result() {
        // SAFETY: the object is live, and the one reference to it is ours: the graph has refused it.
        let _ = unsafe { sys::cuUserObjectRelease(object, 1) };
        return Err(driver::failed("cuGraphRetainUserObject")(error));
    }
    Ok(keeper)
}

/// The driver's word that no graph and no launch has the object any more.
unsafe extern "C" fn release(held: *mut c_void) {
    // SAFETY: the pointer came from `Box::into_raw` in `keeper`, and the driver calls this once.
    let keeper: Box<Keeper> = unsafe { Box::from_raw(held.cast()) };
    released().push(*keeper);
}

/// Drops what graphs kept that are gone.
pub(super) fn drop_released() {
    let gone = core::mem::take(&mut *released());
    // Outside of the lock: it may own graphs.
    drop(gone);
}

fn released() -> MutexGuard<'static, Vec<Keeper>> {
    // Pushing and taking leave a list all the same.
    RELEASED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The graph that the stream is being captured into. The stream's context is bound.
fn captured_graph(handle: sys::CUstream) -> Result<sys::CUgraph, DriverError> {
    // Not through cudarc: its bindings have this call under other names for other versions of the toolkit, while the driver keeps
    // all that it ever had.
    type GetCaptureInfo = unsafe extern "C" fn(
        sys::CUstream,
        *mut sys::CUstreamCaptureStatus,
        *mut u64,
        *mut sys::CUgraph,
        *mut *const sys::CUgraphNode,
        *mut usize,
    ) -> sys::CUresult;
    static CALL: OnceLock<Option<(Library, GetCaptureInfo)>> = OnceLock::new();
    let call = CALL.get_or_init(|| {
        let library = driver::library()?;
        // SAFETY: the driver exports the function under this name with this signature since 11.3; the library is kept beside it.
        let call = unsafe { library.get::<GetCaptureInfo>(b"cuStreamGetCaptureInfo_v2\0") }.map(|call| *call).ok()?;
        Some((library, call))
    });
    let Some((_, call)) = call else { return Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED)) };
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut id, mut graph) = (0, core::ptr::null_mut());
    let (mut nodes, mut count) = (core::ptr::null(), 0);
    // SAFETY: the stream is one that the caller borrows, so live; the pointers are to locals that outlive the call.
    let asked = unsafe { call(handle, &raw mut status, &raw mut id, &raw mut graph, &raw mut nodes, &raw mut count) };
    asked.result()?;
    if status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE || graph.is_null() {
        return Err(DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    }
    Ok(graph)
}
