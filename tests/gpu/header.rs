//! A pointer struct by value: the device compiler's sizes and offsets beside Rust's, as a kernel sees them.
//!
//! Columns of small floats are among them where the features `half` and `float8` are on: there CUDA's headers are needed, in the
//! folder that `CUDA_INCLUDE` names. What `ci/gpu-bundle.sh` builds for a machine with a GPU has neither feature, so there every other
//! element is covered; the small floats are by `cargo test --features half,float8 --test cuda -- header` where Rust and a GPU are.
//! That they compile is shown without a GPU, by `tests/nvrtc.rs`.

use cudarc::driver::{CudaFunction, PushKernelArg};
use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use marshal::DeviceArgs;

use super::Test;
use super::device::{Gpu, one_thread};
use crate::header;

pub(crate) const ALL: &[Test] = &[
    ("a_pointer_struct_arrives_as_the_header_declares_it", a_pointer_struct_arrives_as_the_header_declares_it),
    ("elements_have_their_values_as_the_types_of_cuda", elements_have_their_values_as_the_types_of_cuda),
    ("a_lent_set_is_an_argument_too", a_lent_set_is_an_argument_too),
];

fn kernel(gpu: &Gpu, name: &str) -> CudaFunction {
    let options = CompileOptions { include_paths: header::include_paths().unwrap(), ..CompileOptions::default() };
    let ptx = compile_ptx_with_opts(header::source(), options).unwrap();
    gpu.context.load_module(ptx).unwrap().load_function(name).unwrap()
}

fn a_pointer_struct_arrives_as_the_header_declares_it(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let expected = header::description();
    let dev = header::every().upload(&stream).unwrap();
    let mut out = stream.alloc_zeros::<u64>(expected.len()).unwrap();
    let function = kernel(gpu, "describe");
    let mut launch = stream.launch_builder(&function);
    launch.arg(dev.as_kernel_arg()).arg(&mut out);
    // SAFETY: the kernel takes the struct that the header declares and `u64*`, and writes as many words as are expected.
    unsafe { launch.launch(one_thread()) }.unwrap();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), expected);
}

fn elements_have_their_values_as_the_types_of_cuda(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let expected = header::values();
    let dev = header::every().upload(&stream).unwrap();
    let mut out = stream.alloc_zeros::<f64>(expected.len()).unwrap();
    let function = kernel(gpu, "values");
    let mut launch = stream.launch_builder(&function);
    launch.arg(dev.as_kernel_arg()).arg(&mut out);
    // SAFETY: the kernel takes the struct that the header declares and `double*`, and writes as many as are expected.
    unsafe { launch.launch(one_thread()) }.unwrap();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), expected);
}

fn a_lent_set_is_an_argument_too(gpu: &Gpu) {
    let (home, other) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    let expected = header::description();
    let dev = header::every().upload(&home).unwrap();
    let mut out = other.alloc_zeros::<u64>(expected.len()).unwrap();
    let function = kernel(gpu, "describe");
    let lent = dev.on(&other).unwrap();
    let mut launch = other.launch_builder(&function);
    launch.arg(lent.as_kernel_arg()).arg(&mut out);
    // SAFETY: as above; the other stream waits for the upload, and the set's stream for the kernel when `lent` goes.
    unsafe { launch.launch(one_thread()) }.unwrap();
    drop(lent);
    assert_eq!(other.clone_dtoh(&out).unwrap(), expected);
}
