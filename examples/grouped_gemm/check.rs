//! What is right: the products in double precision, and how far a result may be from them.

use std::fmt;
use std::num::NonZero;
use std::sync::Mutex;

use half::f16;

use super::problem::{Expert, Problem};

/// Every output buffer is filled with this byte before a consumer runs. As an element it is a NaN that no product gives.
pub(crate) const POISON: u8 = 0xFF;

/// Rows of a product that are computed at a time: their inputs stay in the cache.
const TILE_ROWS: usize = 32;

/// Partial sums of a dot product: independent of each other, so that the compiler can vectorise.
const LANES: usize = 8;

/// An element of an output.
pub(crate) trait Output: bytemuck::Pod + Into<f64> {
    const NAME: &'static str;

    /// The largest relative error of rounding an f32 sum to this type.
    const ROUNDING: f64;

    fn is_poison(&self) -> bool {
        bytemuck::bytes_of(self).iter().all(|byte| *byte == POISON)
    }
}

impl Output for f32 {
    const NAME: &'static str = "f32";
    const ROUNDING: f64 = 0.0;
}

impl Output for f16 {
    const NAME: &'static str = "f16";
    // Half a unit in the last of 11 bits.
    const ROUNDING: f64 = 1.0 / 2048.0;
}

/// How far a result is from the reference, and how far it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accuracy {
    output: &'static str,
    /// `||out - ref|| / ||ref||` over all elements.
    error: f64,
    bound: f64,
    /// The largest error of one element beyond the rounding to the output's type, in root mean squares of the reference.
    largest: f64,
    largest_bound: f64,
    elements: usize,
}

impl Accuracy {
    pub(crate) fn is_within_bounds(&self) -> bool {
        self.error <= self.bound && self.largest <= self.largest_bound
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { output, error, bound, largest, largest_bound, elements } = self;
        write!(f, "{output} output, relative error {error:.1e} (bound {bound:.1e}), ")?;
        write!(f, "one element at most {largest:.1e} (bound {largest_bound:.1e}), ")?;
        write!(f, "all {elements} elements written and none beside them")
    }
}

/// The bound on the relative error of a sum of `k` products in f32: 4 u sqrt(k), u being 2^-24.
///
/// The product of two halves is exact in f32. An addition is off by u, and errors of either sign grow as the square root of
/// their number. The factor leaves room for tensor cores, which cut off where others round.
fn sum_bound(k: usize) -> f64 {
    4.0 * 2.0_f64.powi(-24) * (k as f64).sqrt()
}

/// Compares an output buffer, as it came back from the device, with the reference: every element of every product is written
/// and right, and every other element is as it was.
///
/// `buffer` is what D's pointers lead into. A consumer that writes a type smaller than f32 fills each expert's part of it
/// only from the start.
///
/// # Errors
/// Says which element is not written, not finite, or written though it is in no product.
pub(crate) fn check<T: Output>(buffer: &[f32], problem: &Problem, reference: &[f64]) -> Result<Accuracy, String> {
    let (len_row, stride) = (problem.intermediate, problem.stride_d());
    let squares: f64 = reference.iter().map(|expected| expected * expected).sum();
    let root_mean_square = (squares / reference.len() as f64).sqrt();
    let (mut error_squares, mut largest) = (0.0, 0.0_f64);
    for &Expert { index, first_row, rows } in &problem.experts {
        let part: &[T] = bytemuck::cast_slice(&buffer[first_row * stride..][..rows * stride]);
        let (written, beside) = part.split_at(rows * stride);
        if !beside.iter().all(T::is_poison) {
            return Err(format!("expert {index}: written behind its last row"));
        }
        for (row, got) in written.chunks_exact(stride).enumerate() {
            if !got[len_row..].iter().all(T::is_poison) {
                return Err(format!("expert {index}: written past the end of row {row}"));
            }
            let expected = &reference[(first_row + row) * len_row..][..len_row];
            for (column, (got, expected)) in got.iter().zip(expected).enumerate() {
                let error = ((*got).into() - expected).abs();
                if !error.is_finite() {
                    let what = if got.is_poison() { "was not written" } else { "is not finite" };
                    return Err(format!("expert {index}: element ({row}, {column}) {what}"));
                }
                error_squares += error * error;
                largest = largest.max(error - T::ROUNDING * expected.abs());
            }
        }
    }
    Ok(Accuracy {
        output: T::NAME,
        error: (error_squares / squares).sqrt(),
        bound: sum_bound(problem.hidden) + T::ROUNDING,
        largest: largest / root_mean_square,
        // The largest of 10^8 errors that fall as a bell curve is some six times their root mean square.
        largest_bound: 8.0 * sum_bound(problem.hidden),
        elements: reference.len(),
    })
}

