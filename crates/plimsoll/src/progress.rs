//! Progress on stderr: a live line on a terminal, plain lines otherwise.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Instant;

use conduct::{Observer, ProgressEvent, SecondTotals};
use experiment::plan::{Requirement, Trial};
use indicatif::{ProgressBar, ProgressStyle};
use record::events::{Ending, Phase, What};
use record::results::SearchStep;
use text::numbers;

use crate::load_so_far::LoadSoFar;
use crate::output;

/// Returns the observer that suits standard error.
#[must_use]
pub fn observer(plain: bool) -> Box<dyn Observer> {
    if plain || !output::is_watched() { Box::new(Plain::default()) } else { Box::new(Live::new()) }
}

/// Observer that prints a line for each event, and every few seconds a line about the load.
#[derive(Default)]
struct Plain {
    told_s: f64,
    now: ProgressTotals,
    teller: ProgressPrinter,
}

impl Plain {
    /// Seconds between two lines about the load.
    const EVERY_S: f64 = 10.0;
}

impl Observer for Plain {
    fn tell(&mut self, event: &ProgressEvent<'_>) {
        if let ProgressEvent::Second(second) = event {
            self.now.add(second);
            self.teller.line(event);
            if second.at_s - self.told_s >= Self::EVERY_S {
                output::say(&format!("  {:>6.0} s  {}", second.at_s, self.now.words()));
                self.told_s = second.at_s;
                self.now = ProgressTotals::default();
            }
            return;
        }
        if let ProgressEvent::TrialBegins { .. } = event {
            self.told_s = 0.0;
            self.now = ProgressTotals::default();
        }
        if let Some(line) = self.teller.line(event) {
            output::say(&line);
        }
    }
}

/// Observer that prints the same lines as [`Plain`] for events, above a line about the load that is
/// updated each second.
struct Live {
    bar: ProgressBar,
    teller: ProgressPrinter,
}

