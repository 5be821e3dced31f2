//! Value of a key before its first operation, found from what the first operations saw.

use crate::carry::InitialValue;
use crate::operation::{ABSENT, Act, FORGOTTEN, Item};

/// Returns the values that may have been there before the first operation: the one that an
/// operation saw although none of `items` and `pending` writes it, or one that no operation saw. No
/// operation that is missing starts before `open_since`. Returns none if later operations may still
/// see the value.
pub(crate) fn seen_by(items: &[Item], pending: &[Item], open_since: i64) -> Vec<InitialValue> {
    let mut written: Vec<u64> = items.iter().chain(pending).filter_map(|item| item.act.written()).collect();
    written.sort_unstable();
    let is_written = |value: u64| written.binary_search(&value).is_ok();
    let is_older = |value: &u64| *value != ABSENT && !is_written(*value);
    let older = |item: &Item| item.act.seen().filter(is_older);
    let sure = || items.iter().filter(|item| !item.is_optional());
    let ended = || sure().filter(|item| item.end < open_since);
    if let Some(value) = ended().find_map(older) {
        return vec![InitialValue::Value(value)];
    }
    let sees_absence = |item: &Item| item.act.seen() == Some(ABSENT);
    // The operation that left what these saw may be missing.
    let is_open = |item: &Item| item.end >= open_since && (older(item).is_some() || sees_absence(item));
    if sure().any(is_open) {
        return Vec::new();
    }
    if ended().any(sees_absence) {
        let was_there = ended().any(|item| item.act == Act::Differs(ABSENT)) && is_written(ABSENT);
        let hidden = was_there.then_some(InitialValue::Value(FORGOTTEN));
        return std::iter::once(InitialValue::Absent).chain(hidden).collect();
    }
    if !ended().any(|item| item.act.written().is_some()) {
        return Vec::new();
    }
    vec![replaced_by_unknown(items, pending, is_older).unwrap_or(InitialValue::Value(FORGOTTEN))]
}

/// Returns the value that a compare-and-set without an answer replaced, if an operation saw what it
/// wrote.
fn replaced_by_unknown(items: &[Item], pending: &[Item], is_older: impl Fn(&u64) -> bool) -> Option<InitialValue> {
    let all = || items.iter().chain(pending);
    let is_seen = |value: u64| all().any(|item| item.act.seen() == Some(value));
    let happened = all().filter(|item| item.is_optional() && item.act.written().is_some_and(is_seen));
    let replaced: Vec<u64> = happened.filter_map(|item| item.act.seen()).collect();
    let older = replaced.iter().copied().find(is_older).map(InitialValue::Value);
    older.or_else(|| replaced.contains(&ABSENT).then_some(InitialValue::Absent))
}
