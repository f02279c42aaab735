//! What the expansion says of one column.
//!
//! A type that is no column fails wherever the expansion names it. All those places carry the span of the field's type, and
//! the compiler says equal errors once. What cannot be said equally goes through the library's `Probe`, which fails nowhere.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Index, Member, Type, WherePredicate};

use crate::generics::Detached;
use crate::model::{Field, Model, Role, without_references};
use crate::parse::Align;
use crate::plain;
use crate::symbol::ALIGN;

/// A field that becomes a column.
pub(crate) struct Column<'m> {
    pub(crate) field: &'m Field<'m>,
    pub(crate) role: Role,
    /// Which of the columns it is.
    index: usize,
    model: &'m Model<'m>,
    /// What the library looks at: the column, or the element where the field is a plain value.
    subject: &'m Type,
    /// The same as the pointer struct says it.
    pub(crate) detached: Detached,
    /// Where the subject begins and ends.
    first: Span,
    last: Span,
}

impl<'m> Column<'m> {
    pub(crate) fn new(model: &'m Model<'m>, index: usize, field: &'m Field<'m>, role: Role) -> Self {
        let written = &field.syntax.ty;
        // What borrows may be a column because it is a reference.
        let keeps_reference = role != Role::Column || field.words.borrow.is_some();
        let subject = if keeps_reference { written } else { without_references(written) };
        let detached = Detached::new(model.syntax, subject, field.words.borrow.is_some());
        let name = model.syntax.ident.span();
        let mut spans = subject.to_token_stream().into_iter().map(|token| token.span().resolved_at(name));
        let first = spans.next().unwrap_or(name);
        let last = spans.last().unwrap_or(first);
        Self { field, role, index, model, subject, detached, first, last }
    }

