//! How services are written: any text is one or says how it would be, for every protocol.

use load::fuzzing::greet;
use load::protocols::KINDS;

/// Any text.
pub fn service(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    // What stands for the environment is not looked up: it differs from machine to machine.
    if text.contains("{env:") {
        return;
    }
    for kind in KINDS {
        match greet(kind.info.name, &text, b"") {
            Ok(_) => {}
            Err(how) => assert!(!how.is_empty(), "{text:?}"),
        }
    }
}
