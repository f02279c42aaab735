//! Types that are plainly columns or elements, by the names in them.
//!
//! This decides nothing: it spares the compiler questions whose answer nobody doubts. A type that hides behind such a name is still
//! what the library's traits say that it is; at worst a mistake in it is told twice.

use syn::{Expr, ExprLit, GenericArgument, Lit, Path, PathArguments, Type};

const ELEMENTS: &[&str] =
    &["u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "f32", "f64", "bool", "char"];

/// A container of plain elements.
pub(crate) fn is_column(ty: &Type) -> bool {
    match ty {
        Type::Slice(slice) => is_element(&slice.elem),
        Type::Array(array) => is_element(&array.elem),
        Type::Path(path) if path.qself.is_none() => match only_argument(&path.path) {
            Some((name, element)) if name == "Vec" => is_element(element),
            Some((name, column)) if name == "Box" || name == "Arc" => is_column(column),
            _ => false,
        },
        _ => false,
    }
}

/// A number, or a device pointer to anything.
pub(crate) fn is_element(ty: &Type) -> bool {
    match ty {
        Type::Array(array) => is_element(&array.elem) && !is_zero(&array.len),
        Type::Path(path) if path.qself.is_none() => match only_argument(&path.path) {
            Some((name, _)) if name == "DevicePointer" => true,
            Some((name, element)) if name == "Option" => matches!(element, Type::Path(path)
                if only_argument(&path.path).is_some_and(|(name, _)| name == "DevicePointer")),
            Some(_) => false,
            None => path.path.get_ident().is_some_and(|name| ELEMENTS.iter().any(|element| name == element)),
        },
        _ => false,
    }
}

/// Whether a length may be 0.
fn is_zero(len: &Expr) -> bool {
    let Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) = len else { return true };
    literal.base10_parse::<u64>().is_ok_and(|len| len == 0)
}

/// `Name` and `T` of `Name<T>`.
fn only_argument(path: &Path) -> Option<(&syn::Ident, &Type)> {
    let segment = path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(ty)) if arguments.args.len() == 1 => Some((&segment.ident, ty)),
        _ => None,
    }
}
