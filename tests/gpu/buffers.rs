//! Columns of borrowed slices: what the streams wait for, and what is recorded when they go.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, PushKernelArg};
use marshal::cuda::{BufferColumn, Buffers};
use marshal::{Column, ColumnSpec, DeviceArgs, DeviceColumn, ErrorKind, Visitor};

use super::Test;
use super::device::{Gpu, one_thread};

pub(crate) const ALL: &[Test] = &[
    ("a_pending_write_of_another_stream_is_waited_for", a_pending_write_of_another_stream_is_waited_for),
    ("a_later_write_of_another_stream_waits_for_the_kernels", a_later_write_of_another_stream_waits_for_the_kernels),
    ("a_free_waits_for_the_kernels", a_free_waits_for_the_kernels),
    ("views_and_outputs_are_buffers_too", views_and_outputs_are_buffers_too),
    ("a_parked_error_stays_parked_and_hides_no_record", a_parked_error_stays_parked_and_hides_no_record),
    ("a_slice_of_another_context_is_refused", a_slice_of_another_context_is_refused),
];

const LEN: usize = 64 << 10;

struct Rows<'a> {
    rows: &'a Buffers<'a, i32>,
    lens: Vec<u32>,
}

impl<'a> Rows<'a> {
    fn new(rows: &'a Buffers<'a, i32>, len: usize) -> Self {
        Self { rows, lens: vec![u32::try_from(len).unwrap(); rows.len()] }
    }
}

impl<'a> DeviceArgs for Rows<'a> {
    type Pointers = (BufferColumn<'a, i32>, DeviceColumn<u32>);

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<Self::Pointers, marshal::Error> {
        let rows = self.rows.visit(ColumnSpec::new("rows"), visitor)?;
        Ok((rows, self.lens.visit(ColumnSpec::new("lens"), visitor)?))
    }
}

/// The sums of `len` values of each slice, as a kernel on `stream` finds them.
fn sums(gpu: &Gpu, stream: &Arc<CudaStream>, args: &Rows<'_>) -> CudaSlice<i64> {
    let dev = args.upload(stream).unwrap();
    let (rows, lens) = *dev;
    let mut sums = stream.alloc_zeros::<i64>(rows.len()).unwrap();
    let function = gpu.function("sum_rows");
    let mut launch = stream.launch_builder(&function);
    launch.arg(&rows).arg(&lens).arg(&mut sums);
    // SAFETY: the kernel takes `const int* const*`, a column of u32 by value and `long long*`; each slice has that many values,
    // and `sums` one element for each.
    unsafe { launch.launch(one_thread()) }.unwrap();
    sums
}

fn filled(stream: &Arc<CudaStream>, value: i32) -> CudaSlice<i32> {
    stream.clone_htod(&vec![value; LEN]).unwrap()
}

fn a_pending_write_of_another_stream_is_waited_for(gpu: &Gpu) {
    let (writer, reader) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    let mut slices = [filled(&writer, 1), filled(&writer, 2)];
    writer.synchronize().unwrap();
    let gate = gpu.gate(&writer);
    writer.memset_zeros(&mut slices[1]).unwrap();
    let buffers = Buffers::new(&reader, &slices).unwrap();
    let sums = sums(gpu, &reader, &Rows::new(&buffers, LEN));
    drop(gate);
    assert_eq!(reader.clone_dtoh(&sums).unwrap(), [1 << 16, 0]);
}

fn a_later_write_of_another_stream_waits_for_the_kernels(gpu: &Gpu) {
    let (reader, writer) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    let mut slices = [filled(&reader, 1), filled(&reader, 2)];
    reader.synchronize().unwrap();
    let gate = gpu.gate(&reader);
    let buffers = Buffers::new(&reader, &slices).unwrap();
    let sums = sums(gpu, &reader, &Rows::new(&buffers, LEN));
    drop(buffers);
    writer.memset_zeros(&mut slices[0]).unwrap();
    writer.memset_zeros(&mut slices[1]).unwrap();
    drop(gate);
    assert_eq!(reader.clone_dtoh(&sums).unwrap(), [1 << 16, 2 << 16]);
    assert_eq!(writer.clone_dtoh(&slices[1]).unwrap()[..2], [0, 0]);
}

fn a_free_waits_for_the_kernels(gpu: &Gpu) {
    let (home, reader) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    let slices = vec![filled(&home, 3), filled(&home, 4)];
    let gate = gpu.gate(&reader);
    let buffers = Buffers::new(&reader, &slices).unwrap();
    let sums = sums(gpu, &reader, &Rows::new(&buffers, LEN));
    drop(buffers);
    drop(slices);
    // The allocator hands out on `home` what was freed there.
    let scribbles = [filled(&home, -1), filled(&home, -1)];
    drop(gate);
    assert_eq!(reader.clone_dtoh(&sums).unwrap(), [3 << 16, 4 << 16]);
    drop(scribbles);
}

fn views_and_outputs_are_buffers_too(gpu: &Gpu) {
    let stream = gpu.context.new_stream().unwrap();
    let mut values = stream.clone_htod(&[1, 2, 3, 40, 50, 60]).unwrap();
    let views = [values.slice(1..3), values.slice(4..6)];
    let buffers = Buffers::new(&stream, &views).unwrap();
    assert_eq!(stream.clone_dtoh(&sums(gpu, &stream, &Rows::new(&buffers, 2))).unwrap(), [5, 110]);
    let [first, second] = [buffers.pointers()[0], buffers.pointers()[1]];
    assert_eq!(second.address() - first.address(), 12);
    drop(buffers);

    let outputs = Buffers::new_mut(&stream, [&mut values]).unwrap();
    let dev = Rows::new(&outputs, 6).upload(&stream).unwrap();
    assert_eq!(dev.fetch(&dev.0).unwrap(), [outputs.pointers()[0]]);
    drop(dev);
    drop(outputs);
    gpu.context.check_err().unwrap();
}

fn a_parked_error_stays_parked_and_hides_no_record(gpu: &Gpu) {
    let (reader, writer) = (gpu.context.new_stream().unwrap(), gpu.context.new_stream().unwrap());
    let mut slice = filled(&reader, 1);
    reader.synchronize().unwrap();
    let gate = gpu.gate(&reader);
    let buffers = Buffers::new(&reader, [&slice]).unwrap();
    let sums = sums(gpu, &reader, &Rows::new(&buffers, LEN));
    let parked = cudarc::driver::DriverError(cudarc::driver::sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    gpu.context.record_err(Err::<(), _>(parked));
    drop(buffers);
    assert_eq!(gpu.context.check_err(), Err(parked));
    writer.memset_zeros(&mut slice).unwrap();
    drop(gate);
    assert_eq!(reader.clone_dtoh(&sums).unwrap(), [1 << 16]);
}

fn a_slice_of_another_context_is_refused(gpu: &Gpu) {
    // The device's primary context again, under another handle of cudarc: equal, and so not refused.
    let same = cudarc::driver::CudaContext::new(0).unwrap().default_stream();
    let slice = filled(&gpu.context.default_stream(), 1);
    drop(Buffers::new(&same, [&slice]).unwrap());
    if cudarc::driver::CudaContext::device_count().unwrap() > 1 {
        let other = cudarc::driver::CudaContext::new(1).unwrap().default_stream();
        let error = Buffers::new(&other, [&slice]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongDevice { .. }), "{error}");
    }
}
