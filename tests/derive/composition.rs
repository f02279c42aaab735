//! Sets of sets, with every kind of column in them.

use marshal::{Batch, Ragged, Scratch};

use crate::*;

#[derive(DeviceArgs)]
struct Inner {
    m: Vec<i32>,
    tokens: Ragged<u16>,
}

#[derive(DeviceArgs)]
struct Outer<'a> {
    #[device(nested)]
    inner: &'a Inner,
    out: Scratch<f32>,
    #[device(nested)]
    pair: (Inner, Inner),
    #[device(align = 64)]
    wide: Ragged<f64, i64>,
}

fn inner(m: i32) -> Inner {
    Inner { m: vec![m; 3], tokens: Ragged::from_rows([&[1, 2][..], &[]]).unwrap() }
}

#[test]
fn nested_sets_have_ragged_and_scratch_columns() {
    let first = inner(1);
    let wide = Ragged::from_rows([[1.0]]).unwrap();
    let args = Outer { inner: &first, out: Scratch::zeroed(3), pair: (inner(2), inner(3)), wide };
    let stream = HostDevice::new().stream();
    let dev = args.upload(&stream).unwrap();
    assert_eq!(dev.fetch(&dev.inner.m).unwrap(), [1; 3]);
    assert_eq!(dev.fetch(&dev.pair.1.m).unwrap(), [3; 3]);
    assert_eq!(dev.fetch(&dev.pair.1.tokens.values).unwrap(), [1, 2]);
    assert_eq!(dev.fetch(&dev.out).unwrap(), [0.0; 3]);
    let layout = dev.layout();
    let wide = ["wide", "wide.offsets", "wide.rows"].map(|name| layout.column(name).unwrap().offset);
    assert_eq!((wide, layout.column("out").unwrap().offset, layout.copy_bytes()), ([192, 256, 320], 384, 384));

    let dev = Batch::new(vec![args]).upload(&stream).unwrap();
    assert_eq!(dev.fetch(&dev[0].wide.values).unwrap(), [1.0]);
}

#[test]
fn a_header_declares_ragged_rows_and_vectors() {
    #[derive(DeviceArgs)]
    struct Kinds {
        tokens: Ragged<u16>,
        #[device(c_type = "Weight")]
        weights: Ragged<[u8; 3], u64>,
        spheres: Vec<marshal::vector::Float4>,
    }

    let header = marshal::cuda_header::<Kinds>();
    let members = "\
struct KindsPointers {
    marshal::RaggedPointers<unsigned short, int> tokens;
    marshal::RaggedPointers<Weight, unsigned long long> weights;
    marshal::DeviceColumn<float4> spheres;
};
";
    assert!(header.contains(members), "{header}");
    assert!(header.contains("static_assert(sizeof(KindsPointers) == 112"), "{header}");
    assert!(header.contains("static_assert(sizeof(float4) == 16 && alignof(float4) == 16"), "{header}");
}
