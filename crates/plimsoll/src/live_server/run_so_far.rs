//! Live state of a run, from the conductor's events: the current trial, its statistics, its faults
//! with the time for which each has affected the service, and the plan's trials. Pure: the time
//! comes with each event.

use std::collections::VecDeque;
use std::sync::Arc;

use conduct::{ProgressEvent, SecondTotals};
use experiment::plan::{Fault, Plan, Trial};
use experiment::timeline;
use record::events::{Ending, What};
use report::{HeadlineFigure, LiveFault, LiveTrial, RecoveryClock, RunPhase};
use text::{Tone, numbers};

use crate::load_so_far::LoadSoFar;
use crate::progress;

/// Maximum number of whole seconds before a fault that count for the fault's baseline.
const BEFORE: usize = 10;
/// Share of a fault's baseline rate from which a second counts as unaffected by the fault.
const SERVED: f64 = 0.9;

/// State of a run.
#[derive(Debug, Clone)]
pub struct RunSoFar {
    /// The plan; a search adds trials to it.
    pub plan: Arc<Plan>,
    /// Trials of the plan, with their figures.
    trials: Vec<LiveTrial>,
    playing: Option<Playing>,
    /// Number that grows with every change of the state.
    pub version: u64,
}

/// The current trial, or the last one.
#[derive(Debug, Clone)]
struct Playing {
    /// Index of the trial in the plan's trials.
    index: usize,
    heading: String,
    phase: String,
    since_unix_s: f64,
    of: String,
    /// Reason why the load was stopped; empty if it was not.
    stopped: String,
    stats: LoadSoFar,
    /// Rates of `ok` operations in the last whole seconds that no fault affected.
    baseline: VecDeque<f64>,
    faults: Vec<FaultSoFar>,
}

#[derive(Debug, Clone)]
struct FaultSoFar {
    shown: LiveFault,
    /// Whether the fault has a recovery clock. Standing faults and repairs have none.
    is_timed: bool,
    begun_s: Option<f64>,
    begun_unix_s: f64,
    /// End of the last second whose rate was below [`SERVED`].
    below_until_s: Option<f64>,
}

impl RunSoFar {
    /// Returns the state of a run that has not begun.
    pub fn of(plan: Plan) -> Self {
        let trials = plan.trials.iter().map(to_come).collect();
        Self { plan: Arc::new(plan), trials, playing: None, version: 1 }
    }

    /// Handles an event that happened at this Unix time.
    pub fn tell(&mut self, event: &ProgressEvent<'_>, unix_s: f64) {
        let is_told = match event {
            ProgressEvent::TrialBegins { trial, number, of } => {
                self.begin(trial, *number, *of, unix_s);
                true
            }
            ProgressEvent::NotPlayed { trial, .. } => {
                let index = self.index(trial);
                "not played".clone_into(&mut self.trials[index].state);
                true
            }
            ProgressEvent::TrialEnds { how, .. } => {
                self.end(*how, unix_s);
                true
            }
            ProgressEvent::Second(second) => self.playing.as_mut().is_some_and(|playing| {
                playing.second(second);
                true
            }),
            ProgressEvent::Happened { at_s, what } => {
                self.playing.as_mut().is_some_and(|playing| playing.happened(*at_s, what, unix_s))
            }
            ProgressEvent::Answered { .. } => false,
        };
        self.version += u64::from(is_told);
    }

    /// Returns the trial's index in the plan. Adds the trial if the plan does not have it, as in a
    /// search.
    fn index(&mut self, trial: &Trial) -> usize {
        self.plan.trials.iter().position(|known| known.id == trial.id).unwrap_or_else(|| {
            Arc::make_mut(&mut self.plan).trials.push(trial.clone());
            self.trials.push(to_come(trial));
            self.trials.len() - 1
        })
    }

