//! Programs over a cache, against the model.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| marshal_fuzz::cache(data));
