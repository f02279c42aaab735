//! What `cuda_header` writes.

use crate::*;

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct GemmCoord {
    m: i32,
    n: i32,
    k: i32,
}

mod other {
    #[derive(Clone, Copy, bytemuck::NoUninit)]
    #[repr(C)]
    pub(super) struct GemmCoord(pub(super) u8);
}

#[derive(DeviceArgs)]
#[device(name = "Gemm")]
struct Args<'a> {
    sizes: &'a [GemmCoord],
    #[device(c_type = "cutlass::gemm::GemmCoord")]
    named: Vec<GemmCoord>,
    again: Vec<GemmCoord>,
    others: Vec<other::GemmCoord>,
    ptr_a: Vec<Option<DevicePointer<f32>>>,
    opaque: Vec<DevicePointer<GemmCoord>>,
    class: Vec<[f64; 3]>,
    #[device(scalar)]
    alpha: f32,
}

#[derive(DeviceArgs)]
#[device(row)]
struct Row(u32, NonZeroU32);

#[derive(DeviceArgs)]
struct Outer<'a> {
    #[device(nested)]
    gemm: Args<'a>,
    #[device(nested)]
    rows: Vec<Row>,
    #[device(nested)]
    more: &'a [Row],
}

#[derive(Clone, Copy, Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Wrapped<T>(T);

#[derive(DeviceArgs)]
struct Generic<T: Pod> {
    values: Vec<T>,
    wrapped: Vec<Wrapped<T>>,
}

#[derive(DeviceArgs)]
struct Twice {
    #[device(nested)]
    floats: Generic<f32>,
    #[device(nested)]
    bytes: Generic<[u8; 4]>,
}

#[derive(DeviceArgs)]
struct Empty;

#[test]
fn a_header_declares_each_type_once_in_order() {
    let header = marshal::cuda_header::<Args<'_>>();
    let of_struct = "\
struct Gemm {
    marshal::DeviceColumn<marshal::opaque::GemmCoord> sizes;
    marshal::DeviceColumn<cutlass::gemm::GemmCoord> named;
    marshal::DeviceColumn<marshal::opaque::GemmCoord> again;
    marshal::DeviceColumn<marshal::opaque::GemmCoord_2> others;
    marshal::DeviceColumn<float*> ptr_a;
    marshal::DeviceColumn<void*> opaque;
    marshal::DeviceColumn<double[3]> class_;
    marshal::DeviceColumn<float> alpha;
};
#endif
static_assert(sizeof(Gemm) == 128 && alignof(Gemm) == 8, \"Gemm is 128 bytes, aligned to 8\");
static_assert(MARSHAL_OFFSETOF(Gemm, sizes) == 0, \"offset of Gemm::sizes\");
static_assert(MARSHAL_OFFSETOF(Gemm, named) == 16, \"offset of Gemm::named\");
";
    assert!(header.contains(of_struct), "{header}");
    assert_eq!(header.matches("struct alignas(4) GemmCoord { unsigned char bytes[12]; };").count(), 1, "{header}");
    assert_eq!(header.matches("struct alignas(1) GemmCoord_2 { unsigned char bytes[1]; };").count(), 1, "{header}");
    let named = "static_assert(sizeof(cutlass::gemm::GemmCoord) == 12 && alignof(cutlass::gemm::GemmCoord) == 4,";
    assert_eq!(header.matches(named).count(), 1, "{header}");
    assert!(!header.contains("#include"), "{header}");
}

#[derive(DeviceArgs)]
struct SmallFloats {
    halves: Vec<half::f16>,
    brains: Vec<half::bf16>,
    more: Vec<[half::bf16; 2]>,
    bytes: Vec<float8::F8E4M3>,
}

#[test]
fn small_floats_bring_the_headers_that_declare_them() {
    let header = marshal::cuda_header::<SmallFloats>();
    let (halves, brains, fp16, bf16) = if cfg!(feature = "half") {
        ("__half", "__nv_bfloat16", 1, 1)
    } else {
        ("marshal::opaque::f16", "marshal::opaque::bf16", 0, 0)
    };
    let (bytes, fp8) = if cfg!(feature = "float8") { ("__nv_fp8_e4m3", 1) } else { ("marshal::opaque::F8E4M3", 0) };
    for (name, element) in [("halves", halves), ("brains", brains), ("bytes", bytes)] {
        assert!(header.contains(&format!("    marshal::DeviceColumn<{element}> {name};\n")), "{header}");
    }
    for (include, times) in [("cuda_fp16.h", fp16), ("cuda_bf16.h", bf16), ("cuda_fp8.h", fp8)] {
        assert_eq!(header.matches(&format!("#include <{include}>\n")).count(), times, "{header}");
    }
}

#[test]
fn nested_sets_and_tuples_have_structs_of_their_own() {
    let header = marshal::cuda_header::<Outer<'_>>();
    let [gemm, row, outer] = ["struct Gemm {", "struct RowPointers {", "struct OuterPointers {"].map(|text| {
        assert_eq!(header.matches(text).count(), 1, "{header}");
        header.find(text).unwrap()
    });
    assert!(gemm < row && row < outer);
    assert!(
        header.contains("    marshal::DeviceColumn<unsigned int> _0;\n    marshal::DeviceColumn<unsigned int> _1;\n")
    );
    assert!(header.contains("    Gemm gemm;\n    RowPointers rows;\n    RowPointers more;\n"));
    assert!(header.contains("static_assert(MARSHAL_OFFSETOF(OuterPointers, more) == 160,"), "{header}");
}

#[test]
fn the_header_of_rows_is_that_of_a_slice() {
    assert_eq!(marshal::cuda_header::<[Row]>(), marshal::cuda_header::<Vec<Row>>());
}

#[test]
fn each_instance_of_a_generic_type_has_a_name_of_its_own() {
    let header = marshal::cuda_header::<Twice>();
    for text in [
        "struct GenericPointers_f32 {\n    marshal::DeviceColumn<float> values;\n    marshal::DeviceColumn<marshal::opaque::Wrapped_f32> wrapped;",
        "struct GenericPointers_u8_4 {\n    marshal::DeviceColumn<unsigned char[4]> values;\n    marshal::DeviceColumn<marshal::opaque::Wrapped_u8_4> wrapped;",
        "    GenericPointers_f32 floats;\n    GenericPointers_u8_4 bytes;\n",
    ] {
        assert!(header.contains(text), "{header}");
    }
}

#[test]
fn an_empty_struct_has_no_size_to_assert() {
    let header = marshal::cuda_header::<Empty>();
    assert!(header.contains("struct EmptyPointers {\n};\n#endif"), "{header}");
}
