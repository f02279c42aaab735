//! The generic parameters of the pointer struct: those types and consts that its columns use, with the bounds that speak of
//! nothing else.

use std::collections::HashSet;

use proc_macro2::Ident;
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{DeriveInput, GenericParam, Generics, Lifetime, Token, Type, TypeParamBound, WherePredicate, parse_quote};

use crate::detach::Detach;
use crate::mentions::{Mentions, named};

/// A column's type as the pointer struct says it, and what it names.
pub(crate) struct Detached {
    pub(crate) ty: Type,
    mentions: HashSet<Ident>,
    /// Lifetimes of the struct that the pointer struct keeps, as the field borrows.
    pub(crate) borrows: HashSet<Ident>,
    /// Type parameters that a `'static` put in place of a lifetime may reach.
    outlives: HashSet<Ident>,
}

impl Detached {
    pub(crate) fn new(input: &DeriveInput, ty: &Type, borrows: bool) -> Self {
        let before = Mentions::of_type(&input.generics, ty);
        let mut detached = ty.clone();
        if borrows {
            Detach::keeping(input).visit_type_mut(&mut detached);
            return Self { ty: detached, mentions: before.params, borrows: before.lifetimes, outlives: HashSet::new() };
        }
        let has_lifetime = !before.lifetimes.is_empty();
        if has_lifetime || before.has_self {
            Detach::new(input).visit_type_mut(&mut detached);
        }
        let outlives = if has_lifetime { Mentions::of_type(&input.generics, &detached).whole } else { HashSet::new() };
        Self { ty: detached, mentions: before.params, borrows: HashSet::new(), outlives }
    }

    /// Whether the type is another one in each instance of the struct.
    pub(crate) fn is_generic(&self) -> bool {
        !self.mentions.is_empty()
    }
}

/// The parameters of the pointer struct and of the `DeviceArgs` impl.
pub(crate) struct PointerGenerics {
    pub(crate) of_pointers: Generics,
    pub(crate) of_args: Generics,
}

impl PointerGenerics {
    pub(crate) fn new<'d>(input: &DeriveInput, columns: impl Iterator<Item = &'d Detached> + Clone) -> Self {
        let kept: HashSet<_> = columns.clone().flat_map(|column| &column.mentions).cloned().collect();
        let borrows: HashSet<_> = columns.clone().flat_map(|column| &column.borrows).cloned().collect();
        let outlives: HashSet<_> = columns.flat_map(|column| &column.outlives).cloned().collect();

        let mut of_args = input.generics.clone();
        let mut of_pointers = keep(input, &kept, &borrows);
        for name in input.generics.type_params().map(|param| &param.ident).filter(|name| outlives.contains(name)) {
            for generics in [&mut of_args, &mut of_pointers] {
                generics.make_where_clause().predicates.push(parse_quote!(#name: 'static));
            }
        }
        Self { of_pointers, of_args }
    }

    /// Lets both rely on `predicate`.
    pub(crate) fn assume(&mut self, predicate: &WherePredicate) {
        for generics in [&mut self.of_args, &mut self.of_pointers] {
            generics.make_where_clause().predicates.push(predicate.clone());
        }
    }
}

/// The struct's generics cut down to the parameters `kept` and the lifetimes `borrows`.
fn keep(input: &DeriveInput, kept: &HashSet<Ident>, borrows: &HashSet<Ident>) -> Generics {
    if kept.is_empty() && borrows.is_empty() {
        return Generics::default();
    }
    let keeper = Keeper { written: &input.generics, kept, borrows };
    let mut generics = Generics { params: keeper.params(), ..Generics::default() };
    let predicates: Vec<_> = keeper.predicates().collect();
    if !predicates.is_empty() {
        generics.make_where_clause().predicates.extend(predicates);
    }
    Detach::keeping(input).visit_generics_mut(&mut generics);
    generics
}

/// Decides what of the written generics still has a meaning.
struct Keeper<'k> {
    written: &'k Generics,
    kept: &'k HashSet<Ident>,
    borrows: &'k HashSet<Ident>,
}

impl Keeper<'_> {
    fn params(&self) -> Punctuated<GenericParam, Token![,]> {
        // Defaults trail: one that goes takes those before it along.
        let mut may_default = true;
        let mut params = Vec::new();
        for param in self.written.params.iter().rev() {
            let is_kept = match param {
                GenericParam::Lifetime(param) => self.borrows.contains(&param.lifetime.ident),
                _ => named(param).is_some_and(|name| self.kept.contains(name)),
            };
            if !is_kept {
                continue;
            }
            let mut param = param.clone();
            match &mut param {
                GenericParam::Lifetime(param) => {
                    param.attrs.clear();
                    param.bounds = self.lifetimes(&param.bounds);
                }
                GenericParam::Type(param) => {
                    param.attrs.clear();
                    param.bounds = self.bounds(&param.bounds);
                    param.default =
                        param.default.take().filter(|(_, ty)| may_default && self.keeps(|m| m.visit_type(ty)));
                    may_default = param.default.is_some();
                }
                GenericParam::Const(param) => {
                    param.attrs.clear();
                    param.default =
                        param.default.take().filter(|(_, expr)| may_default && self.keeps(|m| m.visit_expr(expr)));
                    may_default = param.default.is_some();
                }
            }
            params.push(param);
        }
        params.into_iter().rev().collect()
    }

    fn predicates(&self) -> impl Iterator<Item = WherePredicate> {
        let written = self.written.where_clause.iter().flat_map(|clause| &clause.predicates);
        written.filter_map(|predicate| match predicate {
            WherePredicate::Type(predicate) => {
                let mut predicate = predicate.clone();
                predicate.bounds = self.bounds(&predicate.bounds);
                let keeps = !predicate.bounds.is_empty() && self.keeps(|m| m.visit_type(&predicate.bounded_ty));
                keeps.then_some(WherePredicate::Type(predicate))
            }
            WherePredicate::Lifetime(predicate) => {
                let mut predicate = predicate.clone();
                predicate.bounds = self.lifetimes(&predicate.bounds);
                let keeps = !predicate.bounds.is_empty() && self.borrows.contains(&predicate.lifetime.ident);
                keeps.then_some(WherePredicate::Lifetime(predicate))
            }
            _ => None,
        })
    }

    fn bounds(&self, bounds: &Punctuated<TypeParamBound, Token![+]>) -> Punctuated<TypeParamBound, Token![+]> {
        bounds.iter().filter(|bound| self.keeps(|m| m.visit_type_param_bound(bound))).cloned().collect()
    }

    fn lifetimes(&self, bounds: &Punctuated<Lifetime, Token![+]>) -> Punctuated<Lifetime, Token![+]> {
        let keeps = |bound: &&Lifetime| bound.ident == "static" || self.borrows.contains(&bound.ident);
        bounds.iter().filter(keeps).cloned().collect()
    }

    /// Whether what `visit` looks at names kept parameters only.
    fn keeps(&self, visit: impl FnOnce(&mut Mentions<'_>)) -> bool {
        let mut mentions = Mentions::new(self.written);
        visit(&mut mentions);
        mentions.lifetimes.is_subset(self.borrows) && mentions.params.is_subset(self.kept)
    }
}
