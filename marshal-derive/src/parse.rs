//! `#[device(..)]` as it is written: words, values and where they stand. What a word may be beside others is for
//! `check`.

use std::mem;

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta, Path};

use crate::errors::Errors;
use crate::symbol::{ALIGN, BORROW, C_TYPE, CRATE, DEVICE, NAME, NESTED, ON_FIELD, ON_STRUCT, ROW, SCALAR, SKIP, Word};

/// An alignment as it is written: any integer.
#[derive(Clone, Copy)]
pub(crate) struct Align {
    pub(crate) bytes: u64,
    pub(crate) span: Span,
}

/// The words on the struct.
#[derive(Default)]
pub(crate) struct StructWords {
    pub(crate) row: Option<Ident>,
    pub(crate) align: Option<Align>,
    pub(crate) krate: Option<Path>,
    /// What the pointer struct is called in C++.
    pub(crate) name: Option<LitStr>,
    /// Something was written that is not understood: nobody knows what the fields are meant to be.
    pub(crate) is_malformed: bool,
}

/// The words on a field.
#[derive(Default)]
pub(crate) struct FieldWords {
    pub(crate) scalar: Option<Ident>,
    pub(crate) nested: Option<Ident>,
    pub(crate) borrow: Option<Ident>,
    pub(crate) skip: Option<Ident>,
    pub(crate) align: Option<Align>,
    /// What the element is called in C++.
    pub(crate) c_type: Option<LitStr>,
    /// Something was written that is not understood: nobody knows what the field is meant to be.
    pub(crate) is_malformed: bool,
}

impl StructWords {
    pub(crate) fn parse(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut words = Self::default();
        words.is_malformed = each_item(attributes, ON_STRUCT, errors, |item, errors| {
            match item.word.to_string().as_str() {
                ROW => item.flag(&mut words.row, errors),
                ALIGN => item.set(&mut words.align, alignment, errors),
                CRATE => item.set(&mut words.krate, path, errors),
                NAME => item.set(&mut words.name, text, errors),
                _ => return item.refuse("the struct", ON_STRUCT, "a field", ON_FIELD, errors),
            }
            true
        });
        words
    }
}

impl FieldWords {
    pub(crate) fn parse(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut words = Self::default();
        words.is_malformed = each_item(attributes, ON_FIELD, errors, |item, errors| {
            match item.word.to_string().as_str() {
                SCALAR => item.flag(&mut words.scalar, errors),
                NESTED => item.flag(&mut words.nested, errors),
                BORROW => item.flag(&mut words.borrow, errors),
                SKIP => item.flag(&mut words.skip, errors),
                ALIGN => item.set(&mut words.align, alignment, errors),
                C_TYPE => item.set(&mut words.c_type, text, errors),
                _ => return item.refuse("a field", ON_FIELD, "the struct", ON_STRUCT, errors),
            }
            true
        });
        words
    }
}

/// `word`, or `word = value`.
struct Item {
    word: Ident,
    value: Option<TokenStream>,
}

impl Item {
    /// Takes a word that stands alone.
    fn flag(self, slot: &mut Option<Ident>, errors: &mut Errors) {
        let word = &self.word;
        if let Some(value) = &self.value {
            errors.on(value, format_args!("`{word}` takes no value: write `#[device({word})]`"));
        }
        self.once(slot, Some(self.word.clone()), errors);
    }

    /// Takes a word with a value.
    fn set<T>(self, slot: &mut Option<T>, parse: fn(&Ident, TokenStream) -> syn::Result<T>, errors: &mut Errors) {
        let value = match &self.value {
            Some(value) if !value.is_empty() => parse(&self.word, value.clone()),
            _ => Err(syn::Error::new(
                self.word.span(),
                format_args!("`{}` needs a value: write `#[device({})]`", self.word, form(&self.word)),
            )),
        };
        let value = value.map_err(|error| errors.push(error)).ok();
        self.once(slot, value, errors);
    }

    fn once<T>(&self, slot: &mut Option<T>, value: Option<T>, errors: &mut Errors) {
        if slot.is_some() {
            errors.on(&self.word, format_args!("`{}` is written twice: keep one", self.word));
        } else {
            *slot = value;
        }
    }

    /// Says that the word is not known here.
    fn refuse(&self, here: &str, known: &[Word], there: &str, others: &[Word], errors: &mut Errors) -> bool {
        let word = &self.word;
        let forms = forms(known);
        if others.iter().any(|other| word == other.name) {
            errors.on(word, format_args!("`{word}` belongs on {there}: {here} takes {forms}"));
        } else {
            errors.on(word, format_args!("unknown attribute `{word}`: {here} takes {forms}"));
        }
        false
    }
}

