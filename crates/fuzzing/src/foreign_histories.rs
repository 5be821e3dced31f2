//! Fuzz target for histories of other checkers: every text is refused line by line, or becomes a
//! history that can be checked.

use linearizability::{ForeignHistory, ForeignSettings, HistoryErrors, Linearizability, read_jepsen, read_jepsen_log};

/// Reads any text in each format, and checks what it holds. A queue without order allows all that
/// an ordered one does.
pub fn histories(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let lines = text.lines().count().max(1);
    for read in [read_jepsen(&text, true), read_jepsen(&text, false), read_jepsen_log(&text)] {
        match read {
            Err(HistoryErrors(errors)) => {
                let is_named =
                    errors.iter().all(|error| (1..=lines + 1).contains(&error.line) && !error.what.is_empty());
                assert!(is_named && !errors.is_empty(), "{errors:?}");
            }
            Ok(history) => check(&history),
        }
    }
}

fn check(history: &ForeignHistory) {
    for object in &history.objects {
        let strict = object.check(ForeignSettings::default());
        let loose = object.check(ForeignSettings { any_order: true, ..ForeignSettings::default() });
        if let Linearizability::Violation(proof) = &strict {
            assert!(!proof.core.is_empty() && proof.core.iter().all(|place| *place < object.lines.len()), "{proof:?}");
            assert!(
                !proof.explanation.with_names(|place| place.to_string(), |value| history.value_name(value)).is_empty()
            );
        }
        assert!(strict != Linearizability::Linearizable || loose == strict, "{loose:?}");
    }
}
