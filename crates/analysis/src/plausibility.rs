//! Plausibility of records: times must be finite and within reach of the trial, and counts must be
//! summable. Later code may therefore iterate over all seconds between two times.

use std::path::Path;

use experiment::plan;
use record::ReadError;
use record::events::{Event, HistoryEntry};
use record::folder::TrialFolder;
use record::hlog::Counted;
use record::rows::{
    AgentCycles, Attempts, CheckSecond, FleetSecond, GeneratorSecond, MessageSecond, Metric, Moment, OutcomeSlot,
    ProgramSample, Sample, UnitSecond,
};

use crate::evidence::Evidence;

/// Longest time before the load (preparation) and after it (read-back, stopped generator) that a
/// record may contain, seconds: one week.
const BESIDE_S: f64 = 7.0 * 86_400.0;

/// Longest planned trial, seconds.
const MOST_PLANNED_S: f64 = 10.0 * 366.0 * 86_400.0;

/// Longest slot of `outcomes.csv`, seconds.
const LONGEST_SLOT_S: f64 = 3_600.0;

/// Largest plausible count in a row.
const MOST: u64 = 1_000_000_000_000;

/// Largest plausible number of agents of a thread.
const MOST_AGENTS: u32 = 100_000_000;

/// Range of times that a record of a trial may contain, seconds since load start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RecordedSpan {
    until_s: f64,
}

/// Result of a check; the error describes the impossible value.
type Plausible = Result<(), String>;

impl RecordedSpan {
    pub fn of(planned: &plan::Trial) -> Self {
        let load_s = planned.load.as_ref().map_or(0.0, |load| load.time_s + load.drain_s);
        Self { until_s: load_s + BESIDE_S }
    }

    fn time(self, name: &str, at_s: f64) -> Plausible {
        match at_s {
            at_s if !at_s.is_finite() => Err(format!("`{name}` is {at_s}: expected a finite number")),
            at_s if at_s < -BESIDE_S || at_s > self.until_s => {
                let until_s = self.until_s - BESIDE_S;
                Err(format!("`{name}` is {at_s}: expected a time within the plan's load, which ends at {until_s} s"))
            }
            _ => Ok(()),
        }
    }

    fn length(self, name: &str, length_s: f64) -> Plausible {
        match length_s {
            length_s if length_s < 0.0 => Err(format!("`{name}` is {length_s}: expected 0 or more")),
            length_s => self.time(name, length_s),
        }
    }

    fn interval(self, interval: &Counted) -> Plausible {
        self.length("StartTimestamp", interval.start_s)?;
        self.length("Interval_Length", interval.length_s)
    }
}

/// Checks an interval of `load.hlog`.
pub(crate) fn interval(folder: &TrialFolder, reach: RecordedSpan, interval: &Counted) -> Result<(), ReadError> {
    reach
        .interval(interval)
        .map_err(|reason| content(&folder.load_hlog(), format!("the interval `{}`: {reason}", interval.tag)))
}

/// Checks all records except the latency log and the samples.
pub(crate) fn records(folder: &TrialFolder, reach: RecordedSpan, evidence: &Evidence) -> Result<(), ReadError> {
    for (path, slots) in [(folder.outcomes(), &evidence.slots), (folder.fine_outcomes(), &evidence.fine_slots)] {
        self::slots(&path, reach, slots)?;
    }
    let agents = evidence.agent_cycles.as_deref().unwrap_or_default();
    rows(&folder.agents(), agents, |row| agent_cycles(reach, row))?;
    rows(&folder.attempts(), &evidence.attempts, |row| attempts(reach, row))?;
    rows(&folder.units(), &evidence.units, |row| units(reach, row))?;
    rows(&folder.messages(), &evidence.messages, |row| messages(reach, row))?;
    rows(&folder.checks(), &evidence.checks, |row| checks(reach, row))?;
    rows(&folder.generator(), &evidence.generator, |row| generator(reach, row))?;
    rows(&folder.fleet(), &evidence.fleet, |row| fleet(reach, row))?;
    rows(&folder.events(), &evidence.events, |Event { at_s, .. }| reach.time("at_s", *at_s))?;
    rows(&folder.history(), &evidence.history, |HistoryEntry { at_s, .. }| reach.time("at_s", *at_s))
}

