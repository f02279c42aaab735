//! Layouts, images, rows and plans, against the oracle.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| marshal_fuzz::layout(data));