impl Live {
    fn new() -> Self {
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("  {bar:24} {pos:>4}/{len} s  {msg}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { bar, teller: ProgressPrinter::default() }
    }
}

impl Observer for Live {
    fn tell(&mut self, event: &ProgressEvent<'_>) {
        match event {
            ProgressEvent::Second(second) => {
                self.teller.line(event);
                let mut tally = ProgressTotals::default();
                tally.add(second);
                self.bar.set_length(whole(second.of_s));
                self.bar.set_position(whole(second.at_s.min(second.of_s)));
                self.bar.set_message(tally.words());
            }
            _ => {
                if let Some(line) = self.teller.line(event) {
                    self.bar.suspend(|| output::say(&line));
                }
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Totals of operations since the last line about the load.
#[derive(Default)]
struct ProgressTotals {
    ok: u64,
    not_ok: u64,
    seconds: f64,
    last_s: Option<f64>,
}

impl ProgressTotals {
    fn add(&mut self, second: &SecondTotals) {
        self.ok += second.ok;
        self.not_ok += second.not_ok();
        // Several generator threads report the same second.
        if self.last_s.is_none_or(|last_s| second.at_s > last_s + 0.5) {
            self.seconds += 1.0;
            self.last_s = Some(second.at_s);
        }
    }

    fn words(&self) -> String {
        let rate = rounded(self.ok, self.seconds);
        if self.not_ok == 0 { format!("{rate} ok/s") } else { format!("{rate} ok/s, {} not ok", self.not_ok) }
    }
}

fn rounded(count: u64, seconds: f64) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "for a progress line")]
    whole(count as f64 / seconds.max(1.0))
}

fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for a progress line")]
    {
        number.max(0.0).round() as u64
    }
}

/// Converter of events into lines.
#[derive(Default)]
struct ProgressPrinter {
    /// Number of hosts of the trial's lab.
    of_hosts: usize,
    /// Number of the lab's hosts that are up.
    up: usize,
    /// Host and text of log lines that were quoted already, because a member in trouble repeats the
    /// same lines.
    quoted: BTreeSet<(String, String)>,
    /// Names of the target's actions that are running. Events report actions like faults, but the
    /// end of an action is not a healing.
    actions: BTreeSet<String>,
    /// Whether the load is running or draining. Only then is a change of a host due to a fault, not
    /// to the start or end of the trial.
    is_loading: bool,
    /// Whether the trial belongs to a search, which judges only the time after the warm-up.
    is_searched: bool,
    /// Statistics of the trial so far.
    so_far: LoadSoFar,
    /// Time at which the first trial began that this process played.
    begun: Option<Instant>,
    /// Number of trials that this process has completed.
    done: usize,
    /// Number of trials left, if known.
    left: Option<usize>,
}

impl ProgressPrinter {
    /// Returns the line for an event; `None` if the event needs no line.
    fn line(&mut self, event: &ProgressEvent<'_>) -> Option<String> {
        match event {
            ProgressEvent::Second(second) => {
                self.so_far.add(second);
                None
            }
            ProgressEvent::TrialBegins { trial, number, of } => {
                *self = Self {
                    of_hosts: trial.lab.hosts.len(),
                    is_searched: trial.surviving.is_some(),
                    begun: self.begun.or_else(|| Some(Instant::now())),
                    done: self.done,
                    left: of.map(|of| of.saturating_sub(*number)),
                    ..Self::default()
                };
                Some(heading(trial, *number, *of))
            }
            ProgressEvent::NotPlayed { trial, number, of, stop } => {
                let at = stop.point.get(&stop.over).map(ToString::to_string).unwrap_or_default();
                let heading = heading(trial, *number, *of);
                Some(format!(
                    "{heading}: not played: stopped at {at}, because {} in trial {}",
                    stop.because, stop.trial
                ))
            }
            ProgressEvent::Happened { at_s, what } => {
                let words = self.host(what).or_else(|| self.said(what));
                let words = words.or_else(|| self.action(what)).or_else(|| happening(what))?;
                // Adding 0.0 removes the sign of a value that rounds to zero.
                Some(at_s.map_or_else(
                    || format!("            {words}"),
                    |at_s| format!("  {:>6.1} s  {words}", (at_s * 10.0).round() / 10.0 + 0.0),
                ))
            }
            ProgressEvent::TrialEnds { how: Ending::Done, .. } => {
                self.done += 1;
                self.finished()
            }
            ProgressEvent::Answered { trial, step, limits } => Some(answered(trial, step, limits)),
            ProgressEvent::TrialEnds { reason, .. } => reason.map(|reason| format!("            {reason}")),
        }
    }

    /// Returns a line with a trial's result and an estimate of the time for the remaining trials.
    fn finished(&self) -> Option<String> {
        let [_, per_s] = self.so_far.rates();
        if self.so_far.ok + self.so_far.not_ok() == 0 {
            return None;
        }
        let not_ok = match self.so_far.not_ok() {
            0 => String::new(),
            some => format!(", {} not ok", numbers::count(some)),
        };
        let each_s = self.begun.map(|begun| begun.elapsed().as_secs_f64() / self.done.max(1) as f64);
        let left = self.left.filter(|left| *left > 0).zip(each_s);
        let left = left.map_or_else(String::new, |(left, each_s)| {
            format!("; about {} left", numbers::seconds((left as f64 * each_s).max(1.0).round()))
        });
        let whole = if self.is_searched { " (with the warm-up)" } else { "" };
        Some(format!("            {} ok{not_ok}   {}{whole}{left}", numbers::rate(per_s), self.so_far.quantiles()))
    }