/// Checks the times of a plan.
pub(crate) fn plan(path: &Path, plan: &plan::Plan) -> Result<(), ReadError> {
    for trial in &plan.trials {
        let loads = trial.load.iter().flat_map(|load| load.groups.iter().chain([load]));
        let mut times = loads.flat_map(|load| {
            [
                ("time_s", load.time_s),
                ("ramp_s", load.ramp_s),
                ("timeout_s", load.timeout_s),
                ("drain_s", load.drain_s),
                ("think_s", load.think_s),
            ]
        });
        if let Some((name, time_s)) = times.find(|(_, time_s)| !(0.0..=MOST_PLANNED_S).contains(time_s)) {
            let reason = format!("trial {}: `{name}` is {time_s}: expected 0 to {MOST_PLANNED_S} s", trial.id);
            return Err(content(path, reason));
        }
    }
    Ok(())
}

fn rows<T>(path: &Path, rows: &[T], can: impl Fn(&T) -> Plausible) -> Result<(), ReadError> {
    let wrong = rows.iter().enumerate().find_map(|(index, row)| Some((index, can(row).err()?)));
    wrong.map_or(Ok(()), |(index, reason)| Err(content(path, format!("row {}: {reason}", index + 1))))
}

fn content(path: &Path, reason: String) -> ReadError {
    ReadError::Content { path: path.to_path_buf(), reason }
}

/// Checks the rows of an `outcomes.csv`.
pub(crate) fn slots(path: &Path, reach: RecordedSpan, slots: &[OutcomeSlot]) -> Result<(), ReadError> {
    let slot_s = slots.first().map_or(0.0, |slot| slot.slot_s);
    rows(path, slots, |row| slot(reach, slot_s, row))
}

fn agent_cycles(reach: RecordedSpan, row: &AgentCycles) -> Plausible {
    row.last_cycle_s.map_or(Ok(()), |at_s| reach.time("last_cycle_s", at_s))?;
    count("cycles", row.cycles)
}

fn slot(reach: RecordedSpan, slot_s: f64, row: &OutcomeSlot) -> Plausible {
    reach.length("at_s", row.at_s)?;
    if !(row.slot_s > 0.0 && row.slot_s <= LONGEST_SLOT_S) {
        return Err(format!("`slot_s` is {}: expected more than 0 and at most {LONGEST_SLOT_S} s", row.slot_s));
    }
    if row.slot_s != slot_s {
        return Err(format!("`slot_s` is {}: expected {slot_s}, as in the first row", row.slot_s));
    }
    Ok(())
}

fn attempts(reach: RecordedSpan, row: &Attempts) -> Plausible {
    reach.time("at_s", row.at_s)?;
    count("count", row.count)
}

fn units(reach: RecordedSpan, row: &UnitSecond) -> Plausible {
    reach.time("at_s", row.at_s)?;
    reach.length("interval_s", row.interval_s)?;
    count("count", row.count)
}

fn messages(reach: RecordedSpan, row: &MessageSecond) -> Plausible {
    reach.time("at_s", row.at_s)?;
    reach.length("interval_s", row.interval_s)?;
    count("count", row.count)
}

fn checks(reach: RecordedSpan, row: &CheckSecond) -> Plausible {
    reach.time("at_s", row.at_s)?;
    reach.length("interval_s", row.interval_s)?;
    count("failed", row.failed)?;
    match row.answers {
        Some(answers) if row.failed > answers => {
            Err(format!("`failed` is {}, which is more than `answers`, {answers}", row.failed))
        }
        answers => count("answers", answers.unwrap_or(0)),
    }
}

fn fleet(reach: RecordedSpan, row: &FleetSecond) -> Plausible {
    reach.time("at_s", row.at_s)?;
    if !row.offset_us.is_finite() {
        return Err(format!("`offset_us` is {}: expected a finite number", row.offset_us));
    }
    let lengths = [("bound_us", row.bound_us), ("error_us", row.error_us)];
    lengths.into_iter().try_for_each(|(name, length_us)| reach.length(name, length_us / 1e6))
}

fn generator(reach: RecordedSpan, row: &GeneratorSecond) -> Plausible {
    reach.time("at_s", row.at_s)?;
    reach.length("interval_s", row.interval_s)?;
    let figures =
        [("cpu_pct", row.cpu_pct), ("in_flight_mean", row.in_flight_mean), ("latency_sum_s", row.latency_sum_s)];
    figures.into_iter().try_for_each(|(name, figure)| finite(name, figure))?;
    let some = [
        ("run_delay_pct", row.run_delay_pct),
        ("late_us_p99", row.late_us_p99),
        ("late_us_max", row.late_us_max),
        ("feed_wait_s", row.feed_wait_s),
        ("feed_read_pct", row.feed_read_pct),
    ];
    some.into_iter().try_for_each(|(name, figure)| figure.map_or(Ok(()), |figure| finite(name, figure)))?;
    if row.agents > MOST_AGENTS {
        return Err(format!("`agents` is {}: expected at most {MOST_AGENTS}", row.agents));
    }
    let counts = [
        ("operations", row.operations),
        ("cycles", row.cycles),
        ("connects", row.connects),
        ("connect_failures", row.connect_failures),
        ("dropped", row.dropped),
        ("due", row.due.unwrap_or(0)),
        ("feed_records", row.feed_records.unwrap_or(0)),
    ];
    counts.into_iter().try_for_each(|(name, value)| count(name, value))
}

