//! What holds for every input, on inputs that are drawn. `PROPTEST_CASES` says how many; a failure prints the smallest case that
//! was found. The fuzz targets draw the same cases from what libFuzzer makes up, and their corpus runs here too.

mod bytes;
mod cached;
mod columns;
mod found;
mod oracle;
mod pack;
mod plan;
mod rows;

use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, proptest};
use proptest::test_runner::Config;

/// So many cases, or as `PROPTEST_CASES` says. A case that failed is kept as a test with a name, not in a file of seeds.
fn config(cases: u32) -> Config {
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { cases };
    Config { cases, failure_persistence: None, ..Config::default() }
}

fn columns() -> impl Strategy<Value = Vec<[u8; 4]>> {
    vec(any::<[u8; 4]>(), 0..=columns::MOST)
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn layout_image_and_pointers_are_the_oracles(
        case in (any::<[u8; pack::HEADER]>(), columns()).prop_map(|(header, columns)| pack::Case::read(header, &columns))
    ) {
        pack::check(&case);
    }

    #[test]
    fn rows_are_columns(
        case in (any::<u16>(), any::<u8>(), columns()).prop_map(|(rows, size, columns)| rows::Case::read(rows, size, &columns))
    ) {
        rows::check(&case);
    }

    #[test]
    fn a_plan_never_wraps(
        columns in vec(any::<[u8; 4]>().prop_map(plan::Planned::read), 0..8)
    ) {
        plan::check(&columns);
    }

    #[test]
    fn what_no_host_has_is_refused(columns in columns().prop_map(|columns| plan::far_apart(&columns))) {
        plan::check_far_apart(&columns);
    }

    #[test]
    fn the_cache_is_its_model(
        case in (any::<cached::ops::Header>(), vec(vec(any::<[u8; 4]>(), 0..=cached::ops::WIDTH), 1..5), vec(any::<cached::ops::Step>(), 0..80))
            .prop_map(|(header, shapes, ops)| cached::ops::Case::read(header, &shapes, &ops))
    ) {
        cached::check(&case);
    }
}

/// Runs every input of that part of the fuzz targets' corpus.
fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut inputs = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        run(&std::fs::read(entry.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 10, "{} has {inputs} inputs: the test reads the wrong place", folder.display());
}

#[test]
fn the_corpus_of_layouts_passes() {
    replay("layout", bytes::layout_of);
}

#[test]
fn the_corpus_of_programs_passes() {
    replay("cache", bytes::cache_of);
}
