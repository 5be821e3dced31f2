//! Data checks for lost writes and diverged members, from the histories of audited keys and the
//! records that members report. `single_copy` checks whether the histories are linearizable,
//! `sessions` whether each client's own operations fit together; `pooled` combines the results of
//! repeats.
//!
//! **Lost writes**: each value that was read back after the run must be one that the key's
//! operations allow.
//!
//! Acknowledged operations take effect in the order of their ends. If operations of two agents on
//! one key overlapped, their order is unknown: the values of both stay allowed. An operation with
//! an unknown result (a timeout, a broken connection) may have taken effect, may not, and may do so
//! at any later time: its value stays allowed. A refused operation has no effect.
//!
//! A read during the load may find the value of a write with an unknown result. Then this write has
//! taken effect, which happens only once. If the write came after the last acknowledged operation,
//! the read acknowledges it. Otherwise the value may be the current one, but the write will not
//! take effect again. Four kinds of reads show nothing: reads of values that were written more
//! than once, reads that find no value, reads of a key that several agents change, and all reads of
//! a load that retries operations.
//!
//! If several processes with different clocks made the load, each agent's operations are still
//! timed by one clock. Operations of two agents on one key then also have no order if one ended
//! less than twice the clock bound before the other began, and reads by other agents than the one
//! that changes the key show nothing. So clock errors cannot cause a lost write.
//!
//! A key that was not read back, for example because no operation can read it, is looked up in the
//! records that the members reported. The key is lost if no member holds an allowed value. If only
//! some members hold an allowed value, the key has diverged, which is counted separately.

mod pooled;
pub(crate) mod proofs;
mod sessions;
pub(crate) mod single_copy;

use std::collections::{BTreeMap, BTreeSet};

use experiment::plan::{self, Retry, WhenFailed};
use record::events::{By, HistoryEntry, Outcome, What};
use record::replicas::{Replica, ReplicaContents, ReplicaValue};
use record::results::{CheckBesideLoad, Consistency, Outcomes, ReplicaTable};
use record::rows::OutcomeSlot;

use self::single_copy::SingleCopyCheck;
use crate::client_history::ClientHistory;
use crate::evidence::Evidence;

pub(crate) use pooled::pooled;

/// Returns the results of all checks of a trial, given its outcomes and its number of full cycles.
pub(crate) fn consistency(
    planned: &plan::Trial,
    evidence: &Evidence,
    outcomes: &Outcomes,
    full_cycles: Option<u64>,
) -> Consistency {
    let sent_once = planned.load.as_ref().is_some_and(|load| load.retry == Retry::FailFast);
    // A rebuilt target has discarded its data on purpose.
    let is_emptied = evidence.events.iter().any(|event| matches!(event.what, What::TargetRebuilt { .. }));
    let known = HistoryTerms { sent_once, unordered_s: 2.0 * evidence.clock_error_s() };
    let lost = if is_emptied { None } else { lost_writes(&evidence.history, &evidence.replicas, known) };
    let diverged = divergence(&evidence.replicas);
    let is_checkable = sent_once && !is_emptied;
    let clients = if is_checkable { ClientHistory::of(&evidence.history) } else { ClientHistory::default() };
    let clock_error_ns = (evidence.clock_error_s() * NS_PER_S).ceil() as i64;
    let single = single_copy::single_copy(&clients, clock_error_ns);
    let sessions = sessions::sessions(&clients, clock_error_ns);
    let mut proofs = single.as_ref().map(|single| single.proofs.clone()).unwrap_or_default();
    proofs.extend(sessions.iter().flat_map(|sessions| sessions.proofs.clone()));
    let expects = planned.load.as_ref().is_some_and(|load| load.all_steps().any(|step| !step.expect.is_empty()));
    // Each of these operations has ended a cycle early.
    let ends_at_wrong = planned.load.as_ref().is_some_and(|load| load.when_failed == WhenFailed::NextCycle);
    let broken = outcomes.failed + outcomes.timeout + if ends_at_wrong { outcomes.wrong } else { 0 };
    Consistency {
        checked: lost.as_ref().map(|lost| lost.checked),
        acknowledged: lost.as_ref().map(|lost| lost.acknowledged),
        acknowledged_checked: lost.as_ref().map(|lost| lost.acknowledged_checked),
        wrong: expects.then_some(outcomes.wrong),
        wrong_by_part: if expects { wrong_by_part(&evidence.slots) } else { Vec::new() },
        cycles: full_cycles.map(|full| full + broken),
        lost_writes: lost.as_ref().map(|lost| lost.lost),
        lost_examples: lost.map(|lost| lost.examples).unwrap_or_default(),
        diverged_keys: diverged.as_ref().map(|diverged| diverged.keys),
        diverged_differing: diverged.as_ref().map(|diverged| diverged.differing),
        diverged_missing: diverged.as_ref().map(|diverged| diverged.missing),
        diverged_examples: diverged.map(|diverged| diverged.examples).unwrap_or_default(),
        replicas: evidence.replicas.iter().map(table).collect(),
        replicas_settled: evidence.events.iter().rev().find_map(|event| match event.what {
            What::Replicas { settled, .. } => Some(settled),
            _ => None,
        }),
        linearizable: single.as_ref().map_or("not checked", SingleCopyCheck::verdict).to_owned(),
        linearizable_checked: single.as_ref().map(|single| single.keys),
        not_linearizable: single.as_ref().map(|single| single.violated),
        linearizable_unknown: single.as_ref().map(|single| single.undecided),
        not_linearizable_examples: single.map(|single| single.examples).unwrap_or_default(),
        checked_beside: evidence.events.iter().find_map(|event| match &event.what {
            What::CheckedBeside { operations, most_waiting, gave_up } => {
                Some(CheckBesideLoad { operations: *operations, most_waiting: *most_waiting, gave_up: gave_up.clone() })
            }
            _ => None,
        }),
        not_read_your_writes: sessions.as_ref().map(|sessions| sessions.missed_own_writes),
        not_monotonic_reads: sessions.as_ref().map(|sessions| sessions.went_back),
        proofs,
    }
}

