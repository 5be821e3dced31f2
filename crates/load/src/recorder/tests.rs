//! Tests of the recorder: seconds of several threads are merged exactly, and a failed write is an
//! error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fixture::TestDir;
use record::events::{By, Outcome};
use record::hlog::Time;
use record::rows::OutcomeSlot;

use super::*;
use crate::interval::AttemptCount;

fn interval(clock: Clock, thread: u32, start_s: f64, end_s: f64, latencies_ns: &[u64]) -> ThreadInterval {
    let names: Arc<[String]> = vec!["save".to_owned()].into();
    let mut sheet = HistogramSet::new(&names, None);
    for latency_ns in latencies_ns {
        sheet.record(0, Outcome::Ok, Time::Latency, *latency_ns);
    }
    let count = latencies_ns.len();
    let mut slots = vec![SlotCounts::default(); 4];
    slots[0].ok = u32::try_from(count).unwrap();
    ThreadInterval {
        clock,
        thread,
        threads: 2,
        is_last: end_s.fract() != 0.0,
        start_s,
        end_s,
        slot_s: 0.3,
        services: 1,
        first_slot: (start_s / 0.3) as u64,
        slots,
        attempts: vec![AttemptCount { operation: "save".into(), result: "ok".into(), count: count as u64 }],
        units: Vec::new(),
        messages: Vec::new(),
        checks: Vec::new(),
        generator: GeneratorSecond {
            at_s: end_s,
            interval_s: end_s - start_s,
            thread,
            operations: count as u64,
            ..Default::default()
        },
        history: Vec::new(),
        open_since_s: None,
        notices: Vec::new(),
        examples: Vec::new(),
        agent_cycles: Vec::new(),
        sheet,
    }
}

#[test]
fn threads_are_merged_by_second() {
    let scratch = TestDir::new();
    let folder = TrialFolder::at(&scratch);
    let clock = Clock::new(Instant::now(), 1_000_000.0);
    let mut recorder = Recorder::create(&folder, clock, 10.0).unwrap();
    recorder.take(interval(clock, 0, 0.0, 1.0, &[1000, 2000])).unwrap();
    recorder.take(interval(clock, 0, 1.0, 2.0, &[5000])).unwrap();
    assert!(hlog::read(&folder.load_hlog()).unwrap().intervals.is_empty(), "thread 1 is still out");
    recorder.take(interval(clock, 1, 0.0, 1.0, &[3000, 1_000_000])).unwrap();
    assert_eq!(hlog::read(&folder.load_hlog()).unwrap().intervals.len(), 1, "flushed with the second");
    recorder.take(interval(clock, 1, 1.0, 1.5, &[7000])).unwrap();
    recorder.finish().unwrap();

    let log = hlog::read(&folder.load_hlog()).unwrap();
    let facts: Vec<_> = log
        .intervals
        .iter()
        .map(|one| (one.tag.as_str(), one.start_s, one.length_s, one.histogram.len(), one.histogram.max() / 1000))
        .collect();
    assert_eq!(facts, [("save/ok/latency", 0.0, 1.0, 4, 1000), ("save/ok/latency", 1.0, 1.0, 2, 7)]);
    let attempts: Vec<Attempts> = rows::read(&folder.attempts()).unwrap().items;
    assert_eq!(attempts.iter().map(|row| (row.at_s, row.count)).collect::<Vec<_>>(), [(1.0, 4), (2.0, 2)]);
    let generator: Vec<GeneratorSecond> = rows::read(&folder.generator()).unwrap().items;
    assert_eq!(generator.len(), 4);
    let slots: Vec<OutcomeSlot> = rows::read(&folder.outcomes()).unwrap().items;
    let slots: Vec<_> = slots.iter().map(|slot| ((slot.at_s * 10.0).round() as u32, slot.ok)).collect();
    assert_eq!(slots, [(0, 4), (9, 2)]);
}

