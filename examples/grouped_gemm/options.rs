//! What the command line asks for.

use std::path::PathBuf;

/// The seed where none is given. It leaves experts 0 and 4 idle.
const SEED: u64 = 20_261_130;

pub(crate) const HELP: &str = "\
One mixture-of-experts step as a grouped GEMM. marshal uploads its nine argument arrays as one block.

Where there is a CUDA device, three consumers compute the step from that block: a kernel compiled by
NVRTC, CUTLASS's grouped GEMM (a cubin that ci/build-cutlass.sh makes) and cuBLAS's
cublasGemmGroupedBatchedEx. Elsewhere a closure on marshal's host backend does. Every result is checked
against a reference in double precision; the exit status says whether all are right.

usage: grouped_gemm [OPTION]...
  --seed N|fresh            what tokens and matrices are drawn from: N, or a new seed
                            (GROUPED_GEMM_SEED, else 20261130)
  --backend auto|host|cuda  where to run (auto: cuda where there is a device)
  --consumers A,B,..        which to run of host, nvrtc, cutlass, cublas (all of the backend)
  --cubin PATH              CUTLASS's kernel (GROUPED_GEMM_CUBIN, else cutlass_grouped_gemm.cubin beside
                            the program, else in examples/kernels)
  --small                   only a very small step, for slow tools such as compute-sanitizer
  --require-all             a consumer that could not run is a failure
  --help                    this text
";

/// Which backend is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Auto,
    Host,
    Cuda,
}

/// The command line, read.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) backend: Wanted,
    /// None: all.
    pub(crate) consumers: Option<Vec<String>>,
    pub(crate) cubin: Option<PathBuf>,
    pub(crate) small: bool,
    pub(crate) require_all: bool,
    pub(crate) help: bool,
}

impl Options {
    /// Reads the arguments behind the program's name, and the environment.
    ///
    /// # Errors
    /// Says which argument is not understood.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seed: std::env::var("GROUPED_GEMM_SEED").map_or(Ok(SEED), |seed| parse_seed(&seed))?,
            backend: Wanted::Auto,
            consumers: None,
            cubin: std::env::var_os("GROUPED_GEMM_CUBIN").map(PathBuf::from),
            small: false,
            require_all: false,
            help: false,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--seed" => options.seed = parse_seed(&value()?)?,
                "--backend" => options.backend = parse_backend(&value()?)?,
                "--consumers" => options.consumers = Some(parse_consumers(&value()?)?),
                "--cubin" => options.cubin = Some(PathBuf::from(value()?)),
                "--small" => options.small = true,
                "--require-all" => options.require_all = true,
                "--help" | "-h" => options.help = true,
                _ => return Err(format!("{argument} is not understood, --help lists what is")),
            }
        }
        Ok(options)
    }

    pub(crate) fn wants(&self, consumer: &str) -> bool {
        self.consumers.as_ref().is_none_or(|wanted| wanted.iter().any(|name| name == consumer))
    }
}

fn parse_seed(text: &str) -> Result<u64, String> {
    match text {
        "fresh" => Ok(rand::random()),
        number => number.parse().map_err(|_| format!("{number} is no seed: a whole number below 2^64, or fresh")),
    }
}

fn parse_backend(text: &str) -> Result<Wanted, String> {
    match text {
        "auto" => Ok(Wanted::Auto),
        "host" => Ok(Wanted::Host),
        "cuda" => Ok(Wanted::Cuda),
        other => Err(format!("{other} is no backend: auto, host or cuda")),
    }
}

fn parse_consumers(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    match names.iter().find(|name| !["host", "nvrtc", "cutlass", "cublas"].contains(&name.as_str())) {
        Some(other) => Err(format!("{other} is no consumer: host, nvrtc, cutlass or cublas")),
        None => Ok(names),
    }
}