/// Checks the time of a row of `samples.csv`. All rows are checked before their figures are read.
pub(crate) fn moment(folder: &TrialFolder, reach: RecordedSpan, number: u64, row: &Moment) -> Result<(), ReadError> {
    reach.time("at_s", row.at_s).map_err(|reason| content(&folder.samples(), format!("row {number}: {reason}")))
}

/// Checks the figures in a row of `samples.csv`.
pub(crate) fn sample(folder: &TrialFolder, number: u64, row: &Sample) -> Result<(), ReadError> {
    sampled(row).map_err(|reason| content(&folder.samples(), format!("row {number}: {reason}")))
}

/// Checks a row of `metrics.csv`.
pub(crate) fn metric(folder: &TrialFolder, reach: RecordedSpan, number: u64, row: &Metric) -> Result<(), ReadError> {
    let can = reach.time("at_s", row.at_s).and_then(|()| finite("value", row.value));
    can.map_err(|reason| content(&folder.metrics(), format!("row {number}: {reason}")))
}

/// Checks a row of `programs.csv`.
pub(crate) fn program(
    folder: &TrialFolder,
    reach: RecordedSpan,
    number: u64,
    row: &ProgramSample,
) -> Result<(), ReadError> {
    let figures = [("cpu_user_pct", row.cpu_user_pct), ("cpu_system_pct", row.cpu_system_pct)];
    let can = || {
        reach.time("at_s", row.at_s)?;
        figures.into_iter().try_for_each(|(name, figure)| figure.map_or(Ok(()), |figure| finite(name, figure)))?;
        count("processes_replaced", row.processes_replaced.unwrap_or(0))
    };
    can().map_err(|reason| content(&folder.programs(), format!("row {number}: {reason}")))
}

fn sampled(row: &Sample) -> Plausible {
    let figures = [
        ("cpu_user_pct", row.cpu_user_pct),
        ("cpu_system_pct", row.cpu_system_pct),
        ("cpu_iowait_pct", row.cpu_iowait_pct),
        ("cpu_steal_pct", row.cpu_steal_pct),
        ("cpu_strangers_pct", row.cpu_strangers_pct),
        ("cpu_throttled_pct", row.cpu_throttled_pct),
        ("run_delay_pct", row.run_delay_pct),
        ("load1", row.load1),
        ("load5", row.load5),
        ("load15", row.load15),
        ("psi_cpu_some_pct", row.psi_cpu_some_pct),
        ("psi_io_some_pct", row.psi_io_some_pct),
        ("psi_memory_some_pct", row.psi_memory_some_pct),
        ("calendar_ahead_s", row.calendar_ahead_s),
    ];
    figures.into_iter().try_for_each(|(name, figure)| figure.map_or(Ok(()), |figure| finite(name, figure)))?;
    count("processes_replaced", row.processes_replaced.unwrap_or(0))?;
    count("oom_kills", row.oom_kills.unwrap_or(0))
}

fn finite(name: &str, figure: f64) -> Plausible {
    if figure.is_finite() { Ok(()) } else { Err(format!("`{name}` is {figure}: expected a finite number")) }
}

