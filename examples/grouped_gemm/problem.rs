//! The step that is computed: which tokens go to which expert, the matrices, and the arguments that describe them.

use half::f16;
use marshal::{DeviceArgs, DevicePointer};
use rand::rngs::StdRng;
use rand::seq::{SliceRandom, index};
use rand::{RngExt, SeedableRng};

/// Mixtral-8x7B: the experts of a layer, how many of them a token goes to, and the shape of an expert's first projection.
pub(crate) const EXPERTS: usize = 8;
const EXPERTS_PER_TOKEN: usize = 2;
pub(crate) const HIDDEN: usize = 4096;
pub(crate) const INTERMEDIATE: usize = 14336;

/// Experts that no token is sent to, so that empty problems are always there.
const IDLE_EXPERTS: usize = 2;

/// Elements behind each row of every matrix that belong to no product: NaN in the inputs, and not to be touched in the
/// output. They keep a row's stride from being its length, and every row 16-byte aligned.
const ROW_PADDING: usize = 8;

/// The sizes of one problem, as CUTLASS has them.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct GemmCoord {
    pub(crate) m: i32,
    pub(crate) n: i32,
    pub(crate) k: i32,
}

/// The arguments of a grouped GEMM, `d[g] = a[g] * b[g]`: one entry a problem in every array.
#[derive(DeviceArgs)]
pub(crate) struct GroupedGemm<'a> {
    pub(crate) problem_sizes: &'a [GemmCoord],
    pub(crate) ptr_a: Vec<DevicePointer<f16>>,
    pub(crate) ptr_b: Vec<DevicePointer<f16>>,
    pub(crate) ptr_c: Vec<Option<DevicePointer<f32>>>,
    pub(crate) ptr_d: Vec<DevicePointer<f32>>,
    pub(crate) lda: Vec<i64>,
    pub(crate) ldb: Vec<i64>,
    pub(crate) ldc: Vec<i64>,
    pub(crate) ldd: Vec<i64>,
}

impl GroupedGemm<'_> {
    /// Kernels that load and store whole vectors fault on a misaligned one: `alignment_ab` elements of A and B, `alignment_d`
    /// of C and D must make up every row, and a matrix must begin at a multiple of 16 bytes.
    ///
    /// # Errors
    /// Names the problem, what it has and what it needs.
    #[cfg(feature = "cuda")]
    pub(crate) fn check_alignment(&self, alignment_ab: usize, alignment_d: usize) -> Result<(), String> {
        let [ab, d] = [i64::try_from(alignment_ab), i64::try_from(alignment_d)].map(|n| n.expect("a few elements"));
        for (problem, size) in self.problem_sizes.iter().enumerate() {
            let extents = [
                ("k", i64::from(size.k), ab),
                ("lda", self.lda[problem], ab),
                ("ldb", self.ldb[problem], ab),
                ("n", i64::from(size.n), d),
                ("ldc", self.ldc[problem], d),
                ("ldd", self.ldd[problem], d),
            ];
            if let Some((name, found, needed)) = extents.into_iter().find(|(_, found, needed)| found % needed != 0) {
                return Err(format!("problem {problem}: {name} is {found}, the kernel needs a multiple of {needed}"));
            }
            let c = self.ptr_c[problem].map_or(0, DevicePointer::address);
            let addresses = [
                ("A", self.ptr_a[problem].address()),
                ("B", self.ptr_b[problem].address()),
                ("C", c),
                ("D", self.ptr_d[problem].address()),
            ];
            if let Some((name, found)) = addresses.into_iter().find(|(_, address)| !address.is_multiple_of(16)) {
                return Err(format!(
                    "problem {problem}: {name} begins at {found:#x}, the kernel needs a multiple of 16"
                ));
            }
        }
        Ok(())
    }
}

/// How large a step is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Both of the model's dimensions are divided by this.
    pub(crate) divisor: usize,
    pub(crate) tokens: usize,
}

/// A step that slow tools, such as compute-sanitizer, get through.
pub(crate) const SMALLEST: Cut = Cut { divisor: 64, tokens: 48 };

/// One step: the tokens that the router gave to each expert times that expert's weights.
///
/// Rows of all experts stand one behind the other in A and in D, weights of all experts one behind the other in B. A is
/// row-major; B is column-major, which is to say that an output's weights are contiguous; D is row-major.
pub(crate) struct Problem {
    /// One an expert; `m` is 0 for an idle one.
    pub(crate) sizes: Vec<GemmCoord>,
    pub(crate) experts: Vec<Expert>,
    pub(crate) hidden: usize,
    pub(crate) intermediate: usize,
    pub(crate) a: Vec<f16>,
    pub(crate) b: Vec<f16>,
}

/// The rows of A and D that belong to an expert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expert {
    pub(crate) index: usize,
    pub(crate) first_row: usize,
    pub(crate) rows: usize,
}

