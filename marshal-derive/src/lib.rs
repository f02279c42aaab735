//! `#[derive(DeviceArgs)]` of `marshal`, which re-exports it and documents what it makes.
//!
//! The way: `parse` reads the attributes, `model` puts them beside the fields, `check` holds the model to the rules,
//! `expand` writes the code. Errors are gathered on the way and all said at once; the code is written nevertheless, so that
//! one mistake is one message.

mod check;
mod column;
mod derive;
mod detach;
mod errors;
mod expand;
mod generics;
mod mentions;
mod model;
mod parse;
mod plain;
mod pointers;
#[cfg(test)]
mod properties;
mod symbol;
#[cfg(test)]
mod tests;
mod write;

use crate::derive::derive;

/// Makes a struct a set of device arguments, and generates `<Name>Pointers`, its typed device pointers.
///
/// Each field is a column: a `Vec<T>`, `&[T]`, `[T; N]` or another type that is a `Column`. With `#[device(row)]` the struct is one
/// row instead, each field is a plain value, and slices of the struct upload as columns. `PhantomData` is left out.
///
/// The generated struct is `repr(C)` and `Copy`, visible as the struct is, and its fields as the fields are. It has no lifetime of
/// the struct but those of fields that say `borrow`, so a set does not borrow its arguments; it keeps the type and const parameters that columns use. A generic struct
/// needs the bounds that make its columns columns, such as `T: Pod` for `Vec<T>`.
///
/// On the struct:
///
/// | word | meaning |
/// |---|---|
/// | `row` | the struct is one row |
/// | `align = 64` | the least alignment of every column, in bytes; 16 if left out |
/// | `name = "CName"` | what the pointer struct is called in C++; as in Rust if left out |
/// | `crate = facade::marshal` | where the library is found, if not at `::marshal` |
///
/// On a field:
///
/// | word | meaning |
/// |---|---|
/// | `scalar` | the field is a plain value: a column of one element |
/// | `nested` | the field is a set of arguments itself: its columns stand here, aligned and named as its own struct says |
/// | `borrow` | the pointers keep the field's lifetimes |
/// | `c_type = "CType"` | what the element is called in C++ |
/// | `skip` | the field stays on the host |
/// | `align = 64` | the least alignment of this column; below the element's own it does not compile |
///
/// Where several alignments are asked for, the largest holds.
#[proc_macro_derive(DeviceArgs, attributes(device))]
pub fn device_args(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive(input.into()).into()
}