    /// Describes a change of hosts: at the trial's start that all hosts of the lab are up, and
    /// later each host that goes down in the load or comes up again.
    fn host(&mut self, what: &What) -> Option<String> {
        match what {
            What::HostUp { host, .. } if self.of_hosts > 0 => {
                self.up += 1;
                match self.up.cmp(&self.of_hosts) {
                    Ordering::Less => None,
                    Ordering::Equal if self.of_hosts == 1 => Some(format!("host {host} is up")),
                    Ordering::Equal => Some(format!("all {} hosts are up", self.of_hosts)),
                    Ordering::Greater => Some(format!("host {host} is up again")),
                }
            }
            // If a host went down unexpectedly, a notice reports it.
            What::HostDown { host, expected: true } if self.is_loading => Some(format!("host {host} is down")),
            What::Phase { phase } => {
                self.is_loading = matches!(phase, Phase::Load | Phase::Draining);
                (*phase == Phase::Starting && self.of_hosts > 0).then(|| {
                    let hosts = if self.of_hosts == 1 { "host" } else { "hosts" };
                    format!("starting {} {hosts} and the target", self.of_hosts)
                })
            }
            _ => None,
        }
    }
}

impl ProgressPrinter {
    /// Describes the beginning or the end of an action.
    fn action(&mut self, what: &What) -> Option<String> {
        match what {
            What::FaultBegun { fault, kind, on, .. } if kind == "action" => {
                self.actions.insert(fault.clone());
                Some(format!("action {fault} on {on}"))
            }
            What::FaultHealed { fault, .. } if self.actions.remove(fault) => Some(format!("action {fault} ended")),
            _ => None,
        }
    }

    /// Quotes a log line that the target marks as alarming, when it first appears.
    fn said(&mut self, what: &What) -> Option<String> {
        let What::Log { host, line, text, alarming: true, .. } = what else { return None };
        self.quoted.insert((host.clone(), text.clone())).then(|| format!("{host} logged: {}", line.trim()))
    }
}

/// Returns a trial's heading, such as `trial 3 of 90 · pi2c · agents=4 · repeat 2`.
pub fn heading(trial: &Trial, number: usize, of: Option<usize>) -> String {
    let of = of.map_or_else(String::new, |of| format!(" of {of}"));
    let differing = differing(trial);
    format!("trial {number}{of}{}{differing}", if differing.is_empty() { "" } else { " · " })
}

/// Returns the variant, values and repeat that distinguish a trial, such as `pi2c · agents=4 ·
/// repeat 2`. May be empty.
pub fn differing(trial: &Trial) -> String {
    let mut words = Vec::new();
    words.extend(trial.variant.clone());
    words.extend(trial.surviving.clone().filter(|condition| !condition.is_empty()));
    words.extend(trial.point.iter().map(|(path, value)| {
        format!("{}={}", path.rsplit('.').next().unwrap_or(path), value.to_string().trim_matches('"'))
    }));
    if trial.repeat > 1 {
        words.push(format!("repeat {}", trial.repeat));
    }
    words.join(" · ")
}

/// Returns a trial's result for its search:
/// `agents 64: held: latency_us.p99 = 43.9 ms, expected below 50 ms`.
fn answered(trial: &Trial, step: &SearchStep, limits: &[Requirement]) -> String {
    let what = trial.point.keys().next().map_or("", |path| path.rsplit('.').next().unwrap_or(path));
    let says = match step.held {
        Some(true) => {
            let measured = limits.iter().filter_map(|limit| Some((limit, *step.figures.get(&*limit.metric)?)));
            let words: Vec<String> = measured.map(|(limit, figure)| analysis::judged_words(limit, figure)).collect();
            format!("held: {}", words.join("; "))
        }
        Some(false) => format!("broke: {}", step.broke.join("; ")),
        None => format!("inconclusive: {}", step.broke.join("; ")),
    };
    format!("            {what} {}: {says}", step.value)
}

/// Returns a short description of a phase.
pub fn phase_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting the target",
        Phase::Preparing => "preparing",
        Phase::Load => "load",
        Phase::Draining => "waiting for open operations",
        Phase::Auditing => "reading back the target's data",
        Phase::Stopping => "stopping the target",
    }
}

/// Returns the reason why a load was stopped; `None` for another event.
pub fn stop_words(what: &What) -> Option<String> {
    let What::LoadStopped { key, explanation, after_fault } = what else { return None };
    let fault = after_fault.as_ref().map(|fault| format!(", after fault {fault}")).unwrap_or_default();
    let explanation = if explanation.is_empty() { String::new() } else { format!(": {explanation}") };
    Some(format!("stopped at the first violation: key {key} is not linearizable{fault}{explanation}"))
}

