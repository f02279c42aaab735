//! Tokens written one by one. To interpolate a finished stream into another is a call to the compiler, and a struct of a dozen
//! fields would make hundreds of them: what is said for every field is written straight into the stream that it stands in.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt};

/// Something that writes itself.
pub(crate) struct Written<F>(pub(crate) F);

impl<F: Fn(&mut TokenStream)> ToTokens for Written<F> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        (self.0)(tokens);
    }
}

/// A path at a place of its own, such as the library's.
#[derive(Clone, Copy)]
pub(crate) struct At<'t> {
    pub(crate) path: &'t [TokenTree],
    /// Where it was written, if `None`.
    pub(crate) span: Option<Span>,
}

impl ToTokens for At<'_> {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        for token in self.path {
            let mut token = token.clone();
            if let Some(span) = self.span {
                token.set_span(span);
            }
            tokens.append(token);
        }
    }
}

/// A mark of one or two characters.
pub(crate) fn mark(tokens: &mut TokenStream, mark: &str, span: Span) {
    let mut rest = mark.chars().peekable();
    while let Some(character) = rest.next() {
        let spacing = if rest.peek().is_some() { Spacing::Joint } else { Spacing::Alone };
        let mut punct = Punct::new(character, spacing);
        punct.set_span(span);
        tokens.append(punct);
    }
}

/// A word.
pub(crate) fn word(tokens: &mut TokenStream, word: &str, span: Span) {
    tokens.append(Ident::new(word, span));
}

/// `::a::b`.
pub(crate) fn path(tokens: &mut TokenStream, segments: &[&str], span: Span) {
    for segment in segments {
        mark(tokens, "::", span);
        word(tokens, segment, span);
    }
}

/// A string.
pub(crate) fn text(tokens: &mut TokenStream, text: &str, span: Span) {
    let mut literal = Literal::string(text);
    literal.set_span(span);
    tokens.append(literal);
}

/// What `inside` writes, in brackets.
pub(crate) fn group(tokens: &mut TokenStream, delimiter: Delimiter, span: Span, inside: impl FnOnce(&mut TokenStream)) {
    let mut stream = TokenStream::new();
    inside(&mut stream);
    let mut group = Group::new(delimiter, stream);
    group.set_span(span);
    tokens.append(group);
}
