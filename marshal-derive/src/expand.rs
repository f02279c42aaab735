//! The expansion: a list of columns and calls. Offsets are the library's; there is no arithmetic on them here, and no
//! `unsafe`. It says as little as it can: what all structs have in common stands in the library, compiled once.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};

use crate::column::Column;
use crate::generics::PointerGenerics;
use crate::model::{Model, Role};
use crate::pointers;

/// The most columns that the library walks over in one call.
const COLUMNS_A_CALL: usize = 16;

/// All code for `model`. Where something is not understood, the same items are there, so that their users do not fail too.
pub(crate) fn expand(model: &Model<'_>) -> TokenStream {
    let columns: Vec<_> =
        model.columns().enumerate().map(|(index, (field, role))| Column::new(model, index, field, role)).collect();
    let understood = columns.iter().filter(|column| column.role != Role::Unknown);
    let generics = PointerGenerics::new(model.syntax, understood.map(|column| &column.detached));

    let pointers = pointers::expand(model, &columns, &generics.of_pointers);
    let args = args(model, &columns, &generics);
    let checks = checks(model, &columns, &generics);
    quote!(#pointers #args #checks)
}

/// Evaluates the members where the struct is written. Of a generic struct they are known when it is used: the compiler checks then.
fn checks(model: &Model<'_>, columns: &[Column<'_>], generics: &PointerGenerics) -> Option<TokenStream> {
    if columns.is_empty() || columns.iter().any(|column| column.detached.is_generic()) {
        return None;
    }
    let (library, pointers, lints) = (model.library(), model.pointers(), model.lints());
    let statics: Vec<_> = generics.of_pointers.lifetimes().map(|_| quote!('static)).collect();
    let statics = (!statics.is_empty()).then(|| quote!(<#(#statics),*>));
    let words = columns.iter().filter_map(Column::word_check);
    let mut words = words.peekable();
    let probe = words.peek().is_some().then(|| quote!(use #library::__private::Otherwise as _;));
    Some(quote! {
        #lints
        const _: &[#library::Member] = {
            #probe
            #(#words)*
            <#pointers #statics as #library::KernelStruct>::MEMBERS
        };
    })
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
    let is_malformed = model.is_malformed() || columns.iter().any(|column| column.role == Role::Unknown);

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
    quote! {
        #lints
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
    let built = pointers::build(model, columns, |column| column.variable().into_token_stream());
    // From the last call to the first, each around those behind it: a match is cheaper to compile than `?`.
    let calls = columns.chunks(COLUMNS_A_CALL).enumerate().rev();
    let walk = calls.fold(quote!(#library::__private::Ok(#built)), |rest, (call, columns)| {
        let function = format_ident!("columns{}", columns.len());
        let first = call * COLUMNS_A_CALL;
        let (values, variables) =
            (columns.iter().map(|column| column.value(&this)), columns.iter().map(Column::variable));
        quote! {
            match #library::__private::#function(
                #visitor,
                <#pointers as #library::KernelStruct>::MEMBERS,
                #first,
                #(#values),*
            ) {
                #library::__private::Ok((#(#variables,)*)) => #rest,
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
    let built = pointers::build(model, columns, |column| column.visit_row(visitor, pointers));
    quote! {
        let _: fn(&Self) = |Self { #(#members: _),* }| {};
        #library::__private::Ok(#built)
    }
}