impl Problem {
    /// Draws a step: the same one for the same seed.
    pub(crate) fn draw(cut: Cut, seed: u64) -> Self {
        let hidden = HIDDEN / cut.divisor;
        let intermediate = INTERMEDIATE / cut.divisor;
        let mut rng = StdRng::seed_from_u64(seed);
        let experts = draw_experts(cut.tokens, &mut rng);
        let rows: usize = experts.iter().map(|expert| expert.rows).sum();
        let sizes = experts.iter().map(|expert| coord(expert.rows, intermediate, hidden)).collect();
        let a = draw_matrix(rows, hidden, rng.random());
        let seeds: [u64; EXPERTS] = rng.random();
        let b = std::thread::scope(|scope| {
            let weights = seeds.map(|seed| scope.spawn(move || draw_matrix(intermediate, hidden, seed)));
            weights.map(|expert| expert.join().expect("drawing does not panic")).concat()
        });
        Self { sizes, experts, hidden, intermediate, a, b }
    }

    /// The row stride of A and the column stride of B, in elements.
    pub(crate) fn stride_ab(&self) -> usize {
        self.hidden + ROW_PADDING
    }

    /// The row stride of D, in elements.
    pub(crate) fn stride_d(&self) -> usize {
        self.intermediate + ROW_PADDING
    }

    /// All rows of A and D.
    pub(crate) fn rows(&self) -> usize {
        self.experts.iter().map(|expert| expert.rows).sum()
    }

    /// Elements of D, padding included.
    pub(crate) fn len_d(&self) -> usize {
        self.rows() * self.stride_d()
    }

    /// The elements of one row of A.
    pub(crate) fn row_of_a(&self, row: usize) -> &[f16] {
        &self.a[row * self.stride_ab()..][..self.hidden]
    }

    /// The elements of one column of an expert's B.
    pub(crate) fn column_of_b(&self, expert: usize, column: usize) -> &[f16] {
        &self.b[(expert * self.intermediate + column) * self.stride_ab()..][..self.hidden]
    }

    /// The arguments for the matrices at these addresses: the one thing that is uploaded.
    pub(crate) fn arguments(
        &self,
        a: DevicePointer<f16>,
        b: DevicePointer<f16>,
        d: DevicePointer<f32>,
    ) -> GroupedGemm<'_> {
        let each = |base, step: &dyn Fn(&Expert) -> usize| self.experts.iter().map(|e| at(base, step(e))).collect();
        let stride_ab = i64::try_from(self.stride_ab()).expect("a few thousand");
        let stride_d = i64::try_from(self.stride_d()).expect("a few thousand");
        GroupedGemm {
            problem_sizes: &self.sizes,
            ptr_a: each(a, &|expert| expert.first_row * self.stride_ab()),
            ptr_b: each(b, &|expert| expert.index * self.intermediate * self.stride_ab()),
            // Nothing is added to the products.
            ptr_c: vec![None; EXPERTS],
            ptr_d: self.experts.iter().map(|expert| at(d, expert.first_row * self.stride_d())).collect(),
            lda: vec![stride_ab; EXPERTS],
            ldb: vec![stride_ab; EXPERTS],
            ldc: vec![stride_d; EXPERTS],
            ldd: vec![stride_d; EXPERTS],
        }
    }
}

fn at<T>(base: DevicePointer<T>, elements: usize) -> DevicePointer<T> {
    base.checked_add(elements).expect("inside the buffer that `base` points to")
}

/// Sends every token to two experts, some experts being far more popular than others.
fn draw_experts(tokens: usize, rng: &mut StdRng) -> Vec<Expert> {
    let mut order: [usize; EXPERTS] = std::array::from_fn(|expert| expert);
    order.shuffle(rng);
    let mut popularity = [0.0; EXPERTS];
    for (rank, expert) in order.into_iter().skip(IDLE_EXPERTS).enumerate() {
        popularity[expert] = 0.6_f64.powi(i32::try_from(rank).expect("below 8"));
    }
    let mut rows = [0; EXPERTS];
    for _ in 0..tokens {
        let chosen = index::sample_weighted(rng, EXPERTS, |expert| popularity[expert], EXPERTS_PER_TOKEN);
        for expert in chosen.expect("the weights are finite and not negative") {
            rows[expert] += 1;
        }
    }
    let mut first_row = 0;
    let place = |(index, rows)| {
        let expert = Expert { index, first_row, rows };
        first_row += rows;
        expert
    };
    rows.into_iter().enumerate().map(place).collect()
}

/// Vectors of `len` elements between -1 and 1, each followed by the padding.
fn draw_matrix(vectors: usize, len: usize, seed: u64) -> Vec<f16> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut matrix = vec![f16::NAN; vectors * (len + ROW_PADDING)];
    for vector in matrix.chunks_exact_mut(len + ROW_PADDING) {
        for element in &mut vector[..len] {
            *element = f16::from_f32(rng.random_range(-1.0..1.0));
        }
    }
    matrix
}

fn coord(m: usize, n: usize, k: usize) -> GemmCoord {
    let size = |extent| i32::try_from(extent).expect("an extent of the model, or a count of tokens");
    GemmCoord { m: size(m), n: size(n), k: size(k) }
}
