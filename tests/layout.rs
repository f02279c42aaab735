//! The layout algebra, through the public plan: right values written out, no device.

use marshal::{Alignment, ColumnSpec, Content, ErrorKind, Layout, Ragged};

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
fn a_name_at_another_address_is_the_same_name() {
    let plan = |name: &'static str| {
        let mut plan = Layout::builder();
        plan.column::<u32>(name, 3).unwrap();
        plan.finish().unwrap()
    };
    let names = "mmn";
    assert_eq!(plan(&names[..1]), plan(&names[1..2]));
    assert_ne!(plan(&names[..1]), plan(&names[2..]));
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

#[test]
fn sections_of_every_mix_are_aligned_disjoint_and_in_order() {
    const CONTENTS: [Content; 3] = [Content::Copied, Content::Zeroed, Content::Uninit];
    const ALIGNMENTS: [u64; 4] = [1, 16, 64, 4096];
    // Every mix of contents in five columns, with lengths and alignments that change from mix to mix.
    for mix in 0..3_usize.pow(5) {
        let columns: Vec<(usize, u64, u64)> = (0..5)
            .map(|i| {
                (
                    mix / 3_usize.pow(i) % 3,
                    (mix as u64 * 7 + u64::from(i) * 13) % 40,
                    ALIGNMENTS[(mix * 5 + i as usize * 3) % 4],
                )
            })
            .collect();
        let mut plan = Layout::builder();
        for &(content, len, alignment) in &columns {
            let spec = ColumnSpec::new("column").with_alignment(Alignment::new(alignment).unwrap());
            plan.scratch::<u16>(spec, CONTENTS[content], len).unwrap();
        }
        let layout = plan.finish().unwrap();

        // The slow, obvious way: one section after the other.
        let (mut end, mut ends) = (0_u64, Vec::new());
        let mut expected = vec![0; 5];
        for section in 0..3 {
            let members: Vec<usize> = (0..5).filter(|&i| columns[i].0 == section).collect();
            let largest = members.iter().map(|&i| columns[i].2.max(2)).max().unwrap_or(1);
            end = end.next_multiple_of(largest);
            for i in members {
                end = end.next_multiple_of(columns[i].2.max(2));
                expected[i] = end;
                end += 2 * columns[i].1;
            }
            end = end.next_multiple_of(largest);
            ends.push(end);
        }
        assert_eq!(offsets(&layout), expected, "{columns:?}");
        assert_eq!((layout.copy_bytes(), layout.size_bytes()), (ends[0], ends[2]), "{columns:?}");
        // Each column ends before the next of its section begins: the padding says where.
        for (i, column) in layout.columns().iter().enumerate() {
            let next = (i + 1..5).find(|&j| columns[j].0 == columns[i].0).map_or(ends[columns[i].0], |j| expected[j]);
            assert_eq!(column.offset + column.size_bytes + column.padding, next, "{columns:?}");
        }
    }
}

#[test]
fn scratch_that_passes_the_last_byte_is_named() {
    let mut plan = Layout::builder();
    plan.column::<u8>("copied", 100).unwrap();
    let error = plan.scratch::<u64>(ColumnSpec::new("sums"), Content::Zeroed, u64::MAX / 8 + 1).unwrap_err();
    assert!(error.to_string().contains("`sums`"), "{error}");
    // Each fits, both do not.
    plan.scratch::<u8>(ColumnSpec::new("sums"), Content::Uninit, u64::MAX - 100).unwrap();
    assert!(matches!(*plan.finish().unwrap_err().kind(), ErrorKind::Overflow { column: "sums", .. }));
}

#[test]
fn offsets_that_do_not_ascend_are_named() {
    let refused = |values: usize, offsets: &[i32]| {
        Ragged::from_parts(vec![0_u8; values], offsets.to_vec()).map(|_| ()).unwrap_err().kind().clone()
    };
    let wrong = |index, offset, least, most| ErrorKind::RaggedOffset { index, offset, least, most };
    assert_eq!(refused(3, &[]), wrong(0, None, 0, 3));
    assert_eq!(refused(3, &[0]), wrong(1, None, 0, 3));
    assert_eq!(refused(3, &[1, 3]), wrong(0, Some(1), 0, 0));
    assert_eq!(refused(3, &[0, 2, 1, 3]), wrong(2, Some(1), 2, 3));
    assert_eq!(refused(3, &[0, 4, 3]), wrong(1, Some(4), 0, 3));
    assert_eq!(refused(3, &[0, -1, 3]), wrong(1, Some(-1), 0, 3));
    assert_eq!(refused(3, &[0, 2]), wrong(1, Some(2), 3, 3));
    assert_eq!(refused(0, &[0, i32::MIN]), wrong(1, Some(i128::from(i32::MIN)), 0, 0));
    let ragged = Ragged::from_parts(vec![7_u8; 3], vec![0, 0, 3, 3]).unwrap();
    assert_eq!([0, 1, 2, 3].map(|row| ragged.row(row).map(<[u8]>::len)), [Some(0), Some(3), Some(0), None]);
    assert_eq!(ragged.row(usize::MAX), None);
}

#[test]
fn ragged_rows_may_be_added_and_taken_out() {
    let mut ragged = Ragged::<u8>::new();
    assert!(ragged.is_empty());
    ragged.push(&[1, 2]).unwrap();
    ragged.push(&[]).unwrap();
    assert_eq!((ragged.len(), ragged.values(), ragged.offsets()), (2, &[1, 2][..], &[0, 2, 2][..]));
    assert_eq!(format!("{ragged:?}"), "[[1, 2], []]");
    ragged.clear();
    assert_eq!(ragged, Ragged::new());
    // Rows without bytes reach any length.
    let error = Ragged::<()>::from_rows([vec![(); 1 << 31]]).unwrap_err();
    let kind = ErrorKind::DoesNotFit { column: "offsets", index: 1, value: 1 << 31, element: "i32" };
    assert_eq!(*error.kind(), kind);
    assert_eq!(Ragged::<(), u32>::from_rows([vec![(); 1 << 31]]).unwrap().offsets(), [0, 1 << 31]);
}

#[test]
fn a_value_that_does_not_fit_its_column_is_named() {
    let lens = [2_476_250_368_usize, 7];
    let kind = ErrorKind::DoesNotFit { column: "m", index: 0, value: 2_476_250_368, element: "i32" };
    assert_eq!(*marshal::narrow::<i32>("m", &lens).unwrap_err().kind(), kind);
    assert_eq!(marshal::narrow::<u32>("m", &lens).unwrap(), [2_476_250_368, 7]);
    assert_eq!(marshal::narrow::<i32>("m", &[(1_usize << 31) - 1]).unwrap(), [i32::MAX]);
    assert!(marshal::narrow::<i32>("m", &[1_usize << 31]).is_err());
    assert_eq!(marshal::narrow::<i8>("m", &[-128_i64, 127]).unwrap(), [-128, 127]);
    let kind = ErrorKind::DoesNotFit { column: "n", index: 1, value: -1, element: "u16" };
    assert_eq!(*marshal::narrow::<u16>("n", &[1_i32, -1]).unwrap_err().kind(), kind);
    let kind = ErrorKind::DoesNotFit { column: "n", index: 0, value: i128::MAX, element: "u64" };
    assert_eq!(*marshal::narrow::<u64>("n", &[u128::MAX]).unwrap_err().kind(), kind);
}
