//! Tests of the encoded intervals: the merged intervals of several processes equal, bit for bit,
//! the record of one process with all raw values.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::time::Instant;

use experiment::plan::{Load, Step};
use fixture::TestDir;
use record::events::{By, Outcome};
use record::folder::TrialFolder;
use record::hlog::Time;
use record::rows::{self, OutcomeSlot};

use super::*;
use crate::engine::script::operation_names;
use crate::recorder::Recorder;

const SLOT_S: f64 = 0.01;
const SERVICES: u32 = 2;

fn operations() -> Arc<[String]> {
    let step = |name: &str| Step { name: name.to_owned(), ..Step::default() };
    operation_names(&Load { steps: vec![step("save"), step("find"), step("save")], ..Load::default() }).into()
}

fn terms(threads: u32) -> IntervalTerms {
    IntervalTerms { operations: operations(), threads, services: SERVICES, slot_s: SLOT_S }
}

/// Makes an empty interval of a thread.
fn interval(clock: Clock, (thread, threads): (u32, u32), second: u64, is_last: bool) -> ThreadInterval {
    ThreadInterval {
        clock,
        thread,
        threads,
        is_last,
        start_s: second as f64,
        end_s: (second + 1) as f64,
        slot_s: SLOT_S,
        services: SERVICES,
        first_slot: second * 100,
        slots: vec![SlotCounts::default(); 100 * SERVICES as usize],
        attempts: Vec::new(),
        units: Vec::new(),
        messages: Vec::new(),
        checks: Vec::new(),
        generator: GeneratorSecond::default(),
        history: Vec::new(),
        open_since_s: None,
        notices: Vec::new(),
        examples: Vec::new(),
        agent_cycles: Vec::new(),
        sheet: HistogramSet::new(&operations(), None),
    }
}

/// An operation that ended.
struct RawOperation {
    operation: usize,
    outcome: Outcome,
    latency_ns: u64,
    /// Index of the slot within its second, over all services.
    slot: usize,
}

impl RawOperation {
    fn random(random: &mut fastrand::Rng) -> Self {
        Self {
            operation: random.usize(..2),
            outcome: Outcome::ALL[random.usize(..4)],
            // From nanoseconds to beyond the longest recorded time, evenly over the orders of
            // magnitude.
            latency_ns: 1_u64 << random.u32(..43) | random.u64(..1 << 20),
            slot: random.usize(..100 * SERVICES as usize),
        }
    }
}

/// Sums of all raw values, computed without the engine and the recorder: histograms by operation,
/// outcome and time, and counts by slot, over all members and for each member.
#[derive(Default)]
struct RawSums {
    histograms: BTreeMap<(usize, usize, usize), hdrhistogram::Histogram<u64>>,
    slots: [BTreeMap<u64, [u32; 4]>; 1 + SERVICES as usize],
}

impl RawSums {
    fn count(&mut self, second: u64, raw: &RawOperation) {
        for (time, time_ns) in [raw.latency_ns, raw.latency_ns / 2].into_iter().enumerate() {
            let empty = || hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
            let place = (raw.operation, raw.outcome as usize, time);
            self.histograms.entry(place).or_insert_with(empty).saturating_record(time_ns);
        }
        let number = second * 100 + raw.slot as u64 / u64::from(SERVICES);
        for place in [0, 1 + raw.slot % SERVICES as usize] {
            self.slots[place].entry(number).or_default()[raw.outcome as usize] += 1;
        }
    }

    /// Checks that the recorded data equal these sums.
    fn are_recorded_in(&self, scratch: &TestDir) {
        let folder = TrialFolder::at(scratch);
        let mut recorded: BTreeMap<String, hdrhistogram::Histogram<u64>> = BTreeMap::new();
        for interval in hlog::read(&folder.load_hlog()).unwrap().intervals {
            match recorded.get_mut(&interval.tag) {
                Some(sum) => sum.add(&interval.histogram).unwrap(),
                None => drop(recorded.insert(interval.tag, interval.histogram)),
            }
        }
        assert_eq!(recorded.len(), self.histograms.len());
        for ((operation, outcome, time), raw) in &self.histograms {
            let (operation, outcome) = (operations()[*operation].clone(), Outcome::ALL[*outcome]);
            let tag = Tag { operation, outcome, time: [Time::Latency, Time::Service][*time] }.to_string();
            assert!(recorded[&tag] == *raw, "{tag} differs");
        }
        let members = [folder.outcomes(), folder.member("n1").outcomes(), folder.member("n2").outcomes()];
        for (path, raw) in members.iter().zip(&self.slots) {
            let rows = rows::read::<OutcomeSlot>(path).unwrap().items;
            let slot =
                |row: &OutcomeSlot| ((row.at_s / SLOT_S).round() as u64, [row.ok, row.failed, row.timeout, row.wrong]);
            assert!(rows.iter().map(slot).collect::<BTreeMap<_, _>>() == *raw, "{} differs", path.display());
        }
    }
}

