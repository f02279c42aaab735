//! Whatever is written, the derive answers with items. The fuzz target draws from the same grammar.

#[path = "../../tests/properties/grammar.rs"]
mod grammar;

use std::path::Path;
use std::str::FromStr;
use std::{env, fs};

use proc_macro2::TokenStream;
use proptest::prelude::{ProptestConfig, any, proptest};

/// An expansion that is a list of items, with errors in it or without, and no panic.
fn check(data: &[u8]) {
    let text = grammar::text(data);
    // What is no token cannot come to a macro.
    let Ok(tokens) = TokenStream::from_str(&text) else { return };
    let expansion = crate::derive(tokens);
    if let Err(error) = syn::parse2::<syn::File>(expansion.clone()) {
        panic!("{error}: `{text}` became `{expansion}`");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_text_becomes_items(data in proptest::collection::vec(any::<u8>(), 0..60)) {
        check(&data);
    }
}

#[test]
fn the_corpus_becomes_items() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/derive");
    let mut inputs = 0;
    for entry in fs::read_dir(&folder).expect("the corpus is kept") {
        check(&fs::read(entry.expect("the folder can be read").path()).expect("the file can be read"));
        inputs += 1;
    }
    assert!(inputs > 10, "{} has {inputs} inputs: the test reads the wrong place", folder.display());
}
