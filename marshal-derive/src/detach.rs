//! Types of the argument struct, said in the pointer struct.
//!
//! A set does not borrow its arguments, so its type has no lifetime of theirs: `'static` stands in their place, as elements
//! outlive everything anyway. A field that borrows keeps its own.

use std::collections::HashSet;
use std::mem;

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{DeriveInput, ExprPath, GenericParam, Lifetime, Macro, Path, QSelf, Type, TypePath, parse_quote};

/// Rewrites what stands in the argument struct so that it means the same outside of it.
pub(crate) struct Detach {
    lifetimes: HashSet<Ident>,
    this: Type,
}

impl Detach {
    /// Puts `'static` in place of the struct's lifetimes.
    pub(crate) fn new(input: &DeriveInput) -> Self {
        let lifetimes = input.generics.lifetimes().map(|param| param.lifetime.ident.clone()).collect();
        Self { lifetimes, this: this(input, |_| quote!('static)) }
    }

    /// Keeps the struct's lifetimes.
    pub(crate) fn keeping(input: &DeriveInput) -> Self {
        Self { lifetimes: HashSet::new(), this: this(input, ToTokens::to_token_stream) }
    }

    /// `Self` is the argument struct, also in front of `::`.
    fn path(&self, qself: &mut Option<QSelf>, path: &mut Path) {
        if qself.is_none() && path.segments.len() > 1 && path.segments[0].ident == "Self" {
            let rest = path.segments.iter().skip(1);
            let this = &self.this;
            let TypePath { qself: of_this, path: new, .. } = parse_quote!(<#this>::#(#rest)::*);
            (*qself, *path) = (of_this, new);
        }
    }

    fn tokens(&self, tokens: TokenStream) -> TokenStream {
        let mut after_quote = false;
        let map = |token| {
            let is_lifetime =
                mem::replace(&mut after_quote, matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '\''));
            match token {
                TokenTree::Ident(name) if is_lifetime && self.lifetimes.contains(&name) => {
                    Ident::new("static", name.span()).into()
                }
                TokenTree::Group(group) => {
                    let mut new = Group::new(group.delimiter(), self.tokens(group.stream()));
                    new.set_span(group.span());
                    new.into()
                }
                other => other,
            }
        };
        tokens.into_iter().map(map).collect()
    }
}

/// What `Self` is.
fn this(input: &DeriveInput, lifetime: impl Fn(&Lifetime) -> TokenStream) -> Type {
    let name = &input.ident;
    if input.generics.params.is_empty() {
        return parse_quote!(#name);
    }
    let arguments = input.generics.params.iter().map(|param| match param {
        GenericParam::Lifetime(param) => lifetime(&param.lifetime),
        GenericParam::Type(param) => param.ident.to_token_stream(),
        GenericParam::Const(param) => param.ident.to_token_stream(),
    });
    parse_quote!(#name<#(#arguments),*>)
}

impl VisitMut for Detach {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if self.lifetimes.contains(&lifetime.ident) {
            lifetime.ident = Ident::new("static", lifetime.ident.span());
        }
    }

    fn visit_type_mut(&mut self, ty: &mut Type) {
        match ty {
            Type::Path(path) if path.qself.is_none() && path.path.is_ident("Self") => *ty = self.this.clone(),
            _ => visit_mut::visit_type_mut(self, ty),
        }
    }

    fn visit_type_path_mut(&mut self, path: &mut TypePath) {
        self.path(&mut path.qself, &mut path.path);
        visit_mut::visit_type_path_mut(self, path);
    }

    fn visit_expr_path_mut(&mut self, path: &mut ExprPath) {
        self.path(&mut path.qself, &mut path.path);
        visit_mut::visit_expr_path_mut(self, path);
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        mac.tokens = self.tokens(mac.tokens.clone());
    }
}
