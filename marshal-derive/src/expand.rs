//! The expansion: a list of columns and calls. Offsets are the library's; there is no arithmetic on them here, and no
//! `unsafe`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::column::Column;
use crate::generics::PointerGenerics;
use crate::model::{Model, Role};
use crate::pointers;

/// All code for `model`. Where something is not understood, the same items are there, so that their users do not fail too.
pub(crate) fn expand(model: &Model<'_>) -> TokenStream {
    let columns: Vec<_> =
        model.columns().zip(0..).map(|((field, role), index)| Column::new(model, index, field, role)).collect();
    let understood = columns.iter().filter(|column| column.role != Role::Unknown);
    let mut generics = PointerGenerics::new(model.syntax, understood.map(|column| &column.detached));
    if let Some(is_column) = columns.last().and_then(Column::assumption) {
        generics.assume(&is_column);
    }

    let pointers = pointers::expand(model, &columns, &generics.of_pointers);
    let args = args(model, &columns, &generics);
    // A generic struct is checked when it is used. A `const` stops at its first failure: each column has one of its own.
    let (library, lints) = (model.library(), model.lints());
    let checks = columns.iter().filter(|column| !column.detached.is_generic()).filter_map(Column::check);
    let checks = quote!(#(#lints const _: () = { use #library::__private::NoColumn as _; #checks };)*);
    quote!(#pointers #args #checks)
}

/// `DeviceArgs` for a column struct, `Row` for a row.
fn args(model: &Model<'_>, columns: &[Column<'_>], generics: &PointerGenerics) -> TokenStream {
    let (library, name, pointers) = (model.library(), &model.syntax.ident, model.pointers());
    let lints = model.lints();
    let (impl_generics, _, where_clause) = generics.of_args.split_for_impl();
    let (_, ty_generics, _) = model.syntax.generics.split_for_impl();
    let (_, pointer_generics, _) = generics.of_pointers.split_for_impl();
    let visitor = format_ident!("__visitor", span = Span::mixed_site());
    let result = quote!(#library::__private::Result<Self::Pointers, #library::Error>);
    // The elements of a generic struct are known when it is used: the compiler checks then.
    let checks = columns.iter().filter(|column| column.detached.is_generic() && column.field.words.align.is_some());
    let checks: Vec<_> = checks.filter_map(Column::check).collect();
    let is_probed = !checks.is_empty() || columns.iter().any(Column::is_probed);
    let probe = is_probed.then(|| quote!(use #library::__private::NoColumn as _;));
    let start = quote!(#probe #(const { #checks })*);

    let (of, walk) = if model.is_row() {
        let body = row(model, columns, &visitor);
        let signature = quote!(fn fields<__V: #library::RowVisitor<Self>>(#visitor: &mut __V) -> #result);
        (quote!(Row), quote!(#signature { #start #body }))
    } else {
        let body = column_struct(model, columns, &visitor);
        let signature = quote!(fn walk<__V: #library::Visitor>(&self, #visitor: &mut __V) -> #result);
        (quote!(DeviceArgs), quote!(#[inline] #signature { #start #body }))
    };
    quote! {
        #lints
        #[automatically_derived]
        impl #impl_generics #library::#of for #name #ty_generics #where_clause {
            type Pointers = #pointers #pointer_generics;
            #walk
        }
    }
}

/// Takes `self` apart with a pattern that names every field: a field that an attribute macro adds behind the derive's back
/// does not compile.
fn column_struct(model: &Model<'_>, columns: &[Column<'_>], visitor: &Ident) -> TokenStream {
    let library = model.library();
    if model.is_malformed() {
        return quote!(#library::__private::malformed());
    }
    let members = model.fields.iter().map(|field| &field.member);
    let patterns = model.fields.iter().map(|field| {
        let column = columns.iter().find(|column| column.field.member == field.member && column.role != Role::Unknown);
        column.map_or_else(
            || quote!(_),
            |column| {
                let variable = column.variable();
                quote!(#variable)
            },
        )
    });
    let pointers = pointers::build(model, columns, |column| column.visit(visitor));
    quote! {
        let Self { #(#members: #patterns),* } = self;
        #library::__private::Ok(#pointers)
    }
}

/// As for a column struct, a pattern names every field.
fn row(model: &Model<'_>, columns: &[Column<'_>], visitor: &Ident) -> TokenStream {
    let library = model.library();
    if model.is_malformed() {
        return quote!(#library::__private::malformed());
    }
    let members = model.fields.iter().map(|field| &field.member);
    let pointers = pointers::build(model, columns, |column| column.visit_row(visitor));
    quote! {
        let _: fn(&Self) = |Self { #(#members: _),* }| {};
        #library::__private::Ok(#pointers)
    }
}
