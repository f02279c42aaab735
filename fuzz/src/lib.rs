//! The cases of `tests/properties`, for libFuzzer to draw.

#[path = "../../tests/properties/bytes.rs"]
mod bytes;
#[path = "../../tests/properties/cached/mod.rs"]
mod cached;
#[path = "../../tests/properties/columns.rs"]
mod columns;
#[path = "../../tests/properties/oracle.rs"]
mod oracle;
#[path = "../../tests/properties/pack.rs"]
mod pack;
#[path = "../../tests/properties/plan.rs"]
mod plan;
#[path = "../../tests/properties/rows.rs"]
mod rows;

/// Layouts, images and pointers against the oracle.
pub fn layout(data: &[u8]) {
    bytes::layout_of(data);
}

/// A program over a cache against the model.
pub fn cache(data: &[u8]) {
    bytes::cache_of(data);
}
