//! Output of `plimsoll check`: the trials of a plan in running order, the events of each trial with
//! their times, and the total duration.

use std::fmt::Write as _;

use text::{hanging, of_json};

use crate::duration::show;
use crate::plan::{Exercise, Fault, Find, Load, Plan, Step, Trial, Warmup, When};
use crate::search;

mod listing;
mod room;
mod usual;

pub use usual::UsualTimes;

/// Returns notes on faults that cannot be measured fully and on literal file names. Each note
/// appears once.
#[must_use]
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for note in plan.possible().iter().flat_map(|trial| room::notes(trial).into_iter().chain(literal_files(trial))) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Returns notes on bodies such as `@file`, which other tools read as a file and Plimsoll sends
/// literally.
fn literal_files(trial: &Trial) -> Vec<String> {
    let prepared = trial.prepare.iter().map(|prepare| &prepare.step);
    let steps = trial.load.iter().flat_map(Load::all_steps).chain(prepared);
    let note = |step: &Step| {
        let body = step.with.get("body")?;
        let is_file = body.len() > 1 && body.starts_with('@') && !body.contains(char::is_whitespace);
        is_file.then(|| {
            format!(
                "`{}` sends the text `{body}` itself, and not the file: write the body here, or take it from a feed",
                step.name
            )
        })
    };
    steps.filter_map(note).collect()
}

/// Formats the plan for people; the text ends with a newline.
#[must_use]
pub fn print(plan: &Plan) -> String {
    print_with(plan, &UsualTimes::default())
}

/// Formats the plan as [`print()`] does. Uses known durations of the plan's trials.
#[must_use]
pub fn print_with(plan: &Plan, usual: &UsualTimes) -> String {
    let mut text = String::new();
    // Writing into a String does not fail.
    let _ = writeln!(text, "{}", plan.title);
    if !plan.asks.is_empty() {
        let _ = writeln!(text, "  {}", plan.asks);
    }
    text.push('\n');
    text.push_str(&listing::trials(plan));
    for group in groups(plan) {
        text.push('\n');
        text.push_str(&group.print(plan));
    }
    text.push('\n');
    let _ = writeln!(text, "{}", total_time(plan, usual));
    text
}

/// Trials with the same events at the same times.
struct SameTimes<'a> {
    clock: Vec<String>,
    trials: Vec<&'a Trial>,
}

fn groups(plan: &Plan) -> Vec<SameTimes<'_>> {
    let mut groups: Vec<SameTimes<'_>> = Vec::new();
    for trial in plan.possible() {
        let clock = clock_lines(trial);
        match groups.iter_mut().find(|group| group.clock == clock) {
            Some(group) => group.trials.push(trial),
            None => groups.push(SameTimes { clock, trials: vec![trial] }),
        }
    }
    groups
}

impl SameTimes<'_> {
    fn print(&self, plan: &Plan) -> String {
        let ids: Vec<&str> = self.trials.iter().map(|trial| trial.id.as_str()).collect();
        let mut text = match ids.as_slice() {
            _ if plan.find.is_some() => format!("{}\n", self.search(plan)),
            [only] => format!("trial {only}\n"),
            ids if ids.len() == plan.trials.len() => "each trial\n".to_owned(),
            ids => format!("trials {}\n", listing::runs(ids)),
        };
        for line in listing::trait_lines(&self.trials).iter().chain(&self.clock) {
            let _ = writeln!(text, "  {line}");
        }
        text
    }
}

impl SameTimes<'_> {
    /// Returns the names of the searches that these trials belong to.
    fn search(&self, plan: &Plan) -> String {
        if self.trials.len() == plan.possible().len() {
            return "each trial".to_owned();
        }
        let mut names = Vec::new();
        for trial in &self.trials {
            let parts = [&trial.variant, &trial.surviving].into_iter().flatten();
            names.push(parts.filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", "));
        }
        format!("each trial of: {}", names.join("; "))
    }
}

/// Width of a note, in characters.
const WIDTH: usize = 108;

/// Width of a bar, in characters.
const BAR: usize = 60;

