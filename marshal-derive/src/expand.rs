//! The expansion: a list of columns and calls. Offsets are the library's; there is no arithmetic on them here, and no
//! `unsafe`. It says as little as it can: what all structs have in common stands in the library, compiled once.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::Data;

use crate::column::Column;
use crate::generics::PointerGenerics;
use crate::model::{Model, Role};
use crate::pointers;
use crate::write::Written;

/// The most columns that the library walks over in one call.
const COLUMNS_A_CALL: usize = 16;

/// All code for `model`. Where something is not understood, the same items are there, so that their users do not fail too.
pub(crate) fn expand(model: &Model<'_>) -> TokenStream {
    let columns: Vec<_> =
        model.columns().enumerate().map(|(index, (field, role))| Column::new(model, index, field, role)).collect();
    let understood = columns.iter().filter(|column| column.role != Role::Unknown);
    let mut generics = PointerGenerics::new(model.syntax, understood.map(|column| &column.detached));
    if let Some(predicate) = columns.last().and_then(Column::assumption) {
        generics.assume(&predicate);
    }

    let pointers = pointers::expand(model, &columns, &generics.of_pointers);
    let args = args(model, &columns, &generics);
    let checks = checks(model, &columns);
    quote!(#pointers #args #checks)
}

/// Checks the elements where the struct is written. A generic struct is checked when it is used, as its elements are known then. A
/// `const` stops at its first failure: each column has one of its own.
fn checks(model: &Model<'_>, columns: &[Column<'_>]) -> TokenStream {
    let (library, lints) = (model.library(), model.lints());
    let checks = columns.iter().filter_map(Column::check);
    quote!(#(#lints const _: () = { use #library::__private::Otherwise as _; #checks };)*)
}

/// `DeviceArgs` for a column struct, `Row` for a row.
fn args(model: &Model<'_>, columns: &[Column<'_>], generics: &PointerGenerics) -> TokenStream {
    let (library, name, pointers) = (model.library(), &model.syntax.ident, model.pointers());
    let lints = model.lints();
    let (impl_generics, _, where_clause) = generics.of_args.split_for_impl();
    let (_, ty_generics, _) = model.syntax.generics.split_for_impl();
    let (_, pointer_generics, _) = generics.of_pointers.split_for_impl();
    let visitor = format_ident!("__visitor", span = Span::mixed_site());
    let pointers = quote!(#pointers #pointer_generics);
    let result = quote!(#library::__private::Result<#pointers, #library::Error>);
    let is_malformed = !matches!(model.syntax.data, Data::Struct(_));

    let (of, walk) = if model.is_row() {
        let body = if is_malformed {
            quote!(#library::__private::malformed())
        } else {
            row(model, columns, &visitor, &pointers)
        };
        (quote!(Row), quote!(fn fields<__V: #library::RowVisitor<Self>>(#visitor: &mut __V) -> #result { #body }))
    } else {
        let body = if is_malformed {
            quote!(#library::__private::malformed())
        } else {
            column_struct(model, columns, &visitor, &pointers)
        };
        let this = Ident::new("self", model.syntax.ident.span());
        let signature = quote!(fn walk<__V: #library::Visitor>(&#this, #visitor: &mut __V) -> #result);
        (quote!(DeviceArgs), quote!(#[inline] #signature { #body }))
    };
    // A field that its users are told to avoid is still a column.
    let is_deprecated = columns.iter().any(|column| column.field.is_deprecated());
    let deprecated = is_deprecated.then(|| quote!(#[allow(deprecated)]));
    quote! {
        #lints
        #deprecated
        #[automatically_derived]
        impl #impl_generics #library::#of for #name #ty_generics #where_clause {
            type Pointers = #pointers;
            #walk
        }
    }
}

/// A pattern names every field: one that an attribute macro adds behind the derive's back does not compile.
fn column_struct(model: &Model<'_>, columns: &[Column<'_>], visitor: &Ident, pointers: &TokenStream) -> TokenStream {
    let library = model.library();
    let this = Ident::new("self", model.syntax.ident.span());
    let error = format_ident!("__error", span = Span::mixed_site());
    let some = |call: usize| format_ident!("__columns{}", call, span = model.syntax.ident.span());
    let somes: Vec<_> = (0..columns.len().div_ceil(COLUMNS_A_CALL)).map(some).collect();
    let built = pointers::build(model, columns, |tokens, column| {
        let (call, place) = (column.index() / COLUMNS_A_CALL, column.index() % COLUMNS_A_CALL);
        column.out_of(tokens, &somes[call], place);
    });
    // From the last call to the first, each around those behind it: a match is cheaper to compile than `?`.
    let calls = columns.chunks(COLUMNS_A_CALL).enumerate().rev();
    let walk = calls.fold(quote!(#library::__private::Ok(#built)), |rest, (call, columns)| {
        let function = format_ident!("columns{}", columns.len());
        let first = call * COLUMNS_A_CALL;
        let some = &somes[call];
        let this = &this;
        let values = columns.iter().map(|column| Written(move |tokens: &mut _| column.value(tokens, this)));
        quote! {
            match #library::__private::#function(
                #visitor,
                <#pointers as #library::KernelStruct>::MEMBERS,
                #first,
                #(#values),*
            ) {
                #library::__private::Ok(#some) => #rest,
                #library::__private::Err(#error) => #library::__private::Err(#error),
            }
        }
    });
    let members = model.fields.iter().map(|field| &field.member);
    let probe = columns.iter().any(Column::is_probed).then(|| quote!(use #library::__private::Otherwise as _;));
    quote! {
        #probe
        let Self { #(#members: _),* } = #this;
        #walk
    }
}

/// As for a column struct, a pattern names every field.
fn row(model: &Model<'_>, columns: &[Column<'_>], visitor: &Ident, pointers: &TokenStream) -> TokenStream {
    let library = model.library();
    let members = model.fields.iter().map(|field| &field.member);
    let built = pointers::build(model, columns, |tokens, column| tokens.extend(column.visit_row(visitor, pointers)));
    let probe = columns.iter().any(Column::is_probed).then(|| quote!(use #library::__private::Otherwise as _;));
    quote! {
        #probe
        let _: fn(&Self) = |Self { #(#members: _),* }| {};
        #library::__private::Ok(#built)
    }
}
