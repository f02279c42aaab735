//! `scalar` and `skip`.

use crate::*;

#[derive(DeviceArgs)]
struct Words<'a> {
    #[device(scalar)]
    alpha: f32,
    #[device(skip)]
    label: String,
    x: Vec<u16>,
    #[device(scalar, align = 64)]
    count: NonZeroU32,
    marker: PhantomData<&'a str>,
}

#[test]
fn a_scalar_is_a_column_of_one_and_a_skipped_field_is_none() {
    let args =
        Words { alpha: 1.0, label: "host".to_owned(), x: vec![2, 3], count: NonZeroU32::MIN, marker: PhantomData };
    assert_eq!(places(&args), (vec![("alpha", 0, 1), ("x", 16, 2), ("count", 64, 1)], 128));
    assert_eq!(image(&args)[..4], 1.0_f32.to_ne_bytes());
    assert_eq!(args.label, "host");
    // Only columns are in the pointers.
    let WordsPointers { alpha: _, x: _, count: _ } = *args.upload(&HostDevice::new().stream()).unwrap();
}
