//! A mixture-of-experts step as a grouped GEMM: its nine argument arrays go to the device as one block, with one copy.
//!
//! `cargo run --release --example grouped_gemm` computes it on a GPU where there is one, and on the host backend elsewhere;
//! `-- --help` lists the options. What a user of the library writes is `GroupedGemm` in `grouped_gemm/problem.rs`, the upload
//! and the launches; the rest draws a step and checks every result against a reference in double precision.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

mod grouped_gemm {
    pub(crate) mod check;
    pub(crate) mod host;
    pub(crate) mod options;
    pub(crate) mod problem;
    pub(crate) mod report;

    #[cfg(feature = "cuda")]
    pub(crate) mod cublas;
    #[cfg(feature = "cuda")]
    pub(crate) mod cuda;
    #[cfg(feature = "cuda")]
    pub(crate) mod cutlass;
    #[cfg(feature = "cuda")]
    pub(crate) mod nvrtc;
}

use grouped_gemm::options::{HELP, Options, Wanted};
use grouped_gemm::report::Report;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).map_err(Into::into).and_then(run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every consumer that ran is right, and enough of them ran.
fn run(options: Options) -> Result<bool, Box<dyn Error>> {
    if options.help {
        print!("{HELP}");
        return Ok(true);
    }
    let started = Instant::now();
    let mut report = Report::default();
    println!("seed: {}", options.seed);
    match (options.backend, missing_device()) {
        (Wanted::Host, _) => {
            println!("backend: host, as asked for");
            grouped_gemm::host::run(&options, &mut report)?;
        }
        (Wanted::Auto, Some(why)) => {
            println!("backend: host, since {why}");
            grouped_gemm::host::run(&options, &mut report)?;
        }
        (Wanted::Cuda, Some(why)) => return Err(why.into()),
        (Wanted::Auto | Wanted::Cuda, None) => {
            println!("backend: cuda");
            #[cfg(feature = "cuda")]
            grouped_gemm::cuda::run(&options, &mut report)?;
        }
    }
    println!("took {:.1} s", started.elapsed().as_secs_f64());
    Ok(report.finish(&options))
}

/// Why there is no GPU to run on.
#[cfg(feature = "cuda")]
fn missing_device() -> Option<&'static str> {
    (!marshal::cuda::is_available()).then_some("no CUDA driver, or no device of it, was found")
}

/// Why there is no GPU to run on.
#[cfg(not(feature = "cuda"))]
fn missing_device() -> Option<&'static str> {
    Some("this build is without the feature `cuda`")
}
