//! Templates: any text is one or says where it is not; one that is, is the same after it was written down, and keeps its word.

use experiment::template::{Part, Template};

/// More `{bytes:N}` than this are not written out: it would only take long.
const MOST: u64 = 64 * 1024;

/// Any text.
pub fn template(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let parsed = match Template::parse(&text) {
        Ok(parsed) => parsed,
        Err(problem) => {
            assert!(text.get(problem.at.clone()).is_some(), "{:?} is no place in {text:?}", problem.at);
            assert!(!problem.what.is_empty() && !problem.hint.is_empty());
            return;
        }
    };
    assert_eq!(Template::parse(&parsed.to_string()).as_ref(), Ok(&parsed), "{text:?} as {parsed}");
    let of_environment = parsed.parts.iter().any(|part| matches!(part, Part::Env(_)));
    let bytes = parsed.parts.iter().map(|part| if let Part::Bytes(count) = part { u64::from(*count) } else { 0 });
    if of_environment || bytes.sum::<u64>() > MOST {
        return;
    }
    let words = load::fuzzing::words(&text);
    let Ok(written) = load::fuzzing::write(&text) else { return };
    if let Ok(words) = words {
        // Nothing is lost but blanks, quotes and backslashes, nor anything added.
        let told = words.concat();
        let mut whole = written.value.iter();
        assert!(told.iter().all(|byte| whole.any(|written| written == byte)), "{words:?} of {written:?}");
    }
    assert_eq!(written.value, written.again);
    assert!(written.fixed_length.is_none_or(|length| length == written.value.len()), "{written:?}");
    assert!(written.constant.is_none_or(|constant| constant == written.value));
    assert!(parsed.constant().is_none_or(|constant| constant.as_bytes() == written.value));
}
