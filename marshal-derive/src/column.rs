//! What the expansion says of one column.
//!
//! A type that is no column fails wherever the expansion names it. All those places carry the span of the field's type, and
//! the compiler says equal errors once. What cannot be said equally goes through the library's `Probe`, which fails nowhere.

use proc_macro2::{Delimiter, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Index, Member, Type, WherePredicate};

use crate::generics::Detached;
use crate::model::{Field, Model, Role, without_references};
use crate::parse::Align;
use crate::plain;
use crate::symbol::ALIGN;
use crate::write::{At, Written, group, mark, path, word};

/// A field that becomes a column.
pub(crate) struct Column<'m> {
    pub(crate) field: &'m Field<'m>,
    pub(crate) role: Role,
    /// Which of the columns it is.
    index: usize,
    model: &'m Model<'m>,
    /// What the library looks at: the column, or the element where the field is a plain value.
    subject: &'m Type,
    /// Whether the subject is plainly what its role says.
    is_plain: bool,
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
        let is_plain = match role {
            Role::Column => plain::is_column(subject),
            Role::Scalar | Role::OfRow => plain::is_element(subject),
            Role::Nested | Role::Host | Role::Unknown => false,
        };
        let name = model.syntax.ident.span();
        // What is plainly in order needs no place for errors.
        let (first, last) = if is_plain {
            (name, name)
        } else {
            let mut spans = subject.to_token_stream().into_iter().map(|token| token.span().resolved_at(name));
            let first = spans.next().unwrap_or(name);
            (first, spans.last().unwrap_or(first))
        };
        Self { field, role, index, model, subject, is_plain, detached, first, last }
    }

    /// The field's type in the pointer struct.
    pub(crate) fn pointers(&self, tokens: &mut TokenStream) {
        let ty = &self.detached.ty;
        match self.role {
            Role::Column => self.project(tokens, ty, &["Column"], "Pointers"),
            Role::Nested => self.project(tokens, ty, &["__private", "Set"], "Pointers"),
            Role::Scalar | Role::OfRow => {
                self.library(self.first).to_tokens(tokens);
                path(tokens, &["DeviceColumn"], self.first);
                mark(tokens, "<", self.first);
                ty.to_tokens(tokens);
                mark(tokens, ">", self.last);
            }
            Role::Host | Role::Unknown => {
                self.library(self.first).to_tokens(tokens);
                path(tokens, &["__private", "Malformed"], self.first);
            }
        }
    }

    /// The pointers of the column, which stand in `some` at `place`.
    pub(crate) fn out_of(&self, tokens: &mut TokenStream, some: &Ident, place: usize) {
        let mut some = some.clone();
        some.set_span(some.span().located_at(self.first));
        some.to_tokens(tokens);
        mark(tokens, ".", self.last);
        Index { index: u32::try_from(place).unwrap_or(u32::MAX), span: self.last }.to_tokens(tokens);
    }

    /// Its place among the columns.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The column of a column struct, a reference to what the library walks over.
    pub(crate) fn value(&self, tokens: &mut TokenStream, this: &Ident) {
        let field = Written(|tokens: &mut TokenStream| self.field(tokens, this));
        let (subject, library) = (self.subject, self.library(self.last));
        let code = match self.role {
            Role::Column if self.is_plain => return self.field(tokens, this),
            Role::Column => quote_spanned!(self.last=> <#library::__private::Probe<#subject>>::column(#field)),
            Role::Scalar if self.is_plain => quote_spanned!(self.last=> #library::__private::from_ref(#field)),
            Role::Scalar => quote_spanned!(
                self.last=> <#library::__private::Probe<[#subject]>>::column(#library::__private::from_ref(#field))
            ),
            Role::Nested => {
                let open = quote_spanned!(self.first=> &);
                quote_spanned!(self.last=> #open <#library::__private::Probe<#subject>>::nested(#field))
            }
            Role::OfRow | Role::Host | Role::Unknown => quote_spanned!(self.last=> &#library::__private::Malformed),
        };
        tokens.extend(code);
    }

    /// `&self.field`, from the subject's begin to its end.
    fn field(&self, tokens: &mut TokenStream, this: &Ident) {
        mark(tokens, "&", self.first);
        let mut this = this.clone();
        this.set_span(this.span().located_at(self.last));
        this.to_tokens(tokens);
        mark(tokens, ".", self.last);
        match self.field.member.clone() {
            Member::Named(mut name) => {
                name.set_span(name.span().located_at(self.last));
                name.to_tokens(tokens);
            }
            Member::Unnamed(Index { index, span }) => {
                Index { index, span: span.located_at(self.last) }.to_tokens(tokens);
            }
        }
    }

    /// Whether the walk asks the library's `Probe`, since the type may be no column: it would be an error here too. What is plainly one
    /// goes without, as that is less to compile.
    pub(crate) fn is_probed(&self) -> bool {
        matches!(self.role, Role::Column | Role::Scalar | Role::Nested) && !self.is_plain
    }

    /// Whether the list of members asks the library's `Probe`.
    pub(crate) fn asks_in_members(&self) -> bool {
        self.role == Role::OfRow && !self.is_plain
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
    pub(crate) fn access(&self, tokens: &mut TokenStream, this: &Ident) {
        let mut this = this.clone();
        this.set_span(self.first);
        this.to_tokens(tokens);
        mark(tokens, ".", self.last);
        self.label().to_tokens(tokens);
    }

    /// That the subject is what its role says, where no parameter decides it.
    ///
    /// The last field decides whether the pointer struct is sized: where its type is an error, each place that names the struct
    /// is one too. With this said in the where clause of each item that names it, the clause alone is.
    pub(crate) fn assumption(&self) -> Option<WherePredicate> {
        let of = match self.role {
            Role::Column => quote_spanned!(self.last=> Column),
            Role::Nested => quote_spanned!(self.last=> __private::Set),
            Role::Scalar | Role::OfRow | Role::Host | Role::Unknown => return None,
        };
        if self.is_plain || self.detached.is_generic() || !self.detached.borrows.is_empty() {
            return None;
        }
        let (ty, library) = (&self.detached.ty, self.library(self.first));
        let bound = quote_spanned!(self.last=> #library::#of);
        syn::parse2(quote!(#ty: #bound)).ok()
    }

    /// What the compiler is to check of the element, as statements of a `const`: that it has bytes, is no `usize`, and is not aligned
    /// above what is asked for. Of what is plainly in order nothing is checked, as that is less to compile.
    pub(crate) fn check(&self) -> Option<TokenStream> {
        if self.detached.is_generic() || self.is_plain && self.field.words.align.is_none() {
            return None;
        }
        // No item around a `const` has the struct's lifetimes.
        let without_lifetimes =
            self.field.words.borrow.is_some().then(|| Detached::new(self.model.syntax, self.subject, false).ty);
        let (ty, library) = (without_lifetimes.as_ref().unwrap_or(&self.detached.ty), self.library(self.last));
        let column = match self.role {
            Role::Column => quote!(#ty),
            Role::Scalar | Role::OfRow => quote!([#ty]),
            Role::Nested | Role::Host | Role::Unknown => return None,
        };
        let open = quote_spanned!(self.first=> <);
        let probe = quote_spanned!(self.last=> #open #library::__private::Probe<#column>>);
        let (arguments, library) =
            (quote_spanned!(self.last=> (#probe::MEMBER, #probe::IS_HOST_WORD)), self.library(self.first));
        let element = quote_spanned!(self.last=> #library::__private::is_element #arguments;);
        let alignment = self.field.words.align.map(|align| {
            let (bytes, message, library) = (align.bytes, self.below(align), self.library(align.span));
            quote_spanned!(align.span=> let _ = #library::__private::is_aligned(#probe::MEMBER, #bytes, #message);)
        });
        Some(quote!(#element #alignment))
    }

    fn below(&self, align: Align) -> String {
        let (name, bytes) = (self.field.name(), align.bytes);
        format!(
            "column `{name}`: `{ALIGN} = {bytes}` is below the element's own alignment: ask for that or more, or remove `{ALIGN}`"
        )
    }

    /// Whether no error is expected of the field.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The member as the library knows it, but for its name. What the compiler is to check of the element is checked where this is evaluated.
    pub(crate) fn member(&self, tokens: &mut TokenStream) {
        let library = self.library(self.first);
        let of = Written(|tokens: &mut TokenStream| self.unnamed_member(tokens));
        let (align, c_type) = (self.field.words.align, &self.field.words.c_type);
        // The field's and the struct's both hold; the struct's is 16 where it says nothing.
        let of_struct = self.model.words.align.map(|align| align.bytes);
        let bytes = match (align.map(|align| align.bytes), of_struct) {
            _ if self.role == Role::Nested => None,
            (None, None) => None,
            (Some(of_field), None) => Some(of_field.max(DEFAULT_ALIGNMENT)),
            (of_field, Some(of_struct)) => Some(of_field.unwrap_or(of_struct).max(of_struct)),
        };
        if c_type.is_none() && bytes.is_none() {
            return of.to_tokens(tokens);
        }
        let mut member = of.to_token_stream();
        if let Some(c_type) = c_type {
            member = quote!(#library::Member::with_c_type(#member, #c_type));
        }
        if let Some(align) = align.filter(|_| self.detached.is_generic()) {
            let (bytes, message, library) = (align.bytes, self.below(align), self.library(align.span));
            member = quote_spanned!(align.span=> #library::__private::is_aligned(#member, #bytes, #message));
        }
        if let Some(bytes) = bytes {
            member = quote!(#library::__private::aligned(#member, #bytes));
        }
        tokens.extend(member);
    }

    fn unnamed_member(&self, tokens: &mut TokenStream) {
        let (ty, library) = (&self.detached.ty, self.library(self.first));
        let slice = Written(|tokens: &mut TokenStream| {
            group(tokens, Delimiter::Bracket, self.first, |tokens| ty.to_tokens(tokens));
        });
        let of = Written(|tokens: &mut TokenStream| match self.role {
            Role::Column => self.project(tokens, ty, &["Column"], "MEMBER"),
            Role::Nested => self.project(tokens, ty, &["__private", "Set"], "MEMBER"),
            // A row's element is asked for where it is read, and this adds no second error to it.
            Role::OfRow if !self.is_plain => tokens.extend(quote!(<#library::__private::Probe<#slice>>::MEMBER)),
            Role::Scalar | Role::OfRow => self.project(tokens, &slice, &["Column"], "MEMBER"),
            Role::Host | Role::Unknown => {
                tokens.extend(quote!(<#library::__private::Malformed as #library::Column>::MEMBER));
            }
        });
        // Of a struct that is no generic one the same is checked where it is written.
        if self.detached.is_generic() && self.role != Role::Nested {
            let arguments = quote_spanned!(self.last=> (#of));
            tokens.extend(quote!(#library::__private::has_bytes #arguments));
        } else {
            of.to_tokens(tokens);
        }
    }

    /// `<ty as of>::item`, from the subject's begin to its end.
    fn project(&self, tokens: &mut TokenStream, ty: &impl ToTokens, of: &[&str], item: &str) {
        mark(tokens, "<", self.first);
        ty.to_tokens(tokens);
        word(tokens, "as", self.last);
        self.library(self.last).to_tokens(tokens);
        path(tokens, of, self.last);
        mark(tokens, ">", self.last);
        path(tokens, &[item], self.last);
    }

    fn library(&self, span: Span) -> At<'_> {
        At { span: Some(span), ..self.model.library() }
    }
}

/// What a column is aligned to where nothing is said, as the library has it.
const DEFAULT_ALIGNMENT: u64 = 16;