/// Returns the lines that show when each event happens.
fn clock_lines(trial: &Trial) -> Vec<String> {
    let mut lines = Vec::new();
    if trial.load.is_some() || !trial.faults.is_empty() {
        lines.push(format!("         {}", bar(trial)));
        lines.push(format!("         {}", legend(trial)));
    }
    for fault in &trial.faults {
        let kind = if fault.repairs { "action" } else { "fault" };
        lines.push(format!("{kind:<9}{}", fault_line(fault)));
    }
    lines.extend(trial.steps.iter().map(|step| format!("step     {}", step_line(step))));
    for note in room::notes(trial) {
        lines.extend(hanging(&note, "note     ", "         ", WIDTH).lines().map(str::to_owned));
    }
    lines
}

fn bar(trial: &Trial) -> String {
    let end_s = load_s(trial);
    let drain_s = trial.load.as_ref().map_or(0.0, |load| load.drain_s);
    let span_s = (end_s + drain_s).max(f64::MIN_POSITIVE);
    let column = |at_s: f64| cell(at_s / span_s);
    let mut cells = vec!['━'; BAR];
    if let Some(load) = &trial.load {
        let ramped = column(load.ramp_s);
        cells[..ramped].fill('╱');
        if let Warmup::Seconds(warmup_s) = load.warmup {
            cells[ramped..column(warmup_s).max(ramped)].fill('─');
        }
        cells[column(end_s)..].fill('·');
    }
    for fault in trial.faults.iter().filter(|fault| !fault.standing) {
        for at_s in moments(fault, &trial.faults, end_s) {
            cells[column(at_s).min(BAR - 1)] = if fault.repairs { '▲' } else { '╳' };
        }
    }
    cells.into_iter().collect()
}

/// Returns the column of the bar for a share of the load's time.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "0 to BAR")]
fn cell(share: f64) -> usize {
    (share.clamp(0.0, 1.0) * BAR as f64).round() as usize
}

fn legend(trial: &Trial) -> String {
    let mut words = Vec::new();
    if let Some(load) = &trial.load {
        if load.ramp_s > 0.0 {
            words.push(format!("╱ ramp {}", show(load.ramp_s)));
        }
        if let Warmup::Seconds(warmup_s) = load.warmup {
            words.push(format!("─ warm-up to {}", show(warmup_s)));
        }
        words.push(format!("━ load to {}", show(load.time_s)));
        words.push(format!("· drain, up to {}", show(load.drain_s)));
    }
    if trial.faults.iter().any(|fault| !fault.standing && !fault.repairs) {
        words.push("╳ fault".to_owned());
    }
    if trial.faults.iter().any(|fault| fault.repairs) {
        words.push("▲ action".to_owned());
    }
    words.join("   ")
}

fn fault_line(fault: &Fault) -> String {
    format!("{}: {}{} on {} {}", fault.name, fault.kind, arguments(fault), fault.on, fault_time(fault))
}

/// Describes the planned time and duration of a fault: `at 15s, for 5s`.
#[must_use]
pub fn fault_time(fault: &Fault) -> String {
    let when = match &fault.when {
        _ if fault.standing => "from before the load to its end".to_owned(),
        When::At(at_s) => format!("at {}", show(*at_s)),
        When::Every { first_s, every_s } if (first_s - every_s).abs() < f64::EPSILON => {
            format!("every {}", show(*every_s))
        }
        When::Every { first_s, every_s } => format!("at {}, then every {}", show(*first_s), show(*every_s)),
        When::After { fault, healed, plus_s } => {
            let plus = if *plus_s > 0.0 { format!("{} ", show(*plus_s)) } else { String::new() };
            format!("{plus}after {fault} {}", if *healed { "is healed" } else { "has begun" })
        }
    };
    when + &fault.for_s.map(|for_s| format!(", for {}", show(for_s))).unwrap_or_default()
}

fn step_line(step: &Exercise) -> String {
    let mut parts: Vec<String> = step.does.iter().map(deed).collect();
    parts.extend(step.until.as_ref().map(|until| format!("until {until}")));
    let at = step.at_s.map(|at_s| format!(", not before {}", show(at_s))).unwrap_or_default();
    let pause = step.pause_s.map(|pause_s| format!(", {} after what was before", show(pause_s))).unwrap_or_default();
    let times = if step.times > 1 { format!(", {} times", step.times) } else { String::new() };
    format!("{}: {}, within {}{at}{pause}{times}", step.name, parts.join(", "), show(step.within_s))
}

