//! End to end: the grouped GEMM step of a mixture of experts, its arguments brought by each way, and what share of it they cost.
//!
//! The step is that of the example `grouped_gemm`, in Mixtral-8x7B's own shape, computed by CUTLASS's kernel. The element that is new
//! in each call is one that the kernel does not read. The example checks the products; here each way's must be those of the first,
//! byte for byte, and of those some are compared with the CPU.

use std::path::Path;

use half::f16;
use marshal::DevicePointer;

use super::args::{GemmCoord, GroupedGemm, Touch};
use super::attempt::attempt;
use super::cutlass::Cutlass;
use super::gpu::{Device, Gpu};
use super::graphs::{self, Replay};
use super::measure::{Effort, Subject, back_to_back, in_turns, pipelined, single};
use super::problem::{Cut, Problem};
use super::record::{Row, Table};
use super::sweep::{self, Ready};
use super::way::{Job, Side};
use super::{limits, ours};

const SEED: u64 = 20_261_130;
const POISON: u8 = 0xa5;

/// The step at each number of tokens: eager and in a graph.
pub(crate) fn run(
    gpu: &Gpu,
    cubin: Option<&Path>,
    tokens: &[usize],
    effort: Effort,
) -> Result<(Vec<Table>, Vec<Table>), String> {
    let cutlass = Cutlass::load(gpu, cubin).map_err(|error| error.to_string())?;
    let (mut eager, mut in_graphs) = (Vec::new(), Vec::new());
    for &tokens in tokens {
        let step = Step::new(gpu, &cutlass, tokens);
        step.check_first()?;
        eager.push(step.eager(effort));
        in_graphs.push(step.in_a_graph(effort));
    }
    Ok((eager, in_graphs))
}

struct Step<'g> {
    gpu: &'g Gpu,
    cutlass: &'g Cutlass,
    problem: Problem,
    args: GroupedGemm,
    tokens: usize,
    // The matrices that the arguments lead to.
    _a: Device,
    _b: Device,
    d: Device,
}

impl<'g> Step<'g> {
    fn new(gpu: &'g Gpu, cutlass: &'g Cutlass, tokens: usize) -> Self {
        let problem = Problem::draw(Cut { divisor: 1, tokens }, SEED);
        let a = holding(&problem.a);
        let b = holding(&problem.b);
        let d = Device::new(size_of::<f32>() * problem.len_d());
        let at = |device: &Device| DevicePointer::<u8>::from_raw(device.address).expect("not null");
        let args = problem.arguments(at(&a).cast(), at(&b).cast(), at(&d).cast());
        let args = GroupedGemm {
            problem_sizes: args
                .problem_sizes
                .iter()
                .map(|size| GemmCoord { m: size.m, n: size.n, k: size.k })
                .collect(),
            ptr_a: args.ptr_a.iter().map(|pointer| pointer.cast()).collect(),
            ptr_b: args.ptr_b.iter().map(|pointer| pointer.cast()).collect(),
            ptr_c: args.ptr_c,
            ptr_d: args.ptr_d,
            lda: args.lda,
            ldb: args.ldb,
            ldc: args.ldc,
            ldd: args.ldd,
        };
        Self { gpu, cutlass, problem, args, tokens, _a: a, _b: b, d }
    }

    fn launch(&self, addresses: [u64; super::args::COLUMNS]) {
        self.cutlass.launch(self.gpu, addresses, i32::try_from(self.args.groups()).expect("a few experts"));
    }

    /// The products that `give` makes the kernel compute.
    fn products(&self, give: impl FnOnce()) -> Vec<u8> {
        self.d.fill(POISON, self.gpu);
        give();
        self.gpu.settle();
        let mut bytes = vec![0; size_of::<f32>() * self.problem.len_d()];
        self.d.read(&mut bytes);
        bytes
    }