    fn begin(&mut self, trial: &Trial, number: usize, of: Option<usize>, unix_s: f64) {
        let index = self.index(trial);
        if self.playing.is_none() {
            // In a resumed run, the trials before the first one were played earlier.
            self.trials[..index].iter_mut().for_each(|earlier| "played before".clone_into(&mut earlier.state));
        }
        "running".clone_into(&mut self.trials[index].state);
        self.playing = Some(Playing {
            index,
            heading: text::capital(&progress::heading(trial, number, of)),
            phase: String::new(),
            since_unix_s: unix_s,
            of: String::new(),
            stopped: String::new(),
            stats: LoadSoFar::of(trial.load.as_ref().and_then(|load| load.count)),
            baseline: VecDeque::new(),
            faults: trial.all_faults().iter().map(FaultSoFar::of).collect(),
        });
    }

    fn end(&mut self, how: Ending, unix_s: f64) {
        let Some(playing) = &mut self.playing else { return };
        let state = match how {
            Ending::Done => "ended",
            Ending::Interrupted => "interrupted",
            Ending::Failed => "failed",
        };
        (playing.phase, playing.since_unix_s) = (state.to_owned(), unix_s);
        playing.of.clear();
        playing.load_ended();
        let (stats, [_, ok_per_s]) = (&playing.stats, playing.stats.rates());
        let is_measured = stats.ok + stats.not_ok() > 0;
        let trial = &mut self.trials[playing.index];
        *trial = LiveTrial {
            state: state.to_owned(),
            ok_per_s: is_measured.then_some(ok_per_s),
            not_ok: is_measured.then(|| stats.not_ok()),
            p50_us: stats.quantile_us(0.5),
            p99_us: stats.quantile_us(0.99),
            ..std::mem::take(trial)
        };
    }

    /// Returns the current trial, or the last one.
    pub fn playing(&self) -> Option<&Trial> {
        self.plan.trials.get(self.playing.as_ref()?.index)
    }

    /// Returns the trials that have ended, in the order of the plan.
    pub fn ended(&self) -> impl Iterator<Item = &Trial> {
        let trials = self.plan.trials.iter().zip(&self.trials).filter(|(_, live)| live.state == "ended");
        trials.map(|(trial, _)| trial).filter(|trial| !trial.id.is_empty())
    }

    /// Trials of the plan, with their figures.
    pub fn trials(&self) -> &[LiveTrial] {
        &self.trials
    }

    /// Returns the run's current phase, as the page shows it.
    pub fn phase(&self) -> RunPhase {
        let gates = [(self.plan.requirements.len(), "requirement"), (self.plan.claims.len(), "claim")];
        let named = gates.iter().filter(|(count, _)| *count > 0);
        let named: Vec<String> =
            named.map(|(count, name)| format!("{count} {name}{}", if *count == 1 { "" } else { "s" })).collect();
        let gates = if named.is_empty() { String::new() } else { format!(", with {}", text::listed(&named, "and")) };
        let pending = format!("The verdict follows at the end of the run{gates}: most rules need whole trials.");
        let Some(playing) = &self.playing else {
            return RunPhase { heading: "The run begins".to_owned(), pending, ..RunPhase::default() };
        };
        RunPhase {
            heading: playing.heading.clone(),
            phase: playing.phase.clone(),
            since_unix_s: Some(playing.since_unix_s),
            of: playing.of.clone(),
            stopped: playing.stopped.clone(),
            pending,
        }
    }

