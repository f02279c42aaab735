//! The C++ side: the pointer struct as a kernel declares it.

use crate::args::DeviceArgs;
use crate::declarations::Declarations;
use crate::kernel_struct::KernelStruct;

/// The C++ declaration of the pointer struct of `A`, and of what it is made of.
///
/// A column is `marshal::DeviceColumn<T>`, with a pointer, a length and `operator[]`. Integers, floats, `bool`, `char`, device pointers to them and arrays of
/// them have their names in C++. Any other element is an opaque struct `marshal::opaque::Name` of the right size and
/// alignment, unless its field says `#[device(c_type = "..")]`: that name then stands for the element, and what declares it is included first. Size and alignment of
/// every type, and the offset of every member, are asserted to be those of Rust.
///
/// The text is a header with an include guard, for NVRTC as it is and for a file that a build script writes; it includes nothing but
/// CUDA's own headers of 16-bit and 8-bit floats, and those only where a column needs them. The headers of several
/// sets go together in one kernel.
///
/// A set of tuples does not compile here: Rust orders a tuple as it likes.
///
/// ```
/// use marshal::{DeviceArgs, DevicePointer};
///
/// #[derive(DeviceArgs)]
/// #[device(name = "Gemm")]
/// struct GroupedGemm {
///     #[device(c_type = "cutlass::gemm::GemmCoord")]
///     sizes: Vec<[i32; 3]>,
///     ptr_a: Vec<Option<DevicePointer<f32>>>,
///     lda: Vec<i64>,
/// }
///
/// let header = marshal::cuda_header::<GroupedGemm>();
/// assert!(header.contains("\
/// struct Gemm {
///     marshal::DeviceColumn<cutlass::gemm::GemmCoord> sizes;
///     marshal::DeviceColumn<float*> ptr_a;
///     marshal::DeviceColumn<long long> lda;
/// };
/// "));
/// assert!(header.contains("static_assert(MARSHAL_OFFSETOF(Gemm, lda) == 32,"));
/// ```
#[must_use]
pub fn cuda_header<A: DeviceArgs + ?Sized>() -> String
where
    A::Pointers: KernelStruct,
{
    const {
        assert!(
            A::Pointers::IS_C,
            "a tuple of sets has no layout in C++: derive `DeviceArgs` for a struct of the sets"
        );
    }
    let mut header = Declarations::default();
    let name = <A::Pointers as KernelStruct>::declare(&mut header, None);
    header.finish(&name)
}
