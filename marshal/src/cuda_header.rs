//! The C++ side: the pointer struct as a kernel declares it.

use crate::args::DeviceArgs;
use crate::declarations::Declarations;
use crate::kernel_struct::KernelStruct;

/// The C++ declaration of the pointer struct of `A`, and of what it is made of.
///
/// A column is `marshal::DeviceColumn<T>`, with a pointer, a length and `operator[]`. Integers, floats, `bool`, `char`, CUDA's
/// [vectors](crate::vector), device pointers to them and arrays of them have their names in C++; with the feature `half` so do `f16`
/// (`__half`), `bf16` (`__nv_bfloat16`) and their vectors, with `float8` `F8E4M3` (`__nv_fp8_e4m3`) and `F8E5M2` (`__nv_fp8_e5m2`). The
/// vectors of four 64-bit lanes are `marshal::double4` and the like: `double4_16a` from CUDA 13 on, which deprecates `double4`, and
/// `double4` before. Any other element is an opaque struct `marshal::opaque::Name` of the right size and alignment.
/// Where a field says `#[device(c_type = "..")]` that name stands for its element, and what declares it is included first. Size and
/// alignment of every type, and the offset of every member, are asserted to be those of Rust.
///
/// The pointer struct is called as in Rust, or as `#[device(name = "..")]` says; an instance of a generic struct has its arguments in the
/// name: `SizesPointers_f32`.
///
/// The text is a header with an include guard, for NVRTC as it is and for a file that a build script writes. It includes nothing but
/// CUDA's own headers of 16-bit and 8-bit floats, and those only where a column needs them: NVRTC is then told their folder
/// (`--include-path`). With a `c_type` a column needs none. The headers of several sets go together in one kernel. A host compiler
/// needs CUDA's `vector_types.h` before it where a column holds vectors of CUDA's.
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
