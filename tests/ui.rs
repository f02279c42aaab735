//! Every message of the derive: `tests/ui/*.rs` with what the compiler says of each in `.stderr`. `TRYBUILD=overwrite` writes those
//! anew.

#[test]
fn mistakes_are_said_once_each_at_their_own_place() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("../tests/ui/*.rs");
    if cfg!(feature = "cuda") {
        cases.compile_fail("../tests/ui/cuda/*.rs");
    }
    cases.pass("../tests/ui/pass/*.rs");
}