    /// Returns the key figures of the current trial.
    pub fn figures(&self) -> Vec<HeadlineFigure> {
        let Some(stats) = self.playing.as_ref().map(|playing| &playing.stats).filter(|stats| stats.at_s > 0.0) else {
            return Vec::new();
        };
        let [now, mean] = stats.rates();
        let [median, p99] = [0.5, 0.99].map(|q| numbers::or_none(stats.quantile_us(q), numbers::micros));
        let so_far = "so far, warm-up included";
        let mut figures = vec![
            (
                "throughput, last second",
                numbers::number(now),
                "ok/s",
                format!("mean {} ok/s", numbers::number(mean)),
                Tone::Plain,
            ),
            ("median latency", median, "", so_far.to_owned(), Tone::Plain),
            ("p99 latency", p99, "", so_far.to_owned(), Tone::Plain),
            (
                "ok",
                numbers::count(stats.ok),
                "",
                format!("in {} of load", numbers::seconds(stats.at_s.round())),
                Tone::Plain,
            ),
        ];
        for (name, count) in [("failed", stats.failed), ("timed out", stats.timeout), ("wrong", stats.wrong)] {
            let share = numbers::share(count, stats.ok + stats.not_ok());
            figures.push((name, numbers::count(count), "", share, if count == 0 { Tone::Good } else { Tone::Bad }));
        }
        let figures = figures.into_iter().map(|(name, value, unit, small, tone)| HeadlineFigure {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            small,
            tone,
        });
        figures.collect()
    }

    /// Returns the faults of the current trial.
    pub fn faults(&self) -> Vec<LiveFault> {
        self.playing.iter().flat_map(|playing| &playing.faults).map(|fault| fault.shown.clone()).collect()
    }
}

impl Playing {
    fn happened(&mut self, at_s: Option<f64>, what: &What, unix_s: f64) -> bool {
        match what {
            What::Phase { phase } => {
                self.phase = progress::phase_words(*phase).to_owned();
                self.since_unix_s = unix_s;
                self.of.clear();
                if *phase != record::events::Phase::Load && self.stats.at_s > 0.0 {
                    self.load_ended();
                }
            }
            What::FaultBegun { fault, kind, on, .. } => {
                let before =
                    (!self.baseline.is_empty()).then(|| self.baseline.iter().sum::<f64>() / self.baseline.len() as f64);
                let Some(known) = self.fault(fault) else { return false };
                known.begin(at_s, before, &format!("{kind} on {on}"), unix_s);
            }
            What::FaultHealed { fault, .. } => {
                let Some(known) = self.fault(fault) else { return false };
                known.shown.acts = false;
                let at = at_s.map_or_else(String::new, |at_s| format!(" at {}", numbers::moment(at_s)));
                known.shown.state = format!("{}{at}", if known.is_timed { "healed" } else { "done" });
            }
            What::FaultFailed { fault, .. } => {
                let Some(known) = self.fault(fault) else { return false };
                "could not be injected".clone_into(&mut known.shown.state);
            }
            _ => {
                let Some(words) = progress::stop_words(what) else { return false };
                self.stopped = format!("The load {words}.");
            }
        }
        true
    }

    fn fault(&mut self, name: &str) -> Option<&mut FaultSoFar> {
        self.faults.iter_mut().find(|known| known.shown.name == name)
    }

    fn second(&mut self, second: &SecondTotals) {
        // The first thread that reports another second completes the previous second.
        let is_complete = self.stats.at_s > 0.0 && self.stats.is_another(second);
        let [rate, _] = self.stats.rates();
        let end_s = self.stats.at_s;
        self.stats.add(second);
        if self.of.is_empty() {
            self.of = numbers::seconds(second.of_s);
        }
        if !is_complete {
            return;
        }
        let mut is_affected = false;
        for fault in self.faults.iter_mut().filter(|fault| fault.is_timed && fault.begun_s.is_some()) {
            is_affected |= fault.served(end_s, rate);
        }
        // Seconds that a fault affects do not count for the next fault's baseline.
        if !is_affected {
            self.baseline.push_back(rate);
            if self.baseline.len() > BEFORE {
                self.baseline.pop_front();
            }
        }
    }

    fn load_ended(&mut self) {
        for fault in self.faults.iter_mut().filter(|fault| matches!(fault.shown.recovery, RecoveryClock::Runs(_))) {
            fault.shown.recovery = RecoveryClock::NotBack;
        }
    }
}

