//! List of a plan's trials: their number, order and differences. A value that several trials share
//! is listed once; differing values of a setting are listed side by side.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use text::numbers::{self, count as thousands, plural};
use text::{distinct, of_json};

use crate::duration::show;
use crate::plan::{
    AgentStage, Backlog, Failover, Find, Fleet, FleetEngine, Lab, Load, MetricRange, NOTHING_LOST, ONE_MEMBER_DOWN,
    Overflow, Pause, Plan, Port, Rate, RateStage, Requirement, Retry, Step, StepOrder, TargetKind, Trial, Warmup,
    percentile, samples_for,
};
use crate::problem::join_words;
use crate::quantity::show_bits_per_s;
use crate::tier::{Tier, only_storage};

/// Maximum number of trials that are listed one by one.
const LISTED: usize = 12;
/// Width of a line, in characters.
const WIDTH: usize = 110;
/// Width of the label that precedes a line, in characters.
const INDENT: usize = 11;

pub(super) fn trials(plan: &Plan) -> String {
    let mut text = count(plan);
    text.push('\n');
    if let Some(first) = plan.possible().first() {
        let shared = common(plan.possible().iter().map(parameters));
        let brackets = if shared.is_empty() { String::new() } else { format!(" ({})", shared.join(", ")) };
        text.push_str(&wrapped("target", &format!("{}{brackets}", target_name(first, plan))));
    }
    for variant in &plan.variants {
        text.push_str(&wrapped("variant", &format!("{variant}: {}", own(plan, variant))));
    }
    for note in only_storage(plan) {
        text.push_str(&wrapped("", &note.replace('`', "")));
    }
    for path in &plan.swept {
        text.push_str(&wrapped("sweep", &format!("{path} = {}", values(plan, path).join(", "))));
    }
    if let Some(stop) = &plan.stop {
        let who = if plan.variants.is_empty() { "goes" } else { "each variant goes" };
        let until =
            format!("{who} no higher in {} once {} {}", stop.over, stop.metric, bounds(&stop.metric, &stop.range));
        text.push_str(&wrapped("stop", &until));
    }
    if let Some(find) = &plan.find {
        text.push_str(&searched(find));
    }
    text.push_str(&asked(plan));
    if plan.trials.len() > 1 && plan.find.is_none() {
        text.push_str(&order(plan));
    }
    text
}

/// Describes a search: the path of the raised setting, and the search's range, limits and
/// conditions.
fn searched(find: &Find) -> String {
    let limits: Vec<String> = find.limits.iter().map(limit).collect();
    let mut text = wrapped("find", &format!("highest {} while {}", find.highest, limits.join(", ")));
    let firsts = distinct(find.templates.iter().map(|template| figure(find.first(template))));
    let bound = find.up_to.map_or_else(String::new, |up_to| format!(", up to {}", figure(up_to)));
    let precision = format!(", until the 95 % interval is within {} %", find.precision_pct);
    text.push_str(&wrapped("", &format!("from {} {}{bound}{precision}", firsts.join(" or "), find.unit())));
    if find.hold_pct > 50.0 {
        text.push_str(&wrapped("", &format!("the load at which {} % of trials hold", figure(find.hold_pct))));
    }
    if !find.is_whole() {
        let starts = if find.starts == "even" { "evenly" } else { "at random (Poisson)" };
        text.push_str(&wrapped("", &format!("operations start {starts}")));
    }
    let conditions = find.surviving.iter().map(|condition| match condition.as_str() {
        "" => "with the faults below".to_owned(),
        NOTHING_LOST | ONE_MEMBER_DOWN => condition.clone(),
        fault => format!("with the fault {fault}"),
    });
    text.push_str(&wrapped("", &conditions.collect::<Vec<_>>().join(", ")));
    for short in too_short(find) {
        text.push_str(&wrapped("note", &short));
    }
    text
}

/// Returns the quantiles for which trials at the first rate are too short. Empty for a closed loop,
/// whose number of operations is not known beforehand.
fn too_short(find: &Find) -> Vec<String> {
    let Some((template, load)) = find.templates.first().and_then(|first| Some((first, first.load.as_ref()?))) else {
        return Vec::new();
    };
    if find.is_whole() {
        return Vec::new();
    }
    let cut_s = if let Warmup::Seconds(warmup_s) = load.warmup { warmup_s } else { load.ramp_s };
    let made = (find.first(template) * template.lab.speed * (load.time_s - cut_s)).floor();
    let quantiles = find.limits.iter().filter_map(|limit| {
        let needed = samples_for(percentile(limit.metric.path()?.0.last()?)?);
        Some((&limit.metric, needed)).filter(|_| made < needed as f64)
    });
    let notes = quantiles.map(|(metric, needed)| {
        let (needed, made) = (thousands(needed), figure(made));
        format!(
            "{metric} takes {needed} operations, and a trial of the first rate makes {made} at most: make `time` longer"
        )
    });
    notes.collect()
}

