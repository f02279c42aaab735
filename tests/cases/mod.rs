//! What a user relies on, whichever backend runs it: each case is a function over a [`Rig`], run by `tests/upload.rs` on the
//! host backend and by `tests/cuda.rs` on a GPU.

use bytemuck::{Pod, Zeroable};
use marshal::backend::BackendStream;
use marshal::{DeviceArgs, DevicePointer};

pub(crate) mod cache;
pub(crate) mod columns;
pub(crate) mod copies;
pub(crate) mod elements;
pub(crate) mod graph;
pub(crate) mod soak;
pub(crate) mod upload;

pub(crate) type Snapshot = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// A device to run the cases on.
pub(crate) trait Rig {
    type Stream: BackendStream;

    /// A new stream.
    fn stream(&self) -> Self::Stream;

    /// Leaves memory of about `bytes` behind that is not zero and that the next allocation on `stream` may get.
    fn poison(&self, stream: &Self::Stream, bytes: usize);

    /// Lets a kernel or a copy on `stream` read what stands at `pointer` when it runs. Returns at once; the returned closure
    /// waits for the stream and gives the bytes.
    fn snapshot(&self, stream: &Self::Stream, pointer: DevicePointer<u8>, len: usize) -> Snapshot;

    /// What stands at `pointer` once `stream` has run, read by other means than the set's own.
    fn read_device(&self, stream: &Self::Stream, pointer: DevicePointer<u8>, len: usize) -> Vec<u8> {
        self.snapshot(stream, pointer, len)()
    }

    /// Device memory that kernels append to.
    type Log: Send + Sync;

    /// Room for `entries` entries of `len` bytes, on `stream`. A kernel that appends to a slow one takes its time.
    fn log(&self, stream: &Self::Stream, len: usize, entries: usize, is_slow: bool) -> Self::Log;

    /// Lets a kernel on `stream` append what stands at `from` when it runs. Captured, each launch of the graph appends.
    fn append(&self, stream: &Self::Stream, from: DevicePointer<u8>, log: &Self::Log);

    /// Waits for `stream`, and gives what was appended.
    fn read_log(&self, stream: &Self::Stream, log: &Self::Log) -> Vec<Vec<u8>>;

    /// Lets a kernel on `stream` write `len` bytes of `byte` from `pointer` on. Returns at once.
    fn fill(&self, stream: &Self::Stream, pointer: DevicePointer<u8>, len: usize, byte: u8);

    /// Keeps `stream` busy until the returned value is dropped.
    fn block(&self, stream: &Self::Stream) -> Box<dyn Send>;
}

pub(crate) type Case<R> = (&'static str, fn(&R));

/// A value whose bytes are all different from zero and from each other's neighbours.
pub(crate) fn pattern<T: Pod>(seed: u64) -> T {
    let mut value = T::zeroed();
    for (i, byte) in bytemuck::bytes_of_mut(&mut value).iter_mut().enumerate() {
        *byte = (1 + (seed * 31 + i as u64 * 7) % 255).try_into().unwrap();
    }
    value
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct GemmCoord {
    m: i32,
    n: i32,
    k: i32,
}

fn at<T>(address: u64) -> DevicePointer<T> {
    DevicePointer::from_raw(address).unwrap()
}

pub(crate) fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, &first) in items.iter().enumerate() {
        let rest = [&items[..i], &items[i + 1..]].concat();
        all.extend(permutations(&rest).into_iter().map(|tail| [vec![first], tail].concat()));
    }
    all
}

#[derive(Clone, Copy, DeviceArgs)]
#[device(row)]
struct Gemm {
    size: GemmCoord,
    a: DevicePointer<u16>,
    c: Option<DevicePointer<f32>>,
    #[device(align = 64)]
    tag: u8,
    lda: i64,
    #[device(skip)]
    _host: usize,
}

#[derive(DeviceArgs)]
struct GemmColumns {
    size: Vec<GemmCoord>,
    a: Vec<DevicePointer<u16>>,
    c: Vec<Option<DevicePointer<f32>>>,
    #[device(align = 64)]
    tag: Vec<u8>,
    lda: Vec<i64>,
}
