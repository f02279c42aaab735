//! The collector of errors: a derive says all that is wrong in one go.

use std::fmt::Display;
use std::mem;
use std::thread;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Gathers errors, each at its own span. It panics when it is dropped unchecked, so that no error can be lost.
pub(crate) struct Errors {
    errors: Vec<syn::Error>,
    checked: bool,
}

impl Errors {
    pub(crate) fn new() -> Self {
        Self { errors: Vec::new(), checked: false }
    }

    /// An error on all of `tokens`.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// An error at `span`.
    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.push(syn::Error::new(span, message));
    }

    /// An error that a parser made.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// All errors as `compile_error!` calls, in the order in which they were found.
    pub(crate) fn into_tokens(mut self) -> TokenStream {
        self.checked = true;
        mem::take(&mut self.errors).iter().map(syn::Error::to_compile_error).collect()
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        assert!(self.checked || thread::panicking(), "the errors of a derive were dropped unchecked");
    }
}
