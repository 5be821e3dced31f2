//! Lost writes: what was read back after the run, held against what each key's operations allow. It must not judge what
//! was read while the load ran: such answers are `wrong` outcomes.
//!
//! A key belongs to one client that does one operation after the other, so its operations are ordered by their ends. An
//! acknowledged one takes effect where it stands. One that nobody knows the fate of (a timeout, a connection that broke)
//! may have taken effect, may not, and may do so at any later time: its value stays allowed for good. A refused one does nothing. What
//! is read back must be one of the values that this allows.
//!
//! A key that was not read back by the protocol, as with one that has no such operation, is looked for in what the members told of all
//! their records. It is lost if none of them holds an allowed value; if some do and others do not, it has diverged, which is not for
//! this room to say.

use std::collections::{BTreeMap, BTreeSet};

use record::events::{By, History, Outcome};
use record::replicas::{Replica, Table};

/// So many lost keys are named.
const EXAMPLES: usize = 5;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LostWrites {
    /// Keys that were read back, or looked for, and judged.
    pub checked: u64,
    /// Of these, keys whose value is nowhere one that their operations allow.
    pub lost: u64,
    /// The first few of these, as `space/key`; `key` where there are no spaces.
    pub examples: Vec<String>,
}

/// A key's value; `None`: there is none.
type Value<'a> = Option<&'a str>;

#[derive(Debug, Default)]
struct Key<'a> {
    /// The last that was acknowledged; nothing before the first.
    acknowledged: Value<'a>,
    /// What operations of unknown fate may make of it.
    possible: BTreeSet<Value<'a>>,
    /// What was read back.
    read_back: Option<Value<'a>>,
}

#[derive(Debug, Default)]
struct Space<'a> {
    keys: BTreeMap<&'a str, Key<'a>>,
    /// A removal of everything, of unknown fate.
    may_be_emptied: bool,
}

/// Judges a history; `None` if nothing was read back, and no member told what it holds.
pub(crate) fn lost_writes(history: &[History], replicas: &[Replica]) -> Option<LostWrites> {
    let tables: Vec<&Table> = replicas.iter().filter_map(|replica| replica.holds.as_ref().ok()).collect();
    let mut ordered: Vec<&History> = history.iter().collect();
    ordered.sort_by(|a, b| (a.by == By::Audit).cmp(&(b.by == By::Audit)).then(a.at_s.total_cmp(&b.at_s)));
    let mut spaces: BTreeMap<&str, Space<'_>> = BTreeMap::new();
    for line in ordered {
        spaces.entry(&line.space).or_default().play(line);
    }
    let mut found = None;
    for (space_name, space) in &spaces {
        for (name, key) in &space.keys {
            let named = if space_name.is_empty() { (*name).to_owned() } else { format!("{space_name}/{name}") };
            let held = || tables.iter().map(|table| table.get(&named).map(|held| held.value.as_str())).collect();
            let read: Vec<Value<'_>> = key.read_back.map_or_else(held, |read| vec![read]);
            if read.is_empty() {
                continue;
            }
            let allowed = read.iter().any(|value| space.allows(key, *value));
            let found: &mut LostWrites = found.get_or_insert_default();
            found.checked += 1;
            found.lost += u64::from(!allowed);
            if !allowed && found.examples.len() < EXAMPLES {
                found.examples.push(named);
            }
        }
    }
    found
}

impl<'a> Space<'a> {
    fn play(&mut self, line: &'a History) {
        if line.by == By::Audit {
            // A read-back of what no operation of the history touched cannot be judged.
            if let (Outcome::Ok, Some(key)) = (line.outcome, self.keys.get_mut(line.key.as_str())) {
                key.read_back = Some(line.value.as_deref());
            }
            return;
        }
        let applied = line.applied.or((line.outcome == Outcome::Ok).then_some(true));
        match line.effect.as_str() {
            "write" => self.key(line).change(line.value.as_deref(), applied),
            "remove" => self.key(line).change(None, applied),
            "remove_all" if applied.is_none() => self.may_be_emptied = true,
            "remove_all" => self.keys.values_mut().for_each(|key| key.change(None, applied)),
            _ => {}
        }
    }

