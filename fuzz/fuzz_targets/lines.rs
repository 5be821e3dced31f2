//! libFuzzer target `lines`: passes its input to the checks in `crates/fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzzing::play("lines", input));