    fn job(&self) -> Job<'g> {
        Job { gpu: self.gpu, args: self.args.clone(), touch: Touch::Unread }
    }

    /// What a one-shot upload computes.
    fn first(&self) -> Vec<u8> {
        self.products(|| {
            let set = marshal::DeviceArgs::upload(&self.args, &self.gpu.stream).expect("uploaded");
            self.launch(ours::addresses(&set));
        })
    }

    /// The first and the last product of every expert that has rows, against the CPU.
    fn check_first(&self) -> Result<(), String> {
        let products = self.first();
        let problem = &self.problem;
        for expert in problem.experts.iter().filter(|expert| expert.rows > 0) {
            for (row, column) in [(0, 0), (expert.rows - 1, problem.intermediate - 1)] {
                let row = expert.first_row + row;
                let at = size_of::<f32>() * (row * problem.stride_d() + column);
                let found = f32::from_ne_bytes(products[at..at + 4].try_into().expect("four bytes"));
                let factors = problem.row_of_a(row).iter().zip(problem.column_of_b(expert.index, column));
                let expected: f64 = factors.map(|(a, b)| a.to_f64() * b.to_f64()).sum();
                // Sums of 4096 products below 1: f32 rounds them by far less.
                if (f64::from(found) - expected).abs() > 0.05 {
                    return Err(format!("WRONG PRODUCT: {found} at row {row}, column {column}, not {expected}"));
                }
            }
        }
        Ok(())
    }

    fn eager(&self, effort: Effort) -> Table {
        let first = self.first();
        let all = sweep::entries().filter(|entry| ![limits::F, ours::LAST].contains(&entry.name));
        let mut ready: Vec<Ready<'_>> = all
            .map(|entry| {
                let way = attempt(|| {
                    let mut way = (entry.setup)(self.job())?;
                    let products = self.products(|| way.call(1, Some(&mut |addresses| self.launch(addresses))));
                    if products == first { Ok(way) } else { Err("WRONG PRODUCTS".to_owned()) }
                });
                (entry, way)
            })
            .collect();
        let mut subjects: Vec<Subject<'_>> = ready
            .iter_mut()
            .filter_map(|(_, way)| way.as_mut().ok())
            .map(|way| -> Subject<'_> {
                let mut number = 1;
                Box::new(move |samples| {
                    let mut step = || {
                        number += 1;
                        way.call(number, Some(&mut |addresses| self.launch(addresses)));
                    };
                    samples.back_to_back.push(back_to_back(self.gpu, effort.calls, &mut step));
                    samples.pipelined.push(pipelined(self.gpu, effort.calls, &mut step));
                    for _ in 0..effort.singles {
                        let (host, to_kernel) = single(self.gpu, &mut step);
                        samples.host.push(host);
                        samples.to_kernel.push(to_kernel);
                    }
                })
            })
            .collect();
        let mut timings = in_turns(&mut subjects, effort.rounds).into_iter();
        drop(subjects);
        let rows = ready.iter().map(|(entry, way)| match way {
            Ok(_) => sweep::row(entry, timings.next().unwrap_or_default()),
            Err(why) => Row { not_run: Some(why.clone()), ..sweep::row(entry, Default::default()) },
        });
        let rows = rows.collect();
        self.table("eager", rows)
    }

    fn in_a_graph(&self, effort: Effort) -> Table {
        let first = self.first();
        let launch = |addresses| self.launch(addresses);
        let mut ways = graphs::replays(self.gpu, &self.args, Touch::Unread, &launch);
        let held = marshal::DeviceArgs::upload(&self.args, &self.gpu.stream).expect("uploaded");
        let alone = graphs::capture(self.gpu, || self.launch(ours::addresses(&held)));
        ways.push((
            ours::HELD,
            Side::Marshal,
            "cuGraphLaunch of the kernel alone",
            Box::new(Alone { graph: alone, args: self.args.clone() }),
        ));
        let wrong: Vec<bool> = ways.iter_mut().map(|way| self.products(|| way.3.replay(1)) != first).collect();
        let mut subjects: Vec<Subject<'_>> =
            ways.iter_mut().map(|way| graphs::subject(&mut *way.3, self.gpu, effort.calls, effort.singles)).collect();
        let timings = in_turns(&mut subjects, effort.rounds);
        drop(subjects);
        let rows = ways.iter().zip(timings).zip(wrong).map(|((way, timings), wrong)| Row {
            name: way.0.into(),
            side: way.1,
            calls: way.2.into(),
            note: String::new(),
            timings: if wrong { Default::default() } else { timings },
            not_run: wrong.then(|| "WRONG PRODUCTS".to_owned()),
        });
        let rows = rows.collect();
        self.table("in a graph", rows)
    }

    fn table(&self, how: &str, rows: Vec<Row>) -> Table {
        let kind = if self.tokens <= 64 { "decode" } else { "prefill" };
        let bytes = self.args.offsets(16).1;
        Table {
            title: format!("{} token{} ({kind}), {how}", self.tokens, if self.tokens == 1 { "" } else { "s" }),
            number: self.tokens,
            bytes,
            rows,
        }
    }
}

/// A graph whose arguments stay.
struct Alone {
    graph: cudarc::driver::CudaGraph,
    args: GroupedGemm,
}

impl Replay for Alone {
    fn replay(&mut self, _: u64) {
        self.graph.launch().expect("launched");
    }

    fn args(&self) -> &GroupedGemm {
        &self.args
    }
}

fn holding(matrix: &[f16]) -> Device {
    let bytes = bytemuck::cast_slice(matrix);
    let device = Device::new(bytes.len());
    device.copy_now(0, bytes);
    device
}
