//! Rules about the records: whether they are complete and agree with each other. They must not
//! depend on the results: lost evidence must never make a trial look better than it was.

use std::collections::BTreeMap;

use record::events::{By, Ending, Event, Phase, What};
use record::rows::{self, OutcomeSlot};

use super::{Evaluation, RuleInput};

pub(super) fn cut_off(facts: &RuleInput<'_>) -> Evaluation {
    let last_s = facts.evidence.last_s().unwrap_or(0.0);
    let (what, reason) = match facts.evidence.ending() {
        Some((Ending::Done, _)) => return None,
        Some((Ending::Interrupted, reason)) => ("interrupted at", reason),
        Some((Ending::Failed, reason)) => ("failed at", reason),
        None => ("records end early, at", None),
    };
    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    Some((1.0, format!("{what} {last_s:.1} s{why}")))
}

/// Time at the end of the load that a record of a finished trial may lack, seconds. The record's
/// last row is due when the load is over.
const LATE_S: f64 = 1.5;

/// Time that an interruption may remove from the end of a record, seconds: the second that was
/// being written, and the previous second.
const CUT_OFF_S: f64 = 2.0;

/// Largest normal gap between rows of `generator.csv`, seconds.
const APART_S: f64 = 0.25;

/// Longest normal gap between samples, seconds. A probe's first reading gives no row, and probes
/// miss seconds if the machine stalls.
const SLEPT_S: f64 = 5.0;

/// Duration of the load, and whether the load finished.
#[derive(Debug, Clone, Copy)]
struct LoadRuntime {
    /// Seconds of the load that each record must cover.
    for_s: f64,
    is_finished: bool,
}

/// Returns the duration of the load, or `None` if there was no load or it never began.
fn ran(facts: &RuleInput<'_>) -> Option<LoadRuntime> {
    let load = facts.planned.load.as_ref()?;
    let evidence = facts.evidence;
    let left = [Phase::Draining, Phase::Auditing, Phase::Stopping].map(|phase| evidence.entered_s(phase));
    let left_s = left.into_iter().flatten().min_by(f64::total_cmp);
    let ran = match evidence.ending() {
        Some((Ending::Done, _)) => {
            LoadRuntime { for_s: left_s.unwrap_or(load.time_s).min(load.time_s), is_finished: true }
        }
        Some((Ending::Interrupted, _)) if left_s.is_some() => {
            LoadRuntime { for_s: left_s.unwrap_or(0.0).min(load.time_s), is_finished: true }
        }
        _ => {
            let slots = evidence.slots.iter().map(|slot| slot.at_s);
            let rows = evidence.generator.iter().map(|row| row.at_s);
            let attempts = evidence.attempts.iter().map(|row| row.at_s);
            let last_s = slots.chain(rows).chain(attempts).chain(evidence.load.last_s()).max_by(f64::total_cmp)?;
            LoadRuntime { for_s: last_s.min(load.time_s) - CUT_OFF_S, is_finished: false }
        }
    };
    (ran.for_s > 0.0).then_some(ran)
}

/// An incomplete record, with the sentence for the user.
#[derive(Debug, Clone, PartialEq)]
struct IncompleteRecord {
    file: &'static str,
    /// Seconds of the load that the record lacks.
    lacks_s: f64,
    what: String,
}

/// Returns the records that lack seconds of the load, or that do not exist.
fn lacking(facts: &RuleInput<'_>) -> Vec<IncompleteRecord> {
    let mut lacking: Vec<IncompleteRecord> = Vec::new();
    let evidence = facts.evidence;
    if facts.run.is_over && evidence.ending().is_none() {
        let what = "events.jsonl has no final event, although the run ended".to_owned();
        lacking.push(IncompleteRecord { file: "events.jsonl", lacks_s: 0.0, what });
    }
    if evidence.events.iter().any(|event| matches!(event.what, What::Replicas { .. })) && evidence.replicas.is_empty() {
        let what = "replicas.jsonl has no member, although the members were queried".to_owned();
        lacking.push(IncompleteRecord { file: "replicas.jsonl", lacks_s: 0.0, what });
    }
    let Some(ran) = ran(facts) else { return lacking };
    let for_s = ran.for_s;
    for &file in evidence.absent.iter().filter(|_| ran.is_finished) {
        lacking.push(IncompleteRecord {
            file,
            lacks_s: for_s,
            what: format!("{file} is missing: {for_s:.0} s of {for_s:.0} s"),
        });
    }
    let generator_s = uncovered_s(facts, ran);
    let mut seconds = vec![("generator.csv", generator_s), ("samples.csv", unsampled_s(facts, ran))];
    if generator_s == 0.0 && !evidence.absent.contains(&"generator.csv") {
        let ended = EndedBySecond::of_generator(facts);
        let others = [
            ("load.hlog", EndedBySecond::of_log(facts)),
            ("outcomes.csv", EndedBySecond::of_outcomes(facts)),
            ("attempts.csv", EndedBySecond::of_attempts(facts)),
        ];
        seconds.extend(others.map(|(file, other)| (file, ended.seconds_that_lack_in(&other, for_s))));
    }
    for (file, lacks_s) in seconds {
        if lacks_s > 0.0 && !lacking.iter().any(|known| known.file == file) {
            let what = format!("{file} lacks {lacks_s:.0} s of {for_s:.0} s");
            lacking.push(IncompleteRecord { file, lacks_s, what });
        }
    }
    lacking
}

