//! What the command line asks for.

use std::path::PathBuf;

pub(crate) const HELP: &str = "\
marshal beside what people use today, on a GPU.

usage: peers [OPTION]...
  --out DIR       where tables, data and plots are kept (nowhere: they are printed only)
  --quick         fewer sizes, rounds and calls: a minute
  --sizes A,B,..  groups of the sweep (8,64,256,1024,8192,65536,1000000)
  --tokens A,B,.. tokens of the end-to-end steps (1,8,64,2048)
  --rounds N      rounds in which all ways take turns (20; 5 above 16 MB)
  --cubin PATH    CUTLASS's kernel (cutlass_grouped_gemm.cubin beside the program, else in examples/kernels)
  --python PATH   a Python with PyTorch and CuPy (python3)
  --no-python     without them
  --commit ID     what the results are marked with (asked of git)
  --help          this text
";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) out: Option<PathBuf>,
    pub(crate) quick: bool,
    pub(crate) sizes: Option<Vec<usize>>,
    pub(crate) tokens: Option<Vec<usize>>,
    pub(crate) rounds: Option<usize>,
    pub(crate) cubin: Option<PathBuf>,
    /// None: not to be run.
    pub(crate) python: Option<String>,
    pub(crate) commit: Option<String>,
    pub(crate) help: bool,
}

impl Options {
    /// # Errors
    /// Says which argument is not understood.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            out: None,
            quick: false,
            sizes: None,
            tokens: None,
            rounds: None,
            cubin: None,
            python: Some("python3".to_owned()),
            commit: None,
            help: false,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--out" => options.out = Some(value()?.into()),
                "--quick" => options.quick = true,
                "--sizes" => options.sizes = Some(numbers(&value()?)?),
                "--tokens" => options.tokens = Some(numbers(&value()?)?),
                "--rounds" => options.rounds = numbers(&value()?)?.first().copied(),
                "--cubin" => options.cubin = Some(value()?.into()),
                "--python" => options.python = Some(value()?),
                "--no-python" => options.python = None,
                "--commit" => options.commit = Some(value()?),
                // What `cargo bench` adds.
                "--bench" => {}
                "--help" | "-h" => options.help = true,
                _ => return Err(format!("{argument} is not understood, --help lists what is")),
            }
        }
        Ok(options)
    }

    pub(crate) fn sizes(&self) -> Vec<usize> {
        let all: &[usize] =
            if self.quick { &[8, 64, 1024, 65_536] } else { &[8, 64, 256, 1024, 8192, 65_536, 1_000_000] };
        self.sizes.clone().unwrap_or_else(|| all.to_vec())
    }

    pub(crate) fn tokens(&self) -> Vec<usize> {
        let all: &[usize] = if self.quick { &[1, 512] } else { &[1, 8, 64, 2048] };
        self.tokens.clone().unwrap_or_else(|| all.to_vec())
    }
}

/// Whole numbers above 0.
fn numbers(text: &str) -> Result<Vec<usize>, String> {
    let number = |text: &str| text.parse().ok().filter(|&number| number > 0);
    text.split(',').map(|text| number(text).ok_or(format!("{text} is no whole number above 0"))).collect()
}
