//! libFuzzer binary for all targets: passes its input to the target that `FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use fuzzing::FuzzTarget;

static TARGET: LazyLock<&FuzzTarget> = LazyLock::new(|| fuzzing::find(&std::env::var("FUZZ_TARGET").unwrap()));

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.body)(input));