/// Gives every item to `take`, which says whether it knew the word. True when something was not understood.
fn each_item(
    attributes: &[Attribute],
    known: &[Word],
    errors: &mut Errors,
    mut take: impl FnMut(Item, &mut Errors) -> bool,
) -> bool {
    let mut is_malformed = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(DEVICE)) {
        let Meta::List(list) = &attribute.meta else {
            errors.on(&attribute.meta, format_args!("write `#[device(..)]` with {}", forms(known)));
            is_malformed = true;
            continue;
        };
        for tokens in between_commas(list.tokens.clone()) {
            is_malformed |= match item(&tokens) {
                Some(item) => !take(item, errors),
                None => {
                    errors.on(&tokens, format_args!("found `{tokens}`, expected {}", forms(known)));
                    true
                }
            };
        }
    }
    is_malformed
}

/// The pieces between the commas; one comma may trail. They are read one by one, so that a mistake in one hides no other.
fn between_commas(tokens: TokenStream) -> Vec<TokenStream> {
    let mut pieces = vec![];
    let mut piece = TokenStream::new();
    for token in tokens {
        let is_comma = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
        if !is_comma {
            piece.extend([token]);
        } else if piece.is_empty() {
            // Nothing stands before the comma: the comma is what was found.
            pieces.push(token.into());
        } else {
            pieces.push(mem::take(&mut piece));
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

fn item(tokens: &TokenStream) -> Option<Item> {
    let mut tokens = tokens.clone().into_iter();
    let TokenTree::Ident(word) = tokens.next()? else { return None };
    match tokens.next() {
        None => Some(Item { word, value: None }),
        Some(TokenTree::Punct(punct)) if punct.as_char() == '=' => Some(Item { word, value: Some(tokens.collect()) }),
        Some(_) => None,
    }
}

/// An integer literal, as `align` takes it.
fn alignment(word: &Ident, value: TokenStream) -> syn::Result<Align> {
    let wrong = |found: &TokenStream| {
        let message = format!("`{word}` takes an integer literal, found `{found}`: write `#[device({})]`", form(word));
        syn::Error::new_spanned(found, message)
    };
    let Ok(expr) = syn::parse2::<Expr>(value.clone()) else { return Err(wrong(&value)) };
    let Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) = without_groups(&expr) else { return Err(wrong(&value)) };
    match literal.base10_parse() {
        Ok(bytes) if matches!(literal.suffix(), "" | "u8" | "u16" | "u32" | "u64" | "usize") => {
            Ok(Align { bytes, span: literal.span() })
        }
        _ => Err(wrong(&value)),
    }
}

/// A string literal. What may stand in it is for `check`.
fn text(word: &Ident, value: TokenStream) -> syn::Result<LitStr> {
    syn::parse2(without_group(value.clone())).map_err(|_| {
        let message = format!("`{word}` takes a string literal, found `{value}`: write `#[device({})]`", form(word));
        syn::Error::new_spanned(&value, message)
    })
}

/// A path, or a string literal that holds one.
fn path(word: &Ident, value: TokenStream) -> syn::Result<Path> {
    let parsed = match syn::parse2::<LitStr>(value.clone()) {
        Ok(literal) => literal.parse_with(Path::parse_mod_style),
        Err(_) => syn::parse::Parser::parse2(Path::parse_mod_style, without_group(value.clone())),
    };
    parsed.map_err(|_| {
        let message = format!("`{word}` takes a path, found `{value}`: write `#[device({})]`", form(word));
        syn::Error::new_spanned(&value, message)
    })
}

/// What a macro passes on may stand in invisible brackets.
fn without_groups(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => without_groups(&group.expr),
        other => other,
    }
}

fn without_group(tokens: TokenStream) -> TokenStream {
    let mut trees = tokens.clone().into_iter();
    match (trees.next(), trees.next()) {
        (Some(TokenTree::Group(group)), None) if group.delimiter() == Delimiter::None => without_group(group.stream()),
        _ => tokens,
    }
}

fn form(word: &Ident) -> &'static str {
    ON_STRUCT.iter().chain(ON_FIELD).find(|known| word == known.name).map_or("..", |known| known.form)
}

fn forms(words: &[Word]) -> String {
    let forms: Vec<_> = words.iter().map(|word| format!("`{}`", word.form)).collect();
    match forms.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        forms => forms.concat(),
    }
}