    /// The field's type in the pointer struct.
    pub(crate) fn pointers(&self) -> TokenStream {
        let ty = &self.detached.ty;
        match self.role {
            Role::Column => self.project(ty, quote!(Column), quote!(Pointers)),
            Role::Nested => self.project(ty, quote!(__private::Set), quote!(Pointers)),
            Role::Scalar | Role::OfRow => {
                let library = self.library(self.first);
                quote!(#library::DeviceColumn<#ty>)
            }
            Role::Host | Role::Unknown => {
                let library = self.library(self.first);
                quote!(#library::__private::Malformed)
            }
        }
    }

    /// The pointers of the column, which stand in `some` at `place`.
    pub(crate) fn out_of(&self, some: &Ident, place: usize) -> TokenStream {
        let mut some = some.clone();
        some.set_span(some.span().located_at(self.first));
        let place = Index { index: u32::try_from(place).unwrap_or(u32::MAX), span: self.last };
        quote!(#some.#place)
    }

    /// Its place among the columns.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The column of a column struct, a reference to what the library walks over.
    pub(crate) fn value(&self, this: &Ident) -> TokenStream {
        let (reference, mut this, member) = (quote_spanned!(self.first=> &), this.clone(), &self.field.member);
        this.set_span(this.span().located_at(self.last));
        let mut member = member.clone();
        member_at(&mut member, self.last);
        let (field, subject) = (quote_spanned!(self.last=> #reference #this.#member), self.subject);
        match self.role {
            Role::Column if self.is_probed() => self.probed(quote!(#subject), field),
            Role::Scalar if self.is_probed() => self.probed(quote!([#subject]), self.slice(field)),
            Role::Nested => {
                let (open, library) = (quote_spanned!(self.first=> &), self.library(self.last));
                quote_spanned!(self.last=> #open <#library::__private::Probe<#subject>>::nested(#field))
            }
            Role::Scalar => self.slice(field),
            Role::Unknown => {
                let library = self.library(self.last);
                quote_spanned!(self.last=> &#library::__private::Malformed)
            }
            Role::Column | Role::OfRow | Role::Host => field,
        }
    }

    /// Whether the walk asks the library's `Probe`, since the type may be no column: it would be an error here too. What is plainly one
    /// goes without, as that is less to compile.
    pub(crate) fn is_probed(&self) -> bool {
        match self.role {
            Role::Column => !plain::is_column(self.subject),
            Role::Scalar => !plain::is_element(self.subject),
            Role::Nested => true,
            Role::OfRow | Role::Host | Role::Unknown => false,
        }
    }

    /// Whether the list of members asks the library's `Probe`.
    pub(crate) fn asks_in_members(&self) -> bool {
        self.role == Role::OfRow && !plain::is_element(self.subject)
    }

    fn probed(&self, column: TokenStream, field: TokenStream) -> TokenStream {
        let library = self.library(self.last);
        quote_spanned!(self.last=> <#library::__private::Probe<#column>>::column(#field))
    }

    /// A slice of one.
    fn slice(&self, field: TokenStream) -> TokenStream {
        let library = self.library(self.last);
        quote_spanned!(self.last=> #library::__private::from_ref(#field))
    }

    /// Shows a field of a row to `visitor`. It is read by value, as a field of a packed struct has no reference.
    pub(crate) fn visit_row(&self, visitor: &Ident, pointers: &TokenStream) -> TokenStream {
        let (subject, member, index) = (self.subject, &self.field.member, self.index);
        let library = self.library(self.first);
        if self.role != Role::OfRow {
            return quote!(#library::__private::malformed());
        }
        let spec = quote!(#library::__private::spec::<#pointers>(#index));
        quote!(#library::RowVisitor::field::<#subject>(#visitor, #spec, |__row: &Self| __row.#member)?)
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
            // A struct has less than 2^32 fields: each of them is tokens.
            None => Member::Unnamed(Index { index: u32::try_from(self.index).unwrap_or(u32::MAX), span: self.last }),
        }
    }

    /// The field of the pointer struct, read through `self`.
    pub(crate) fn access(&self, this: &Ident) -> TokenStream {
        let mut this = this.clone();
        this.set_span(self.first);
        let member = self.label();
        quote!(#this.#member)
    }

    /// That the subject is what its role says, where no parameter decides it.
    ///
    /// The last field decides whether the pointer struct is sized: where its type is an error, each place that names the struct
    /// is one too. With this said in the where clause of each item that names it, the clause alone is.
    pub(crate) fn assumption(&self) -> Option<WherePredicate> {
        let of = match self.role {
            Role::Column => quote!(Column),
            Role::Nested => quote!(__private::Set),
            Role::Scalar | Role::OfRow | Role::Host | Role::Unknown => return None,
        };
        if self.detached.is_generic() || !self.detached.borrows.is_empty() {
            return None;
        }
        let (ty, library, of) = (&self.detached.ty, self.library(self.first), respan(of, self.last));
        let bound = quote_spanned!(self.last=> #library::#of);
        syn::parse2(quote!(#ty: #bound)).ok()
    }

    /// What the compiler is to check of the element, as statements of a `const`: that it has bytes, is no `usize`, and is not aligned
    /// above what is asked for. Of what is plainly in order nothing is checked, as that is less to compile.
    pub(crate) fn check(&self) -> Option<TokenStream> {
        // No item around a `const` has the struct's lifetimes.
        let without_lifetimes =
            self.field.words.borrow.is_some().then(|| Detached::new(self.model.syntax, self.subject, false).ty);
        let (ty, library) = (without_lifetimes.as_ref().unwrap_or(&self.detached.ty), self.library(self.last));
        let (column, is_plain) = match self.role {
            Role::Column => (quote!(#ty), plain::is_column(self.subject)),
            Role::Scalar | Role::OfRow => (quote!([#ty]), plain::is_element(self.subject)),
            Role::Nested | Role::Host | Role::Unknown => return None,
        };
        if self.detached.is_generic() || is_plain && self.field.words.align.is_none() {
            return None;
        }
        let open = quote_spanned!(self.first=> <);
        let probe = quote_spanned!(self.last=> #open #library::__private::Probe<#column>>);
        if let Some(align) = self.field.words.align {
            let (bytes, message, library) = (align.bytes, self.below(align), self.library(align.span));
            let element =
                quote_spanned!(align.span=> #library::__private::is_aligned(#probe::MEMBER, #bytes, #message));
            return Some(quote_spanned!(align.span=> let _ = #element;));
        }
        let (arguments, library) =
            (quote_spanned!(self.last=> (#probe::MEMBER, #probe::IS_HOST_WORD)), self.library(self.first));
        Some(quote_spanned!(self.last=> #library::__private::is_element #arguments;))
    }

    fn below(&self, align: Align) -> String {
        let (name, bytes) = (self.field.name(), align.bytes);
        format!(
            "column `{name}`: `{ALIGN} = {bytes}` is below the element's own alignment: ask for that or more, or remove `{ALIGN}`"
        )
    }

    /// The member as the library knows it. What the compiler is to check of the element is checked where this is evaluated.
    pub(crate) fn member(&self) -> TokenStream {
        let (ty, name, library) = (&self.detached.ty, self.field.name(), self.library(self.first));
        let of = match self.role {
            Role::Column => self.project(ty, quote!(Column), quote!(MEMBER)),
            Role::Nested => self.project(ty, quote!(__private::Set), quote!(MEMBER)),
            // A row's element is asked for where it is read, and this adds no second error to it.
            Role::OfRow if self.asks_in_members() => quote!(<#library::__private::Probe<[#ty]>>::MEMBER),
            Role::Scalar | Role::OfRow => {
                self.project(quote_spanned!(self.first=> [#ty]), quote!(Column), quote!(MEMBER))
            }
            Role::Host | Role::Unknown => quote!(<#library::__private::Malformed as #library::Column>::MEMBER),
        };
        // Of a struct that is no generic one the same is checked where it is written.
        let of = if self.detached.is_generic() && self.role != Role::Nested {
            let arguments = quote_spanned!(self.last=> (#of));
            quote!(#library::__private::has_bytes #arguments)
        } else {
            of
        };
        let mut member = quote_spanned!(self.last=> #library::__private::named(#of, #name));
        if let Some(c_type) = &self.field.words.c_type {
            member = quote!(#library::Member::with_c_type(#member, #c_type));
        }
        let align = self.field.words.align;
        if let Some(align) = align.filter(|_| self.detached.is_generic()) {
            let (bytes, message, library) = (align.bytes, self.below(align), self.library(align.span));
            member = quote_spanned!(align.span=> #library::__private::is_aligned(#member, #bytes, #message));
        }
        // The field's and the struct's both hold; the struct's is 16 where it says nothing.
        let of_struct = self.model.words.align.map(|align| align.bytes);
        let bytes = match (align.map(|align| align.bytes), of_struct) {
            (None, None) => return member,
            (Some(of_field), None) => of_field.max(DEFAULT_ALIGNMENT),
            (of_field, Some(of_struct)) => of_field.unwrap_or(of_struct).max(of_struct),
        };
        if self.role == Role::Nested {
            return member;
        }
        quote!(#library::__private::aligned(#member, #bytes))
    }

    /// `<ty as of>::item`, from the subject's begin to its end.
    fn project(&self, ty: impl ToTokens, of: TokenStream, item: TokenStream) -> TokenStream {
        let (open, of, item) = (quote_spanned!(self.first=> <), respan(of, self.last), respan(item, self.last));
        let library = self.library(self.last);
        quote_spanned!(self.last=> #open #ty as #library::#of>::#item)
    }

    fn library(&self, span: Span) -> TokenStream {
        respan(self.model.library(), span)
    }
}

/// What a column is aligned to where nothing is said, as the library has it.
const DEFAULT_ALIGNMENT: u64 = 16;

fn member_at(member: &mut Member, span: Span) {
    match member {
        Member::Named(name) => name.set_span(name.span().located_at(span)),
        Member::Unnamed(index) => index.span = index.span.located_at(span),
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
