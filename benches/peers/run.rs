//! The run: its parts, one after the other, and what is kept of them.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use super::attempt::{attempt, is_failure};
use super::claims::{self, Claim, Loss};
use super::gpu::Gpu;
use super::kernel::Kernel;
use super::measure::Effort;
use super::options::{HELP, Options};
use super::record::Run;
use super::{args, counters, devices, graphs, layers, machine, outside, pieces, plot, report, step, sweep};

pub(crate) fn main() -> ExitCode {
    let run = Options::parse(std::env::args().skip(1)).map_err(Into::into).and_then(all);
    match run {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every way brought the right bytes. What a claim asks and a run does not hold is said, and is no failure.
fn all(options: Options) -> Result<bool, Box<dyn Error>> {
    if options.help {
        print!("{HELP}");
        return Ok(true);
    }
    let gpu = Gpu::new()?;
    let run = measure(&gpu, &options)?;
    let (claims, losses) = (claims::all(&run), claims::losses(&run));
    let (tables, verdict) = (report::tables(&run), report::verdict(&run, &claims, &losses));
    match &options.out {
        Some(folder) => keep(folder, &run, &(tables + &verdict), &claims, &losses)?,
        None => print!("{tables}"),
    }
    print!("{verdict}");
    let rows = run.tables().flat_map(|table| &table.rows).filter_map(|row| row.not_run.as_ref());
    let failures = rows.chain(&run.not_run).filter(|why| is_failure(why)).count();
    match failures {
        0 => println!("every way that ran brought the right bytes"),
        some => println!("{some} FAILED: see above"),
    }
    Ok(failures == 0)
}

fn measure(gpu: &Gpu, options: &Options) -> Result<Run, Box<dyn Error>> {
    let kernel = Kernel::new(gpu)?;
    let effort = |bytes| Effort::for_bytes(bytes, options.rounds, options.quick);
    let bytes_of = |groups| args::GroupedGemm::new(groups).offsets(16).1;
    let Effort { rounds, calls, singles } = effort(bytes_of(64));
    let described =
        format!("{rounds} rounds of {calls} calls back to back and {singles} single ones at 64 groups, fewer at more.");
    let mut run = Run::new(machine::describe(gpu, options.commit.as_deref(), described));

    let not_run = &mut run.not_run;
    run.sizes = part("sweep", not_run, || {
        let sizes = options.sizes().into_iter();
        Ok(sizes.map(|groups| sweep::run(gpu, &kernel, groups, effort(bytes_of(groups)))).collect())
    });
    if let Some(python) = &options.python {
        let rounds = effort(1).rounds;
        let missing = part("PyTorch and CuPy", not_run, || outside::run(python, &mut run.sizes, rounds));
        not_run.extend(missing);
    } else {
        not_run.push("PyTorch and CuPy: not asked for".to_owned());
    }
    let small: &[usize] = if options.quick { &[64] } else { &[8, 64, 256, 1024] };
    run.layers = part("layers", not_run, || {
        Ok(small.iter().map(|&groups| layers::run(gpu, &kernel, groups, effort(32 * bytes_of(groups)))).collect())
    });
    run.graphs = part("graphs", not_run, || {
        Ok(small.iter().map(|&groups| graphs::run(gpu, &kernel, groups, effort(bytes_of(groups)))).collect())
    });
    run.pieces = part("pieces", not_run, || {
        Ok(small.iter().map(|&groups| pieces::run(gpu, groups, effort(bytes_of(groups)))).collect())
    });
    run.counters = part("counters", not_run, || {
        let sizes = options.sizes().into_iter().filter(|groups| [64, 1024, 1_000_000].contains(groups));
        Ok(sizes.flat_map(|groups| counters::run(gpu, groups)).collect())
    });
    run.devices = part("two devices", not_run, || {
        let pair = devices::Pair::new(gpu)?;
        small.iter().map(|&groups| devices::run(gpu, &pair, groups, effort(2 * bytes_of(groups)))).collect()
    });
    // A step takes a millisecond: ten rounds of a few are enough.
    let rounds = options.rounds.unwrap_or(if options.quick { 3 } else { 10 });
    let effort = Effort { rounds, calls: 10, singles: 3 };
    (run.steps, run.graph_steps) =
        part("the grouped GEMM step", not_run, || step::run(gpu, options.cubin.as_deref(), &options.tokens(), effort));
    Ok(run)
}

/// What a part found; nothing where it failed, which is noted. Says on stderr how long it took: the program's own time is watched.
fn part<T: Default>(name: &str, not_run: &mut Vec<String>, run: impl FnOnce() -> Result<T, String>) -> T {
    let start = Instant::now();
    let result = attempt(run);
    eprintln!("{name}: {:.1} s", start.elapsed().as_secs_f64());
    result.unwrap_or_else(|why| {
        not_run.push(format!("{name}: {why}"));
        T::default()
    })
}

/// What is kept of a run.
#[derive(serde::Serialize)]
struct Kept<'r> {
    #[serde(flatten)]
    run: &'r Run,
    claims: &'r [Claim],
    losses: &'r [Loss],
}

fn keep(folder: &Path, run: &Run, text: &str, claims: &[Claim], losses: &[Loss]) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("peers.md"), text)?;
    std::fs::write(folder.join("peers.json"), serde_json::to_string_pretty(&Kept { run, claims, losses })? + "\n")?;
    plot::draw(folder, run)
}
