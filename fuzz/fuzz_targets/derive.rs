//! The derive, on any source text: an expansion that is a list of items, with errors in it or without, and never a panic.
#![no_main]

// A macro's crate exports nothing else: its own files are compiled here.
#[path = "../../marshal-derive/src/check.rs"]
mod check;
#[path = "../../marshal-derive/src/column.rs"]
mod column;
#[path = "../../marshal-derive/src/derive.rs"]
mod derive;
#[path = "../../marshal-derive/src/detach.rs"]
mod detach;
#[path = "../../marshal-derive/src/errors.rs"]
mod errors;
#[path = "../../marshal-derive/src/expand.rs"]
mod expand;
#[path = "../../marshal-derive/src/generics.rs"]
mod generics;
#[path = "../../tests/properties/grammar.rs"]
mod grammar;
#[path = "../../marshal-derive/src/mentions.rs"]
mod mentions;
#[path = "../../marshal-derive/src/model.rs"]
mod model;
#[path = "../../marshal-derive/src/parse.rs"]
mod parse;
#[path = "../../marshal-derive/src/plain.rs"]
mod plain;
#[path = "../../marshal-derive/src/pointers.rs"]
mod pointers;
#[path = "../../marshal-derive/src/symbol.rs"]
mod symbol;
#[path = "../../marshal-derive/src/write.rs"]
mod write;

use std::str::FromStr;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = grammar::text(data);
    // What is no token cannot come to a macro.
    let Ok(tokens) = proc_macro2::TokenStream::from_str(&text) else { return };
    let expansion = derive::derive(tokens);
    if let Err(error) = syn::parse2::<syn::File>(expansion.clone()) {
        panic!("{error}: `{text}` became `{expansion}`");
    }
});
