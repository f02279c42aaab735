//! What the expansion says of one column.
//!
//! A type that is no column fails wherever the expansion names it. All those places carry the span of the field's type, and
//! the compiler says equal errors once. What cannot be said equally goes through the library's `Probe`, which fails nowhere.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Index, Member, Type, WherePredicate};

use crate::generics::Detached;
use crate::model::{Field, Model, Role, without_references};
use crate::symbol::ALIGN;

/// A field that becomes a column.
pub(crate) struct Column<'m> {
    pub(crate) field: &'m Field<'m>,
    pub(crate) role: Role,
    /// Which of the columns it is.
    index: u32,
    model: &'m Model<'m>,
    /// What the library looks at: the column, or the element where the field is a plain value.
    subject: Type,
    /// The same as the pointer struct says it.
    pub(crate) detached: Detached,
    /// Where the subject begins and ends.
    first: Span,
    last: Span,
}

impl<'m> Column<'m> {
    pub(crate) fn new(model: &'m Model<'m>, index: u32, field: &'m Field<'m>, role: Role) -> Self {
        let written = &field.syntax.ty;
        let subject = if role == Role::Column { without_references(written) } else { written }.clone();
        let detached = Detached::new(model.syntax, &subject);
        let name = model.syntax.ident.span();
        let mut spans = subject.to_token_stream().into_iter().map(|token| token.span().resolved_at(name));
        let first = spans.next().unwrap_or(name);
        let last = spans.last().unwrap_or(first);
        Self { field, role, index, model, subject, detached, first, last }
    }