const NS_PER_S: f64 = 1e9;

/// Largest number of parts in which wrong answers are counted, and shortest length of a part.
/// Clusters of wrong answers are shorter.
const PARTS: f64 = 20.0;
const SHORTEST_PART_S: f64 = 1.0;

/// Returns the number of wrong answers in each of up to [`PARTS`] equal parts of the load.
fn wrong_by_part(slots: &[OutcomeSlot]) -> Vec<u64> {
    let until_s = slots.last().map_or(0.0, |slot| slot.at_s + slot.slot_s);
    let count = (until_s / SHORTEST_PART_S).floor().clamp(1.0, PARTS);
    let mut parts = vec![0; count as usize];
    for slot in slots {
        let part = (slot.at_s / until_s * count).clamp(0.0, count - 1.0);
        parts[part as usize] += u64::from(slot.wrong);
    }
    parts
}

fn table(replica: &Replica) -> ReplicaTable {
    ReplicaTable {
        name: replica.member.clone(),
        records: replica.holds.as_ref().ok().map(|table| table.len() as u64),
        failed: replica.holds.as_ref().err().cloned(),
    }
}

/// Largest number of keys in a list of examples.
const EXAMPLES: usize = 5;
/// Largest number of characters of a value that an example shows.
const SHOWN: usize = 24;

/// Result of the check for divergence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Divergence {
    /// Number of keys that not all members hold alike.
    pub keys: u64,
    /// Number of diverged keys for which two members hold different values.
    pub differing: u64,
    /// Number of diverged keys that a member lacks.
    pub missing: u64,
    /// The first few diverged keys, as `k: n1 and n2 version 2, n3 nothing`.
    pub examples: Vec<String>,
}

/// Compares the members that reported their records. Returns `None` if fewer than two did.
fn divergence(replicas: &[Replica]) -> Option<Divergence> {
    let dumps: Vec<(&str, &ReplicaContents)> =
        replicas.iter().filter_map(|replica| Some((replica.member.as_str(), replica.holds.as_ref().ok()?))).collect();
    if dumps.len() < 2 {
        return None;
    }
    let keys: BTreeSet<&String> = dumps.iter().flat_map(|(_, table)| table.keys()).collect();
    let mut found = Divergence::default();
    for key in keys {
        let held: Vec<(&str, Option<&ReplicaValue>)> =
            dumps.iter().map(|(member, table)| (*member, table.get(key))).collect();
        let different: BTreeSet<&ReplicaValue> = held.iter().filter_map(|(_, held)| *held).collect();
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

/// Describes which member holds which value.
fn described(held: &[(&str, Option<&ReplicaValue>)]) -> String {
    let mut sides: Vec<(Option<&ReplicaValue>, Vec<&str>)> = Vec::new();
    for (member, held) in held {
        match sides.iter_mut().find(|(known, _)| known == held) {
            Some((_, members)) => members.push(member),
            None => sides.push((*held, vec![member])),
        }
    }
    // Versions are shorter than values, and are used if they distinguish the sides.
    let present: Vec<&ReplicaValue> = sides.iter().filter_map(|(held, _)| *held).collect();
    let versions: BTreeSet<&str> = present.iter().filter_map(|held| held.version.as_deref()).collect();
    let by_version = versions.len() == present.len();
    let mut described = Vec::new();
    for (held, members) in &sides {
        let what = match held {
            None => "nothing".to_owned(),
            Some(ReplicaValue { version: Some(version), .. }) if by_version => format!("version {version}"),
            Some(held) => format!("\"{}\"", shortened(&held.value)),
        };
        described.push(format!("{} {what}", members.join(" and ")));
    }
    described.join(", ")
}

fn shortened(value: &str) -> String {
    let mut shown: String = value.chars().take(SHOWN).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    shown
}

/// Result of the check for lost writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LostWrites {
    /// Number of keys that were judged, by a read-back or by the members' records.
    pub checked: u64,
    /// Number of keys with an acknowledged change.
    pub acknowledged: u64,
    /// Number of judged keys with an acknowledged change.
    pub acknowledged_checked: u64,
    /// Number of judged keys for which no allowed value was found.
    pub lost: u64,
    /// The first few lost keys, as `space/key`, or as `key` without spaces.
    pub examples: Vec<String>,
}

/// Properties of a history that its lines do not show.
#[derive(Debug, Clone, Copy)]
struct HistoryTerms {
    /// Whether each operation has only one attempt.
    sent_once: bool,
    /// Time between the end of an operation and the start of another agent's next one within which
    /// the two have no order, seconds; 0 if one clock timed all operations.
    unordered_s: f64,
}

/// An acknowledged change: the value that it wrote, its agent, and the times of its start and end.
/// Without a start, as in records of older versions, the start is the end.
#[derive(Debug, Clone, Copy)]
struct AcknowledgedChange<'a> {
    value: AuditedValue<'a>,
    agent: Option<u32>,
    start_s: f64,
    at_s: f64,
}

