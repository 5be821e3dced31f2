//! Divergence: what members hold, held against each other. It must not judge who of them is right.

use std::collections::{BTreeMap, BTreeSet};

use record::replicas::{Held, Replica, Table};

/// So many diverged keys are described.
const EXAMPLES: usize = 5;
/// Characters of a value in a description.
const SHOWN: usize = 24;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Divergence {
    /// Keys that not all members hold alike.
    pub keys: u64,
    /// Of these, keys of which two members hold something different.
    pub differing: u64,
    /// Of these, keys that a member lacks.
    pub missing: u64,
    /// The first few of these: `k: n1 and n2 version 2, n3 nothing`.
    pub examples: Vec<String>,
}

/// Compares the members that told what they hold; `None` if fewer than two did.
pub(crate) fn divergence(replicas: &[Replica]) -> Option<Divergence> {
    let told: Vec<(&str, &Table)> =
        replicas.iter().filter_map(|replica| Some((replica.member.as_str(), replica.holds.as_ref().ok()?))).collect();
    if told.len() < 2 {
        return None;
    }
    let keys: BTreeSet<&String> = told.iter().flat_map(|(_, table)| table.keys()).collect();
    let mut found = Divergence::default();
    for key in keys {
        let held: Vec<(&str, Option<&Held>)> = told.iter().map(|(member, table)| (*member, table.get(key))).collect();
        let different: BTreeSet<&Held> = held.iter().filter_map(|(_, held)| *held).collect();
        let (differs, lacks) = (different.len() > 1, held.iter().any(|(_, held)| held.is_none()));
        found.differing += u64::from(differs);
        found.missing += u64::from(lacks);
        if differs || lacks {
            found.keys += 1;
            if found.examples.len() < EXAMPLES {
                found.examples.push(format!("{key}: {}", described(&held)));
            }
        }
    }
    Some(found)
}

/// Who holds what.
fn described(held: &[(&str, Option<&Held>)]) -> String {
    let mut sides: Vec<(Option<&Held>, Vec<&str>)> = Vec::new();
    for (member, held) in held {
        match sides.iter_mut().find(|(known, _)| known == held) {
            Some((_, members)) => members.push(member),
            None => sides.push((*held, vec![member])),
        }
    }
    // Versions are shorter than values, where they tell the sides apart.
    let mut versions: BTreeMap<&str, u32> = BTreeMap::new();
    let present = || sides.iter().filter_map(|(held, _)| *held);
    for version in present().filter_map(|held| held.version.as_deref()) {
        *versions.entry(version).or_default() += 1;
    }
    let by_version = versions.values().all(|count| *count == 1) && versions.len() == present().count();
    let side = |(held, members): &(Option<&Held>, Vec<&str>)| {
        let what = match held {
            None => "nothing".to_owned(),
            Some(Held { version: Some(version), .. }) if by_version => format!("version {version}"),
            Some(held) => format!("\"{}\"", shortened(&held.value)),
        };
        format!("{} {what}", members.join(" and "))
    };
    sides.iter().map(side).collect::<Vec<_>>().join(", ")
}

fn shortened(value: &str) -> String {
    let mut shown: String = value.chars().take(SHOWN).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// `"a=x b=y@2"`: what a member holds, with versions after the `@`; `"!"`: it did not tell.
    pub(in crate::audit) fn replicas(members: &[&str]) -> Vec<Replica> {
        let record = |word: &str| {
            let (key, held) = word.split_once('=').unwrap();
            let (value, version) = held.split_once('@').map_or((held, None), |(value, version)| (value, Some(version)));
            (key.to_owned(), Held { value: value.to_owned(), version: version.map(str::to_owned) })
        };
        let replica = |(index, text): (usize, &&str)| Replica {
            member: format!("n{}", index + 1),
            holds: if *text == "!" {
                Err("it is down".to_owned())
            } else {
                Ok(text.split_whitespace().map(record).collect())
            },
        };
        members.iter().enumerate().map(replica).collect()
    }

    /// Diverged keys, differing, missing.
    fn counts(members: &[&str]) -> Option<(u64, u64, u64)> {
        divergence(&replicas(members)).map(|found| (found.keys, found.differing, found.missing))
    }

    #[test]
    fn kinds_are_counted_apart_and_keys_once() {
        assert_eq!(counts(&["a=x b=y", "a=x b=y", "b=y a=x"]), Some((0, 0, 0)));
        assert_eq!(counts(&["", ""]), Some((0, 0, 0)));
        assert_eq!(counts(&["a=x", "a=y", "a=x"]), Some((1, 1, 0)));
        assert_eq!(counts(&["a=x", "", "a=x"]), Some((1, 0, 1)));
        assert_eq!(counts(&["a=x", "", "a=y"]), Some((1, 1, 1)));
        assert_eq!(counts(&["a=x b=1 c=1", "b=2 c=1", "a=x b=1 c=1 d=1"]), Some((3, 1, 2)));
        // The same value with another version: one of them has missed a change.
        assert_eq!(counts(&["a=x@1", "a=x@2"]), Some((1, 1, 0)));
        assert_eq!(counts(&["a=x@1", "a=x"]), Some((1, 1, 0)));
    }

    #[test]
    fn who_did_not_tell_is_not_compared() {
        assert_eq!(counts(&["a=x", "!", "a=x"]), Some((0, 0, 0)));
        assert_eq!(counts(&["a=x", "!"]), None);
        assert_eq!(counts(&["!", "!"]), None);
        assert_eq!(counts(&["a=x"]), None);
        assert_eq!(counts(&[]), None);
    }

    #[test]
    fn examples_say_who_holds_what() {
        let examples = |members: &[&str]| divergence(&replicas(members)).unwrap().examples;
        assert_eq!(examples(&["a=x@1", "a=x@1", "a=y@2"]), ["a: n1 and n2 version 1, n3 version 2"]);
        assert_eq!(examples(&["a=x@1", "", "a=x@1"]), ["a: n1 and n3 version 1, n2 nothing"]);
        // Versions that do not tell them apart are not shown.
        assert_eq!(examples(&["a=x@2", "a=y@2"]), ["a: n1 \"x\", n2 \"y\""]);
        let long = "é".repeat(40);
        assert_eq!(examples(&[&format!("a={long}"), ""]), [format!("a: n1 \"{}…\", n2 nothing", "é".repeat(24))]);
        let many: Vec<String> = (0..9).map(|key| format!("k{key}=x")).collect();
        assert_eq!(examples(&[&many.join(" "), ""]).len(), 5);
    }
}
