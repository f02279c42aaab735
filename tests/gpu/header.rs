//! A pointer struct by value: the device compiler's sizes and offsets beside Rust's, as a kernel sees them.

use cudarc::driver::PushKernelArg;
use cudarc::nvrtc::compile_ptx;
use marshal::DeviceArgs;

use super::Test;
use super::device::{Gpu, one_thread};
use crate::header;

pub(crate) const ALL: &[Test] = &[
    ("a_pointer_struct_arrives_as_the_header_declares_it", a_pointer_struct_arrives_as_the_header_declares_it),
    ("a_lent_set_is_an_argument_too", a_lent_set_is_an_argument_too),
];

/// The kernel with the header in its place: nothing is read from files here.
fn source() -> String {
    header::source().replace("#include \"every.h\"\n", &marshal::cuda_header::<header::Every>())
}

fn a_pointer_struct_arrives_as_the_header_declares_it(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let expected = header::description();
    let dev = header::every().upload(&stream).unwrap();
    let mut out = stream.alloc_zeros::<u64>(expected.len()).unwrap();
    let module = gpu.context.load_module(compile_ptx(source()).unwrap()).unwrap();
    let function = module.load_function("describe").unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(dev.as_kernel_arg()).arg(&mut out);
    // SAFETY: the kernel takes the struct that the header declares and `u64*`, and writes as many words as are expected.
    unsafe { launch.launch(one_thread()) }.unwrap();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), expected);
}

fn a_lent_set_is_an_argument_too(gpu: &Gpu) {
    let (home, other) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    let expected = header::description();
    let dev = header::every().upload(&home).unwrap();
    let mut out = other.alloc_zeros::<u64>(expected.len()).unwrap();
    let module = gpu.context.load_module(compile_ptx(source()).unwrap()).unwrap();
    let function = module.load_function("describe").unwrap();
    let lent = dev.on(&other).unwrap();
    let mut launch = other.launch_builder(&function);
    launch.arg(lent.as_kernel_arg()).arg(&mut out);
    // SAFETY: as above; the other stream waits for the upload, and the set's stream for the kernel when `lent` goes.
    unsafe { launch.launch(one_thread()) }.unwrap();
    drop(lent);
    assert_eq!(other.clone_dtoh(&out).unwrap(), expected);
}