    /// The field's type in the pointer struct.
    pub(crate) fn pointers(&self) -> TokenStream {
        let (ty, library) = (&self.detached.ty, self.library(self.first));
        match self.role {
            Role::Column => self.project(ty, quote!(Pointers)),
            Role::Scalar | Role::OfRow => quote!(#library::DeviceColumn<#ty>),
            Role::Host | Role::Unknown => quote!(#library::__private::Malformed),
        }
    }

    /// The local variable that holds the field.
    pub(crate) fn variable(&self) -> Ident {
        format_ident!("__column_{}", self.field.name(), span = Span::mixed_site())
    }

    /// Shows a field of a column struct to `visitor`.
    pub(crate) fn visit(&self, visitor: &Ident) -> TokenStream {
        let (subject, variable, spec) = (&self.subject, self.variable(), self.spec());
        let library = self.library(self.first);
        match self.role {
            _ if self.is_probed() => {
                let open = quote_spanned!(self.first=> <);
                let library = self.library(self.last);
                let probe = quote_spanned!(self.last=> #open #library::__private::Probe<#subject>>);
                quote_spanned!(self.last=> #probe::visit(#variable, #spec, #visitor)?)
            }
            Role::Column => {
                let visit = self.project(subject, quote!(visit));
                quote_spanned!(self.last=> #visit(#variable, #spec, #visitor)?)
            }
            Role::Scalar => {
                let slice = quote!(#library::__private::from_ref(#variable));
                quote!(#library::Visitor::column::<#subject>(#visitor, #spec, #slice)?)
            }
            Role::OfRow | Role::Host | Role::Unknown => quote!(#library::__private::malformed()),
        }
    }

    /// Whether the column is shown through the library's `Probe`: named with a lifetime here and with `'static` in the pointer
    /// struct, it would be two errors.
    pub(crate) fn is_probed(&self) -> bool {
        self.role == Role::Column && self.detached.had_lifetime
    }

    /// Shows a field of a row to `visitor`. It is read by value, as a field of a packed struct has no reference.
    pub(crate) fn visit_row(&self, visitor: &Ident) -> TokenStream {
        let (subject, member, spec) = (&self.subject, &self.field.member, self.spec());
        let library = self.library(self.first);
        if self.role == Role::OfRow {
            quote!(#library::RowVisitor::field::<#subject>(#visitor, #spec, |__row: &Self| __row.#member)?)
        } else {
            quote!(#library::__private::malformed())
        }
    }

    /// The field's name in the definition of the pointer struct, as the macro's own token: lints on names speak of the struct
    /// that the user wrote.
    pub(crate) fn name(&self) -> Option<Ident> {
        let Member::Named(name) = &self.field.member else { return None };
        let mut name = name.clone();
        name.set_span(Span::mixed_site().located_at(name.span()));
        Some(name)
    }

    /// The field's name, or its place in a tuple, where the pointer struct is built and read.
    pub(crate) fn label(&self) -> Member {
        match self.name() {
            Some(mut name) => {
                name.set_span(self.last);
                Member::Named(name)
            }
            None => Member::Unnamed(Index { index: self.index, span: self.last }),
        }
    }

    /// The field of the pointer struct, read through `self`.
    pub(crate) fn access(&self, this: &Ident) -> TokenStream {
        let mut this = this.clone();
        this.set_span(self.first);
        let member = self.label();
        quote!(#this.#member)
    }

    /// That the subject is a column, where no parameter decides it.
    ///
    /// The last field decides whether the pointer struct is sized: where its type is an error, each place that names the struct
    /// is one too. With this said in the where clause of each item that names it, the clause alone is.
    pub(crate) fn assumption(&self) -> Option<WherePredicate> {
        if self.role != Role::Column || self.detached.is_generic() {
            return None;
        }
        let (ty, library) = (&self.detached.ty, self.library(self.first));
        let bound = quote_spanned!(self.last=> #library::Column);
        syn::parse2(quote!(#ty: #bound)).ok()
    }

    /// What the compiler is to check of the element, as a statement of a `const`.
    pub(crate) fn check(&self) -> Option<TokenStream> {
        let ty = &self.detached.ty;
        let library = self.library(self.first);
        let element = match self.role {
            Role::Column => quote!(<#library::__private::Probe<#ty>>::ELEMENT),
            Role::Scalar | Role::OfRow => quote!(#library::__private::Layout::new::<#ty>()),
            Role::Host | Role::Unknown => return None,
        };
        let Some(align) = self.field.words.align else {
            let has_bytes = quote_spanned!(self.last=> #library::__private::has_bytes);
            return Some(quote_spanned!(self.last=> #has_bytes(#element);));
        };
        let (name, bytes, library) = (self.field.name(), align.bytes, self.library(align.span));
        let message = format!(
            "column `{name}`: `{ALIGN} = {bytes}` is below the element's own alignment: ask for that or more, or remove `{ALIGN}`"
        );
        Some(quote_spanned!(align.span=> #library::__private::is_aligned(#element, #bytes, #message);))
    }

    /// The column's name and least alignment: the field's and the struct's both hold, and the struct's has a default.
    fn spec(&self) -> TokenStream {
        let (name, library) = (self.field.name(), self.model.library());
        let spec = quote!(#library::ColumnSpec::new(#name));
        let alignment = match (self.field.words.align, self.model.words.align) {
            (None, None) => return spec,
            (Some(align), None) => {
                let bytes = align.bytes;
                quote!(#library::Alignment::max(#library::Alignment::VECTOR_LOAD, #library::__private::alignment(#bytes)))
            }
            (of_field, Some(of_struct)) => {
                let bytes = of_field.map_or(of_struct.bytes, |align| align.bytes.max(of_struct.bytes));
                quote!(#library::__private::alignment(#bytes))
            }
        };
        quote!(const { #library::ColumnSpec::with_alignment(#spec, #alignment) })
    }

    /// `<ty as Column>::item`, from the subject's begin to its end.
    fn project(&self, ty: &Type, item: TokenStream) -> TokenStream {
        let (open, item) = (quote_spanned!(self.first=> <), respan(item, self.last));
        let library = self.library(self.last);
        quote_spanned!(self.last=> #open #ty as #library::Column>::#item)
    }

    fn library(&self, span: Span) -> TokenStream {
        respan(self.model.library(), span)
    }
}

/// The same tokens at `span`.
fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    let at = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.into_iter().map(at).collect()
}
