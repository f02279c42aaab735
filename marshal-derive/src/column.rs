//! What the expansion says of one column.
//!
//! A type that is no column fails wherever the expansion names it. All those places carry the span of the field's type, and
//! the compiler says equal errors once. What cannot be said equally goes through the library's `Probe`, which fails nowhere.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Index, Member, Type};

use crate::generics::Detached;
use crate::model::{Field, Model, Role, without_references};
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
            Role::Nested => self.project(ty, quote!(DeviceArgs), quote!(Pointers)),
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

    /// The local variable that holds the field's pointers.
    pub(crate) fn variable(&self) -> Ident {
        format_ident!("__column_{}", self.index, span = Span::mixed_site())
    }

    /// The column of a column struct, a reference to what the library walks over.
    pub(crate) fn value(&self, this: &Ident) -> TokenStream {
        let (reference, mut this, member) = (quote_spanned!(self.first=> &), this.clone(), &self.field.member);
        this.set_span(this.span().located_at(self.last));
        let mut member = member.clone();
        member_at(&mut member, self.last);
        let field = quote_spanned!(self.last=> #reference #this.#member);
        match self.role {
            // Named with a lifetime here and with `'static` in the pointer struct, it would be two errors.
            Role::Column if self.detached.lost_lifetime => {
                let (subject, library) = (self.subject, self.library(self.last));
                quote_spanned!(self.last=> <#library::__private::Probe<#subject>>::column(#field))
            }
            Role::Nested => {
                let (open, library) = (quote_spanned!(self.first=> &), self.library(self.last));
                quote_spanned!(self.last=> #open #library::__private::Nested(#field))
            }
            Role::Scalar => {
                let library = self.library(self.first);
                quote_spanned!(self.last=> #library::__private::from_ref(#field))
            }
            Role::Column | Role::OfRow | Role::Host | Role::Unknown => field,
        }
    }

    /// Whether the walk asks the library's `Probe`.
    pub(crate) fn is_probed(&self) -> bool {
        self.role == Role::Column && self.detached.lost_lifetime
    }

    /// Shows a field of a row to `visitor`. It is read by value, as a field of a packed struct has no reference.
    pub(crate) fn visit_row(&self, visitor: &Ident, pointers: &TokenStream) -> TokenStream {
        let (subject, member, index) = (self.subject, &self.field.member, self.index);
        let library = self.library(self.first);
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

    /// The member as the library knows it. What the compiler is to check of the element is checked where this is evaluated.
    pub(crate) fn member(&self) -> TokenStream {
        let (ty, name, library) = (&self.detached.ty, self.field.name(), self.library(self.first));
        let make = match self.role {
            Role::Column => quote!(column::<#ty>),
            Role::Nested => quote!(nested::<#ty>),
            Role::Scalar | Role::OfRow => quote!(column::<[#ty]>),
            Role::Host | Role::Unknown => return quote!(#library::Member::new::<#library::__private::Malformed>(#name)),
        };
        let call = quote_spanned!(self.last=> (#name));
        let mut member = quote!(#library::__private::#make #call);
        if let Some(c_type) = &self.field.words.c_type {
            member = quote!(#library::Member::with_c_type(#member, #c_type));
        }
        let align = self.field.words.align;
        if let Some(align) = align {
            let (bytes, library) = (align.bytes, self.library(align.span));
            let column = if self.role == Role::Column { quote!(#ty) } else { quote!([#ty]) };
            let message = format!(
                "column `{name}`: `{ALIGN} = {bytes}` is below the element's own alignment: ask for that or more, or remove `{ALIGN}`"
            );
            member = quote_spanned!(align.span=> #library::__private::is_aligned::<#column>(#member, #bytes, #message));
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

    /// A check that no `usize` is the element, as a statement of a `const`: where parameters decide, it passes. It is left out where
    /// every name in the type is a well-known one of something else, for the compiler's sake.
    pub(crate) fn word_check(&self) -> Option<TokenStream> {
        let is_column = matches!(self.role, Role::Column | Role::Scalar | Role::OfRow);
        if !is_column || self.detached.is_generic() || !may_be_word(self.subject.to_token_stream()) {
            return None;
        }
        let (pointers, open, library) = (self.pointers(), quote_spanned!(self.first=> <), self.library(self.last));
        let word = quote_spanned!(self.last=> #open #library::__private::Probe<#pointers>>::WORD);
        Some(quote_spanned!(self.last=> let () = #word;))
    }

    /// `<ty as of>::item`, from the subject's begin to its end.
    fn project(&self, ty: &Type, of: TokenStream, item: TokenStream) -> TokenStream {
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

/// Names of types that are no `usize`, whatever stands beside them.
const NO_WORDS: &[&str] = &[
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "f32",
    "f64",
    "bool",
    "char",
    "Vec",
    "Box",
    "Arc",
    "Rc",
    "Cow",
    "Option",
    "DevicePointer",
    "marshal",
    "std",
    "alloc",
    "core",
    "static",
    "mut",
];

fn may_be_word(tokens: TokenStream) -> bool {
    let mut after_quote = false;
    tokens.into_iter().any(|token| {
        let is_lifetime =
            core::mem::replace(&mut after_quote, matches!(&token, TokenTree::Punct(p) if p.as_char() == '\''));
        match token {
            TokenTree::Ident(name) => !is_lifetime && !NO_WORDS.iter().any(|known| name == known),
            TokenTree::Group(group) => may_be_word(group.stream()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        }
    })
}

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
