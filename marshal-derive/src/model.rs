//! The struct as the derive understands it. Every node keeps the syntax that it came from.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields, Ident, Index, Member, Meta, Type};

use crate::errors::Errors;
use crate::parse::{FieldWords, StructWords};
use crate::write::At;

/// The whole input.
pub(crate) struct Model<'a> {
    pub(crate) syntax: &'a DeriveInput,
    pub(crate) words: StructWords,
    /// In declared order; none for what is no struct.
    pub(crate) fields: Vec<Field<'a>>,
    library: Vec<TokenTree>,
}

/// A field, host-only ones included.
pub(crate) struct Field<'a> {
    pub(crate) syntax: &'a syn::Field,
    pub(crate) member: Member,
    pub(crate) words: FieldWords,
}

/// What becomes of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A column, through the trait `Column`.
    Column,
    /// A column of one element.
    Scalar,
    /// Columns of a set within the set, through the trait `DeviceArgs`.
    Nested,
    /// A column of one element a row.
    OfRow,
    /// No column: the field stays on the host.
    Host,
    /// Its attributes are not understood: a column of nobody knows what.
    Unknown,
}

impl<'a> Model<'a> {
    pub(crate) fn new(syntax: &'a DeriveInput, errors: &mut Errors) -> Self {
        let words = StructWords::parse(&syntax.attrs, errors);
        let fields = match &syntax.data {
            Data::Struct(data) => {
                data.fields.iter().zip(0..).map(|(field, index)| Field::new(field, index, errors)).collect()
            }
            Data::Enum(_) | Data::Union(_) => vec![],
        };
        let library = words.krate.as_ref().map_or_else(|| quote!(::marshal), ToTokens::to_token_stream);
        Self { syntax, words, fields, library: library.into_iter().collect() }
    }

    /// The path to the library, from the struct's module.
    pub(crate) fn library(&self) -> At<'_> {
        At { path: &self.library, span: None }
    }

    /// The name of the generated struct.
    pub(crate) fn pointers(&self) -> Ident {
        // At the name's place, but as the macro's own token: lints on names speak of the struct that the user wrote.
        let span = Span::mixed_site().located_at(self.syntax.ident.span());
        format_ident!("{}Pointers", self.syntax.ident, span = span)
    }

    /// What the user allows in the struct is allowed in the code that names the same types and fields. What is expected there may
    /// not come up here.
    pub(crate) fn lints(&self) -> TokenStream {
        let lints = self.syntax.attrs.iter().filter_map(|attribute| match &attribute.meta {
            Meta::List(list) if list.path.is_ident("allow") || list.path.is_ident("expect") => Some(&list.tokens),
            _ => None,
        });
        quote!(#(#[allow(#lints)])*)
    }

    pub(crate) fn is_row(&self) -> bool {
        self.words.row.is_some()
    }

    /// Whether walking over the columns makes sense: not where the attributes of the struct are not understood.
    pub(crate) fn is_malformed(&self) -> bool {
        self.words.is_malformed || !matches!(self.syntax.data, Data::Struct(_))
    }

    pub(crate) fn role(&self, field: &Field<'_>) -> Role {
        if field.is_host() {
            Role::Host
        } else if field.words.is_malformed || self.is_malformed() {
            Role::Unknown
        } else if self.is_row() {
            Role::OfRow
        } else if field.words.scalar.is_some() {
            Role::Scalar
        } else if field.words.nested.is_some() {
            Role::Nested
        } else {
            Role::Column
        }
    }

    /// The fields that become columns.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&Field<'a>, Role)> {
        self.fields.iter().map(|field| (field, self.role(field))).filter(|(_, role)| *role != Role::Host)
    }

    pub(crate) fn is_tuple(&self) -> bool {
        matches!(&self.syntax.data, Data::Struct(data) if matches!(data.fields, Fields::Unnamed(_)))
    }

    pub(crate) fn is_unit(&self) -> bool {
        matches!(&self.syntax.data, Data::Struct(data) if matches!(data.fields, Fields::Unit))
    }
}

impl<'a> Field<'a> {
    fn new(syntax: &'a syn::Field, index: u32, errors: &mut Errors) -> Self {
        let member = match &syntax.ident {
            Some(name) => Member::Named(name.clone()),
            None => Member::Unnamed(Index { index, span: Span::mixed_site() }),
        };
        Self { syntax, member, words: FieldWords::parse(&syntax.attrs, errors) }
    }

    /// The column's name: `type` for `r#type`, `0` for a tuple's first field.
    pub(crate) fn name(&self) -> String {
        match &self.member {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        }
    }

    /// `PhantomData` carries a type and no value. An alias of it takes `skip`.
    pub(crate) fn is_phantom(&self) -> bool {
        let Type::Path(path) = without_references(&self.syntax.ty) else { return false };
        path.path.segments.last().is_some_and(|segment| segment.ident == "PhantomData")
    }

    pub(crate) fn is_deprecated(&self) -> bool {
        self.syntax.attrs.iter().any(|attribute| attribute.path().is_ident("deprecated"))
    }

    fn is_host(&self) -> bool {
        self.words.skip.is_some() || self.is_phantom()
    }
}

/// The column behind references: `Column` and its pointers are the same for both, and messages name what the user must change.
pub(crate) fn without_references(ty: &Type) -> &Type {
    match ty {
        Type::Reference(reference) => without_references(&reference.elem),
        Type::Paren(paren) => without_references(&paren.elem),
        Type::Group(group) => without_references(&group.elem),
        other => other,
    }
}