impl FaultSoFar {
    fn of(fault: &Fault) -> Self {
        let shown = LiveFault {
            name: fault.name.clone(),
            what: format!("{} on {}", fault.action.as_ref().unwrap_or(&fault.kind), fault.on),
            planned: timeline::fault_time(fault),
            ..LiveFault::default()
        };
        let is_timed = !fault.standing && !fault.repairs;
        Self { shown, is_timed, begun_s: None, begun_unix_s: 0.0, below_until_s: None }
    }

    fn begin(&mut self, at_s: Option<f64>, before_per_s: Option<f64>, what: &str, unix_s: f64) {
        (self.begun_s, self.begun_unix_s, self.below_until_s) = (at_s, unix_s, None);
        what.clone_into(&mut self.shown.what);
        self.shown.acts = true;
        self.shown.state =
            at_s.map_or_else(|| "acts".to_owned(), |at_s| format!("acts since {}", numbers::moment(at_s)));
        if self.is_timed {
            self.shown.before_per_s = before_per_s;
            self.shown.share_pct = None;
            self.shown.recovery = before_per_s.map_or(RecoveryClock::Unknown, |_| RecoveryClock::Runs(unix_s));
        }
    }

    /// Handles a whole second with this rate. Returns whether the fault affected the second: it
    /// ended after the fault began, and its rate is too low.
    fn served(&mut self, end_s: f64, rate: f64) -> bool {
        let (Some(begun_s), Some(before_per_s)) = (self.begun_s, self.shown.before_per_s) else { return false };
        if end_s <= begun_s || before_per_s <= 0.0 {
            return false;
        }
        let is_low = rate < SERVED * before_per_s;
        self.shown.share_pct = Some((100.0 * rate / before_per_s).round());
        if is_low {
            self.below_until_s = Some(end_s);
            self.shown.recovery = RecoveryClock::Runs(self.begun_unix_s);
        } else {
            let took_s = self.below_until_s.map_or(0.0, |until_s| ((until_s - begun_s) * 10.0).round() / 10.0);
            self.shown.recovery = RecoveryClock::Took(took_s);
        }
        is_low
    }
}