fn count(name: &str, count: u64) -> Plausible {
    if count <= MOST { Ok(()) } else { Err(format!("`{name}` is {count}: expected at most {MOST}")) }
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;
    use crate::synthetic;

    const TIMES: [(&str, bool); 9] = [
        ("4294967296", false),
        ("1e15", false),
        ("inf", false),
        ("-inf", false),
        ("NaN", false),
        ("-1e9", false),
        ("-3.5", true),
        ("0", true),
        ("25", true),
    ];

    const SLOTS: &str = "at_s,slot_s,ok,failed,timeout,wrong\n";

    /// Returns the analysis's error for a trial of 20 s with this one record.
    fn read(folder: &TrialFolder, path: &Path, text: &str) -> Result<(), String> {
        std::fs::write(path, text).unwrap();
        let said = crate::trial(&synthetic::trial(synthetic::load(10, 20.0)), folder).map(drop);
        std::fs::remove_file(path).unwrap();
        said.map_err(|error| error.to_string())
    }

    #[test]
    fn impossible_times_are_rejected() {
        let scratch = TestDir::new();
        let folder = &TrialFolder::at(&scratch);
        for (time, can_be) in TIMES {
            let tables = [
                (folder.attempts(), format!("at_s,operation,result,count\n1,get,ok,3\n{time},get,ok,3\n")),
                (folder.samples(), format!("at_s,host,process\n1,local,\n{time},local,\n")),
                (folder.units(), format!("at_s,interval_s,operation,status,count\n1,1,get,,3\n{time},1,get,429,3\n")),
                (folder.messages(), format!("at_s,interval_s,operation,count\n1,1,get,3\n{time},1,get,3\n")),
                (
                    folder.checks(),
                    format!(
                        "at_s,interval_s,operation,expectation,answers,failed\n1,1,get,,3,1\n{time},1,get,body,,1\n"
                    ),
                ),
                (folder.generator(), format!("at_s,interval_s,thread\n1,1,0\n{time},1,0\n")),
                (folder.metrics(), format!("at_s,host,name,value\n1,n1,up,1\n{time},n1,up,1\n")),
                (folder.programs(), format!("at_s,host,process,program\n1,n1,a,b\n{time},n1,a,b\n")),
            ];
            for (path, text) in tables {
                let said = read(folder, &path, &text);
                assert_eq!(said.is_ok(), can_be, "{text}: {said:?}");
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let reason = format!("{name}: row 2: `at_s` is ");
                assert!(said.as_ref().err().is_none_or(|said| said.contains(&reason)), "{said:?}");
            }
            // No operation ends before the load begins.
            let said = read(folder, &folder.outcomes(), &format!("{SLOTS}1,0.001,5,0,0,0\n{time},0.001,5,0,0,0\n"));
            assert_eq!(said.is_ok(), can_be && !time.starts_with('-'), "{time}: {said:?}");
        }
        // JSON has no infinity, and `1e999` is not a valid number.
        for (time, can_be) in TIMES.into_iter().filter(|(time, _)| !time.contains(['i', 'N'])) {
            for event in [
                r#""event":"fault_begun","fault":"oops","number":1,"kind":"call","on":"n1""#,
                r#""event":"fault_healed","fault":"oops","number":1"#,
                r#""event":"phase","phase":"draining""#,
                r#""event":"ended","how":"done","reason":null"#,
            ] {
                let said = read(folder, &folder.events(), &format!("{{\"at_s\":{time},{event}}}\n"));
                assert_eq!(said.is_ok(), can_be, "{time} {event}: {said:?}");
            }
        }
    }

    #[test]
    fn impossible_slot_lengths_are_rejected() {
        let scratch = TestDir::new();
        let folder = &TrialFolder::at(&scratch);
        for (slots, can_be) in [
            ("0.001 0.001", true),
            ("0.001 0.002", false),
            ("0 0", false),
            ("-1 -1", false),
            ("NaN NaN", false),
            ("1e9 1e9", false),
        ] {
            let (one, other) = slots.split_once(' ').unwrap();
            let said = read(folder, &folder.outcomes(), &format!("{SLOTS}1,{one},5,0,0,0\n2,{other},5,0,0,0\n"));
            assert_eq!(said.is_ok(), can_be, "{slots}: {said:?}");
        }
    }

    #[test]
    fn overflowing_counts_are_rejected() {
        let scratch = TestDir::new();
        let folder = &TrialFolder::at(&scratch);
        let most = u64::MAX;
        let text = format!("at_s,operation,result,count\n1,get,ok,{most}\n2,get,ok,{most}\n");
        assert!(read(folder, &folder.attempts(), &text).unwrap_err().contains("row 1: `count` is "));
        let text = format!("at_s,interval_s,thread,operations\n1,1,0,{most}\n2,1,0,{most}\n");
        assert!(read(folder, &folder.generator(), &text).unwrap_err().contains("`operations` is "));
        let text = "at_s,host,name,value\n1,n1,up,inf\n2,n1,up,1\n";
        assert!(read(folder, &folder.metrics(), text).unwrap_err().contains("row 1: `value` is inf"));
    }

    #[test]
    fn a_plan_with_an_impossible_duration_is_rejected() {
        for time_s in [1e15, f64::INFINITY, f64::NAN, -1.0] {
            let mut asked = synthetic::plan();
            asked.trials.push(synthetic::trial(synthetic::load(10, time_s)));
            assert!(plan(Path::new("plan.json"), &asked).unwrap_err().to_string().contains("`time_s` is "), "{time_s}");
        }
    }
}