/// Formats a number: `12,300`, `0.5`.
fn figure(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and positive")]
    if value.fract() == 0.0 { thousands(value as u64) } else { value.to_string() }
}

fn count(plan: &Plan) -> String {
    let repeats = repeats(plan);
    let mut what = plural(plan.trials.len(), "trial");
    let mut factors = Vec::new();
    for path in &plan.swept {
        factors.push(format!("{} of {path}", values(plan, path).len()));
    }
    if !plan.variants.is_empty() {
        factors.push(plural(plan.variants.len(), "variant"));
    }
    match (repeats.iter().min(), repeats.iter().max()) {
        (Some(least), Some(most)) if least < most => factors.push(format!("{least} to {most} repeats")),
        (_, Some(most)) if *most > 1 => factors.push(format!("{most} repeats")),
        _ => {}
    }
    if let Some(find) = &plan.find {
        if find.surviving.len() > 1 {
            factors.push(format!("{} conditions", find.surviving.len()));
        }
        what = if find.templates.len() == 1 { "1 search".into() } else { format!("{} searches", find.templates.len()) };
    }
    if factors.is_empty() { what } else { format!("{what}: {}", factors.join(" × ")) }
}

/// Returns the number of repeats of each variant at each point.
fn repeats(plan: &Plan) -> Vec<u32> {
    let mut found: BTreeMap<(&Option<String>, Vec<String>), u32> = BTreeMap::new();
    for trial in plan.possible() {
        let point = trial.point.values().map(of_json).collect();
        let repeats = found.entry((&trial.variant, point)).or_default();
        *repeats = trial.repeat.max(*repeats);
    }
    found.into_values().collect()
}

/// Returns the values of a swept path, in the order of the file.
fn values(plan: &Plan, path: &str) -> Vec<String> {
    let mut trials: Vec<&Trial> = plan.possible().iter().collect();
    trials.sort_by_key(|trial| trial.place);
    distinct(trials.into_iter().filter_map(|trial| trial.point.get(path)).map(of_json))
}

/// Returns the name of the common target, or a text saying that it depends on the variant.
fn target_name<'a>(first: &'a Trial, plan: &Plan) -> &'a str {
    let same = plan.possible().iter().all(|trial| name(trial) == name(first));
    if same { name(first) } else { "by variant" }
}

fn name(trial: &Trial) -> &str {
    match &trial.target.kind {
        TargetKind::Folder { name, .. } => name,
        TargetKind::Running { url } if url.is_empty() => &trial.target.protocol,
        TargetKind::Running { url } | TargetKind::Started { url, .. } => url,
    }
}

/// Returns the target's parameters and the load's sites, as `name = value`.
fn parameters(trial: &Trial) -> Vec<String> {
    let mut parameters = target_parameters(trial);
    let sites = trial.load.iter().flat_map(|load| &load.sites);
    parameters.extend(sites.map(|(name, site)| format!("site {name} = {}", site.url)));
    parameters
}

fn target_parameters(trial: &Trial) -> Vec<String> {
    match &trial.target.kind {
        TargetKind::Folder { with, .. } => {
            let shown = with.iter().map(|(name, value)| (name, if value.is_empty() { "\"\"" } else { value.as_str() }));
            shown.map(|(name, value)| format!("{name} = {value}")).collect()
        }
        TargetKind::Started { command, .. } => {
            std::iter::once(format!("start = {command:?}")).chain(other_urls(trial)).collect()
        }
        TargetKind::Running { .. } => other_urls(trial).into_iter().collect(),
    }
}

/// Returns the URLs after the first: `and http://…`.
fn other_urls(trial: &Trial) -> Option<String> {
    let others = trial.target.urls.get(1..).filter(|others| !others.is_empty())?;
    Some(format!("and {}", others.join(", ")))
}

/// Returns the items that all of the lists contain.
fn common(mut lists: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let mut common = lists.next().unwrap_or_default();
    for other in lists {
        common.retain(|item| other.contains(item));
    }
    common
}

