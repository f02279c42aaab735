//! marshal beside what people use today, on a GPU, in one run: every way of bringing kernel arguments to the device does the same job
//! in turns, and is checked for right bytes before it is timed. `cargo bench --bench peers`
//!
//! Prints tables, and with `--out` keeps them as Markdown, JSON and SVG. Without a GPU it says so and ends well. Never one number alone:
//! a machine's clocks move, ratios of one run count.
//!
//! A way is an entry with a name, the driver's calls, where it is from, and how it is set up: another peer is another entry in
//! `theirs.rs`. `layers.rs` has those that bring many sets at once, `graphs.rs` those of captured graphs, `devices.rs` those of two devices. `measure.rs` lets them take
//! turns, `claims.rs` says what must hold, `report.rs` and `plot.rs` show it.

use std::process::ExitCode;

#[cfg(feature = "cuda")]
mod peers {
    pub(crate) mod args;
    pub(crate) mod attempt;
    pub(crate) mod claims;
    pub(crate) mod counters;
    pub(crate) mod cutlass;
    pub(crate) mod devices;
    pub(crate) mod gpu;
    pub(crate) mod graphs;
    pub(crate) mod heap;
    pub(crate) mod kernel;
    pub(crate) mod layers;
    pub(crate) mod limits;
    pub(crate) mod machine;
    pub(crate) mod measure;
    pub(crate) mod options;
    pub(crate) mod ours;
    pub(crate) mod outside;
    pub(crate) mod pieces;
    pub(crate) mod plot;
    pub(crate) mod record;
    pub(crate) mod report;
    pub(crate) mod run;
    pub(crate) mod step;
    pub(crate) mod sweep;
    pub(crate) mod theirs;
    pub(crate) mod way;

    #[path = "../../examples/grouped_gemm/problem.rs"]
    #[allow(dead_code, reason = "the example uses the rest")]
    pub(crate) mod problem;
}

fn main() -> ExitCode {
    #[cfg(feature = "cuda")]
    if marshal::cuda::is_available() {
        return peers::run::main();
    }
    println!("not run: no CUDA device");
    ExitCode::SUCCESS
}
