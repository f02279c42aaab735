//! A set with the addresses of borrowed slices: neither they nor what borrows them may go while it is used.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use marshal::cuda::{BufferColumn, Buffers, Cuda};
use marshal::{Column, ColumnSpec, DeviceArgs, Error, Uploaded, Visitor};

struct Sums<'a> {
    inputs: &'a Buffers<'a, f32>,
}

impl<'a> DeviceArgs for Sums<'a> {
    type Pointers = BufferColumn<'a, f32>;

    fn walk<V: Visitor>(&self, visitor: &mut V) -> Result<Self::Pointers, Error> {
        self.inputs.visit(ColumnSpec::new("inputs"), visitor)
    }
}

fn free_a_slice(stream: &Arc<CudaStream>, layers: Vec<CudaSlice<f32>>) -> Result<(), Error> {
    let inputs = Buffers::new(stream, &layers)?;
    let dev = Sums { inputs: &inputs }.upload(stream)?;
    drop(layers);
    println!("{}", dev.len());
    Ok(())
}

fn write_a_slice(stream: &Arc<CudaStream>, layers: &mut [CudaSlice<f32>]) -> Result<(), Error> {
    let inputs = Buffers::new(stream, &*layers)?;
    let dev = Sums { inputs: &inputs }.upload(stream)?;
    stream.memset_zeros(&mut layers[0]).unwrap();
    println!("{}", dev.len());
    Ok(())
}

fn outlive_the_buffers<'a>(
    stream: &'a Arc<CudaStream>,
    layers: &'a [CudaSlice<f32>],
) -> Result<Uploaded<BufferColumn<'a, f32>, Cuda>, Error> {
    let inputs = Buffers::new(stream, layers)?;
    let dev = Sums { inputs: &inputs }.upload(stream)?;
    Ok(dev)
}

fn drop_the_buffers(stream: &Arc<CudaStream>, layers: &[CudaSlice<f32>]) -> Result<(), Error> {
    let inputs = Buffers::new(stream, layers)?;
    let dev = Sums { inputs: &inputs }.upload(stream)?;
    drop(inputs);
    println!("{}", dev.len());
    Ok(())
}

fn write_behind_a_mutable_borrow(stream: &Arc<CudaStream>, mut out: CudaSlice<f32>) -> Result<(), Error> {
    let outputs = Buffers::new_mut(stream, [&mut out])?;
    stream.memset_zeros(&mut out).unwrap();
    drop(outputs);
    Ok(())
}

fn main() {}
