//! The generated struct of device pointers, and what every such struct can do.

use proc_macro2::{Delimiter, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Generics, LitStr};

use crate::column::Column;
use crate::model::Model;
use crate::write::{Written, group, mark, text, word};

/// The struct and its impls, which ask nothing of the elements.
pub(crate) fn expand(model: &Model<'_>, columns: &[Column<'_>], generics: &Generics) -> TokenStream {
    let (library, pointers, lints) = (model.library(), model.pointers(), model.lints());
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let definition = definition(model, columns, generics);
    let (clone, debug) = (clone(model, columns), debug(model, columns));
    let name = model.words.name.as_ref().map_or_else(|| pointers.unraw().to_string(), LitStr::value);
    let members = columns.iter().map(|column| Written(|tokens: &mut _| column.member(tokens)));
    let names = columns.iter().map(|column| column.field.name());
    let members = quote!(&#library::__private::named([#(#members),*], [#(#names),*]));
    let members = if columns.iter().any(Column::asks_in_members) {
        quote!({
            use #library::__private::Otherwise as _;
            #members
        })
    } else {
        members
    };
    quote! {
        #definition

        #lints
        #[automatically_derived]
        impl #impl_generics #library::__private::Clone for #pointers #ty_generics #where_clause {
            #[inline]
            #clone
        }

        #lints
        #[automatically_derived]
        impl #impl_generics #library::__private::Copy for #pointers #ty_generics #where_clause {}

        #lints
        #[automatically_derived]
        impl #impl_generics #library::__private::Debug for #pointers #ty_generics #where_clause {
            #debug
        }

        #lints
        #[automatically_derived]
        impl #impl_generics #library::KernelStruct for #pointers #ty_generics #where_clause {
            const NAME: &'static str = #name;
            const MEMBERS: &'static [#library::Member] = #members;
        }
    }
}

fn definition(model: &Model<'_>, columns: &[Column<'_>], generics: &Generics) -> TokenStream {
    let (visibility, pointers, lints) = (&model.syntax.vis, model.pointers(), model.lints());
    let (_, _, where_clause) = generics.split_for_impl();
    let doc = format!(" The device pointers of [`{}`]: one a column, in declared order.", model.syntax.ident.unraw());
    let fields = columns.iter().map(|column| {
        Written(|tokens: &mut TokenStream| {
            docs(tokens, column);
            column.field.syntax.vis.to_tokens(tokens);
            if let Some(name) = column.name() {
                let span = name.span();
                name.to_tokens(tokens);
                mark(tokens, ":", span);
            }
            column.pointers(tokens);
        })
    });
    let body = if model.is_unit() {
        quote!(#where_clause;)
    } else if model.is_tuple() {
        quote!((#(#fields),*) #where_clause;)
    } else {
        quote!(#where_clause { #(#fields),* })
    };
    quote! {
        #lints
        #[doc = #doc]
        #[repr(C)]
        #visibility struct #pointers #generics #body
    }
}

/// The field's own documentation; a line of ours where there is none.
fn docs(tokens: &mut TokenStream, column: &Column<'_>) {
    let is_doc = |attribute: &&Attribute| attribute.path().is_ident("doc");
    let mut docs = column.field.syntax.attrs.iter().filter(is_doc).peekable();
    if docs.peek().is_some() {
        return docs.for_each(|doc| doc.to_tokens(tokens));
    }
    let span = Span::call_site();
    mark(tokens, "#", span);
    group(tokens, Delimiter::Bracket, span, |tokens| {
        word(tokens, "doc", span);
        mark(tokens, "=", span);
        text(tokens, &format!(" The column `{}`.", column.field.name()), span);
    });
}

/// The pointer struct of what `value` writes for each column.
pub(crate) fn build(
    model: &Model<'_>,
    columns: &[Column<'_>],
    value: impl Fn(&mut TokenStream, &Column<'_>),
) -> TokenStream {
    let pointers = model.pointers();
    let value = &value;
    let fields = columns.iter().map(|column| {
        Written(move |tokens: &mut TokenStream| {
            let label = column.label();
            label.to_tokens(tokens);
            mark(tokens, ":", label.span());
            value(tokens, column);
        })
    });
    quote!(#pointers { #(#fields),* })
}

/// Field by field, and not `*self`, where a field's type may be an error: the body then is that same error.
fn clone(model: &Model<'_>, columns: &[Column<'_>]) -> TokenStream {
    if columns.iter().all(Column::is_plain) {
        return quote!(
            fn clone(&self) -> Self {
                *self
            }
        );
    }
    let this = Ident::new("self", model.syntax.ident.span());
    let copy = build(model, columns, |tokens, column| column.access(tokens, &this));
    quote!(fn clone(&#this) -> Self { #copy })
}

/// As `#[derive(Debug)]` prints, without a bound on the elements.
fn debug(model: &Model<'_>, columns: &[Column<'_>]) -> TokenStream {
    let library = model.library();
    let title = model.pointers().unraw().to_string();
    let this = Ident::new("self", model.syntax.ident.span());
    let formatter = format_ident!("__formatter", span = Span::mixed_site());
    let this = &this;
    let values = columns.iter().map(|column| Written(move |tokens: &mut _| column.access(tokens, this)));
    quote! {
        #[inline]
        fn fmt(&#this, #formatter: &mut #library::__private::Formatter<'_>) -> #library::__private::FmtResult {
            #library::__private::debug(
                #formatter,
                #title,
                <Self as #library::KernelStruct>::MEMBERS,
                &[#(&#values),*],
            )
        }
    }
}