/// Counts an operation that ended.
fn count(interval: &mut ThreadInterval, raw: &RawOperation) {
    let RawOperation { operation, outcome, latency_ns, slot } = *raw;
    interval.sheet.record(operation, outcome, Time::Latency, latency_ns);
    interval.sheet.record(operation, outcome, Time::Service, latency_ns / 2);
    let slot = &mut interval.slots[slot];
    match outcome {
        Outcome::Ok => slot.ok += 1,
        Outcome::Failed => slot.failed += 1,
        Outcome::Timeout => slot.timeout += 1,
        _ => slot.wrong += 1,
    }
    let (operation, result) = (interval.sheet.names()[operation].clone(), outcome.name().to_owned());
    match interval.attempts.iter_mut().find(|known| known.operation == operation && known.result == result) {
        Some(known) => known.count += 1,
        None => interval.attempts.push(AttemptCount { operation, result, count: 1 }),
    }
}

/// Encodes and decodes the interval.
fn carried(interval: &ThreadInterval) -> ThreadInterval {
    let line = serde_json::to_string(&IntervalText::of(interval).unwrap()).unwrap();
    assert!(!line.contains('\n'));
    let wire: IntervalText = serde_json::from_str(&line).unwrap();
    wire.into_interval(interval.clock, &terms(interval.threads)).unwrap()
}

/// Lets each of several generators with two threads count operations over three seconds. The merged
/// result must equal that of one generator with all threads, and the sums of the raw values.
fn merged_equals_all_raw_values(generators: u32, operations_each: u64) {
    const SECONDS: u64 = 3;
    let (fleet, alone) = (TestDir::new(), TestDir::new());
    let clock = Clock::new(Instant::now(), 1_000_000.0);
    let recorder = |scratch: &TestDir| {
        let folder = TrialFolder::at(scratch);
        let mut recorder = Recorder::create(&folder, clock, SECONDS as f64).unwrap();
        recorder.record_members(&folder, &["n1".to_owned(), "n2".to_owned()], SECONDS as f64).unwrap();
        recorder
    };
    let (mut of_fleet, mut of_one, mut raw_sums) = (recorder(&fleet), recorder(&alone), RawSums::default());
    let threads = generators * 2;
    for second in 0..SECONDS {
        let is_last = second + 1 == SECONDS;
        let mut all = interval(clock, (0, 1), second, is_last);
        // Threads do not report in the order of their numbers.
        for thread in (0..threads).rev() {
            let mut own = interval(clock, (thread, threads), second, is_last);
            let mut random = fastrand::Rng::with_seed(second << 32 | u64::from(thread));
            for _ in 0..operations_each / SECONDS / 2 {
                let raw = RawOperation::random(&mut random);
                count(&mut own, &raw);
                count(&mut all, &raw);
                raw_sums.count(second, &raw);
            }
            of_fleet.take(carried(&own)).unwrap();
        }
        of_one.take(all).unwrap();
    }
    of_fleet.finish().unwrap();
    of_one.finish().unwrap();
    for file in ["load.hlog", "outcomes.csv", "attempts.csv"] {
        let [of_fleet, of_one] = [&fleet, &alone].map(|folder| std::fs::read_to_string(folder.join(file)).unwrap());
        assert!(of_one.lines().count() > 5, "{file} has something in it");
        assert!(of_fleet == of_one, "{file} differs");
    }
    for member in ["n1", "n2"] {
        let outcomes =
            |scratch: &TestDir| std::fs::read_to_string(TrialFolder::at(scratch).member(member).outcomes()).unwrap();
        assert!(outcomes(&fleet) == outcomes(&alone), "{member} differs");
    }
    raw_sums.are_recorded_in(&fleet);
}

#[test]
fn a_fleet_records_exactly_what_one_generator_would() {
    for generators in [1, 2, 3, 7] {
        merged_equals_all_raw_values(generators, 6_000);
    }
}

#[test]
fn a_million_operations_of_four_generators_are_merged_bit_for_bit() {
    merged_equals_all_raw_values(4, 250_002);
}