/// Rows and columns of each expert that [`samples`] takes.
#[cfg(feature = "cuda")]
pub(crate) const SAMPLES: usize = 16;

/// Some products, as (index in the reference, value): a grid over each expert's rows and columns, the first and the last among
/// them.
#[cfg(feature = "cuda")]
pub(crate) fn samples(problem: &Problem) -> Vec<(usize, f64)> {
    let spread = |len: usize| (0..SAMPLES).map(move |i| i * (len - 1) / (SAMPLES - 1));
    let mut samples = Vec::new();
    for expert in problem.experts.iter().filter(|expert| expert.rows > 0) {
        for row in spread(expert.rows) {
            for column in spread(problem.intermediate) {
                let row = expert.first_row + row;
                let a = problem.row_of_a(row).iter().copied().map(f64::from);
                let b = problem.column_of_b(expert.index, column).iter().copied().map(f64::from);
                let product = a.zip(b).map(|(a, b)| a * b).sum();
                samples.push((row * problem.intermediate + column, product));
            }
        }
    }
    samples
}

/// Whether pairs of sums in double precision differ by rounding alone: by 1e-12 of their root mean square at most.
///
/// # Errors
/// Says how far the worst pair is apart.
#[cfg(feature = "cuda")]
pub(crate) fn agree(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Result<(), String> {
    let squares: f64 = pairs.clone().map(|(_, expected)| expected * expected).sum();
    let root_mean_square = (squares / pairs.clone().count() as f64).sqrt();
    for (got, expected) in pairs {
        let error = (got - expected).abs() / root_mean_square;
        if error.is_nan() || error > 1e-12 {
            return Err(format!("{got} instead of {expected}"));
        }
    }
    Ok(())
}

/// The products in double precision, in which the inputs and the products of two are exact. Rows of all experts stand one
/// behind the other, without padding.
pub(crate) fn reference(problem: &Problem) -> Vec<f64> {
    let len_row = problem.intermediate;
    let mut products = vec![0.0; problem.rows() * len_row];
    let mut tiles = Vec::new();
    let mut rest = products.as_mut_slice();
    for expert in &problem.experts {
        let (part, behind) = rest.split_at_mut(expert.rows * len_row);
        tiles.extend(part.chunks_mut(TILE_ROWS * len_row).enumerate().map(|tile| (expert, tile)));
        rest = behind;
    }
    let tiles = Mutex::new(tiles.into_iter());
    let next = || tiles.lock().expect("no other thread has panicked").next();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((expert, (tile, products))) = next() {
                    reference_tile(problem, expert, tile * TILE_ROWS, products);
                }
            });
        }
    });
    products
}

fn reference_tile(problem: &Problem, expert: &Expert, first_row: usize, products: &mut [f64]) {
    let to_f64 = |halves: &[f16]| halves.iter().copied().map(f64::from).collect::<Vec<_>>();
    let rows = products.len() / problem.intermediate;
    let rows: Vec<_> = (0..rows).map(|row| to_f64(problem.row_of_a(expert.first_row + first_row + row))).collect();
    for column in 0..problem.intermediate {
        let weights = to_f64(problem.column_of_b(expert.index, column));
        for (row, products) in rows.iter().zip(products.chunks_exact_mut(problem.intermediate)) {
            products[column] = dot(row, &weights);
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let tail = a.len() - a.len() % LANES;
    sums.iter().sum::<f64>() + a[tail..].iter().zip(&b[tail..]).map(|(a, b)| a * b).sum::<f64>()
}
