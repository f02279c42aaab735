//! The expansion word by word, and what no expansion may hold. `SNAPSHOTS=overwrite` writes the files of `snapshots/` anew.

use std::path::Path;
use std::{env, fs};

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use crate::derive;

mod rules;

/// A struct of each main form, by the name of its snapshot.
fn forms() -> Vec<(&'static str, TokenStream)> {
    vec![
        (
            "columns",
            quote! {
                /// What a grouped product needs.
                pub struct GroupedGemm<'a> {
                    /// m, n and k of each product.
                    pub problem_sizes: &'a [GemmCoord],
                    #[device(align = 64)]
                    pub(crate) r#type: Vec<u8>,
                    #[device(scalar)]
                    alpha: f32,
                    #[device(skip)]
                    label: String,
                    seen: PhantomData<&'a u8>,
                    names: Cow<'a, [u32]>,
                }
            },
        ),
        (
            "row",
            quote! {
                #[device(row, align = 32)]
                struct Gemm {
                    m: i32,
                    #[device(align = 8)]
                    a: DevicePointer<f32>,
                    #[device(skip)]
                    host: String,
                }
            },
        ),
        (
            "tuple",
            quote! {
                #[device(crate = facade::da)]
                pub(crate) struct Pair(pub Vec<u8>, #[device(skip)] String, Box<[u32]>);
            },
        ),
        (
            "unit",
            quote!(
                pub struct Nothing;
            ),
        ),
        (
            "generic",
            quote! {
                struct Generic<'a, T: Pod + PartialEq<&'a str> = f32, U = T, C: Column, const N: usize = 4>
                where
                    T: Into<f64> + 'a,
                    U: Default,
                    <T as Proto>::Word: Pod,
                {
                    #[device(align = 8)]
                    x: Vec<[T; N]>,
                    c: &'a C,
                    words: Cow<'a, [<T as Proto>::Word]>,
                    itself: [u8; <Self as Width>::WORDS],
                    #[device(skip)]
                    u: U,
                }
            },
        ),
        (
            "composed",
            quote! {
                #[device(name = "Layer")]
                struct Composed<'a, 'b, T: Pod> {
                    #[device(nested)]
                    problems: Vec<Problem>,
                    #[device(borrow)]
                    weights: &'a Buffers<'a, T>,
                    #[device(c_type = "cutlass::gemm::GemmCoord")]
                    sizes: &'b [GemmCoord],
                    #[device(nested)]
                    inner: &'b Inner<'b>,
                }
            },
        ),
        (
            "many",
            quote! {
                struct Many(
                    Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>,
                    Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u16>,
                );
            },
        ),
        (
            "mistakes",
            quote! {
                #[device(align = 24)]
                struct Mistakes {
                    #[device(scaler)]
                    x: u32,
                    y: Vec<u32>,
                }
            },
        ),
        (
            "enum",
            quote!(
                enum Either {
                    A,
                    B,
                }
            ),
        ),
    ]
}

#[test]
fn expansions_are_as_in_the_snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots");
    for (name, input) in forms() {
        let file: syn::File = syn::parse2(derive(input)).expect("the expansion is a file of items");
        let code = prettyplease::unparse(&file);
        let path = folder.join(name).with_extension("rs");
        if env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
            fs::write(&path, &code).expect("the folder can be written to");
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(code, expected, "{} differs: SNAPSHOTS=overwrite cargo test -p marshal-derive", path.display());
    }
}

fn walk(tokens: TokenStream, see: &mut impl FnMut(&TokenTree)) {
    for token in tokens {
        see(&token);
        if let TokenTree::Group(group) = token {
            walk(group.stream(), see);
        }
    }
}

#[test]
fn no_expansion_is_unsafe_or_computes() {
    for (name, input) in forms() {
        let mut forbidden = vec![];
        let mut last = ' ';
        walk(derive(input), &mut |token| {
            match token {
                TokenTree::Ident(word) if word == "unsafe" || word == "as_ptr" => forbidden.push(word.to_string()),
                // `*` only copies `self`, `+` stands only between bounds, `-` only in `->`.
                TokenTree::Ident(word) if word == "self" && last == '*' => {}
                _ if last == '*' => forbidden.push("*".to_owned()),
                TokenTree::Punct(punct) if matches!(punct.as_char(), '/' | '%' | '^') => {
                    forbidden.push(punct.to_string())
                }
                TokenTree::Punct(punct) if punct.as_char() == '>' && last == '-' => {}
                _ if last == '-' => forbidden.push("-".to_owned()),
                TokenTree::Punct(punct) if punct.as_char() == '+' && name != "generic" => {
                    forbidden.push("+".to_owned())
                }
                _ => {}
            }
            last = if let TokenTree::Punct(punct) = token { punct.as_char() } else { ' ' };
        });
        assert!(forbidden.is_empty(), "{name} holds {forbidden:?}");
    }
}