#[test]
#[ignore = "a minute: four generators of two and a half million operations each"]
fn ten_million_operations_of_four_generators_are_merged_bit_for_bit() {
    merged_equals_all_raw_values(4, 2_500_002);
}

#[test]
fn an_interval_is_transmitted_unchanged() {
    let clock = Clock::new(Instant::now(), 1_000_000.0);
    let mut sent = interval(clock, (3, 6), 7, true);
    count(&mut sent, &RawOperation::random(&mut fastrand::Rng::with_seed(1)));
    sent.units = vec![UnitCount { operation: "save".into(), status: "429".into(), count: u64::MAX }];
    let check = |expectation: &str, answers, failed| CheckCount {
        operation: "find".into(),
        expectation: expectation.into(),
        answers,
        failed,
    };
    sent.checks = vec![check("", u64::MAX, 2), check("header.x-y", 0, 1)];
    sent.notices = vec!["a line\nand \"another\"".to_owned()];
    sent.agent_cycles = vec![AgentCycles { agent: 4, cycles: 9, last_cycle_s: Some(7.5) }];
    sent.generator =
        GeneratorSecond { at_s: 8.0, thread: 3, late_us_p99: Some(12.5), due: Some(3), ..Default::default() };
    sent.history = vec![HistoryEntry {
        at_s: 7.25,
        by: By::Load,
        agent: Some(4),
        effect: "write".into(),
        key: "k".into(),
        value: Some("ä\u{0}".into()),
        outcome: Outcome::Timeout,
        applied: None,
        ..HistoryEntry::default()
    }];
    let received = carried(&sent);
    assert_eq!(IntervalText::of(&received), IntervalText::of(&sent));
    assert_eq!((received.thread, received.threads, received.is_last), (3, 6, true));
    assert_eq!((received.slots, received.units, received.history), (sent.slots, sent.units, sent.history));
    assert_eq!(received.checks, sent.checks);
    assert_eq!(
        (received.notices, received.agent_cycles, received.generator),
        (sent.notices, sent.agent_cycles, sent.generator)
    );
}

#[test]
fn invalid_intervals_are_refused() {
    let clock = Clock::new(Instant::now(), 1_000_000.0);
    let mut sent = interval(clock, (0, 1), 0, false);
    count(&mut sent, &RawOperation::random(&mut fastrand::Rng::with_seed(1)));
    let good = IntervalText::of(&sent).unwrap();
    let twice = || good.histograms.iter().chain(&good.histograms).cloned().collect();
    let changed = |payload: &str| vec![(good.histograms[0].0.clone(), payload.to_owned())];
    let mut other = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1000, 2).unwrap();
    other.record(5).unwrap();
    for (what, bad) in [
        ("thread", IntervalText { thread: 1, ..good.clone() }),
        // Memory is reserved for each thread: this number needs more than the machine has.
        ("threads of another load", IntervalText { threads: u32::MAX, ..good.clone() }),
        ("slots after its end", IntervalText { first_slot: u64::MAX, ..good.clone() }),
        ("slots of another length", IntervalText { slot_s: 1e-300, ..good.clone() }),
        ("more failures than answers", IntervalText { checks: vec![("find".into(), "".into(), 1, 2)], ..good.clone() }),
        ("services of another load", IntervalText { services: 1, ..good.clone() }),
        ("centuries later", IntervalText { end_s: 1e300, ..good.clone() }),
        ("backwards", IntervalText { start_s: 2.0, end_s: 1.0, ..good.clone() }),
        ("before zero", IntervalText { start_s: -1.0, ..good.clone() }),
        ("slots", IntervalText { slot_count: usize::MAX, ..good.clone() }),
        ("a slot outside", IntervalText { slots: vec![(200, [1; 4])], ..good.clone() }),
        ("other operations", IntervalText { operations: vec!["save".into()], ..good.clone() }),
        ("twice", IntervalText { histograms: twice(), ..good.clone() }),
        ("no tag", IntervalText { histograms: vec![("save".into(), good.histograms[0].1.clone())], ..good.clone() }),
        ("no base64", IntervalText { histograms: changed("%"), ..good.clone() }),
        ("cut off", IntervalText { histograms: changed(&good.histograms[0].1[..20]), ..good.clone() }),
        ("other bounds", IntervalText { histograms: changed(&hlog::payload(&other).unwrap()), ..good.clone() }),
    ] {
        assert!(bad.into_interval(clock, &terms(1)).is_err(), "{what}");
    }
    good.into_interval(clock, &terms(1)).unwrap();
}
