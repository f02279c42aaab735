//! Each rule on the words of an attribute: what breaks it is told, once, by the sentence that says what to do. `tests/ui` shows where
//! the compiler points.

use super::*;

/// The messages of an expansion.
fn messages(input: TokenStream) -> Vec<String> {
    let mut messages = Vec::new();
    let mut is_next = false;
    walk(derive(input), &mut |token| match token {
        TokenTree::Ident(word) => is_next |= word == "compile_error",
        TokenTree::Literal(text) if is_next => {
            let text: syn::LitStr = syn::parse2(TokenTree::from(text.clone()).into()).expect("a message is a string");
            messages.push(text.value());
            is_next = false;
        }
        _ => {}
    });
    messages
}

/// Expects exactly these messages, by their beginnings.
#[track_caller]
fn tells(input: TokenStream, beginnings: &[&str]) {
    let found = messages(input.clone());
    assert_eq!(found.len(), beginnings.len(), "{found:#?} of {input}");
    for (message, beginning) in found.iter().zip(beginnings) {
        assert!(message.starts_with(beginning), "`{message}` does not begin with `{beginning}`");
    }
}

#[test]
fn an_alignment_is_a_power_of_two_and_the_nearest_are_named() {
    for (bytes, nearest) in [
        (quote!(0), "0 is no alignment, which is a power of two: the least is 1"),
        (quote!(24), "24 is no alignment, which is a power of two: the nearest are 16 and 32"),
        (
            quote!(0xffff_ffff_ffff_ffff),
            "18446744073709551615 is no alignment, which is a power of two: the largest is 9223372036854775808",
        ),
    ] {
        tells(
            quote!(
                #[device(align = #bytes)]
                struct A {
                    x: Vec<u8>,
                }
            ),
            &[nearest],
        );
        tells(
            quote!(
                struct A {
                    #[device(align = #bytes)]
                    x: Vec<u8>,
                }
            ),
            &[nearest],
        );
    }
}

#[test]
fn a_field_on_the_host_says_nothing_else() {
    let words = [
        (quote!(scalar), "`scalar` makes a column, but "),
        (quote!(nested), "`nested` makes columns, but "),
        (quote!(borrow), "`borrow` is for a column, but "),
        (quote!(align = 4), "`align` is for a column, but "),
        (quote!(c_type = "int"), "`c_type` is for a column, but "),
    ];
    for (word, beginning) in words {
        let skipped = format!("{beginning}`skip` keeps the field on the host: remove one of the two");
        tells(
            quote!(
                struct A {
                    #[device(skip, #word)]
                    x: u8,
                    y: Vec<u8>,
                }
            ),
            &[&skipped],
        );
        let phantom = format!("{beginning}`PhantomData` has no value: remove one of the two");
        tells(
            quote!(
                struct A {
                    #[device(#word)]
                    x: PhantomData<u8>,
                    y: Vec<u8>,
                }
            ),
            &[&phantom],
        );
    }
}

#[test]
fn a_plain_value_is_no_set_and_borrows_nothing() {
    tells(
        quote!(
            struct A {
                #[device(scalar, nested)]
                x: u8,
            }
        ),
        &["`scalar` is for a plain value and `nested` for a set of arguments"],
    );
    tells(
        quote!(
            struct A {
                #[device(scalar, borrow)]
                x: u8,
            }
        ),
        &["a plain value borrows nothing"],
    );
}

#[test]
fn a_row_has_plain_values_alone() {
    for (word, beginning) in [
        (quote!(scalar), "in a row every field is a plain value, one a row: remove `scalar`"),
        (quote!(nested), "in a row every field is a plain value, one a row: write the fields of the nested row here"),
        (quote!(borrow), "in a row every field is a plain value, which borrows nothing: remove `borrow`"),
    ] {
        tells(
            quote!(
                #[device(row)]
                struct A {
                    #[device(#word)]
                    x: u8,
                }
            ),
            &[beginning],
        );
    }
}

#[test]
fn a_nested_set_keeps_its_own_words() {
    tells(
        quote!(
            struct A {
                #[device(nested, align = 64)]
                x: B,
            }
        ),
        &["`align` does not reach into a nested set"],
    );
    tells(
        quote!(
            #[device(align = 64)]
            struct A {
                #[device(nested)]
                x: B,
            }
        ),
        &["the struct's `align` does not reach into a nested set"],
    );
    tells(
        quote!(
            struct A {
                #[device(nested, c_type = "B")]
                x: B,
            }
        ),
        &["`c_type` names an element"],
    );
}
