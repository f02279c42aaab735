//! CUDA's own compiler accepts what `cuda_header` writes, with all that it asserts. It needs NVRTC and no GPU: `ci/venv-cuda.sh` gets it.
//! Where it is missing the tests are reported as not run; with `NEEDS_NVRTC` set that is a failure.

mod header;

use std::{env, fs, panic};

use cudarc::nvrtc::{CompileOptions, compile_ptx, compile_ptx_with_opts};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// Whether cudarc finds the library: it panics where it does not.
fn is_nvrtc_here() -> bool {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let is_here =
        panic::catch_unwind(|| compile_ptx("extern \"C\" __global__ void nothing() {}")).is_ok_and(|ptx| ptx.is_ok());
    panic::set_hook(hook);
    is_here
}

/// Compiles `source` beside the header of every element.
fn compile(source: &str, options: &[&str]) -> Result<String, String> {
    let folder = env!("CARGO_TARGET_TMPDIR");
    fs::write(format!("{folder}/every.h"), marshal::cuda_header::<header::Every>())
        .map_err(|error| error.to_string())?;
    let options = CompileOptions {
        include_paths: vec![folder.to_owned()],
        options: options.iter().map(|&option| option.to_owned()).collect(),
        ..CompileOptions::default()
    };
    compile_ptx_with_opts(source, options).map(|ptx| ptx.to_src()).map_err(|error| format!("{error:?}"))
}

/// With the sizes and offsets that Rust has, which the header asserts. Whether a device agrees is for the tests on a GPU.
fn the_header_of_every_element_compiles() {
    assert_eq!(header::description().len(), 2 + 3 * 28 + 1);
    assert_eq!(header::every().class.len(), 27);
    let ptx = compile(&header::source(), &[]).unwrap();
    assert!(ptx.contains(".entry describe"), "{ptx}");
    compile(&header::source(), &["--std=c++14"]).unwrap();
}

fn integers_of_128_bits_are_the_compilers_own_where_it_has_them() {
    let source = header::source() + "__global__ void add(EveryElement set) { set.u128s[0] = set.u128s[0] + 1; }";
    compile(&source, &["--device-int128"]).unwrap();
}

fn a_wrong_size_is_refused() {
    let source = header::source().replace("int m, n, k;", "int m, n;");
    let error = compile(&source, &[]).unwrap_err();
    assert!(error.contains("Coord is 12 bytes, aligned to 4"), "{error}");
}

fn main() {
    let arguments = Arguments::from_args();
    let tests: [(&str, fn()); 3] = [
        ("the_header_of_every_element_compiles", the_header_of_every_element_compiles),
        (
            "integers_of_128_bits_are_the_compilers_own_where_it_has_them",
            integers_of_128_bits_are_the_compilers_own_where_it_has_them,
        ),
        ("a_wrong_size_is_refused", a_wrong_size_is_refused),
    ];
    let is_here = is_nvrtc_here();
    if !is_here {
        println!("not run: no NVRTC (ci/venv-cuda.sh gets it; put its folder into LD_LIBRARY_PATH)");
    }
    let trials = tests.map(|(name, test)| {
        Trial::ignorable_test(name, move || -> Result<Completion, Failed> {
            if is_here {
                test();
                return Ok(Completion::Completed);
            }
            if env::var_os("NEEDS_NVRTC").is_some() {
                return Err("NEEDS_NVRTC is set, and there is no NVRTC".into());
            }
            Ok(Completion::ignored_with("not run: no NVRTC"))
        })
    });
    libtest_mimic::run(&arguments, trials.into()).exit();
}