/// Returns the facts (target, parameters, lab, clients) that a variant's trials share, without the
/// facts that all trials share.
fn own(plan: &Plan, variant: &str) -> String {
    let everywhere = common(plan.possible().iter().map(facts));
    let of_it = plan.possible().iter().filter(|trial| trial.variant.as_deref() == Some(variant));
    let mut own = common(of_it.map(facts));
    own.retain(|fact| !everywhere.contains(fact));
    if own.is_empty() { "as the file says".to_owned() } else { own.join(", ") }
}

fn facts(trial: &Trial) -> Vec<String> {
    let mut facts = vec![name(trial).to_owned()];
    facts.extend(parameters(trial));
    facts.extend(traits_of(trial).into_iter().flat_map(|(_, parts)| parts).filter(|part| !part.is_empty()));
    facts
}

/// Describes the requirements, and gives the number of claims.
fn asked(plan: &Plan) -> String {
    let mut text = String::new();
    if !plan.requirements.is_empty() {
        let gates: Vec<String> = plan.requirements.iter().map(limit).collect();
        let at = if plan.find.is_some() { " (at the safe load)" } else { "" };
        text.push_str(&wrapped("gates", &format!("{}{at}", gates.join(", "))));
    }
    if !plan.claims.is_empty() {
        text.push_str(&wrapped("claims", &format!("{} of the source", plural(plan.claims.len(), "claim"))));
    }
    text
}

fn limit(requirement: &Requirement) -> String {
    format!("{} {}", requirement.metric, bounds(&requirement.metric, &requirement.range))
}

fn bounds(metric: &str, range: &MetricRange) -> String {
    let bounds =
        [("<", range.below), (">", range.above), ("≤", range.at_most), ("≥", range.at_least), ("=", range.equals)];
    let bounds =
        bounds.iter().filter_map(|(sign, bound)| Some(format!("{sign} {}", numbers::by_metric(metric, (*bound)?))));
    bounds.collect::<Vec<_>>().join(" and ")
}

/// Lists the trials in running order; only the first ones if there are more than [`LISTED`].
fn order(plan: &Plan) -> String {
    let mut text = String::new();
    let shown = if plan.trials.len() > LISTED { LISTED - 3 } else { plan.trials.len() };
    let repeats = plan.possible().iter().any(|trial| trial.repeat > 1);
    let rows: Vec<Vec<String>> = plan.possible().iter().take(shown).map(|trial| row(plan, trial, repeats)).collect();
    for (index, row) in text::aligned(&rows).iter().enumerate() {
        // Writing into a String does not fail.
        let _ = writeln!(text, "  {:<8} {row}", if index == 0 { "order" } else { "" });
    }
    if shown < plan.trials.len() {
        let _ = writeln!(text, "           … and so on to {}", plan.trials.last().map_or("", |trial| &trial.id));
    }
    text
}

fn row(plan: &Plan, trial: &Trial, repeats: bool) -> Vec<String> {
    let mut row = vec![trial.id.clone()];
    row.extend(trial.variant.clone());
    row.extend(plan.swept.iter().filter_map(|path| Some(format!("{path} = {}", of_json(trial.point.get(path)?)))));
    row.extend(repeats.then(|| format!("repeat {}", trial.repeat)));
    row
}

