//! Two devices in one process.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, sys};
use marshal::backend::Backend;
use marshal::cuda::{Cuda, pointer_to};
use marshal::{CopyBatch, CopyStaging, DeviceArgs, DevicePointer, ErrorKind};

use super::Test;
use super::device::{Gpu, Words};

/// These need a second device.
pub(crate) const ALL: &[Test] = &[
    ("contexts_take_turns_on_one_thread", contexts_take_turns_on_one_thread),
    (
        "streams_and_slices_of_another_device_are_refused_by_name",
        streams_and_slices_of_another_device_are_refused_by_name,
    ),
];

fn second() -> (Arc<CudaContext>, Arc<CudaStream>) {
    let context = CudaContext::new(1).unwrap();
    let stream = context.new_stream().unwrap();
    (context, stream)
}

/// The device that the memory at `pointer` is on.
fn ordinal(pointer: DevicePointer<u8>) -> i32 {
    let mut ordinal: i32 = -1;
    let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the attribute is an int, written to a local that outlives the call.
    let status = unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, pointer.address()) };
    status.result().unwrap();
    ordinal
}

fn contexts_take_turns_on_one_thread(gpu: &Gpu) {
    let (other, there) = second();
    let here = gpu.context.new_stream().unwrap();
    let mut sets = Vec::new();
    for seed in 0..50 {
        for (device, stream, foreign) in [(0, &here, &other), (1, &there, &gpu.context)] {
            // What other code left current.
            foreign.bind_to_thread().unwrap();
            let args = Words::new(4096, seed);
            let dev = args.upload(stream).unwrap();
            assert_eq!(ordinal(dev.base()), device);
            foreign.bind_to_thread().unwrap();
            assert_eq!(dev.read_back().unwrap(), args.bytes());
            foreign.bind_to_thread().unwrap();
            sets.push(dev);
        }
    }
    drop(sets);
    gpu.context.check_err().unwrap();
    other.check_err().unwrap();
}

fn streams_and_slices_of_another_device_are_refused_by_name(gpu: &Gpu) {
    let (_other, there) = second();
    let here = gpu.context.new_stream().unwrap();
    let named = |kind: &ErrorKind| {
        let ErrorKind::WrongDevice { expected, found } = kind else { panic!("{kind:?}") };
        assert_eq!((expected, found), (&Cuda::device_name(&here), &Cuda::device_name(&there)));
        assert!(expected.starts_with("CUDA device 0 (") && found.starts_with("CUDA device 1 ("));
    };
    let dev = Words::new(64, 1).upload(&here).unwrap();
    named(dev.on(&there).unwrap_err().kind());
    let slice = here.alloc_zeros::<u32>(4).unwrap();
    named(pointer_to(&slice, &there).unwrap_err().kind());
    let mut target = there.alloc_zeros::<u32>(4).unwrap();
    let mut batch = CopyBatch::new(&CopyStaging::new(&there));
    batch.dtod(&slice, &mut target).unwrap();
    named(batch.submit().unwrap_err().error().kind());
}
