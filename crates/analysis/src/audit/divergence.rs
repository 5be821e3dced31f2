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
pub(super) mod tests;