/// Formats a line after the label `head`, broken at commas if it is too long.
fn wrapped(head: &str, words: &str) -> String {
    let mut lines = vec![format!("  {head:<8} ")];
    for (index, word) in words.split(", ").enumerate() {
        let fits = lines.last().is_some_and(|line| line.chars().count() + word.chars().count() + 2 <= WIDTH);
        if index > 0 {
            if let Some(line) = lines.last_mut() {
                line.push_str(if fits { ", " } else { "," });
            }
            if !fits {
                lines.push(" ".repeat(INDENT));
            }
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Joins consecutive ids: `001–004, 007`.
pub(super) fn runs(ids: &[&str]) -> String {
    let numbers: Vec<usize> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    let mut runs: Vec<String> = Vec::new();
    let mut start = 0;
    for index in 0..numbers.len() {
        if numbers.get(index + 1) == Some(&(numbers[index] + 1)) {
            continue;
        }
        let (first, last) = (ids[start], ids[index]);
        runs.push(if first == last { first.to_owned() } else { format!("{first}–{last}") });
        start = index + 1;
    }
    join_words(&runs, "and")
}

/// A line: its label, and parts that may differ between trials.
type ListingLine = (&'static str, Vec<String>);

/// Returns the lines that describe several trials, with differing parts merged.
pub(super) fn trait_lines(trials: &[&Trial]) -> Vec<String> {
    let all: Vec<Vec<ListingLine>> = trials.iter().map(|trial| traits_of(trial)).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let mut lines = Vec::new();
    for (row, (head, parts)) in first.iter().enumerate() {
        let merged: Vec<String> = (0..parts.len())
            .map(|column| merge(all.iter().filter_map(|lines| lines.get(row)?.1.get(column)).map(String::as_str)))
            .filter(|part| !part.is_empty())
            .collect();
        if !merged.is_empty() {
            lines.push(format!("{head:<8} {}", merged.join(", ")));
        }
    }
    lines
}

/// Joins distinct values; only the first and the last if there are more than three.
fn merge<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut distinct = distinct(values);
    // Only some of the trials have a value here.
    if let Some(place) = distinct.iter().position(|value| value.is_empty()).filter(|_| distinct.len() > 1) {
        distinct.remove(place);
        distinct.push("not");
    }
    match distinct.as_slice() {
        [first, .., last] if distinct.len() > 3 => format!("{first} … {last}"),
        _ => distinct.join(" or "),
    }
}

fn traits_of(trial: &Trial) -> Vec<ListingLine> {
    let before = trial.prepare.iter().map(|prepare| match prepare.count {
        1 => prepare.step.name.clone(),
        count => format!("{} × {}", thousands(count), prepare.step.name),
    });
    let before: Vec<String> = before.collect();
    let load = trial.load.as_ref();
    let mut traits = vec![
        ("lab", vec![lab(&trial.lab.with_generators_only(false))]),
        ("", trial_tiers(trial)),
        ("", vec![trial.lab.ports.iter().map(port).collect::<Vec<_>>().join(", ")]),
        ("", vec![dilation(&trial.lab)]),
        ("before", vec![before.join(", ")]),
        ("load", load.map_or_else(|| vec![String::new(); 5], clients)),
        ("", vec![load.map_or_else(String::new, operations)]),
        ("", vec![trial.fleet.as_ref().map_or_else(String::new, generators)]),
    ];
    for group in load.iter().flat_map(|load| &load.groups) {
        let name = group.name.clone().unwrap_or_default();
        traits.extend([("group", [vec![name], pace(group)].concat()), ("", vec![operations(group)])]);
    }
    traits
}

/// Describes a fleet's generators and where they run.
fn generators(fleet: &Fleet) -> String {
    let count = format!("by {}", plural(fleet.generators as usize, "generator"));
    let profile = fleet.profile.as_ref().map_or_else(String::new, |profile| format!(" ({profile})"));
    match fleet.by {
        FleetEngine::Local => count,
        FleetEngine::Command => format!("{count}, started by `{}`", fleet.start.join(" ")),
        FleetEngine::Kubernetes => {
            let namespace = fleet.kubernetes.namespace.as_ref();
            let place = namespace.map_or_else(String::new, |namespace| format!(" in the namespace {namespace}"));
            format!("{count}, pods of Kubernetes{place}")
        }
        FleetEngine::Slurm => {
            let partition = fleet.slurm.partition.as_ref();
            let place = partition.map_or_else(String::new, |partition| format!(" in the partition {partition}"));
            format!("{count}, jobs of Slurm{place}")
        }
        FleetEngine::Ssh => format!("{count} over ssh, on {}", join_words(&fleet.hosts, "and")),
        FleetEngine::Virtual => format!("{count} on hosts of their own{profile}"),
    }
}

fn lab(lab: &Lab) -> String {
    let mut profiles: Vec<&str> = lab.hosts.iter().filter_map(|host| host.profile.as_deref()).collect();
    profiles.dedup();
    let profiles = if profiles.is_empty() { String::new() } else { format!(" ({})", profiles.join(", ")) };
    let real = match &lab.pods {
        Some(pods) => format!(", pods of {}", pods.selector),
        None if lab.hosts.iter().all(|host| host.is_real()) => " over ssh".to_owned(),
        None => String::new(),
    };
    match lab.hosts.len() {
        0 => String::new(),
        count => format!("{}{}{profiles}{real}", plural(count, "host"), roles(lab)),
    }
}

/// Describes the storage tiers of the target's folders.
fn trial_tiers(trial: &Trial) -> Vec<String> {
    vec![trial.lab.tiers.iter().map(tier).collect::<Vec<_>>().join(", ")]
}

fn tier(tier: &Tier) -> String {
    let limits = [(tier.limits.read_iops, "reads"), (tier.limits.write_iops, "writes")];
    let limits = limits
        .iter()
        .filter_map(|(limit, what)| Some(format!("{} {what}/s", thousands(limit.as_ref()?.round() as u64))));
    let more: Vec<String> = tier.path.iter().cloned().chain(limits).collect();
    let brackets = if more.is_empty() { String::new() } else { format!(" ({})", more.join(" and ")) };
    format!("{} on {}{brackets}", join_words(&tier.folders, "and"), tier.name)
}

/// Describes the limits of a port, at the lab's speed.
fn port(port: &Port) -> String {
    let rate = port.link.rate_bits_per_s.map(show_bits_per_s);
    let delay = port.link.delay_s.map(|delay_s| format!("{} late", show(delay_s)));
    let limits: Vec<String> = rate.into_iter().chain(delay).collect();
    format!("port {} at {}", port.name, limits.join(" and "))
}

/// Lists the roles of hosts, if the hosts differ: `: proxy, 3 × member`.
fn roles(lab: &Lab) -> String {
    if lab.hosts.iter().all(|host| host.roles.is_empty()) {
        return String::new();
    }
    let roles: Vec<String> = lab.hosts.iter().map(|host| host.roles.join(" + ")).collect();
    let counted = distinct(&roles).into_iter().map(|role| {
        let name = if role.is_empty() { "with all roles" } else { role };
        match roles.iter().filter(|other| *other == role).count() {
            1 => name.to_owned(),
            count => format!("{count} × {name}"),
        }
    });
    format!(": {}", counted.collect::<Vec<_>>().join(", "))
}

/// Describes how `lab.speed` changes the listed times and rates.
fn dilation(lab: &Lab) -> String {
    if lab.hosts.is_empty() || (lab.speed - 1.0).abs() < f64::EPSILON {
        return String::new();
    }
    let named = [(0.5, "half"), (0.25, "a quarter of the"), (0.2, "a fifth of the"), (0.1, "a tenth of the")];
    let named = named.iter().find(|(speed, _)| (lab.speed - speed).abs() < 1e-9);
    let speed = named.map_or_else(|| format!("{} of the", lab.speed), |(_, words)| (*words).to_owned());
    let times = (1000.0 / lab.speed).round() / 1000.0;
    format!("at {speed} speed: every time below is {times} × the file's, every rate {} ×", lab.speed)
}

fn clients(load: &Load) -> Vec<String> {
    let mut words = match load.groups.len() {
        0 => pace(load),
        groups => vec![agents(load), format!("in {}", plural(groups, "group"))],
    };
    let reconnects = &load.reconnects;
    if reconnects.delay_s > 0.0 {
        let spread = spread(reconnects.spread_pct);
        words.push(format!("reconnecting {}{spread} after a cut", show(reconnects.delay_s)));
    }
    if reconnects.failover == Failover::Next {
        words.push("to the next member when theirs is gone".to_owned());
    }
    words
}

fn agents(load: &Load) -> String {
    let most = plural(load.agents as usize, "agent");
    match load.agent_stages.as_slice() {
        [] if load.changes_agents() => format!("up to {most}"),
        [] => most,
        stages => {
            let counted =
                if stages.len() > STAGES_SHOWN { format!(" ({} stages)", stages.len()) } else { String::new() };
            staged(&stages.iter().map(stage_of_agents).collect::<Vec<_>>()) + &counted
        }
    }
}

fn stage_of_agents(stage: &AgentStage) -> String {
    let over = show(stage.over_s);
    if stage.from == stage.to {
        format!("{} for {over}", plural(stage.to as usize, "agent"))
    } else {
        format!("{} to {} in {over}", stage.from, plural(stage.to as usize, "agent"))
    }
}

/// Lists stages that follow each other. Long lists have the first two and the last.
fn staged(stages: &[String]) -> String {
    match stages {
        [first, second, .., last] if stages.len() > STAGES_SHOWN => {
            format!("{first}, then {second}, … then {last}")
        }
        all => all.join(", then "),
    }
}

fn spread(pct: f64) -> String {
    if pct > 0.0 { format!(" ± {pct} %") } else { String::new() }
}

/// Describes the agents: number, pace, limits, timeout and retries.
fn pace(load: &Load) -> Vec<String> {
    let pace = match &load.rate {
        Some(rate) => open_loop(rate),
        None if load.has_pauses() => String::new(),
        None => "no pause".to_owned(),
    };
    let pause = load.think.unwrap_or(Pause::Fixed(load.think_s));
    let thinking = match pause.is_none() {
        true => String::new(),
        false => format!("thinking {pause}{}", spread(load.think_spread_pct)),
    };
    let retry = match load.retry {
        Retry::FailFast => "no retries".to_owned(),
        Retry::Wait { wait_s } => format!("retries every {} until it works", show(wait_s)),
        Retry::Tries { tries, wait_s } => format!("{tries} tries, {} apart", show(wait_s)),
    };
    let backlog = load.backlog.map_or_else(String::new, bound);
    let count = load.count.map_or_else(String::new, |count| format!("{} cycles at most", thousands(count)));
    let each = load.iterations.map_or_else(String::new, |each| format!("{} each", plural(each as usize, "cycle")));
    vec![agents(load), pace, thinking, count, each, backlog, format!("timeout {}", show(load.timeout_s)), retry]
}

fn open_loop(rate: &Rate) -> String {
    let things = if rate.is_of_sessions() { "sessions" } else { "operations" };
    match rate.starts() {
        Rate::Constant(per_s) => format!("{per_s} {things}/s (open loop)"),
        Rate::Poisson { poisson } => format!("{poisson} {things}/s at random (open loop)"),
        Rate::Replay { replay, .. } => format!("{things} as recorded in {replay} (open loop)"),
        Rate::Stages(stages) => {
            let counted =
                if stages.len() > STAGES_SHOWN { format!(", {} stages", stages.len()) } else { String::new() };
            let all: Vec<String> = stages.iter().map(|one| stage(one, things)).collect();
            format!("{} (open loop{counted})", staged(&all))
        }
        Rate::Sessions { .. } => "sessions (open loop)".to_owned(),
    }
}

/// Maximum number of stages that fit into a line.
const STAGES_SHOWN: usize = 5;

fn stage(stage: &RateStage, things: &str) -> String {
    let over = show(stage.over_s);
    if (stage.from - stage.to).abs() < f64::EPSILON {
        format!("{} {things}/s for {over}", stage.to)
    } else {
        format!("{} to {} {things}/s in {over}", stage.from, stage.to)
    }
}

fn bound(backlog: Backlog) -> String {
    let most = thousands(backlog.most.into());
    match backlog.overflow {
        Overflow::Drop => format!("at most {most} waiting and the rest dropped"),
        Overflow::Stop => format!("stopped when more than {most} wait"),
    }
}

fn operations(load: &Load) -> String {
    let sequences = load.sequences().map(|steps| {
        let names = in_order(steps);
        match load.order {
            StepOrder::Cycle => names,
            StepOrder::Mix => format!("{names} {}", steps.first().map_or(1, |step| step.weight)),
        }
    });
    let all: Vec<String> = sequences.collect();
    let cycles = match load.order {
        StepOrder::Cycle => all.join(" → "),
        StepOrder::Mix => format!("at random: {}", all.join(", ")),
    };
    let once = in_order(&load.steps[..load.steps_on_start()]);
    if once.is_empty() { cycles } else { format!("once {once}, then {cycles}") }
}

/// Describes steps that follow each other; those that are sent at once are in brackets.
fn in_order(steps: &[Step]) -> String {
    let of_block = |steps: &[Step]| {
        let names: Vec<String> = steps.iter().map(operation).collect();
        if steps[0].at_once > 0 { format!("[{}]", names.join(" + ")) } else { names.concat() }
    };
    steps.chunk_by(|_, next| next.beside).map(of_block).collect::<Vec<_>>().join(" → ")
}

/// Describes a step: `browse (every 2, then 3s)`.
fn operation(step: &Step) -> String {
    let mut notes = Vec::new();
    if step.every > 1 {
        notes.push(format!("every {}", thousands(step.every.into())));
    }
    if step.repeat > 1 {
        notes.push(format!("{} times", thousands(step.repeat.into())));
    }
    notes.extend(step.probability_pct.map(|pct| format!("in {pct} %")));
    notes.extend(step.think.map(|pause| format!("then {pause}")));
    if notes.is_empty() { step.name.clone() } else { format!("{} ({})", step.name, notes.join(", ")) }
}
