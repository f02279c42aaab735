//! Kernel arguments that live in arrays (pointers, sizes, strides, offsets: one entry a problem) reach the GPU in one block, with
//! one asynchronous copy.
//!
//! A grouped GEMM takes nine arrays, a fused optimiser four, a ragged attention three; each is small, and each is today an
//! allocation and a copy of its own. Annotate the struct instead, upload it, and pass typed pointers to the kernel:
//!
//! ```
//! use bytemuck::{Pod, Zeroable};
//! use marshal::{DeviceArgs, DevicePointer, host::HostDevice};
//!
//! #[derive(Clone, Copy, Pod, Zeroable)]
//! #[repr(C)]
//! struct GemmCoord { m: i32, n: i32, k: i32 }
//!
//! #[derive(DeviceArgs)]
//! struct GroupedGemm<'a> {
//!     problem_sizes: &'a [GemmCoord],
//!     ptr_a: Vec<DevicePointer<f32>>,
//!     ptr_c: Vec<Option<DevicePointer<f32>>>, // None is a null pointer
//!     lda: Vec<i64>,
//! }
//!
//! # fn main() -> Result<(), marshal::Error> {
//! let stream = HostDevice::new().stream(); // or an `Arc<CudaStream>` of cudarc
//! let sizes = [GemmCoord { m: 16, n: 64, k: 32 }, GemmCoord { m: 0, n: 64, k: 32 }];
//! let a = DevicePointer::from_raw(0x7000_0000_0000).unwrap();
//! let args = GroupedGemm { problem_sizes: &sizes, ptr_a: vec![a, a], ptr_c: vec![None, None], lda: vec![32, 32] };
//!
//! let dev = args.upload(&stream)?; // one block, one copy
//! let lda = dev.lda;
//! stream.launch(move |memory| assert_eq!(memory.read(lda), [32, 32]))?; // launch.arg(&dev.lda) on CUDA
//! println!("{}", dev.layout());
//! # stream.synchronize()
//! # }
//! ```
//!
//! # What there is
//!
//! - [`DeviceArgs`]: what uploads. Derived for structs of [columns](Column), and with `#[device(row)]` for slices of a struct of
//!   plain values, which become columns. References, tuples and a [`Batch`] of sets are sets again.
//!   [`upload_each`] takes sets of one shape to a device each.
//! - [`Ragged`]: rows of different lengths. [`Scratch`]: columns that kernels write, which never travel; [`Uploaded::fetch`] copies
//!   one back.
//! - [`Element`]: what stands in a column. [`vector`]: CUDA's vector types. [`narrow`](fn@narrow): `usize` lengths into narrower columns,
//!   checked.
//! - [`Layout`]: where each column stands; planned without memory, drawn as a map.
//! - [`cuda_header`](fn@cuda_header): the pointer struct as a kernel declares it, to take it by value ([`Uploaded::as_kernel_arg`]).
//! - [`Uploaded`]: typed pointers ([`DeviceColumn`], [`DevicePointer`]), and what keeps their block.
//! - [`ArgCache`]: the cached mode. The same shape uses the same block; the same bytes are not copied; a held set is never
//!   rewritten.
//! - [`CapturedGraph`]: a CUDA graph with uploads in it, whose arguments are refreshed from launch to launch.
//! - [`CopyBatch`]: copies that cannot be one, between memory that is there already, submitted together. [`copies`] tells what holds.
//! - [`cuda`]: the backend over cudarc, whose libraries are loaded at run time. [`host`]: an emulation of a device that is always
//!   there, made to expose mistakes; tests stand on it.
//!
//! # Attributes of `#[derive(DeviceArgs)]`
//!
//! | on the struct | |
//! |---|---|
//! | `#[device(row)]` | the struct is one problem: slices of it upload as columns, one a field |
//! | `#[device(align = N)]` | the least alignment of every column: a power of two, 16 if left out |
//! | `#[device(name = "CName")]` | what the pointer struct is called in C++; as in Rust if left out |
//! | `#[device(crate = path)]` | where this crate is, when it is reached through another |
//!
//! | on a field | |
//! |---|---|
//! | `#[device(align = N)]` | this column's least alignment; not below its element's own |
//! | `#[device(scalar)]` | a plain value, as a column of one element |
//! | `#[device(nested)]` | a set of arguments within the set: another derived struct, a `Vec` or slice of rows |
//! | `#[device(borrow)]` | the pointers keep the field's lifetimes: the set cannot outlive what the field borrows |
//! | `#[device(c_type = "CType")]` | what the element is called in C++ |
//! | `#[device(skip)]` | stays on the host |
//!
//! # What is stream-ordered, and what waits
//!
//! An upload, the zeroing of its scratch, the free of its block, and [`Uploaded::on`] are ordered on the stream and wait for nothing
//! on the host; kernels launched afterwards on that stream see the arguments. [`Uploaded::fetch`] and [`Uploaded::read_back`] wait. A
//! cached upload waits only when every staging region of its shape is still being read, and [`CacheOptions`] say otherwise if you
//! like; so does a [refresh](CapturedGraph::refresh). While a stream is captured an upload to its cache calls nothing but the copy
//! and, for zeroed scratch, the fill.
//!
//! # Features
//!
//! `derive` and `cuda`, both on by default. Without `cuda` there is no trace of cudarc. `half` and `float8` make the small floats
//! of those crates elements, and give them their names in [`cuda_header`](fn@cuda_header): `f16`, `bf16`, and the 8-bit ones.

