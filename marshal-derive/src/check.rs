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
    rows_have_no_scalars(model, errors);
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
        if let Some(align) = words.align.take() {
            errors.at(align.span, format_args!("`align` is for a column, but {reason}: remove one of the two"));
        }
    }
}

/// In a row every field is one plain value, and the column has one of them a row.
fn rows_have_no_scalars(model: &mut Model<'_>, errors: &mut Errors) {
    if !model.is_row() {
        return;
    }
    for field in &mut model.fields {
        if let Some(scalar) = field.words.scalar.take() {
            errors.on(scalar, "in a row every field is a plain value, one a row: remove `scalar`");
        }
    }
}
