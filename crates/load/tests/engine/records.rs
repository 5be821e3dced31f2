//! Counts on their way from the engine through the recorder to the files: every count arrives in
//! each file.

use std::collections::BTreeMap;

use experiment::plan::Retry;
use fixture::TestDir;
use load::recorder::Recorder;
use record::clock::Clock;
use record::events::{HistoryEntry, Outcome};
use record::folder::TrialFolder;
use record::hlog::{self, Tag, Time};
use record::rows::{self, AgentCycles, Attempts, GeneratorSecond, OutcomeSlot};

use crate::server::{Reply, Server};
use crate::setting::{LoadRun, load, orders, play, step};

/// Plays a load of several threads over the boundary of a second, with every outcome but `wrong`.
fn eventful() -> LoadRun {
    let server = Server::frames(|request| match request.number % 50 {
        7 => Reply::Frame(3, Vec::new()),
        13 => Reply::Close,
        17 if request.opcode == 8 => Reply::Silence,
        _ => Reply::Frame(0, Vec::new()),
    });
    let mut save = step("save", &["key={agent}-{seq}", "value=v"]);
    save.audit = true;
    save.every = 10;
    let mut load = load(6, 1.3, vec![step("ping", &[]), save]);
    load.threads = Some(3);
    load.timeout_s = 0.2;
    load.drain_s = 0.1;
    load.retry = Retry::Tries { tries: 2, wait_s: 0.001 };
    let mut orders = orders(&server.service(), load);
    orders.slot_s = 0.0007;
    play(orders)
}

#[test]
fn every_count_arrives_in_the_files() {
    let run = eventful();
    let path = TestDir::new();
    let folder = TrialFolder::at(&path);
    let clock: Clock = run.intervals[0].clock;
    let summary = run.summary;
    let mut recorder = Recorder::create(&folder, clock, 10.0).unwrap();
    for interval in run.intervals {
        recorder.take(interval).unwrap();
    }
    recorder.finish().unwrap();
    let log = hlog::read(&folder.load_hlog()).unwrap();
    let slots: Vec<OutcomeSlot> = rows::read(&folder.outcomes()).unwrap().items;
    let attempts: Vec<Attempts> = rows::read(&folder.attempts()).unwrap().items;
    let generator: Vec<GeneratorSecond> = rows::read(&folder.generator()).unwrap().items;
    let agents: Vec<AgentCycles> = rows::read(&folder.agents()).unwrap().items;
    let history: Vec<HistoryEntry> = record::lines::read(&folder.history()).unwrap().items;

    let mut counts: BTreeMap<(Outcome, Time), u64> = BTreeMap::new();
    for interval in &log.intervals {
        let tag = Tag::parse(&interval.tag).unwrap();
        *counts.entry((tag.outcome, tag.time)).or_default() += interval.histogram.len();
    }
    let latencies = |outcome| counts.get(&(outcome, Time::Latency)).copied().unwrap_or(0);
    assert!(summary.ok > 0 && summary.attempts > summary.ok, "{summary:?}");
    assert_eq!(latencies(Outcome::Ok), summary.ok);
    assert_eq!(latencies(Outcome::Failed), summary.failed);
    assert_eq!(latencies(Outcome::Timeout), summary.timeout);
    assert_eq!(latencies(Outcome::Unfinished), summary.unfinished);
    assert_eq!(counts[&(Outcome::Ok, Time::Service)], summary.ok);

    let in_slots: u64 = slots.iter().map(|slot| u64::from(slot.ok)).sum();
    let others: u64 = slots.iter().map(|slot| u64::from(slot.failed + slot.timeout + slot.wrong)).sum();
    assert_eq!((in_slots, others), (summary.ok, summary.failed + summary.timeout + summary.wrong));
    assert!(slots.windows(2).all(|pair| pair[0].at_s < pair[1].at_s));
    assert_eq!(attempts.iter().map(|row| row.count).sum::<u64>(), summary.attempts);
    let operations: u64 = generator.iter().map(|row| row.operations).sum();
    assert_eq!(operations, summary.ok + summary.failed + summary.timeout + summary.wrong);
    assert_eq!(generator.iter().map(|row| row.cycles).sum::<u64>(), summary.cycles);
    assert!(history.iter().all(|line| line.effect == "write"));
    assert_eq!(agents.iter().map(|row| row.agent).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(agents.iter().map(|row| row.cycles).sum::<u64>(), summary.cycles);
    assert!(agents.iter().all(|row| row.last_cycle_s.is_some() == (row.cycles > 0)));
}

#[test]
fn the_open_time_equals_the_sum_of_latencies() {
    let run = eventful();
    let mut open_s = 0.0;
    let mut ended_s = 0.0;
    for interval in &run.intervals {
        open_s += interval.generator.in_flight_mean * interval.generator.interval_s;
        ended_s += interval.generator.latency_sum_s;
    }
    // The ages of operations that were open at the end are in the histograms, to three digits.
    let sheets = run.intervals.iter().flat_map(|interval| interval.sheet.histograms());
    let ages_s: f64 = sheets
        .filter(|(_, outcome, time, _)| (*outcome, *time) == (Outcome::Unfinished, Time::Latency))
        .map(|(.., ages)| ages.mean() * ages.len() as f64 / 1e9)
        .sum();
    assert!((open_s - ended_s - ages_s).abs() < 1e-6 + ages_s * 2e-3, "{open_s} {ended_s} {ages_s}");
}

#[test]
fn intervals_are_whole_seconds_and_the_last_is_marked() {
    let run = eventful();
    for thread in 0..3 {
        let own: Vec<_> = run.intervals.iter().filter(|interval| interval.thread == thread).collect();
        assert!(own.len() >= 2);
        assert!(own.windows(2).all(|pair| pair[0].end_s == pair[1].start_s));
        let (last, before) = own.split_last().unwrap();
        assert!(last.is_last && before.iter().all(|interval| !interval.is_last));
        assert!(
            before.iter().all(|interval| interval.start_s.fract() == 0.0 && interval.end_s == interval.start_s + 1.0)
        );
        // If a thread did not run for a whole second, no timer fired in that second.
        assert!(own.iter().any(|interval| interval.generator.late_us_p99.is_some()));
    }
}