/// Returns the seconds of the load in which no thread of the generator has a row.
fn uncovered_s(facts: &RuleInput<'_>, ran: LoadRuntime) -> f64 {
    let rows = facts.evidence.generator.iter().filter(|row| row.interval_s > 0.0);
    let mut covered: Vec<[f64; 2]> = rows.map(|row| [row.at_s - row.interval_s, row.at_s]).collect();
    covered.sort_by(|one, other| one[0].total_cmp(&other[0]));
    let (mut until_s, mut uncovered_s) = (0.0_f64, 0.0);
    for [from_s, end_s] in covered {
        let gap_s = from_s.min(ran.for_s) - until_s;
        if gap_s > APART_S {
            uncovered_s += gap_s;
        }
        until_s = until_s.max(end_s);
    }
    let late_s = ran.for_s - until_s;
    if late_s >= LATE_S || (late_s > APART_S && until_s == 0.0) { uncovered_s + late_s } else { uncovered_s }
}

/// Returns the seconds of the load for which this machine has no sample.
fn unsampled_s(facts: &RuleInput<'_>, ran: LoadRuntime) -> f64 {
    let mut at = facts.evidence.machine_sampled_at_s.clone();
    at.sort_by(f64::total_cmp);
    let (mut last_s, mut unsampled_s) = (0.0_f64, 0.0);
    for at_s in at.into_iter().filter(|at_s| *at_s > 0.0) {
        let gap_s = at_s.min(ran.for_s) - last_s;
        if gap_s > SLEPT_S {
            unsampled_s += gap_s;
        }
        last_s = last_s.max(at_s);
    }
    // The first reading gives no row, so the first row may be a second late.
    let late_s = ran.for_s - last_s;
    if late_s >= LATE_S + f64::from(u8::from(last_s == 0.0)) { unsampled_s + late_s } else { unsampled_s }
}

/// Number of operations (any outcome except unfinished) that ended in each second.
#[derive(Debug, Clone, Default, PartialEq)]
struct EndedBySecond {
    seconds: BTreeMap<i64, u64>,
}

impl EndedBySecond {
    fn add(&mut self, second: i64, count: u64) {
        let ended = self.seconds.entry(second).or_default();
        *ended = ended.saturating_add(count);
    }

    /// Sums counts by second. Each row has a time, the end of its second, and a count.
    fn of_rows(rows: impl Iterator<Item = (f64, u64)>) -> Self {
        let mut ended = Self::default();
        rows.for_each(|(at_s, count)| ended.add((at_s - 1e-6).floor() as i64, count));
        ended
    }

    fn of_generator(facts: &RuleInput<'_>) -> Self {
        Self::of_rows(facts.evidence.generator.iter().map(|row| (row.at_s, row.operations)))
    }

    fn of_attempts(facts: &RuleInput<'_>) -> Self {
        Self::of_rows(facts.evidence.attempts.iter().map(|row| (row.at_s, row.count)))
    }

    fn of_log(facts: &RuleInput<'_>) -> Self {
        Self { seconds: facts.evidence.load.ended().clone() }
    }

    fn of_outcomes(facts: &RuleInput<'_>) -> Self {
        let mut ended = Self::default();
        for slot in &facts.evidence.slots {
            ended.add((slot.at_s + 1e-6).floor() as i64, of_slot(slot));
        }
        ended
    }