fn happening(what: &What) -> Option<String> {
    match what {
        What::Phase { phase: Phase::Draining } => None,
        What::Phase { phase } => Some(phase_words(*phase).to_owned()),
        What::StepBegun { step } => Some(format!("step {step}")),
        What::StepEnded { step, result, why, .. } => {
            let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            Some(format!("step {step} {}{why}", result.words()))
        }
        What::StepAudited { step, audit, host, failed: Some(why) } => {
            Some(format!("step {step} is bad: audit {audit} on {host}: {why}"))
        }
        What::TargetRebuilt { .. } => Some("the target was started anew".to_owned()),
        What::FaultBegun { fault, kind, on, .. } => Some(format!("fault {fault}: {kind} on {on}")),
        What::FaultHealed { fault, .. } => Some(format!("fault {fault} healed")),
        What::FaultFailed { fault, reason, .. } => Some(format!("fault {fault} could not be injected: {reason}")),
        What::ActionTaken { action, kind, on, .. } => Some(format!("action {action}: {kind} on {on}")),
        What::ActionFailed { action, reason, .. } => Some(format!("action {action} failed: {reason}")),
        What::ProcessDown { process, how, expected: false, last_lines, .. } => {
            let last = last_lines.iter().rfind(|line| !line.trim().is_empty());
            let last = last.map(|line| format!("; it wrote last: {}", line.trim())).unwrap_or_default();
            Some(format!("{process} ended by itself: {how}{last}"))
        }
        What::LoadStopped { .. } => stop_words(what),
        What::CheckedBeside { gave_up: Some(why), .. } => {
            Some(format!("the check beside the load gave up: {why}; the check after the load is complete"))
        }
        What::Notice { text } => Some(text.clone()),
        What::CpuShares { not_judged: Some(why), .. } => Some(format!("other processes were not judged: {why}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_step_shows_its_figure_and_limit() {
        let range = experiment::plan::MetricRange { below: Some(50_000.0), ..Default::default() };
        let limit = Requirement { metric: "latency_us.p99".into(), range, filter: [].into() };
        let mut trial = Trial { surviving: Some(String::new()), ..Trial::default() };
        trial.point.insert("load.rate".to_owned(), 1000.into());
        let figures = [("latency_us.p99".to_owned(), 43_900.0)].into();
        let step = SearchStep { value: 1000.0, held: Some(true), figures, ..SearchStep::default() };
        let mut printer = ProgressPrinter::default();
        printer.line(&ProgressEvent::TrialBegins { trial: &trial, number: 1, of: None });
        printer.line(&ProgressEvent::Second(SecondTotals { at_s: 1.0, of_s: 1.0, ok: 10, ..SecondTotals::default() }));
        let ended = printer.line(&ProgressEvent::TrialEnds { how: Ending::Done, reason: None }).unwrap();
        assert!(ended.ends_with("(with the warm-up)"), "{ended}");
        let told = printer.line(&ProgressEvent::Answered { trial: &trial, step: &step, limits: &[limit] }).unwrap();
        assert_eq!(told.trim(), "rate 1000: held: latency_us.p99 = 43.9 ms, expected below 50 ms");
    }

    #[test]
    fn an_action_ends_and_is_not_healed() {
        let mut printer = ProgressPrinter::default();
        let begun = |fault: &str, kind: &str| What::FaultBegun {
            fault: fault.to_owned(),
            number: 1,
            kind: kind.to_owned(),
            on: "n1".to_owned(),
        };
        let healed = |fault: &str| What::FaultHealed { fault: fault.to_owned(), number: 1 };
        let mut told = |what: &What| printer.line(&ProgressEvent::Happened { at_s: Some(1.0), what });
        let lines =
            [begun("Flip", "action"), healed("Flip"), begun("cut", "partition"), healed("cut")].map(|what| told(&what));
        assert_eq!(
            lines.map(|line| line.unwrap_or_default().trim().to_owned()),
            [
                "1.0 s  action Flip on n1",
                "1.0 s  action Flip ended",
                "1.0 s  fault cut: partition on n1",
                "1.0 s  fault cut healed"
            ]
        );
    }
}
