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
mod tests;
