//! The step on the host backend: a closure in the place of the kernel.

use std::time::Instant;

use half::f16;
use half::slice::HalfFloatSliceExt;
use marshal::host::{DeviceMemory, HostDevice};
use marshal::{DeviceArgs, Error};

use super::check::{self, POISON, check};
use super::options::Options;
use super::problem::{Cut, GemmCoord, GroupedGemm, Problem, SMALLEST};
use super::report::{Outcome, Report, describe};

/// A step that a CPU computes in seconds.
const CUT: Cut = Cut { divisor: 8, tokens: 512 };

/// Threads that compute.
const THREADS: usize = 2;
/// Rows of A that meet a column of B while it is in the first-level cache.
const TILE_ROWS: usize = 32;
/// Partial sums of a dot product: independent of each other, so that the compiler can vectorise.
const LANES: usize = 16;

type Pointers = <GroupedGemm<'static> as DeviceArgs>::Pointers;

/// Runs the step.
///
/// # Errors
/// When the host backend finds a mistake in how its memory is used.
pub(crate) fn run(options: &Options, report: &mut Report) -> Result<(), Error> {
    for consumer in ["nvrtc", "cutlass", "cublas"] {
        if options.wants(consumer) {
            report.add(consumer, &Outcome::NotRun("it needs a GPU".to_owned()));
        }
    }
    if !options.wants("host") {
        return Ok(());
    }
    let cut = if options.small { SMALLEST } else { CUT };
    let problem = Problem::draw(cut, options.seed);
    describe(&problem, cut.divisor);

    let device = HostDevice::new();
    let stream = device.stream();
    let a = stream.clone_htod(&problem.a)?;
    let b = stream.clone_htod(&problem.b)?;
    let d = stream.alloc::<f32>(problem.len_d())?;
    stream.memset(d.pointer(), size_of::<f32>() * d.len(), POISON)?;

    let before = device.counters();
    let dev = problem.arguments(a.pointer(), b.pointer(), d.pointer()).upload(&stream)?;
    let after = device.counters();
    print!("{}", dev.layout());
    println!(
        "upload: {} block of {} bytes, {} copy of {} bytes, as the backend has counted",
        after.device_allocs - before.device_allocs,
        dev.layout().size_bytes(),
        after.copies - before.copies,
        after.copied_bytes - before.copied_bytes,
    );

    let pointers = *dev;
    let started = Instant::now();
    stream.launch(move |memory| grouped_gemm(memory, pointers))?;
    stream.synchronize()?;
    println!("  the closure took {:.2} s", started.elapsed().as_secs_f64());

    println!("  reference: in f64, every element");
    let reference = check::reference(&problem);
    let outcome = check::<f32>(&d.to_vec()?, &problem, &reference).map_or_else(Outcome::Failed, Outcome::Checked);
    report.add("host", &outcome);
    Ok(())
}

/// The kernel: all that it knows it reads from the columns, and all that they lead to it reads from device memory.
///
/// Assumes that no D overlaps another matrix, and that every C is null.
fn grouped_gemm(memory: &DeviceMemory, args: Pointers) {
    assert!(memory.read(args.ptr_c).iter().all(Option::is_none), "this kernel adds nothing to the products");
    let (ptr_a, ptr_b, ptr_d) = (memory.read(args.ptr_a), memory.read(args.ptr_b), memory.read(args.ptr_d));
    let (lda, ldb, ldd) = (memory.read(args.lda), memory.read(args.ldb), memory.read(args.ldd));
    for (problem, &GemmCoord { m, n, k }) in memory.read(args.problem_sizes).iter().enumerate() {
        let [m, n, k] = [m, n, k].map(|extent| extent_of(extent.into()));
        let [lda, ldb, ldd] = [lda, ldb, ldd].map(|column| extent_of(column[problem]));
        if m == 0 {
            continue;
        }
        // The last vector ends with its last element: what would follow may be another's.
        let a = memory.read_at(ptr_a[problem], (m - 1) * lda + k);
        let b = memory.read_at(ptr_b[problem], (n - 1) * ldb + k);
        let products = gemm(&vectors(a, lda, k), &vectors(b, ldb, k));
        for (row, products) in products.chunks_exact(n).enumerate() {
            let destination = ptr_d[problem].checked_add(row * ldd).expect("inside the matrix");
            memory.write_at(destination, products);
        }
    }
}

fn extent_of(number: i64) -> usize {
    usize::try_from(number).expect("sizes and strides are not negative")
}

/// Rows of A, or columns of B: `len` elements every `stride`.
fn vectors(matrix: &[f16], stride: usize, len: usize) -> Vec<&[f16]> {
    matrix.chunks(stride).map(|vector| &vector[..len]).collect()
}

/// Every row of A times every column of B, row-major, in f32.
fn gemm(rows: &[&[f16]], columns: &[&[f16]]) -> Vec<f32> {
    let mut products = vec![0.0; rows.len() * columns.len()];
    let rows_each = rows.len().div_ceil(THREADS);
    std::thread::scope(|scope| {
        for (rows, products) in rows.chunks(rows_each).zip(products.chunks_mut(rows_each * columns.len())) {
            scope.spawn(move || {
                for (rows, products) in rows.chunks(TILE_ROWS).zip(products.chunks_mut(TILE_ROWS * columns.len())) {
                    gemm_tile(rows, columns, products);
                }
            });
        }
    });
    products
}

fn gemm_tile(rows: &[&[f16]], columns: &[&[f16]], products: &mut [f32]) {
    let rows: Vec<_> = rows.iter().map(|row| row.to_f32_vec()).collect();
    let mut weights = vec![0.0; rows[0].len()];
    for (index, column) in columns.iter().enumerate() {
        column.convert_to_f32_slice(&mut weights);
        for (row, products) in rows.iter().zip(products.chunks_exact_mut(columns.len())) {
            products[index] = dot(row, &weights);
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let (a_lanes, b_lanes) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail = a_lanes.remainder().iter().zip(b_lanes.remainder()).map(|(a, b)| a * b).sum::<f32>();
    for (a, b) in a_lanes.zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + tail
}
