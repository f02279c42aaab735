//! The layout algebra, through the public plan: right values written out, no device.

use marshal::{Alignment, Layout};

fn offsets(layout: &Layout) -> Vec<u64> {
    layout.columns().iter().map(|c| c.offset).collect()
}

#[test]
fn every_order_of_mixed_fields_is_aligned() {
    #[derive(Clone, Copy)]
    enum Field {
        I32,
        F64,
        F32,
    }
    use Field::{F32, F64, I32};
    let plan = |order: [Field; 3], alignment: u64| {
        let alignment = Alignment::new(alignment).unwrap();
        let mut plan = Layout::builder();
        for field in order {
            match field {
                I32 => plan.column_aligned::<i32>("i", 1, alignment).unwrap(),
                F64 => plan.column_aligned::<f64>("d", 1, alignment).unwrap(),
                F32 => plan.column_aligned::<f32>("f", 1, alignment).unwrap(),
            };
        }
        plan.finish().unwrap()
    };
    assert_eq!(offsets(&plan([I32, F64, F32], 16)), [0, 16, 32]);
    assert_eq!(offsets(&plan([I32, F64, F32], 1)), [0, 8, 16]);
    assert_eq!(plan([I32, F64, F32], 1).size_bytes(), 24);
    let orders = [[I32, F64, F32], [I32, F32, F64], [F64, I32, F32], [F64, F32, I32], [F32, I32, F64], [F32, F64, I32]];
    let natural: Vec<_> = orders.map(|order| offsets(&plan(order, 1))).into();
    assert_eq!(natural, [[0, 8, 16], [0, 4, 8], [0, 8, 12], [0, 8, 12], [0, 4, 8], [0, 8, 16]]);
    for order in orders {
        assert_eq!(offsets(&plan(order, 16)), [0, 16, 32]);
    }
}

#[test]
fn the_size_of_an_element_is_not_its_alignment() {
    // Like a complex number: 16 bytes, aligned to 8.
    let mut plan = Layout::builder();
    let eight = Alignment::new(8).unwrap();
    plan.column_aligned::<u64>("first", 1, eight).unwrap().column_aligned::<[f64; 2]>("complex", 3, eight).unwrap();
    assert_eq!(offsets(&plan.finish().unwrap()), [0, 8]);
}

#[test]
fn columns_that_end_aligned_have_no_slack() {
    let mut plan = Layout::builder();
    plan.column::<u8>("a", 16).unwrap().column::<u8>("b", 16).unwrap().column::<u8>("c", 16).unwrap();
    let layout = plan.finish().unwrap();
    assert_eq!(offsets(&layout), [0, 16, 32]);
    assert_eq!(layout.size_bytes(), 48);
}

#[test]
fn columns_of_every_small_length_are_aligned_and_disjoint() {
    for len in 1..=33 {
        let mut plan = Layout::builder();
        plan.column::<u8>("bytes", len).unwrap().column::<f32>("floats", 4).unwrap().column::<u64>("words", 1).unwrap();
        let layout = plan.finish().unwrap();
        let floats = if len <= 16 {
            16
        } else if len <= 32 {
            32
        } else {
            48
        };
        assert_eq!(offsets(&layout), [0, floats, floats + 16]);
        assert_eq!(layout.size_bytes(), floats + 32);
    }
}

#[test]
fn one_field_may_ask_for_more_than_the_others() {
    let mut plan = Layout::builder();
    plan.column::<u8>("a", 1).unwrap();
    plan.column_aligned::<u8>("b", 1, Alignment::GROUPED_TMA).unwrap().column::<u8>("c", 1).unwrap();
    let layout = plan.finish().unwrap();
    assert_eq!(offsets(&layout), [0, 64, 80]);
    let alignments: Vec<_> = layout.columns().iter().map(|c| c.alignment).collect();
    assert_eq!(alignments, [16, 64, 16]);
    assert_eq!((layout.alignment(), layout.size_bytes()), (64, 128));
}

#[test]
fn arrays_keep_the_alignment_of_their_elements() {
    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C, align(32))]
    struct Wide([u64; 4]);

    let mut plan = Layout::builder();
    plan.column_aligned::<u8>("byte", 1, Alignment::BYTE).unwrap();
    plan.column_aligned::<[u128; 4]>("u128s", 1, Alignment::BYTE).unwrap();
    plan.column_aligned::<[Wide; 2]>("wides", 2, Alignment::BYTE).unwrap();
    let layout = plan.finish().unwrap();
    assert_eq!(offsets(&layout), [0, 16, 96]);
    let wides = layout.column("wides").unwrap();
    assert_eq!((wides.alignment, wides.element_bytes, wides.size_bytes), (32, 64, 128));
}

#[test]
fn a_stride_is_the_size_of_the_element() {
    let mut plan = Layout::builder();
    plan.column::<[i64; 1]>("one", 3).unwrap().column::<[i64; 2]>("two", 3).unwrap();
    let strides: Vec<_> = plan.finish().unwrap().columns().iter().map(|c| c.element_bytes).collect();
    assert_eq!(strides, [8, 16]);
}

#[test]
fn a_million_words_are_eight_mebibytes() {
    let mut plan = Layout::builder();
    plan.column::<u64>("words", 1 << 20).unwrap();
    assert_eq!(plan.finish().unwrap().size_bytes(), 8 << 20);
}

#[test]
fn planning_past_four_gibibytes_needs_no_memory() {
    let mut plan = Layout::builder();
    for name in ["x", "y", "z"] {
        plan.column::<f64>(name, 1 << 30).unwrap();
    }
    let layout = plan.finish().unwrap();
    assert_eq!(offsets(&layout), [0, 8 << 30, 16 << 30]);
    assert_eq!(layout.size_bytes(), 24 << 30);
}

#[test]
fn a_column_that_passes_the_last_byte_is_named() {
    let mut plan = Layout::builder();
    let error = plan.column::<u64>("ptr_a", u64::MAX / 8 + 1).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("`ptr_a`") && message.contains("2305843009213693952"), "{message}");
}

#[test]
fn no_columns_are_no_bytes() {
    let layout = Layout::builder().finish().unwrap();
    assert_eq!((layout.size_bytes(), layout.copy_bytes(), layout.alignment(), layout.columns().len()), (0, 0, 1, 0));
}

#[test]
fn equal_totals_of_other_shapes_are_other_layouts() {
    let plan = |lens: [u64; 2]| {
        let mut plan = Layout::builder();
        plan.column::<u64>("a", lens[0]).unwrap().column::<u64>("b", lens[1]).unwrap();
        plan.finish().unwrap()
    };
    assert_eq!(plan([3, 5]).size_bytes(), 80);
    assert_eq!(plan([5, 3]).size_bytes(), 80);
    assert_ne!(plan([3, 4]), plan([4, 3]));
    assert_eq!(plan([3, 5]), plan([3, 5]));
}