#[test]
fn a_lost_load_is_recorded_until_its_last_complete_second() {
    let played = |whole: bool| {
        let scratch = TestDir::new();
        let (folder, clock) = (TrialFolder::at(&scratch), Clock::new(Instant::now(), 0.0));
        let mut recorder = Recorder::create(&folder, clock, 10.0).unwrap();
        if whole {
            recorder.keep_whole_seconds_only();
        }
        recorder.take(interval(clock, 0, 0.0, 1.0, &[1000])).unwrap();
        recorder.take(interval(clock, 1, 0.0, 1.0, &[1000])).unwrap();
        recorder.take(interval(clock, 0, 1.0, 2.0, &[1000])).unwrap();
        recorder.finish().unwrap();
        let generator: Vec<GeneratorSecond> = rows::read(&folder.generator()).unwrap().items;
        let slots: Vec<OutcomeSlot> = rows::read(&folder.outcomes()).unwrap().items;
        let logged = hlog::read(&folder.load_hlog()).unwrap().intervals.len();
        (logged, generator.len(), slots.iter().map(|slot| slot.ok).sum::<u32>())
    };
    assert_eq!(played(true), (1, 2, 2));
    assert_eq!(played(false), (2, 3, 3));
}

#[test]
fn outcomes_are_recorded_per_member() {
    let count = |ok, failed| SlotCounts { ok, failed, ..SlotCounts::default() };
    let played = |members: &[&str]| {
        let scratch = TestDir::new();
        let (folder, clock) = (TrialFolder::at(&scratch), Clock::new(Instant::now(), 0.0));
        let mut recorder = Recorder::create(&folder, clock, 10.0).unwrap();
        let names: Vec<String> = members.iter().map(|name| (*name).to_owned()).collect();
        recorder.record_members(&folder, &names, 10.0).unwrap();
        for thread in 0..2 {
            let slots = vec![count(5, 0), count(0, 1), SlotCounts::default(), count(0, 2)];
            let interval = interval(clock, thread, 0.0, 0.5, &[]);
            recorder.take(ThreadInterval { slots, services: 2, ..interval }).unwrap();
        }
        recorder.finish().unwrap();
        let rows = |folder: &TrialFolder| {
            let rows: Vec<OutcomeSlot> = rows::read(&folder.outcomes()).unwrap().items;
            rows.iter().map(|row| ((row.at_s * 10.0).round() as u32, row.ok, row.failed)).collect::<Vec<_>>()
        };
        let each = members.iter().map(|name| rows(&folder.member(name))).collect::<Vec<_>>();
        (rows(&folder), each, folder.members().exists())
    };
    let (all, each, _) = played(&["n1", "n2"]);
    assert_eq!(all, [(0, 10, 2), (3, 0, 4)]);
    assert_eq!(each, [vec![(0, 10, 0)], vec![(0, 0, 2), (3, 0, 4)]]);
    let (all_of_one, _, has_members) = played(&["n1"]);
    assert_eq!((all_of_one, has_members), (all, false), "one member is all there is");
}

#[test]
fn agent_cycles_are_written_after_every_thread_ends() {
    let scratch = TestDir::new();
    let (folder, clock) = (TrialFolder::at(&scratch), Clock::new(Instant::now(), 0.0));
    let row = |agent, last_cycle_s: Option<f64>| AgentCycles {
        agent,
        cycles: last_cycle_s.iter().len() as u64,
        last_cycle_s,
    };
    let of_thread = |thread, agent_cycles| {
        let second = interval(clock, thread, 0.0, 0.5, &[]);
        ThreadInterval { agent_cycles, ..second }
    };
    let recorded = |intervals: Vec<ThreadInterval>| {
        let mut recorder = Recorder::create(&folder, clock, 10.0).unwrap();
        intervals.into_iter().for_each(|interval| drop(recorder.take(interval).unwrap()));
        recorder.finish().unwrap();
        folder.agents().exists().then(|| rows::read::<AgentCycles>(&folder.agents()).unwrap().items)
    };
    let rows = [row(1, Some(0.25)), row(2, None)];
    assert_eq!(recorded(vec![of_thread(0, vec![rows[0]])]), None, "a thread is still out");
    assert_eq!(recorded(vec![of_thread(1, vec![rows[1]]), of_thread(0, vec![rows[0]])]), Some(rows.to_vec()));
}

#[test]
fn a_dropped_histogram_set_is_returned_empty() {
    let names: Arc<[String]> = vec!["save".to_owned()].into();
    let (home, back) = std::sync::mpsc::sync_channel(1);
    let mut sheet = HistogramSet::new(&names, Some(home));
    sheet.record(0, Outcome::Failed, Time::Service, 5);
    assert_eq!(sheet.histograms().count(), 1);
    drop(sheet);
    let sheet = back.try_recv().unwrap();
    assert_eq!(sheet.histograms().count(), 0);
}