impl<'a> AcknowledgedChange<'a> {
    fn of(line: &'a HistoryEntry, value: AuditedValue<'a>) -> Self {
        Self { value, agent: line.agent, start_s: line.start_s.unwrap_or(line.at_s), at_s: line.at_s }
    }

    /// Whether this change may have come before one that ended earlier.
    fn may_precede(&self, ended: &Self, unordered_s: f64) -> bool {
        self.start_s - ended.at_s <= unordered_s
    }
}

/// Value of a key; `None` if the key does not exist.
type AuditedValue<'a> = Option<&'a str>;

#[derive(Debug, Default)]
struct AuditedKey<'a> {
    /// Value of the last change that was acknowledged or that a read confirmed.
    acknowledged: AuditedValue<'a>,
    /// Value of `changes` when `acknowledged` was set.
    acknowledged_at: usize,
    /// Number of changes, certain or possible.
    changes: usize,
    /// Whether any change was acknowledged to its client.
    is_acknowledged: bool,
    /// Values that operations with an unknown result may still write, each with the sequence number
    /// of its change.
    possible: BTreeMap<AuditedValue<'a>, usize>,
    /// Other values that may be current: found by reads, or written by other agents at about the
    /// same time.
    found: BTreeSet<AuditedValue<'a>>,
    /// Number of times that each value was written.
    written: BTreeMap<AuditedValue<'a>, u32>,
    /// Acknowledged changes that may have come after the last one.
    recent: Vec<AcknowledgedChange<'a>>,
    /// Id of the only agent that changes the key; `Some(None)` if several agents do.
    owner: Option<Option<u32>>,
    /// Whether several agents of the load change the key at some time.
    is_shared: bool,
    /// Value that was read back.
    read_back: Option<AuditedValue<'a>>,
}

#[derive(Debug, Default)]
struct KeySpace<'a> {
    keys: BTreeMap<&'a str, AuditedKey<'a>>,
    /// Keys that several agents of the load change.
    shared: BTreeSet<&'a str>,
    /// Removals of all keys that may have come after the next change.
    emptied: Vec<AcknowledgedChange<'a>>,
    /// Whether there is a removal of all keys with an unknown result.
    may_be_emptied: bool,
}

/// Judges a history. Returns `None` if nothing was read back and no member reported its records.
fn lost_writes(history: &[HistoryEntry], replicas: &[Replica], known: HistoryTerms) -> Option<LostWrites> {
    let tables: Vec<&ReplicaContents> = replicas.iter().filter_map(|replica| replica.holds.as_ref().ok()).collect();
    let mut ordered: Vec<&HistoryEntry> = history.iter().collect();
    ordered.sort_by(|a, b| (a.by == By::Audit).cmp(&(b.by == By::Audit)).then(a.at_s.total_cmp(&b.at_s)));
    let mut spaces: BTreeMap<&str, KeySpace<'_>> = BTreeMap::new();
    for (space, key) in shared_keys(history) {
        spaces.entry(space).or_default().shared.insert(key);
    }
    for line in ordered {
        spaces.entry(&line.space).or_default().play(line, known);
    }
    let mut found = None;
    let mut acknowledged = 0;
    for (space_name, space) in &spaces {
        for (name, key) in &space.keys {
            acknowledged += u64::from(key.is_acknowledged);
            let named = if space_name.is_empty() { (*name).to_owned() } else { format!("{space_name}/{name}") };
            let held = tables.iter().map(|table| table.get(&named).map(|held| held.value.as_str()));
            let read: Vec<AuditedValue<'_>> = match key.read_back {
                Some(read) => vec![read],
                None => held.collect(),
            };
            if read.is_empty() {
                continue;
            }
            let allowed = read.iter().any(|value| space.allows(key, *value));
            let found: &mut LostWrites = found.get_or_insert_default();
            found.checked += 1;
            found.acknowledged_checked += u64::from(key.is_acknowledged);
            found.lost += u64::from(!allowed);
            if !allowed && found.examples.len() < EXAMPLES {
                found.examples.push(named);
            }
        }
    }
    found.map(|found| LostWrites { acknowledged, ..found })
}

