//! From the integers that hosts count in to those that kernels take: checked, never cut off.

use crate::element::Element;
use crate::error::{Error, ErrorKind};

/// The values as elements of a narrower integer type: `usize` lengths as the `i32` or `u32` of a kernel's column.
///
/// ```
/// let lens = [128_usize, 0, 2_147_483_647];
/// assert_eq!(marshal::narrow::<i32>("m", &lens)?, [128, 0, i32::MAX]);
///
/// let error = marshal::narrow::<i32>("m", &[1, 2_476_250_368_usize]).unwrap_err();
/// assert_eq!(error.to_string(), "column `m`: element 1 is 2476250368, which does not fit i32");
/// # Ok::<(), marshal::Error>(())
/// ```
///
/// # Errors
/// When a value does not fit; the error names the column, the index and the value.
pub fn narrow<T: Element>(
    column: &'static str,
    values: &[impl Copy + TryInto<T> + TryInto<i128>],
) -> Result<Vec<T>, Error> {
    let narrowed = |(index, &value)| TryInto::<T>::try_into(value).map_err(|_| does_not_fit::<T>(column, index, value));
    values.iter().enumerate().map(narrowed).collect()
}

/// The error of element `index`, which is `value`, in a column of `T`.
#[cold]
pub(crate) fn does_not_fit<T>(column: &'static str, index: usize, value: impl TryInto<i128>) -> Error {
    let (value, element) = (value.try_into().unwrap_or(i128::MAX), core::any::type_name::<T>());
    Error::new(ErrorKind::DoesNotFit { column, index: index as u64, value, element })
}