    /// Returns the number of operations in the seconds that end by `until_s`.
    fn by(&self, until_s: f64) -> u64 {
        let rows = self.seconds.range(..(until_s + 1e-6).floor() as i64);
        rows.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    fn all(&self) -> u64 {
        self.by(1e15)
    }

    /// Returns the seconds of the load with ended operations here and none in the other record.
    /// Returns 0 if the other record has as many operations in total.
    fn seconds_that_lack_in(&self, other: &Self, for_s: f64) -> f64 {
        if other.by(for_s) >= self.by(for_s) {
            return 0.0;
        }
        let of_load = self.seconds.range(0..(for_s + 1e-6).floor() as i64).filter(|(_, count)| **count > 0);
        of_load.filter(|(second, _)| other.seconds.get(second).is_none_or(|count| *count == 0)).count() as f64
    }
}

fn of_slot(slot: &OutcomeSlot) -> u64 {
    [slot.ok, slot.failed, slot.timeout, slot.wrong].map(u64::from).iter().sum()
}

pub(super) fn missing_records(facts: &RuleInput<'_>) -> Evaluation {
    let lacking = lacking(facts);
    let worst_s = lacking.iter().map(|one| one.lacks_s).fold(1.0, f64::max);
    let what: Vec<&str> = lacking.iter().map(|one| one.what.as_str()).collect();
    (!what.is_empty()).then(|| (worst_s, what.join("; ")))
}

pub(super) fn records_disagree(facts: &RuleInput<'_>) -> Evaluation {
    let incomplete: Vec<&str> = lacking(facts).iter().map(|one| one.file).collect();
    let mut found = disagreements(facts).0.into_iter();
    let differing = found.find(|differing| !differing.files.iter().any(|file| incomplete.contains(file)))?;
    let Disagreement { files: [one, other], counts: [a, b], of } = differing;
    Some((a.abs_diff(b) as f64, format!("{one} has {a} {of}, but {other} has {b}: one of them is incomplete")))
}

/// Two record files whose counts disagree.
#[derive(Debug, Clone, PartialEq)]
struct Disagreement {
    files: [&'static str; 2],
    counts: [u64; 2],
    /// Counted items, in words.
    of: String,
}

#[derive(Default)]
struct Disagreements(Vec<Disagreement>);

impl Disagreements {
    /// Adds a disagreement if the counts of two files differ.
    fn compare(&mut self, one: (&'static str, u64), other: (&'static str, u64), of: &str) {
        if one.1 != other.1 {
            let (files, counts) = ([one.0, other.0], [one.1, other.1]);
            self.0.push(Disagreement { files, counts, of: of.to_owned() });
        }
    }
}

fn disagreements(facts: &RuleInput<'_>) -> Disagreements {
    let mut found = Disagreements::default();
    let outcomes = facts.trial.outcomes;
    let logged = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong;
    let Some(ran) = ran(facts).filter(|ran| !ran.is_finished) else {
        if facts.evidence.ending().is_none() {
            return found;
        }
        found.compare(("load.hlog", logged), ("outcomes.csv", EndedBySecond::of_outcomes(facts).all()), "operations");
        if facts.planned.load.is_some() {
            let by_generator = EndedBySecond::of_generator(facts).all();
            found.compare(("load.hlog", logged), ("generator.csv", by_generator), "operations");
            attempts_disagree(facts, &mut found);
            starts_disagree(facts, &mut found);
        }
        history_disagrees(facts, &mut found);
        return found;
    };
    // In a trial that was cut off, one record may extend further than another, but no record lacks
    // the time well before the end.
    let (log, generator) =
        (EndedBySecond::of_log(facts).by(ran.for_s), EndedBySecond::of_generator(facts).by(ran.for_s));
    let until_s = ran.for_s.floor();
    let of = format!("operations of the first {until_s:.0} s");
    found.compare(("load.hlog", log), ("generator.csv", generator), &of);
    let slots = &facts.evidence.slots;
    let surely = slots.iter().filter(|slot| slot.at_s + slot.slot_s <= until_s + 1e-6).map(of_slot).sum();
    let perhaps: u64 = slots.iter().filter(|slot| slot.at_s < until_s - 1e-6).map(of_slot).sum();
    if !(surely..=perhaps.max(surely)).contains(&log) {
        found.compare(("load.hlog", log), ("outcomes.csv", surely), &of);
    }
    let attempts = EndedBySecond::of_attempts(facts).by(ran.for_s);
    if attempts < log {
        found.compare(("load.hlog", log), ("attempts.csv", attempts), &of);
    }
    found
}

/// Compares attempts with outcomes: an operation ends `ok` or `wrong` with its last attempt, and
/// otherwise with one or more failed attempts.
fn attempts_disagree(facts: &RuleInput<'_>, found: &mut Disagreements) {
    let attempts = &facts.evidence.attempts;
    for (name, operation) in &facts.trial.operations {
        let (mut ok, mut wrong, mut others) = (0, 0, 0);
        for row in attempts.iter().filter(|row| row.operation == *name) {
            match row.result.as_str() {
                result if rows::is_ok(result) => ok += row.count,
                "wrong" => wrong += row.count,
                _ => others += row.count,
            }
        }
        let counted = operation.outcomes;
        let bad = counted.failed + counted.timeout;
        for (logged, attempted, how) in [
            (counted.ok, ok, "were ok"),
            (counted.wrong, wrong, "were wrong"),
            (bad, others.min(bad), "failed or timed out"),
        ] {
            let of = format!("operations `{name}` that {how}");
            found.compare(("load.hlog", logged), ("attempts.csv", attempted), &of);
        }
    }
    let unknown = attempts.iter().filter(|row| !facts.trial.operations.contains_key(&row.operation));
    let unknown = unknown.filter(|row| rows::is_ok(&row.result)).map(|row| row.count).sum();
    found.compare(("load.hlog", 0), ("attempts.csv", unknown), "operations whose names are not in load.hlog");
}

/// Compares starts with outcomes: an operation that was to start and was not dropped has ended or
/// is unfinished. A surplus of dropped operations proves nothing: a load that stops because its
/// backlog is full also drops operations that would have been due later.
fn starts_disagree(facts: &RuleInput<'_>, found: &mut Disagreements) {
    let rows = &facts.evidence.generator;
    let is_done = matches!(facts.evidence.ending(), Some((Ending::Done, _)));
    let Some(due) = rows.iter().map(|row| row.due).sum::<Option<u64>>().filter(|_| is_done) else { return };
    let started = due.saturating_sub(rows.iter().map(|row| row.dropped).sum());
    let outcomes = facts.trial.outcomes;
    let logged = outcomes.ok + outcomes.failed + outcomes.timeout + outcomes.wrong + outcomes.unfinished;
    if started > logged {
        found.compare(("generator.csv", started), ("load.hlog", logged), "started operations");
    }
}

/// Compares the audit with the history: each key that was read back is in the history, and had been
/// written.
fn history_disagrees(facts: &RuleInput<'_>, found: &mut Disagreements) {
    let Some((keys, _)) = read_back(facts) else { return };
    let (read, others): (Vec<_>, Vec<_>) = facts.evidence.history.iter().partition(|line| line.by == By::Audit);
    let changes = others.iter().filter(|line| line.changes_key()).count() as u64;
    if changes < keys {
        found.compare(("events.jsonl", keys), ("history.jsonl", changes), "audited keys that were written");
    }
    let read = read.len() as u64;
    let told_by_members =
        read == 0 && facts.evidence.events.iter().any(|event| matches!(event.what, What::Replicas { .. }));
    if !told_by_members {
        found.compare(("events.jsonl", keys), ("history.jsonl", read), "keys that were read back");
    }
}

fn read_back(facts: &RuleInput<'_>) -> Option<(u64, u64)> {
    facts.evidence.events.iter().rev().find_map(|event| match event.what {
        What::Audit { keys, unread, .. } => Some((keys, unread)),
        _ => None,
    })
}

pub(super) fn torn_records(facts: &RuleInput<'_>) -> Evaluation {
    // Without an ending, torn records are expected.
    facts.evidence.ending()?;
    let torn = &facts.evidence.torn;
    Some((torn.len() as f64, format!("the last line was cut off in {}", torn.join(", "))))
}

pub(super) fn unread_keys(facts: &RuleInput<'_>) -> Evaluation {
    let (keys, unread) = read_back(facts)?;
    Some((unread as f64, format!("{unread} of {} audited keys could not be read back", keys + unread)))
}

pub(super) fn unaudited_member(facts: &RuleInput<'_>) -> Evaluation {
    let silent =
        facts.evidence.replicas.iter().filter_map(|replica| Some((&replica.member, replica.holds.as_ref().err()?)));
    let unexpected: Vec<_> = silent.filter(|(member, _)| !was_taken_down(&facts.evidence.events, member)).collect();
    let (member, reason) = unexpected.first()?;
    let more = match unexpected.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    Some((unexpected.len() as f64, format!("the member {member} could not be audited: {reason}{more}")))
}

/// Whether a fault had taken down a host or its process when members were queried.
fn was_taken_down(events: &[Event], host: &str) -> bool {
    let before = events.iter().take_while(|event| event.what != What::Phase { phase: Phase::Stopping });
    let (mut down, mut lost) = (false, false);
    for event in before {
        match &event.what {
            What::HostUp { host: name, .. } | What::ProcessUp { host: name, .. } if name == host => {
                (down, lost) = (false, false)
            }
            What::HostDown { host: name, expected } if name == host => (down, lost) = (*expected, !expected),
            // An unplanned loss of a host also ends its processes, which is then expected of them.
            What::ProcessDown { host: name, expected: true, .. } if name == host => down = !lost,
            _ => {}
        }
    }
    down
}

pub(super) fn unsettled_replicas(facts: &RuleInput<'_>) -> Evaluation {
    let settled = facts.trial.consistency.replicas_settled?;
    let what = "the members' records still changed at the last query".to_owned();
    Some((f64::from(u8::from(!settled)), what))
}