#[test]
fn history_times_are_converted_to_the_recorder_clock() {
    let scratch = TestDir::new();
    let folder = TrialFolder::at(&scratch);
    let origin = Instant::now();
    let before = Clock::new(origin, 0.0);
    let clock = Clock::new(origin + Duration::from_secs(10), 10.0);
    let mut recorder = Recorder::create(&folder, clock, 10.0).unwrap();
    let line = HistoryEntry {
        at_s: 2.5,
        start_s: Some(2.0),
        by: By::Prepare,
        effect: "write".into(),
        key: "k".into(),
        value: Some("v".into()),
        outcome: Outcome::Ok,
        applied: Some(true),
        ..HistoryEntry::default()
    };
    let mut early = interval(before, 0, 0.0, 1.0, &[]);
    early.history.push(line.clone());
    recorder.take(early).unwrap();
    recorder.history(&[line]).unwrap();
    recorder.finish().unwrap();
    let lines = lines::read::<HistoryEntry>(&folder.history()).unwrap().items;
    let times: Vec<_> = lines.iter().map(|line| (line.start_s.unwrap(), line.at_s)).collect();
    assert_eq!(times, [(-8.0, -7.5), (2.0, 2.5)]);
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    for name in ["load.hlog", "outcomes.csv", "attempts.csv", "generator.csv", "history.jsonl"] {
        let scratch = TestDir::new();
        std::os::unix::fs::symlink(Path::new("/dev/full"), scratch.join(name)).unwrap();
        let clock = Clock::new(Instant::now(), 0.0);
        let written = Recorder::create(&TrialFolder::at(&scratch), clock, 10.0).and_then(|mut recorder| {
            let line = HistoryEntry {
                at_s: 0.0,
                by: By::Load,
                agent: Some(1),
                effect: "read".into(),
                key: "k".into(),
                outcome: Outcome::Ok,
                applied: Some(true),
                ..HistoryEntry::default()
            };
            recorder.history(&[line])?;
            recorder.take(interval(clock, 0, 0.0, 1.0, &[1]))?;
            recorder.take(interval(clock, 1, 0.0, 1.0, &[1]))?;
            recorder.finish()
        });
        let error = written.unwrap_err();
        assert!(matches!(&error, Error::Disk { path, .. } if path.ends_with(name)), "{name}: {error}");
    }
}

#[test]
fn a_missing_folder_is_an_error() {
    let clock = Clock::new(Instant::now(), 0.0);
    let error = Recorder::create(&TrialFolder::at(Path::new("/nonexistent/trial")), clock, 10.0).unwrap_err();
    assert!(matches!(error, Error::Disk { .. }));
}

/// All history entries of a long load would fill the disk, and the check of them the memory.
#[test]
fn sampled_keys_are_recorded_with_all_their_operations() {
    let scratch = TestDir::new();
    let clock = Clock::new(Instant::now(), 1_000_000.0);
    let line = |key: u32, effect: &str| HistoryEntry {
        at_s: 1.0,
        by: By::Load,
        agent: Some(1),
        effect: effect.to_owned(),
        space: "s".to_owned(),
        key: format!("key-{key}"),
        outcome: Outcome::Ok,
        applied: Some(true),
        ..HistoryEntry::default()
    };
    let recorded = |keys: SampledKeys| {
        let mut recorder = Recorder::create(&TrialFolder::at(&scratch), clock, 10.0).unwrap();
        recorder.audit_only(keys);
        recorder.history(&(0..8_000).map(|key| line(key, "write")).collect::<Vec<_>>()).unwrap();
        let mut interval = interval(clock, 0, 0.0, 1.0, &[1000]);
        interval.history = (0..8_000).map(|key| line(key, "remove")).collect();
        recorder.take(interval).unwrap();
        recorder.finish().unwrap();
        let lines = lines::read::<HistoryEntry>(&TrialFolder::at(&scratch).history()).unwrap().items;
        let of = |effect: &str| {
            let lines = lines.iter().filter(|line| line.effect == effect);
            lines.map(|line| line.key.clone()).collect::<Vec<_>>()
        };
        (of("write"), of("remove"))
    };
    let (written, removed) = recorded(SampledKeys::of(8, 7));
    assert_eq!(written, removed, "a key is there with all its operations");
    assert!((800..1_200).contains(&written.len()), "{}", written.len());
    assert_eq!(recorded(SampledKeys::of(8, 7)).0, written, "by the seed alone");
    assert_ne!(recorded(SampledKeys::of(8, 8)).0, written);
    assert_eq!(recorded(SampledKeys::default()).0.len(), 8_000);
}

mod outcomes {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use fixture::TestDir;

    use super::super::*;