/// Describes an action of a step.
fn deed(fault: &Fault) -> String {
    let until = fault.for_s.map(|for_s| format!(" for {}", show(for_s))).unwrap_or_default();
    let what = fault.action.as_ref().unwrap_or(&fault.kind);
    format!("{what}{} on {}{until}", arguments(fault), fault.on)
}

fn arguments(fault: &Fault) -> String {
    let with: Vec<String> = fault.with.iter().map(|(name, value)| format!("{name} {}", of_json(value))).collect();
    if with.is_empty() { String::new() } else { format!(" ({})", with.join(", ")) }
}

/// Seconds for starting a small target, waiting until it is ready, and stopping it, if `lab.speed`
/// is 1.
const AROUND_S: f64 = 3.0;
/// Seconds between two trials that share one start of the target: the hook `reset`, and waiting
/// until the target is ready.
const RESET_S: f64 = 1.5;

/// Returns the maximum duration of all trials in seconds, if targets become ready quickly. For a
/// search, it counts the maximum number of trials.
#[must_use]
pub fn longest_s(plan: &Plan) -> f64 {
    let longest_s = |trial: &Trial| trial_s(trial) + trial.read_back_s();
    let searches =
        plan.find.iter().flat_map(|find| find.templates.iter().map(|of| f64::from(find.trials_max) * longest_s(of)));
    if plan.find.is_some() { searches.sum() } else { plan.trials.iter().map(longest_s).sum() }
}

/// Describes the usual duration of all trials, and the longest possible one if it is much longer.
fn total_time(plan: &Plan, usual: &UsualTimes) -> String {
    if let Some(find) = &plan.find {
        return of_searches(plan, find, usual);
    }
    let (usual_s, around_s) = usual.of_plan(plan);
    let most_s: f64 = plan.trials.iter().map(trial_s).sum();
    let read_back_s: f64 = plan.trials.iter().map(Trial::read_back_s).sum();
    let steps = if usual.has_unknown_steps(plan) { ", if every step takes all its time" } else { "" };
    let about = if plan.stop.is_some() { "at most about" } else { "about" };
    let at_most = if most_s > MUCH * usual_s { format!(" (at most {})", rounded(most_s)) } else { String::new() };
    let (total, around) = (rounded(usual_s), rounded(around_s));
    let mut text =
        format!("Takes {about} {total} in all{at_most}{steps}, of which about {around} for starting and stopping");
    if read_back_s > 0.0 {
        let _ = write!(text, "; reading back audited keys may add up to {}", rounded(read_back_s));
    }
    text + "."
}

/// Ratio of the longest to the usual duration above which both are printed.
const MUCH: f64 = 1.25;

/// Describes the usual and the maximum duration of searches. The durations depend on the results.
fn of_searches(plan: &Plan, find: &Find, usual: &UsualTimes) -> String {
    let trials: u32 = find.templates.iter().map(|template| search::typical_trials(find, template)).sum();
    let most: u32 = find.templates.iter().map(|_| find.trials_max).sum();
    let (usual_s, _) = usual.of_plan(plan);
    format!(
        "Takes about {trials} trials of about {}, {} in all; at most {most} trials, {}.",
        rounded(usual_s / f64::from(trials.max(1))),
        rounded(usual_s),
        rounded(longest_s(plan))
    )
}

fn rounded(total_s: f64) -> String {
    if total_s < 60.0 { show(total_s.ceil()) } else { show((total_s / 5.0).ceil() * 5.0) }
}

/// Returns the longest duration of a trial with all its steps, seconds.
fn trial_s(trial: &Trial) -> f64 {
    AROUND_S / trial.lab.speed + load_s(trial).max(steps_s(trial))
}

/// Returns the seconds until the last step ends, if each step takes its whole time limit.
fn steps_s(trial: &Trial) -> f64 {
    trial.steps.iter().fold(0.0, |ends_s, step| paused_s(ends_s, step, step.within_s))
}

/// Returns the time at which `step` ends, seconds, if each repetition takes `takes_s` and the
/// previous step ends at `ends_s`.
fn paused_s(ends_s: f64, step: &Exercise, takes_s: f64) -> f64 {
    ends_s.max(step.at_s.unwrap_or(0.0)) + f64::from(step.times) * (step.pause_s.unwrap_or(0.0) + takes_s)
}

