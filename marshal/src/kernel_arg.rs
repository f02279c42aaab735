//! A whole pointer struct as one argument of a kernel.

use core::ops::Deref;

use crate::kernel_struct::KernelStruct;

/// A pointer struct, to be passed by value as [`cuda_header`](fn@crate::cuda_header) declares it. See
/// [`Uploaded::as_kernel_arg`](crate::Uploaded::as_kernel_arg). Dereferences to the struct.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct KernelArg<P>(pub(crate) P);

impl<P: KernelStruct> KernelArg<P> {
    /// Refuses what no kernel can take by value.
    pub(crate) const CHECK: () = {
        assert!(P::IS_C, "a tuple of sets has no layout in C++: derive `DeviceArgs` for a struct of the sets");
        assert!(size_of::<P>() != 0, "a set without columns is no argument: an empty struct has one byte in C++");
        // Larger alignments of by-value parameters are not kept by every compiler; pointers need 8.
        assert!(align_of::<P>() <= 16, "a struct that is aligned above 16 bytes goes to a kernel behind a pointer");
    };
}

impl<P> Deref for KernelArg<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.0
    }
}
