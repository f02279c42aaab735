use marshal::host::HostDevice;
use marshal::{DeviceArgs, DeviceColumn, KernelStruct, Member};

#[derive(DeviceArgs)]
struct Empty;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Aligned(DeviceColumn<u32>);

impl KernelStruct for Aligned {
    const NAME: &'static str = "Aligned";
    const MEMBERS: &'static [Member] = &[Member::new::<DeviceColumn<u32>>("column")];
}

struct Args(Vec<u32>);

impl DeviceArgs for Args {
    type Pointers = Aligned;

    fn walk<V: marshal::Visitor>(&self, visitor: &mut V) -> Result<Aligned, marshal::Error> {
        Ok(Aligned(visitor.column(marshal::ColumnSpec::new("column"), &self.0)?))
    }
}

fn main() {
    let stream = HostDevice::new().stream();
    let _ = Empty.upload(&stream).unwrap().as_kernel_arg();
    let _ = Args(vec![1]).upload(&stream).unwrap().as_kernel_arg();
}
