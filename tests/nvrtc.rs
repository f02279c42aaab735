//! CUDA's own compiler accepts what `cuda_header` writes, with all that it asserts. It needs NVRTC and no GPU: `ci/venv-cuda.sh` gets it.
//! With the features of small floats the variable `CUDA_INCLUDE` names the folder of the headers that declare them, which the same script
//! gets. Where something is missing the tests are reported as not run; with `NEEDS_NVRTC` set that is a failure.

mod header;

use std::{env, panic};

use cudarc::nvrtc::{CompileOptions, compile_ptx, compile_ptx_with_opts};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// What is missing. cudarc panics where it does not find the library.
fn missing() -> Option<String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let is_here =
        panic::catch_unwind(|| compile_ptx("extern \"C\" __global__ void nothing() {}")).is_ok_and(|ptx| ptx.is_ok());
    panic::set_hook(hook);
    let library = (!is_here).then(|| "NVRTC: put its folder into LD_LIBRARY_PATH".to_owned());
    library.or_else(|| header::include_paths().err())
}

/// Compiles `source`; what NVRTC would warn of as deprecated is an error.
fn compile(source: &str, options: &[&str]) -> Result<String, String> {
    let options = CompileOptions {
        include_paths: header::include_paths()?,
        options: options.iter().chain(&["--diag-error=1444"]).map(|&option| option.to_owned()).collect(),
        ..CompileOptions::default()
    };
    compile_ptx_with_opts(source, options).map(|ptx| ptx.to_src()).map_err(|error| format!("{error:?}"))
}

/// With the sizes and offsets that Rust has, which the header asserts. Whether a device agrees is for the tests on a GPU.
fn the_header_of_every_element_compiles() {
    let small_floats = 6 * usize::from(cfg!(feature = "half")) + 2 * usize::from(cfg!(feature = "float8"));
    assert_eq!(header::description().len(), 2 + 3 * (49 + small_floats) + 1);
    assert_eq!(header::every().class.len(), 48 + small_floats);
    assert_eq!(header::values().len(), 3 + small_floats);
    let ptx = compile(&header::source(), &[]).unwrap();
    assert!(ptx.contains(".entry describe") && ptx.contains(".entry values"), "{ptx}");
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
    let missing = missing();
    if let Some(missing) = &missing {
        println!("not run, for lack of {missing} (ci/venv-cuda.sh --nvrtc gets it)");
    }
    let trials = tests.map(|(name, test)| {
        let missing = missing.clone();
        Trial::ignorable_test(name, move || -> Result<Completion, Failed> {
            let Some(missing) = missing else {
                test();
                return Ok(Completion::Completed);
            };
            if env::var_os("NEEDS_NVRTC").is_some() {
                return Err(format!("NEEDS_NVRTC is set; there is no {missing}").into());
            }
            Ok(Completion::ignored_with(format!("not run, for lack of {missing}")))
        })
    });
    libtest_mimic::run(&arguments, trials.into()).exit();
}