#[cfg(not(target_pointer_width = "64"))]
compile_error!("marshal needs a host with 64-bit addresses, as CUDA does");

#[doc(hidden)]
pub mod __private;
mod alignment;
mod args;
pub mod backend;
mod block;
mod cache;
mod column;
mod columns;
mod compare;
mod compose;
pub mod copies;
mod cuda_header;
mod cuda_types;
mod cursor;
mod declarations;
mod element;
mod error;
mod graph;
mod kernel_arg;
mod kernel_struct;
mod layout;
mod lock;
mod map;
mod measure;
mod narrow;
mod pack;
mod pointer;
mod policy;
mod ragged;
mod replicas;
mod room;
mod scratch;
mod session;
mod shared;
mod slots;
mod spec;
mod staging;
mod upload;
pub mod vector;
mod walk;

pub use crate::alignment::Alignment;
pub use crate::args::DeviceArgs;
#[cfg(feature = "cuda")]
pub use crate::backend::cuda;
pub use crate::backend::host;
pub use crate::cache::ArgCache;
pub use crate::column::Column;
pub use crate::compose::{Batch, BatchPointers};
pub use crate::copies::{
    CopyBatch, CopyBatchError, CopyStaging, DeviceRange, DeviceRangeMut, FetchedCopies, PendingCopies, Ticket,
};
pub use crate::cuda_header::cuda_header;
pub use crate::element::Element;
pub use crate::error::{Error, ErrorKind};
pub use crate::graph::CapturedGraph;
pub use crate::kernel_arg::KernelArg;
pub use crate::kernel_struct::{KernelStruct, Member};
pub use crate::layout::{ColumnLayout, Layout, LayoutBuilder};
pub use crate::narrow::narrow;
pub use crate::pointer::{DeviceColumn, DevicePointer};
pub use crate::policy::{CacheOptions, CacheStats, WhenExhausted};
pub use crate::ragged::{Offset, Ragged, RaggedPointers};
pub use crate::replicas::upload_each;
pub use crate::scratch::Scratch;
pub use crate::spec::{ColumnSpec, Content};
pub use crate::upload::{OnStream, UploadTarget, Uploaded};
pub use crate::walk::{Row, RowVisitor, Visitor};
#[cfg(feature = "derive")]
pub use marshal_derive::DeviceArgs;