/// Returns the keys that several agents of the load may have changed, with their spaces.
fn shared_keys(history: &[HistoryEntry]) -> BTreeSet<(&str, &str)> {
    let changes =
        history.iter().filter(|line| line.by == By::Load && line.changes_key() && line.applied != Some(false));
    let mut owners: BTreeMap<(&str, &str), Option<u32>> = BTreeMap::new();
    let names = changes.filter_map(|line| {
        let name = (line.space.as_str(), line.key.as_str());
        (*owners.entry(name).or_insert(line.agent) != line.agent).then_some(name)
    });
    names.collect()
}

impl<'a> KeySpace<'a> {
    fn play(&mut self, line: &'a HistoryEntry, known: HistoryTerms) {
        if line.by == By::Audit {
            // A read-back of a key without operations in the history cannot be judged.
            if let (Outcome::Ok, Some(key)) = (line.outcome, self.keys.get_mut(line.key.as_str())) {
                key.read_back = Some(line.value.as_deref());
            }
            return;
        }
        let applied = line.applied.or((line.outcome == Outcome::Ok).then_some(true));
        match line.effect.as_str() {
            "write" | "cas" => {
                let change = AcknowledgedChange::of(line, line.value.as_deref());
                self.key(line).change(change, applied, known.unordered_s);
            }
            "remove" => {
                self.key(line).change(AcknowledgedChange::of(line, None), applied, known.unordered_s);
            }
            "remove_all" if applied.is_none() => self.may_be_emptied = true,
            "remove_all" => {
                let change = AcknowledgedChange::of(line, None);
                self.keys.values_mut().for_each(|key| key.change(change, applied, known.unordered_s));
                if applied == Some(true) {
                    self.emptied.retain(|earlier| change.may_precede(earlier, known.unordered_s));
                    self.emptied.push(change);
                }
            }
            "read" if known.sent_once && matches!(line.outcome, Outcome::Ok | Outcome::Wrong) => {
                let key = self.keys.get_mut(line.key.as_str());
                let is_shown = |key: &&mut AuditedKey<'_>| {
                    !key.is_shared && (known.unordered_s == 0.0 || key.owner == Some(line.agent))
                };
                if let Some(key) = key.filter(is_shown) {
                    key.read(line.value.as_deref());
                }
            }
            _ => {}
        }
    }

    /// Whether a key may have this value after the load.
    fn allows(&self, key: &AuditedKey<'_>, value: AuditedValue<'_>) -> bool {
        (self.may_be_emptied && value.is_none())
            || value == key.acknowledged
            || key.possible.contains_key(&value)
            || key.found.contains(&value)
    }

    fn key(&mut self, line: &'a HistoryEntry) -> &mut AuditedKey<'a> {
        let Self { emptied, shared, .. } = self;
        let is_shared = shared.contains(line.key.as_str());
        let added = || AuditedKey { recent: emptied.clone(), is_shared, ..AuditedKey::default() };
        self.keys.entry(&line.key).or_insert_with(added)
    }
}

impl<'a> AuditedKey<'a> {
    fn change(&mut self, change: AcknowledgedChange<'a>, applied: Option<bool>, unordered_s: f64) {
        if applied == Some(false) {
            return;
        }
        let AcknowledgedChange { value, agent, .. } = change;
        self.owner = Some(self.owner.map_or(agent, |owner| owner.filter(|owner| Some(*owner) == agent)));
        self.changes += 1;
        *self.written.entry(value).or_default() += 1;
        match applied {
            Some(_) => {
                self.is_acknowledged = true;
                (self.acknowledged, self.acknowledged_at) = (value, self.changes);
                self.found.clear();
                self.recent.retain(|earlier| change.may_precede(earlier, unordered_s));
                let others = self.recent.iter().filter(|earlier| earlier.agent != agent);
                self.found.extend(others.map(|earlier| earlier.value));
                self.recent.push(change);
            }
            None => drop(self.possible.insert(value, self.changes)),
        }
    }