    /// Records a load with five operations per millisecond, except in the slots that `of` changes.
    /// Reads both files.
    fn played(
        load_s: u64,
        seconds: u64,
        of: impl Fn(u64) -> SlotCounts,
        at: impl Fn(u64) -> Option<f64>,
    ) -> [Vec<OutcomeSlot>; 2] {
        let folder = TestDir::new();
        let (wide, fine) = (folder.join("outcomes.csv"), folder.join("outcomes-fine.csv"));
        let mut writer = OutcomeWriter::create(&wide, fine.clone(), load_s as f64).unwrap();
        for second in 0..seconds {
            for slot in second * 1_000..(second + 1) * 1_000 {
                let counts = of(slot);
                if counts != SlotCounts::default() {
                    writer.add(slot, 0.001, counts).unwrap();
                }
            }
            at(second).into_iter().for_each(|at_s| writer.look_closely(at_s));
            writer.complete(second + 1, 0.001).unwrap();
            let held = writer.close.as_ref().map_or(0, |close| close.held.len());
            assert!(held <= HELD_S as usize + 2, "{held} seconds are held at {second} s");
        }
        writer.complete(u64::MAX, 0.001).unwrap();
        [&wide, &fine].map(|path| rows::read::<OutcomeSlot>(path).unwrap().items)
    }

    const CALM: SlotCounts = SlotCounts { ok: 5, failed: 0, timeout: 0, wrong: 0 };

    fn span(rows: &[OutcomeSlot]) -> (f64, f64) {
        (rows[0].at_s, rows[rows.len() - 1].at_s)
    }

    #[test]
    fn a_short_load_uses_narrow_slots_in_one_file() {
        let [wide, fine] = played(200, 200, |_| CALM, |_| Some(7.0));
        assert_eq!((wide.len(), fine.len()), (200_000, 0));
        assert_eq!((wide[3].at_s, wide[3].slot_s), (0.003, 0.001));
    }

    #[test]
    fn calm_seconds_are_complete_in_wide_slots_only() {
        let [wide, fine] = played(300, 300, |_| CALM, |_| None);
        assert_eq!((wide.len(), fine.len()), (30_000, 0));
        assert_eq!(wide.iter().map(|row| u64::from(row.ok)).sum::<u64>(), 1_500_000);
        assert_eq!((wide[7].at_s, wide[7].slot_s), (0.07, 0.01));
    }

    /// The silence is not announced: the seconds before it must be written in narrow slots too.
    #[test]
    fn a_short_silence_is_recorded_to_the_millisecond() {
        let silent = 250_100..250_350;
        let [wide, fine] =
            played(400, 400, |slot| if silent.contains(&slot) { SlotCounts::default() } else { CALM }, |_| None);
        assert!(wide.iter().map(|row| u64::from(row.ok)).sum::<u64>() == 5 * (400_000 - 250));
        assert_eq!(span(&fine), (239.0, 261.999));
        let gaps: Vec<_> = fine.windows(2).filter(|pair| pair[1].at_s - pair[0].at_s > 0.0015).collect();
        assert_eq!(gaps.len(), 1);
        assert_eq!((gaps[0][0].at_s, gaps[0][1].at_s), (250.099, 250.35));
    }

    #[test]
    fn failures_dips_and_faults_get_narrow_slots() {
        let failed = SlotCounts { failed: 1, ..CALM };
        let [_, fine] = played(300, 300, |slot| if slot == 100_500 { failed } else { CALM }, |_| None);
        assert_eq!(span(&fine), (89.0, 111.999));
        let dip = SlotCounts { ok: 3, ..CALM };
        let [_, fine] = played(300, 300, |slot| if slot / 1_000 == 150 { dip } else { CALM }, |_| None);
        assert_eq!(fine[0].at_s, 139.0);
        // The fault is reported three seconds after its begin.
        let [_, fine] = played(300, 300, |_| CALM, |second| (second == 203).then_some(200.4));
        assert_eq!(span(&fine), (189.0, 211.999));
    }

    /// A service that fails a little all the time would fill the disk.
    #[test]
    fn narrow_rows_stay_within_their_budget() {
        let failing = SlotCounts { failed: 1, ..CALM };
        let [wide, fine] = played(20_000, 700, |_| failing, |_| None);
        assert_eq!(wide.len(), 7_000);
        assert!((fine.len() as f64) < AT_ONCE + OVER_ALL, "{}", fine.len());
        assert!(fine.iter().any(|row| row.slot_s == 0.01) && fine[0].slot_s == 0.001);
    }
}
