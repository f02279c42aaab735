//! Pointers and columns as arguments of cudarc's kernel launches: `launch.arg(&dev.ptr_a)` passes `T*`.

use cudarc::driver::DeviceRepr;

use crate::kernel_arg::KernelArg;
use crate::kernel_struct::KernelStruct;
use crate::pointer::{DeviceColumn, DevicePointer};
use crate::ragged::RaggedPointers;

// SAFETY: a kernel's parameter `T*` is 8 bytes, a device address, and so is this: repr(transparent) over a u64 (its size and
// alignment are asserted beside it). Every bit pattern of an address is a valid `T*`; whether it may be read is the launch's
// obligation.
unsafe impl<T> DeviceRepr for DevicePointer<T> {}

// SAFETY: repr(C) `{ DevicePointer<T>, u64 }`, without padding (size and offset are asserted beside it). The launch reads as
// many bytes as the kernel declares for the parameter: the first 8 for `T*`, which are the pointer, or all 16 for
// `struct { T* pointer; uint64_t len; }`.
unsafe impl<T> DeviceRepr for DeviceColumn<T> {}

// SAFETY: repr(C) of three columns, without padding (its size is asserted beside it). The launch reads as many bytes as the kernel
// declares for the parameter: of the first column as above, or all.
unsafe impl<T, O> DeviceRepr for RaggedPointers<T, O> {}
// SAFETY: repr(transparent) over a pointer struct, whose layout is that of C by `KernelStruct::IS_C`: `as_kernel_arg`, which alone
// gives such a reference, does not compile otherwise, nor for a struct of no bytes or of an alignment that parameters do not
// keep. Its members are addresses and lengths. The launch reads as many bytes as the kernel declares; that the declaration is that of
// `cuda_header` is the launch's obligation.
unsafe impl<P: KernelStruct> DeviceRepr for KernelArg<P> {}