fn to_come(trial: &Trial) -> LiveTrial {
    LiveTrial { id: trial.id.clone(), name: progress::differing(trial), ..LiveTrial::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use record::events::Phase;

    use super::*;

    fn run() -> (RunSoFar, Trial) {
        let fault = Fault { name: "crash".into(), kind: "crash".into(), ..serde_json::from_value(fault()).unwrap() };
        let trial = Trial { id: "001".into(), repeat: 1, faults: vec![fault], ..Trial::default() };
        let plan = Plan { trials: vec![trial.clone(), Trial { id: "002".into(), ..trial.clone() }], ..plan() };
        let mut run = RunSoFar::of(plan);
        run.tell(&ProgressEvent::TrialBegins { trial: &trial, number: 1, of: Some(2) }, 1_000.0);
        (run, trial)
    }

    fn fault() -> serde_json::Value {
        serde_json::json!({ "name": "", "kind": "", "on": "one", "with": {}, "when": { "at": 5.0 }, "for_s": null, "seed": 1,
            "label": "", "colour": "" })
    }

    fn plan() -> Plan {
        serde_json::from_value(
            serde_json::json!({ "format": 1, "title": "", "asks": "", "variants": [], "swept": [], "trials": [],
            "requirements": [], "claims": [] }),
        )
        .unwrap()
    }

    /// Plays seconds that two threads report.
    fn play(run: &mut RunSoFar, seconds: impl IntoIterator<Item = (u32, u64)>) {
        for (at_s, ok) in seconds {
            for thread in [0, 1] {
                let (at_s, ok) = (f64::from(at_s) + 0.001 * f64::from(thread), ok / 2);
                run.tell(
                    &ProgressEvent::Second(SecondTotals { at_s, of_s: 60.0, ok, ..SecondTotals::default() }),
                    1_000.0 + at_s,
                );
            }
        }
    }

    /// Whether the event changes anything.
    fn happened(run: &mut RunSoFar, at_s: f64, what: &What) -> bool {
        let version = run.version;
        run.tell(&ProgressEvent::Happened { at_s: Some(at_s), what }, 1_000.0 + at_s);
        run.version > version
    }

    fn begun() -> What {
        What::FaultBegun { fault: "crash".into(), number: 1, kind: "crash".into(), on: "n2".into() }
    }

    #[test]
    fn a_recovery_clock_runs_until_service_is_back() {
        let (mut run, _) = run();
        play(&mut run, (1..=5).map(|at_s| (at_s, 1000)));
        assert!(happened(&mut run, 5.2, &begun()));
        let recovery = |run: &RunSoFar| run.faults()[0].recovery;
        assert_eq!(recovery(&run), RecoveryClock::Runs(1_005.2));
        play(&mut run, [(6, 1000), (7, 400), (8, 500), (9, 980)]);
        assert_eq!((recovery(&run), run.faults()[0].share_pct), (RecoveryClock::Runs(1_005.2), Some(50.0)));
        play(&mut run, [(10, 990)]);
        assert_eq!(recovery(&run), RecoveryClock::Took(2.8), "the second to 8 was the last one below 90 %");
        play(&mut run, [(11, 100), (12, 100)]);
        assert_eq!(recovery(&run), RecoveryClock::Runs(1_005.2), "service is gone again");
        assert!(happened(&mut run, 12.0, &What::Phase { phase: Phase::Draining }));
        assert_eq!(recovery(&run), RecoveryClock::NotBack);
    }

    #[test]
    fn rates_during_a_fault_are_not_the_next_baseline() {
        let (mut run, _) = run();
        play(&mut run, (1..=5).map(|at_s| (at_s, 1000)));
        happened(&mut run, 5.2, &begun());
        play(&mut run, (6..=20).map(|at_s| (at_s, 300)));
        happened(&mut run, 20.5, &What::FaultHealed { fault: "crash".into(), number: 1 });
        assert_eq!(run.faults()[0].state, "healed at 20.5 s");
        happened(&mut run, 21.0, &begun());
        assert_eq!(run.faults()[0].before_per_s.map(f64::round), Some(1000.0));
    }

    #[test]
    fn the_page_says_at_once_why_a_load_was_stopped() {
        let (mut run, trial) = run();
        assert_eq!(run.phase().stopped, "");
        let (key, explanation) = ("s/k".to_owned(), "agent 1's read came too late".to_owned());
        assert!(happened(
            &mut run,
            3.0,
            &What::LoadStopped { key, explanation, after_fault: Some("crash".to_owned()) }
        ));
        happened(&mut run, 3.0, &What::Phase { phase: Phase::Draining });
        let words = "The load stopped at the first violation: key s/k is not linearizable, after fault crash: agent 1's \
                     read came too late.";
        assert_eq!(run.phase().stopped, words);
        run.tell(&ProgressEvent::TrialBegins { trial: &trial, number: 2, of: Some(2) }, 1_060.0);
        assert_eq!(run.phase().stopped, "", "another trial");
    }

    #[test]
    fn notices_are_ignored_and_ended_trials_listed() {
        let (mut run, trial) = run();
        assert!(!happened(&mut run, 1.0, &What::Notice { text: "words".into() }));
        run.tell(&ProgressEvent::TrialEnds { how: Ending::Done, reason: None }, 1_060.0);
        assert_eq!((run.trials()[0].state.as_str(), run.trials()[1].state.as_str()), ("ended", ""));
        assert_eq!(run.ended().map(|ended| ended.id.as_str()).collect::<Vec<_>>(), [trial.id]);
    }
}
