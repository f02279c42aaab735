//! Which of a struct's generic parameters some syntax names.

use std::collections::HashSet;

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{GenericParam, Generics, Lifetime, Macro, Path, Type, TypePath};

/// The parameters that some syntax names.
pub(crate) struct Mentions<'g> {
    generics: &'g Generics,
    pub(crate) params: HashSet<Ident>,
    /// Type parameters that stand as a type by themselves, not in front of `::`.
    pub(crate) whole: HashSet<Ident>,
    /// Lifetimes of the struct, said or hidden in `Self`.
    pub(crate) lifetimes: HashSet<Ident>,
    pub(crate) has_self: bool,
}

impl<'g> Mentions<'g> {
    pub(crate) fn new(generics: &'g Generics) -> Self {
        Self { generics, params: HashSet::new(), whole: HashSet::new(), lifetimes: HashSet::new(), has_self: false }
    }

    pub(crate) fn of_type(generics: &'g Generics, ty: &Type) -> Self {
        let mut mentions = Self::new(generics);
        mentions.visit_type(ty);
        mentions
    }

    fn name(&mut self, name: &Ident) {
        if name == "Self" {
            self.has_self = true;
            self.lifetimes.extend(self.generics.lifetimes().map(|param| param.lifetime.ident.clone()));
            let params = self.generics.params.iter().filter_map(named);
            self.params.extend(params.cloned());
        } else if self.generics.params.iter().filter_map(named).any(|param| param == name) {
            self.params.insert(name.clone());
        }
    }

    fn lifetime(&mut self, name: &Ident) {
        if self.generics.lifetimes().any(|param| param.lifetime.ident == *name) {
            self.lifetimes.insert(name.clone());
        }
    }

    /// What a macro makes of its tokens is not known: each of them counts.
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    self.lifetime(&name);
                    self.name(&name);
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

/// The name of a type or const parameter.
pub(crate) fn named(param: &GenericParam) -> Option<&Ident> {
    match param {
        GenericParam::Lifetime(_) => None,
        GenericParam::Type(param) => Some(&param.ident),
        GenericParam::Const(param) => Some(&param.ident),
    }
}

impl Visit<'_> for Mentions<'_> {
    fn visit_lifetime(&mut self, lifetime: &Lifetime) {
        self.lifetime(&lifetime.ident);
    }

    fn visit_type_path(&mut self, path: &TypePath) {
        let whole = path.path.get_ident().filter(|_| path.qself.is_none());
        if let Some(name) = whole.filter(|name| self.generics.type_params().any(|param| param.ident == **name)) {
            self.whole.insert(name.clone());
        }
        visit::visit_type_path(self, path);
    }

    fn visit_path(&mut self, path: &Path) {
        if let Some(first) = path.segments.first().filter(|_| path.leading_colon.is_none()) {
            self.name(&first.ident);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &Macro) {
        self.tokens(mac.tokens.clone());
    }
}
