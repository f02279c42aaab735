//! Errors: each is that of the very call, and an older one is neither blamed on it nor lost.

use cudarc::driver::sys::CUresult::{CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY};
use cudarc::driver::{DriverError, PushKernelArg, result};
use marshal::backend::Backend;
use marshal::cuda::{Cuda, pointer_to, pointer_to_mut};
use marshal::{DeviceArgs, DevicePointer, ErrorKind};

use super::Test;
use super::device::{Gpu, Words, one_thread, value};

pub(crate) const ALL: &[Test] = &[
    ("a_parked_error_is_neither_ours_nor_cleared", a_parked_error_is_neither_ours_nor_cleared),
    ("a_handled_failure_is_not_blamed_on_an_upload", a_handled_failure_is_not_blamed_on_an_upload),
    ("an_allocation_that_fails_says_the_bytes", an_allocation_that_fails_says_the_bytes),
    ("a_pointer_waits_for_writes_of_another_stream", a_pointer_waits_for_writes_of_another_stream),
];

fn a_parked_error_is_neither_ours_nor_cleared(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        let other = gpu.context.new_stream().unwrap();
        let mut slice = stream.clone_htod(&[1_u32; 16]).unwrap();
        gpu.context.record_err(Err::<(), _>(DriverError(CUDA_ERROR_ILLEGAL_STATE)));

        let args = Words::new(4096, 31);
        let dev = args.upload(&stream).unwrap();
        assert_eq!(dev.read_back().unwrap(), args.bytes(), "{name}");
        drop(dev.on(&other).unwrap());
        drop(dev);
        pointer_to(&slice, &stream).unwrap();
        pointer_to_mut(&mut slice, &stream).unwrap();
        Cuda::synchronize(&stream).unwrap();

        let parked = gpu.context.check_err().unwrap_err();
        assert_eq!(parked.0, CUDA_ERROR_ILLEGAL_STATE, "{name}");
    }
}

fn a_handled_failure_is_not_blamed_on_an_upload(gpu: &Gpu) {
    let stream = gpu.context.default_stream();
    // SAFETY: no allocation begins at 1, so that the driver refuses and frees nothing.
    let error = unsafe { result::free_sync(1) }.unwrap_err();
    assert_eq!(error.0, CUDA_ERROR_INVALID_VALUE);
    let args = Words::new(4096, 32);
    assert_eq!(args.upload(&stream).unwrap().read_back().unwrap(), args.bytes());
    gpu.context.check_err().unwrap();
}

fn an_allocation_that_fails_says_the_bytes(gpu: &Gpu) {
    for (name, stream) in gpu.streams() {
        let Err(error) = Cuda::allocate(&stream, 1 << 46) else { panic!("{name}: 64 TiB were allocated") };
        let ErrorKind::Driver { call, code, name: code_name, needed, available } = error.kind() else {
            panic!("{name}: {error:?}")
        };
        assert!(call.starts_with("cuMemAlloc"));
        assert_eq!((*code, code_name.as_str()), (CUDA_ERROR_OUT_OF_MEMORY as i32, "CUDA_ERROR_OUT_OF_MEMORY"));
        assert_eq!(*needed, Some(1 << 46));
        assert!(available.is_some_and(|bytes| bytes > 0));
        let args = Words::new(4096, 33);
        assert_eq!(args.upload(&stream).unwrap().read_back().unwrap(), args.bytes(), "{name}");
    }
    gpu.context.check_err().unwrap();
}

#[derive(DeviceArgs)]
struct Rows {
    rows: Vec<Option<DevicePointer<i32>>>,
    lens: Vec<u32>,
}

fn a_pointer_waits_for_writes_of_another_stream(gpu: &Gpu) {
    let (writer, stream) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    let len = 64 << 10;
    let threes = vec![3; len];
    let mut row = writer.alloc_zeros::<i32>(len).unwrap();
    writer.synchronize().unwrap();
    // Late: behind the gate.
    let gate = gpu.gate(&writer);
    writer.memcpy_htod(&threes, &mut row).unwrap();

    let mut sums = stream.alloc_zeros::<i64>(2).unwrap();
    let output = pointer_to_mut(&mut sums, &stream).unwrap();
    let args =
        Rows { rows: vec![None, Some(pointer_to(&row, &stream).unwrap())], lens: vec![0, u32::try_from(len).unwrap()] };
    let dev = args.upload(&stream).unwrap();
    let function = gpu.function("sum_rows");
    let mut launch = stream.launch_builder(&function);
    launch.arg(&dev.rows).arg(&dev.lens).arg(&output);
    // SAFETY: the kernel takes `const int* const*`, a column of u32 by value and `long long*`. Each row has as many elements as
    // its length says, `sums` has one for each row; slices and set live until the stream is waited for below.
    unsafe { launch.launch(one_thread()) }.unwrap();
    drop(gate);
    assert_eq!(stream.clone_dtoh(&sums).unwrap(), [0, 3 * i64::try_from(len).unwrap()]);
    assert_eq!(value(&stream, &row), 3);
    gpu.context.check_err().unwrap();
}