/// Returns the duration of the load, or without a load, the time until the last fault is healed.
fn load_s(trial: &Trial) -> f64 {
    if let Some(load) = &trial.load {
        return load.time_s;
    }
    let mut end_s: f64 = 0.0;
    for fault in &trial.faults {
        let last_s = moments(fault, &trial.faults, f64::INFINITY).last().copied().unwrap_or(0.0);
        end_s = end_s.max(last_s + fault.for_s.unwrap_or(0.0));
    }
    end_s
}

/// Returns the times before `end_s` at which a fault begins. For a fault that never stops
/// recurring, the first thousand times.
fn moments(fault: &Fault, faults: &[Fault], end_s: f64) -> Vec<f64> {
    moments_within(fault, faults, end_s, faults.len())
}

fn moments_within(fault: &Fault, faults: &[Fault], end_s: f64, depth: usize) -> Vec<f64> {
    let moments: Vec<f64> = match &fault.when {
        When::At(at_s) => vec![*at_s],
        When::Every { first_s, every_s } => {
            let next = |at_s: &f64| Some(at_s + every_s).filter(|next_s| *next_s < end_s);
            std::iter::successors(Some(*first_s), next).take(1000).collect()
        }
        When::After { fault: name, healed, plus_s } => {
            let Some(other) = faults.iter().find(|other| other.name == *name).filter(|_| depth > 0) else {
                return Vec::new();
            };
            let lasts_s = if *healed { other.for_s.unwrap_or(0.0) } else { 0.0 };
            let others = moments_within(other, faults, end_s, depth - 1);
            others.into_iter().map(|at_s| at_s + lasts_s + plus_s).collect()
        }
    };
    moments.into_iter().filter(|at_s| *at_s < end_s).collect()
}

#[cfg(test)]
mod tests {
    use super::{UsualTimes, listing, step_line, total_time, trial_s};
    use crate::plan::{Exercise, Load, Plan, Trial};

    #[test]
    fn repeated_steps_include_their_pauses() {
        let step = Exercise {
            name: "killed".to_owned(),
            until: Some("green".to_owned()),
            within_s: 60.0,
            pause_s: Some(20.0),
            times: 5,
            ..Exercise::default()
        };
        assert_eq!(step_line(&step), "killed: until green, within 1m, 20s after what was before, 5 times");
        let trial = Trial { load: None, faults: Vec::new(), steps: vec![step], ..Trial::default() };
        assert!((trial_s(&trial) - 403.0).abs() < 1e-9, "{}", trial_s(&trial));
    }

    #[test]
    fn trials_take_as_long_as_in_an_earlier_run() {
        let step = Exercise { name: "killed".to_owned(), within_s: 600.0, times: 2, ..Exercise::default() };
        let trial = |variant: &str, load_s: f64| Trial {
            variant: Some(variant.to_owned()),
            load: Some(Load { time_s: load_s, ..Load::default() }),
            ..Trial::default()
        };
        let plan = Plan { trials: vec![trial("a", 60.0), trial("b", 60.0)], ..Plan::default() };
        let played = vec![(trial("a", 10.0), 20.0), (trial("a", 10.0), 24.0), (trial("b", 10.0), 11.0)];
        let usual = UsualTimes { played, ..UsualTimes::default() };
        assert_eq!(
            total_time(&plan, &usual),
            "Takes about 2m15s in all, of which about 13s for starting and stopping."
        );
        let stepped = |step| Plan { trials: vec![Trial { steps: vec![step], ..trial("a", 60.0) }], ..Plan::default() };
        let known = stepped(Exercise { usual_s: Some(45.0), ..step.clone() });
        assert!(total_time(&known, &usual).starts_with("Takes about 1m35s in all (at most 20m5s), of which"));
        let unknown = total_time(&stepped(step), &usual);
        assert!(unknown.starts_with("Takes about 20m5s in all, if every step takes all its time"), "{unknown}");
    }

    #[test]
    fn consecutive_ids_are_shown_as_ranges() {
        assert_eq!(listing::runs(&["001", "002", "003", "007", "009", "010"]), "001–003, 007 and 009–010");
    }
}
