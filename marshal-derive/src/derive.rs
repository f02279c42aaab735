//! From the struct's tokens to the code, step by step.

use proc_macro2::TokenStream;
use syn::DeriveInput;

use crate::errors::Errors;
use crate::model::Model;
use crate::{check, expand};

/// The derive on tokens that a test can make too.
pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let input: DeriveInput = match syn::parse2(input) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::new();
    let mut model = Model::new(&input, &mut errors);
    check::check(&mut model, &mut errors);
    let code = expand::expand(&model);
    let errors = errors.into_tokens();
    quote::quote!(#errors #code)
}
