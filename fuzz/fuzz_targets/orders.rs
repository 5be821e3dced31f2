//! The libFuzzer target `orders`. It must not do more than hand over its input: what is held against it is in `crates/fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzzing::play("orders", input));