    /// Whether a key may have this value in the end.
    fn allows(&self, key: &Key<'_>, value: Value<'_>) -> bool {
        (self.may_be_emptied && value.is_none())
            || value == key.acknowledged
            || key.possible.iter().any(|one| *one == value)
    }

    fn key(&mut self, line: &'a History) -> &mut Key<'a> {
        self.keys.entry(&line.key).or_default()
    }
}

impl<'a> Key<'a> {
    fn change(&mut self, value: Value<'a>, applied: Option<bool>) {
        match applied {
            Some(true) => self.acknowledged = value,
            Some(false) => {}
            None => {
                self.possible.insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `"w+a w?b r+ x?  => a"`: operations of one key in order, then what was read back (`_`: nothing, `!`: unread).
    fn history(text: &str) -> Vec<History> {
        let (operations, read) = text.split_once("=>").unwrap();
        let mut lines = Vec::new();
        for (number, word) in operations.split_whitespace().enumerate() {
            let (kind, value) = word.split_at(2);
            let effect = match &kind[..1] {
                "w" => "write",
                "x" => "remove",
                "z" => "remove_all",
                _ => "read",
            };
            let (outcome, applied) = match &kind[1..] {
                "+" => (Outcome::Ok, Some(true)),
                "-" => (Outcome::Failed, Some(false)),
                _ => (Outcome::Timeout, None),
            };
            lines.push(line(
                number as f64,
                By::Load,
                effect,
                Some(value).filter(|value| !value.is_empty()),
                outcome,
                applied,
            ));
        }
        match read.trim() {
            "!" => lines.push(line(99.0, By::Audit, "read", None, Outcome::Failed, None)),
            "_" => lines.push(line(99.0, By::Audit, "read", None, Outcome::Ok, Some(true))),
            value => lines.push(line(99.0, By::Audit, "read", Some(value), Outcome::Ok, Some(true))),
        }
        lines
    }

    fn line(at_s: f64, by: By, effect: &str, value: Option<&str>, outcome: Outcome, applied: Option<bool>) -> History {
        let (effect, value) = (effect.to_owned(), value.map(str::to_owned));
        let key = if effect == "remove_all" { String::new() } else { "k".to_owned() };
        History { at_s, by, agent: Some(1), effect, space: "s".to_owned(), key, value, outcome, applied }
    }

    fn counts(history: &[History]) -> Option<(u64, u64)> {
        lost_writes(history, &[]).map(|found| (found.checked, found.lost))
    }

    #[test]
    fn each_key_is_allowed_what_its_operations_allow() {
        let allowed = [
            "w+a => a",
            "w+a w+b => b",
            "w+a x+ => _",
            "w-a => _",
            "w?a => a",
            "w?a => _",
            "w+a w-b => a",
            "w+a w?b => a",
            "w+a w?b => b",
            "w+a x? => a",
            "w+a x? => _",
            "w+a x- => a",
            "w+a r+a => a",
            "w+a r?z => a",
            // What was of unknown fate may land late.
            "w?a w+b => a",
            "w?a w+b => b",
            "x? w+a => _",
            "w+a z+ => _",
            "w+a z? => _",
            "w+a z? => a",
            "z? w+a => _",
            "w+a z- => a",
            "w?a x+ => a",
            "x+ => _",
        ];
        for text in allowed {
            assert_eq!(counts(&history(text)), Some((1, 0)), "{text}");
        }
        let lost = [
            "w+a => _",
            "w+a => b",
            "w+a w+b => a",
            "w+a w+b => _",
            "w+a x+ => a",
            "w-a => a",
            "w+a w-b => b",
            "w+a w?b => _",
            "w+a w?b => c",
            "w+a x- => _",
            "w+a z+ => a",
            "w+a z- => _",
            "z+ w+a => _",
            "r? w+a => _",
        ];
        for text in lost {
            assert_eq!(counts(&history(text)), Some((1, 1)), "{text}");
        }
    }

    #[test]
    fn what_was_not_read_back_is_not_checked() {
        assert_eq!(lost_writes(&[], &[]), None);
        assert_eq!(lost_writes(&history("w+a => !"), &[]), None);
        let mut unread = history("w+a => a");
        unread.pop();
        assert_eq!(lost_writes(&unread, &[]), None);
    }

    #[test]
    fn spaces_and_keys_are_kept_apart() {
        let mut lines = history("w+a => _");
        let mut other = history("z+ w+b => b");
        for line in &mut other {
            line.space = "other".to_owned();
        }
        lines.extend(other);
        let mut third = history("w+c => c");
        for line in &mut third {
            line.key = "k2".to_owned();
        }
        lines.extend(third);
        assert_eq!(counts(&lines), Some((3, 1)));
        assert_eq!(lost_writes(&lines, &[]).unwrap().examples, ["s/k"]);
    }

    #[test]
    fn operations_are_ordered_by_their_ends_and_not_by_their_lines() {
        let mut lines = history("w+a w+b => b");
        lines.reverse();
        assert_eq!(counts(&lines), Some((1, 0)));
    }

    #[test]
    fn a_second_read_back_replaces_the_first() {
        let mut lines = history("w+a => _");
        lines.push(line(100.0, By::Audit, "read", Some("a"), Outcome::Ok, Some(true)));
        assert_eq!(counts(&lines), Some((1, 0)));
    }

    #[test]
    fn where_the_protocol_reads_nothing_back_the_members_do() {
        let judged = |operations: &str, members: &[&str]| {
            let mut lines = history(&format!("{operations} => !"));
            lines.pop();
            lost_writes(&lines, &super::super::divergence::tests::replicas(members))
                .map(|found| (found.checked, found.lost))
        };
        let kept = [
            ("w+a", &["s/k=a", "s/k=a"][..]),
            ("w+a w+b", &["s/k=b@2", "s/k=b@2"]),
            // Some have it, some do not: diverged, and not lost.
            ("w+a w+b", &["s/k=a", "s/k=b"]),
            ("w+a", &["", "s/k=a"]),
            ("w+a x+", &["", "s/k=a"]),
            ("w+a x+", &["", ""]),
            ("w+a w?b", &["s/k=b", "!"]),
            ("w?a", &["", ""]),
        ];
        for (operations, members) in kept {
            assert_eq!(judged(operations, members), Some((1, 0)), "{operations} {members:?}");
        }
        let lost = [
            ("w+a", &["", ""][..]),
            ("w+a w+b", &["s/k=a", "s/k=a"]),
            ("w+a w+b", &["s/k=a", "", "s/k=c"]),
            ("w+a x+", &["s/k=a", "s/k=a"]),
            ("w+a", &["!", "other=a"]),
        ];
        for (operations, members) in lost {
            assert_eq!(judged(operations, members), Some((1, 1)), "{operations} {members:?}");
        }
        assert_eq!(judged("w+a", &["!", "!"]), None, "nobody can say");
        assert_eq!(judged("w+a", &[]), None);
    }

    #[test]
    fn what_the_protocol_read_back_counts_before_what_members_told() {
        let replicas = super::super::divergence::tests::replicas(&["s/k=a", "s/k=a"]);
        let found = lost_writes(&history("w+a => _"), &replicas).unwrap();
        assert_eq!((found.checked, found.lost), (1, 1));
    }

    #[test]
    fn a_key_without_a_space_is_named_by_itself() {
        let mut lines = history("w+a => !");
        lines.pop();
        lines[0].space.clear();
        let found = lost_writes(&lines, &super::super::divergence::tests::replicas(&["k=b", "k=b"])).unwrap();
        assert_eq!((found.lost, found.examples), (1, vec!["k".to_owned()]));
    }
}
