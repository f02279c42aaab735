//! The rules: what a struct may say. Each takes back what it refuses, so that the expansion meets valid words only.

use syn::Data;

use crate::errors::Errors;
use crate::model::Model;
use crate::parse::Align;

/// Holds `model` to every rule.
pub(crate) fn check(model: &mut Model<'_>, errors: &mut Errors) {
    is_struct(model, errors);
    alignments(model, errors);
    host_fields_say_nothing_else(model, errors);
    one_kind_of_field(model, errors);
    rows_have_values_alone(model, errors);
    nested_sets_keep_their_own_words(model, errors);
    names_are_of_cxx(model, errors);
}

/// Columns are fields, and every value must have all of them.
fn is_struct(model: &Model<'_>, errors: &mut Errors) {
    let found = match &model.syntax.data {
        Data::Struct(_) => return,
        Data::Enum(_) => "an enum",
        Data::Union(_) => "a union",
    };
    let name = &model.syntax.ident;
    errors.on(
        name,
        format_args!("`{name}` is {found}: `DeviceArgs` is derived for structs, whose fields become columns"),
    );
}

/// Alignments are powers of two; anything else could only be rounded behind the user's back.
fn alignments(model: &mut Model<'_>, errors: &mut Errors) {
    let of_fields = model.fields.iter_mut().map(|field| &mut field.words.align);
    for slot in of_fields.chain([&mut model.words.align]) {
        if let Some(align) = slot.take_if(|align| !align.bytes.is_power_of_two()) {
            errors.at(align.span, not_an_alignment(align));
        }
    }
}

fn not_an_alignment(Align { bytes, .. }: Align) -> String {
    let nearest = match (bytes.checked_ilog2(), bytes.checked_next_power_of_two()) {
        (None, _) => "the least is 1".to_owned(),
        (Some(below), Some(above)) => format!("the nearest are {} and {above}", 1_u64 << below),
        (Some(below), None) => format!("the largest is {}", 1_u64 << below),
    };
    format!("{bytes} is no alignment, which is a power of two: {nearest}")
}

/// A field without a column has nothing to align and nothing to send: one of the words is a mistake, and nobody knows which.
fn host_fields_say_nothing_else(model: &mut Model<'_>, errors: &mut Errors) {
    for field in &mut model.fields {
        let is_phantom = field.is_phantom();
        let words = &mut field.words;
        let reason = match &words.skip {
            Some(_) => "`skip` keeps the field on the host",
            None if is_phantom => "`PhantomData` has no value",
            None => continue,
        };
        if let Some(scalar) = words.scalar.take() {
            errors.on(scalar, format_args!("`scalar` makes a column, but {reason}: remove one of the two"));
        }
        if let Some(nested) = words.nested.take() {
            errors.on(nested, format_args!("`nested` makes columns, but {reason}: remove one of the two"));
        }
        if let Some(borrow) = words.borrow.take() {
            errors.on(borrow, format_args!("`borrow` is for a column, but {reason}: remove one of the two"));
        }
        if let Some(align) = words.align.take() {
            errors.at(align.span, format_args!("`align` is for a column, but {reason}: remove one of the two"));
        }
        if let Some(c_type) = words.c_type.take() {
            errors.on(c_type, format_args!("`c_type` is for a column, but {reason}: remove one of the two"));
        }
    }
}

/// A plain value is no set and borrows nothing.
fn one_kind_of_field(model: &mut Model<'_>, errors: &mut Errors) {
    for words in model.fields.iter_mut().map(|field| &mut field.words) {
        if words.scalar.is_none() {
            continue;
        }
        if let Some(nested) = words.nested.take() {
            errors
                .on(nested, "`scalar` is for a plain value and `nested` for a set of arguments: remove one of the two");
        }
        if let Some(borrow) = words.borrow.take() {
            errors.on(borrow, "a plain value borrows nothing that lives on the device: remove `borrow`");
        }
    }
}

/// In a row every field is one plain value, and the column has one of them a row.
fn rows_have_values_alone(model: &mut Model<'_>, errors: &mut Errors) {
    if !model.is_row() {
        return;
    }
    for words in model.fields.iter_mut().map(|field| &mut field.words) {
        if let Some(scalar) = words.scalar.take() {
            errors.on(scalar, "in a row every field is a plain value, one a row: remove `scalar`");
        }
        if let Some(nested) = words.nested.take() {
            errors.on(
                nested,
                "in a row every field is a plain value, one a row: write the fields of the nested row here, or keep two slices of rows in a struct of columns",
            );
        }
        if let Some(borrow) = words.borrow.take() {
            errors.on(borrow, "in a row every field is a plain value, which borrows nothing: remove `borrow`");
        }
    }
}

/// The columns of a nested set are aligned and named as its own struct says. What is said here would be ignored.
fn nested_sets_keep_their_own_words(model: &mut Model<'_>, errors: &mut Errors) {
    let of_struct = model.words.align;
    for field in &mut model.fields {
        let words = &mut field.words;
        let Some(nested) = &words.nested else { continue };
        if let Some(align) = words.align.take() {
            errors.at(
                align.span,
                "`align` does not reach into a nested set: write it on the set's own struct, or on its fields",
            );
        } else if of_struct.is_some() {
            errors.on(
                nested,
                "the struct's `align` does not reach into a nested set: write it on the set's own struct too, and here on the fields that are columns",
            );
        }
        if let Some(c_type) = words.c_type.take() {
            errors.on(
                c_type,
                "`c_type` names an element, and a nested set is a struct of columns: write it on the set's own fields",
            );
        }
    }
}

/// What is written goes into C++ as it is: a name, and a type in one line.
fn names_are_of_cxx(model: &mut Model<'_>, errors: &mut Errors) {
    let is_name = |text: &str| {
        !text.is_empty()
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if let Some(name) = model.words.name.take_if(|name| !is_name(&name.value())) {
        errors
            .on(&name, format_args!("`{}` is no name of a struct in C++: write letters, digits and `_`", name.value()));
    }
    for words in model.fields.iter_mut().map(|field| &mut field.words) {
        let is_type =
            |text: &str| !text.trim().is_empty() && !text.contains(['\n', ';', '{', '}', '"', '#', '/', '\\']);
        if let Some(c_type) = words.c_type.take_if(|c_type| !is_type(&c_type.value())) {
            errors.on(&c_type, format_args!("`{}` is no type of C++: write its name", c_type.value()));
        }
    }
}