/// A pattern with `..` would hide a field that an attribute macro adds behind the derive's back.
#[test]
fn patterns_name_every_field() {
    for (name, input) in forms() {
        let (mut dots, mut last) = (0, ' ');
        walk(derive(input), &mut |token| {
            let character = if let TokenTree::Punct(punct) = token { punct.as_char() } else { ' ' };
            dots += u32::from(character == '.' && last == '.');
            last = character;
        });
        assert_eq!(dots, 0, "{name} holds `..`");
    }
}

/// Whether the derive reported an error.
fn is_refused(input: TokenStream) -> bool {
    let mut is_refused = false;
    walk(derive(input), &mut |token| is_refused |= matches!(token, TokenTree::Ident(word) if word == "compile_error"));
    is_refused
}

#[test]
fn odd_inputs_are_refused_without_a_panic() {
    let attributes = [
        quote!(#[device]),
        quote!(#[device = 1]),
        quote!(#[device(,)]),
        quote!(#[device(=)]),
        quote!(#[device(align align)]),
        quote!(#[device(align = = 16)]),
        quote!(#[device(align = {16})]),
        quote!(#[device(align = 16 16)]),
        quote!(#[device(align = 1_6_foo)]),
        quote!(#[device(align = 0xffff_ffff_ffff_ffff_ffff)]),
        quote!(#[device(align = 'a')]),
        quote!(#[device(align = 1.0)]),
        quote!(#[device(a::b)]),
        quote!(#[device((align = 16))]),
        quote!(#[device("align")]),
        quote!(#[device(r#align = 16)]),
        quote!(#[device(_)]),
        quote!(#[device(self)]),
        quote!(#[device(c_type)]),
        quote!(#[device(c_type = 3)]),
        quote!(#[device(c_type = "")]),
        quote!(#[device(c_type = "a;b")]),
        quote!(#[device(name = "a b")]),
        quote!(#[device(name = x)]),
        quote!(#[device(nested = true)]),
        quote!(#[device(borrow = 'a)]),
        quote!(#[device {unknown}]),
        quote!(#[device[unknown]]),
    ];
    for attribute in attributes {
        assert!(is_refused(quote!(#attribute struct A { x: Vec<u8> })), "{attribute} on the struct");
        assert!(is_refused(quote!(struct A { #attribute x: Vec<u8> })), "{attribute} on a field");
        assert!(is_refused(quote!(struct A(#attribute Vec<u8>);)), "{attribute} on a field of a tuple");
    }
    let paths =
        [quote!(1), quote!(""), quote!("a b"), quote!(a::), quote!(<A>::b), quote!(a<b>), quote!(&a), quote!("a", "b")];
    for path in paths {
        assert!(
            is_refused(quote!(
                #[device(crate = #path)]
                struct A {
                    x: Vec<u8>,
                }
            )),
            "crate = {path}"
        );
    }
    let inputs = [
        quote!(),
        quote!(struct),
        quote!(
            fn f() {}
        ),
        quote!(struct A { x }),
        quote!(struct A { x: }),
        quote!(struct A<'a, { x: u8 }),
        quote!(
            enum A {}
        ),
        quote!(union A { x: u8 }),
        quote!(
            enum r#enum {
                #[device(=)]
                A(#[device] u8),
            }
        ),
        quote!(
            trait A {}
        ),
    ];
    for input in inputs {
        assert!(is_refused(input.clone()), "{input}");
    }
}

#[test]
fn odd_types_are_left_to_the_compiler() {
    let types = [
        quote!(!),
        quote!(_),
        quote!(()),
        quote!(dyn A + 'a),
        quote!(&'a (dyn A + B)),
        quote!(impl A),
        quote!(fn(&'a u8) -> Self),
        quote!(for<'b> fn(&'b u8)),
        quote!(a!['a, T, Self]),
        quote!(Self),
        quote!(<Self as A>::B),
        quote!(*const T),
        quote!([T; { 1 + Self::N }]),
        quote!((T, &'a mut T)),
        quote!(r#type::r#A<{ N }>),
        quote!(::a::B<'a, C = T>),
    ];
    for ty in types {
        for attribute in [quote!(), quote!(#[device(scalar)]), quote!(#[device(align = 64)])] {
            let input = quote!(struct A<'a, T, const N: usize>(#attribute #ty););
            assert!(!is_refused(input.clone()), "{input}");
            assert!(!is_refused(quote!(#[device(row)] struct A<'a, T, const N: usize> { x: #ty })), "{ty}");
        }
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let mut errors = 0;
    let input = quote! {
        #[device(align = 3, unknown)]
        struct A {
            #[device(align = 0, unknown)]
            x: Vec<u8>,
            #[device(skip, scalar, align = 4)]
            y: u8,
        }
    };
    walk(derive(input), &mut |token| {
        errors += u32::from(matches!(token, TokenTree::Ident(word) if word == "compile_error"))
    });
    assert_eq!(errors, 6);
}

#[test]
#[should_panic(expected = "dropped unchecked")]
fn errors_cannot_be_lost() {
    drop(crate::errors::Errors::new());
}