    /// Records that a read has found this value.
    fn read(&mut self, value: AuditedValue<'a>) {
        if value.is_none() || self.written.get(&value) != Some(&1) {
            return;
        }
        let Some(change) = self.possible.remove(&value) else { return };
        if change > self.acknowledged_at {
            (self.acknowledged, self.acknowledged_at) = (value, self.changes);
            self.found.clear();
        } else {
            self.found.insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Checks on records on disk: a planted lost write and a planted divergence must be found, and
    //! nothing without one.

    use fixture::TestDir;
    use record::events::Event;
    use record::folder::TrialFolder;
    use record::lines::JsonLinesWriter;
    use record::replicas;
    use record::results::{Trial, Trust};

    use super::*;
    use crate::synthetic;

    #[test]
    fn wrong_answers_are_counted_in_equal_parts() {
        let night = (0..400).map(|half| (f64::from(half) / 2.0, half / 380)).collect();
        for (wrong, parts) in [
            (vec![(0.0, 1), (0.9, 2), (1.0, 4), (2.5, 8)], vec![3, 4, 8]),
            (night, [[0; 19].as_slice(), &[20]].concat()),
            (Vec::new(), vec![0]),
        ] {
            let slots = wrong.into_iter().map(|(at_s, wrong)| OutcomeSlot {
                at_s,
                slot_s: 0.5,
                wrong,
                ..OutcomeSlot::default()
            });
            assert_eq!(wrong_by_part(&slots.collect::<Vec<_>>()), parts);
        }
    }

    const KEYS: usize = 500;

    /// Three members with 500 cases, each created and modified by its agent. `spoil` changes their
    /// final records.
    fn played(spoil: impl FnOnce(&mut Vec<Replica>)) -> Trial {
        let scratch = TestDir::new();
        let folder = TrialFolder::at(&scratch);
        let mut history = JsonLinesWriter::create(&folder.history()).unwrap();
        for key in 0..KEYS {
            for version in 1..=2 {
                let line = HistoryEntry {
                    at_s: (2 * key + version) as f64 / 100.0,
                    by: By::Load,
                    agent: Some(1),
                    effect: "write".to_owned(),
                    space: String::new(),
                    key: format!("case-{key}"),
                    value: Some(format!("{{\"party\": \"p{key}\", \"n\": {version}}}")),
                    outcome: Outcome::Ok,
                    applied: Some(true),
                    ..HistoryEntry::default()
                };
                history.write(&line).unwrap();
            }
        }
        history.flush().unwrap();
        let mut table = ReplicaContents::new();
        for key in 0..KEYS {
            let value = format!("{{\"party\": \"p{key}\", \"n\": 2}}");
            table.insert(format!("case-{key}"), ReplicaValue { value, version: Some("2".to_owned()) });
        }
        let mut members: Vec<Replica> =
            (2..=4).map(|number| Replica { member: format!("n{number}"), holds: Ok(table.clone()) }).collect();
        spoil(&mut members);
        replicas::write(&folder.replicas(), &members).unwrap();
        let mut events = JsonLinesWriter::create(&folder.events()).unwrap();
        let said =
            [What::Audit { keys: KEYS as u64, unread: 0, skipped: 0 }, What::Replicas { rounds: 2, settled: true }];
        for what in said {
            events.write(&Event { at_s: 21.0, what }).unwrap();
        }
        events.flush().unwrap();
        crate::trial(&synthetic::trial(synthetic::load(10, 20.0)), &folder).unwrap()
    }

    fn table_of(replica: &mut Replica) -> &mut ReplicaContents {
        replica.holds.as_mut().unwrap()
    }

    #[test]
    fn consistent_members_have_no_losses_or_divergence() {
        let found = played(|_| {}).consistency;
        assert_eq!((found.checked, found.lost_writes, found.diverged_keys), (Some(500), Some(0), Some(0)));
        assert_eq!(
            (found.diverged_differing, found.diverged_missing, found.replicas_settled),
            (Some(0), Some(0), Some(true))
        );
        assert_eq!(found.replicas.iter().map(|table| table.records).collect::<Vec<_>>(), [Some(500); 3]);
    }

    #[test]
    fn a_planted_lost_write_is_found() {
        let found = played(|members| {
            // The change of one case is lost everywhere, another case completely.
            for member in members {
                table_of(member).get_mut("case-7").unwrap().value = "{\"party\": \"p7\", \"n\": 1}".to_owned();
                table_of(member).remove("case-11");
            }
        });
        let found = found.consistency;
        assert_eq!((found.lost_writes, found.diverged_keys), (Some(2), Some(0)));
        assert_eq!(found.lost_examples, ["case-11", "case-7"]);
    }

    #[test]
    fn a_planted_divergence_is_found() {
        let found = played(|members| {
            table_of(&mut members[1]).get_mut("case-7").unwrap().version = Some("1".to_owned());
            table_of(&mut members[2]).remove("case-11");
            table_of(&mut members[2]).insert("case-left-over".to_owned(), ReplicaValue::default());
        });
        let found = found.consistency;
        assert_eq!((found.lost_writes, found.diverged_keys), (Some(0), Some(3)));
        assert_eq!((found.diverged_differing, found.diverged_missing), (Some(1), Some(2)));
        let expected = [
            "case-11: n2 and n3 version 2, n4 nothing",
            "case-7: n2 and n4 version 2, n3 version 1",
            "case-left-over: n2 and n3 nothing, n4 \"\"",
        ];
        assert_eq!(found.diverged_examples, expected);
    }

    #[test]
    fn a_failed_audit_of_a_member_is_reported() {
        let trial = played(|members| members[1].holds = Err("hook `audit` failed: exit 7".to_owned()));
        assert_eq!(trial.consistency.diverged_keys, Some(0));
        assert_eq!(trial.consistency.replicas[1].failed.as_deref(), Some("hook `audit` failed: exit 7"));
        assert!(trial.verdict.is >= Trust::Suspect);
        let reason = "the member n3 could not be audited: hook `audit` failed: exit 7".to_owned();
        assert!(trial.verdict.reasons.contains(&reason), "{:?}", trial.verdict.reasons);
        let alone = played(|members| members.truncate(1));
        assert_eq!(alone.consistency.diverged_keys, None, "nobody to differ from");
    }

    #[test]
    fn cycles_ended_by_failures_are_counted() {
        let mut planned = synthetic::trial(synthetic::load(1, 10.0));
        let outcomes = Outcomes { ok: 500, failed: 3, timeout: 2, wrong: 5, ..Outcomes::default() };
        // A wrong answer ends its cycle only if the plan says so; otherwise it is in one of the 90.
        assert_eq!(consistency(&planned, &Evidence::default(), &outcomes, Some(90)).cycles, Some(95));
        planned.load.as_mut().unwrap().when_failed = WhenFailed::NextCycle;
        assert_eq!(consistency(&planned, &Evidence::default(), &outcomes, Some(90)).cycles, Some(100));
        assert_eq!(consistency(&planned, &Evidence::default(), &outcomes, None).cycles, None, "nobody counted");
    }

    /// Reads `"w+a w?b r+ x?  => a"`: operations of one key in order, then the value that was read
    /// back (`_`: nothing, `!`: unread).
    fn history(text: &str) -> Vec<HistoryEntry> {
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

    fn line(
        at_s: f64,
        by: By,
        effect: &str,
        value: Option<&str>,
        outcome: Outcome,
        applied: Option<bool>,
    ) -> HistoryEntry {
        let (effect, value) = (effect.to_owned(), value.map(str::to_owned));
        let key = if effect == "remove_all" { String::new() } else { "k".to_owned() };
        HistoryEntry {
            at_s,
            by,
            agent: Some(1),
            effect,
            space: "s".to_owned(),
            key,
            value,
            outcome,
            applied,
            ..HistoryEntry::default()
        }
    }

    #[test]
    fn lost_writes_are_unknown_after_a_rebuild() {
        let rebuilt = Event { at_s: 50.0, what: What::TargetRebuilt { after: "killed".to_owned() } };
        for (events, lost) in [(Vec::new(), Some(1)), (vec![rebuilt], None)] {
            let evidence = Evidence { history: history("w+a => _"), events, ..Evidence::default() };
            let found = consistency(&plan::Trial::default(), &evidence, &Outcomes::default(), None);
            assert_eq!(found.lost_writes, lost);
        }
    }

    fn counts(history: &[HistoryEntry]) -> Option<(u64, u64)> {
        lost_writes(history, &[], ONE_CLOCK).map(|found| (found.checked, found.lost))
    }

    const ONE_CLOCK: HistoryTerms = HistoryTerms { sent_once: true, unordered_s: 0.0 };

    /// Lines of agents whose clocks may be 1 ms off each.
    #[test]
    fn clock_errors_cause_no_lost_writes() {
        let done = |at_s: f64, agent: u32, effect: &str, value: Option<&str>| HistoryEntry {
            agent: Some(agent),
            ..line(at_s, By::Load, effect, value, Outcome::Ok, Some(true))
        };
        let lost = |lines: &[HistoryEntry], reads: Option<&str>| {
            let lines = [lines, &[line(99.0, By::Audit, "read", reads, Outcome::Ok, Some(true))]].concat();
            let two = HistoryTerms { unordered_s: 0.002, ..ONE_CLOCK };
            [ONE_CLOCK, two].map(|known| lost_writes(&lines, &[], known).unwrap().lost)
        };
        let near = [done(1.0, 1, "write", Some("a")), done(1.0015, 2, "write", Some("b"))];
        assert_eq!(lost(&near, Some("a")), [1, 0], "the first may have been the last");
        assert_eq!(lost(&near, Some("b")), [0, 0]);
        assert_eq!(lost(&near, None), [1, 1]);
        let far = [done(1.0, 1, "write", Some("a")), done(1.0025, 2, "write", Some("b"))];
        assert_eq!(lost(&far, Some("a")), [1, 1]);
        let own = [done(1.0, 1, "write", Some("a")), done(1.0015, 1, "write", Some("b"))];
        assert_eq!(lost(&own, Some("a")), [1, 1], "an agent has one clock");
        let emptied = [done(1.0, 2, "remove_all", None), done(1.001, 1, "write", Some("a"))];
        assert_eq!(lost(&emptied, None), [1, 0], "it may have been emptied after the write");
        assert_eq!(lost(&emptied, Some("a")), [0, 0]);
        // A read by another agent does not show the time.
        let mut stranger = vec![done(1.0, 1, "write", Some("a")), done(1.001, 2, "read", Some("a"))];
        (stranger[0].outcome, stranger[0].applied) = (Outcome::Timeout, None);
        stranger.push(done(1.002, 1, "write", Some("b")));
        assert_eq!(lost(&stranger, Some("a")), [1, 0]);
        stranger[1].agent = Some(1);
        assert_eq!(lost(&stranger, Some("a")), [1, 1]);
    }

    #[test]
    fn overlapping_changes_of_several_agents_cause_no_lost_writes() {
        let done = |[start_s, at_s]: [f64; 2], agent: u32, value: &str| HistoryEntry {
            agent: Some(agent),
            start_s: Some(start_s),
            ..line(at_s, By::Load, "write", Some(value), Outcome::Ok, Some(true))
        };
        let lost = |lines: &[HistoryEntry], read: &str| {
            let read = line(99.0, By::Audit, "read", Some(read), Outcome::Ok, Some(true));
            lost_writes(&[lines, &[read]].concat(), &[], ONE_CLOCK).unwrap().lost
        };
        let together = [done([1.0, 2.0], 1, "a"), done([1.5, 3.0], 2, "b")];
        assert_eq!(["a", "b"].map(|value| lost(&together, value)), [0, 0], "either may have been the last");
        let apart = [done([1.0, 2.0], 1, "a"), done([2.5, 3.0], 2, "b")];
        assert_eq!(["a", "b"].map(|value| lost(&apart, value)), [1, 0]);
        let long = [done([1.0, 2.0], 1, "a"), done([2.5, 3.0], 2, "b"), done([0.5, 4.0], 3, "c")];
        assert_eq!(["a", "b", "c"].map(|value| lost(&long, value)), [1, 0, 0], "the second came after the first");
        // The read may have found the value before the acknowledged write took effect.
        let mut late = vec![done([0.0, 10.0], 1, "a"), done([3.0, 10.2], 2, "b")];
        (late[0].outcome, late[0].applied) = (Outcome::Timeout, None);
        late.push(HistoryEntry { effect: "read".to_owned(), ..done([3.5, 10.5], 3, "a") });
        assert_eq!(["a", "b"].map(|value| lost(&late, value)), [0, 0]);
    }

    #[test]
    fn each_history_allows_only_certain_final_values() {
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
            // A write with an unknown result may take effect late.
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
            // A read shows that it took effect.
            "w+a w?b r+b => b",
            "w+a w?b r+a => b",
            "w?a w+b r+a => a",
            // The read may have seen an old state, before the acknowledged write.
            "w?a w+b r+a => b",
            "w+a w?b w?c r+b => c",
            "w+a w?b w?c r+b r+c => b",
            // The read may have seen the first of the two writes.
            "w+b w+a w?b r+b => a",
            "w?b w?b w+a r+b w+c => b",
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
            "w+a w?b r+b => a",
            "w+a w?b r+b => _",
            "w?a r+a w+b => a",
            "w?a w+b r+a w+c => a",
            "w+a w?b w?c r+b => a",
        ];
        for text in lost {
            assert_eq!(counts(&history(text)), Some((1, 1)), "{text}");
        }
        let resent =
            lost_writes(&history("w?a r+a w+b => a"), &[], HistoryTerms { sent_once: false, ..ONE_CLOCK }).unwrap();
        assert_eq!((resent.checked, resent.lost), (1, 0), "another attempt of it may come late");
    }

    #[test]
    fn only_keys_with_acknowledged_writes_count_as_acknowledged() {
        for (operations, acknowledged) in [("w+a => a", 1), ("w?a => a", 0), ("w-a => _", 0)] {
            let found = lost_writes(&history(operations), &[], ONE_CLOCK).unwrap();
            assert_eq!((found.checked, found.acknowledged), (1, acknowledged), "{operations}");
        }
    }

    #[test]
    fn keys_that_are_not_read_back_are_unchecked() {
        assert_eq!(lost_writes(&[], &[], ONE_CLOCK), None);
        assert_eq!(lost_writes(&history("w+a => !"), &[], ONE_CLOCK), None);
        let mut unread = history("w+a => a");
        unread.pop();
        assert_eq!(lost_writes(&unread, &[], ONE_CLOCK), None);
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
        assert_eq!(lost_writes(&lines, &[], ONE_CLOCK).unwrap().examples, ["s/k"]);
    }

    #[test]
    fn operations_are_ordered_by_end_time() {
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
    fn member_dumps_replace_a_missing_read_back() {
        let judged = |operations: &str, members: &[&str]| {
            let mut lines = history(&format!("{operations} => !"));
            lines.pop();
            lost_writes(&lines, &divergence::replicas(members), ONE_CLOCK).map(|found| (found.checked, found.lost))
        };
        let kept = [
            ("w+a", &["s/k=a", "s/k=a"][..]),
            ("w+a w+b", &["s/k=b@2", "s/k=b@2"]),
            // Some members have it, some do not: diverged, and not lost.
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
    fn a_read_back_takes_precedence_over_member_dumps() {
        let replicas = divergence::replicas(&["s/k=a", "s/k=a"]);
        let found = lost_writes(&history("w+a => _"), &replicas, ONE_CLOCK).unwrap();
        assert_eq!((found.checked, found.lost), (1, 1));
    }

    #[test]
    fn a_key_without_a_space_has_no_prefix() {
        let mut lines = history("w+a => !");
        lines.pop();
        lines[0].space.clear();
        let found = lost_writes(&lines, &divergence::replicas(&["k=b", "k=b"]), ONE_CLOCK).unwrap();
        assert_eq!((found.lost, found.examples), (1, vec!["k".to_owned()]));
    }

    mod divergence {
        use super::super::*;

        /// Parses `"a=x b=y@2"`: the records of a member, with versions after the `@`; `"!"`: it
        /// did not report.
        pub(super) fn replicas(members: &[&str]) -> Vec<Replica> {
            let mut replicas = Vec::new();
            for (member, text) in (1..).zip(members) {
                let records = text.split_whitespace().filter_map(|word| word.split_once('=')).map(|(key, held)| {
                    let (value, version) =
                        held.split_once('@').map_or((held, None), |(value, version)| (value, Some(version)));
                    (key.to_owned(), ReplicaValue { value: value.to_owned(), version: version.map(str::to_owned) })
                });
                let holds = if *text == "!" { Err("it is down".to_owned()) } else { Ok(records.collect()) };
                replicas.push(Replica { member: format!("n{member}"), holds });
            }
            replicas
        }

        /// Diverged keys, differing, missing.
        fn counts(members: &[&str]) -> Option<(u64, u64, u64)> {
            divergence(&replicas(members)).map(|found| (found.keys, found.differing, found.missing))
        }

        #[test]
        fn diverged_keys_count_once_over_both_kinds() {
            assert_eq!(counts(&["a=x b=y", "a=x b=y", "b=y a=x"]), Some((0, 0, 0)));
            assert_eq!(counts(&["", ""]), Some((0, 0, 0)));
            assert_eq!(counts(&["a=x", "a=y", "a=x"]), Some((1, 1, 0)));
            assert_eq!(counts(&["a=x", "", "a=x"]), Some((1, 0, 1)));
            assert_eq!(counts(&["a=x", "", "a=y"]), Some((1, 1, 1)));
            assert_eq!(counts(&["a=x b=1 c=1", "b=2 c=1", "a=x b=1 c=1 d=1"]), Some((3, 1, 2)));
            // The same value with another version: one member has missed a change.
            assert_eq!(counts(&["a=x@1", "a=x@2"]), Some((1, 1, 0)));
            assert_eq!(counts(&["a=x@1", "a=x"]), Some((1, 1, 0)));
        }

        #[test]
        fn members_without_a_dump_are_not_compared() {
            assert_eq!(counts(&["a=x", "!", "a=x"]), Some((0, 0, 0)));
            assert_eq!(counts(&["a=x", "!"]), None);
            assert_eq!(counts(&["!", "!"]), None);
            assert_eq!(counts(&["a=x"]), None);
            assert_eq!(counts(&[]), None);
        }

        #[test]
        fn examples_name_the_value_of_each_member() {
            let long = format!("a={}", "é".repeat(40));
            let shortened = format!("a: n1 \"{}…\", n2 nothing", "é".repeat(24));
            for (members, example) in [
                (&["a=x@1", "a=x@1", "a=y@2"][..], "a: n1 and n2 version 1, n3 version 2"),
                (&["a=x@1", "", "a=x@1"], "a: n1 and n3 version 1, n2 nothing"),
                // Versions that do not distinguish the values are not shown.
                (&["a=x@2", "a=y@2"], "a: n1 \"x\", n2 \"y\""),
                (&[&long, ""], &shortened),
            ] {
                assert_eq!(divergence(&replicas(members)).unwrap().examples, [example]);
            }
            let many: Vec<String> = (0..9).map(|key| format!("k{key}=x")).collect();
            assert_eq!(divergence(&replicas(&[&many.join(" "), ""])).unwrap().examples.len(), 5);
        }
    }
}
