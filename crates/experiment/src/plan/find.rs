//! `[find]`: the value that a search raises, its bounds, its conditions, and the templates of its
//! trials. The module `search` chooses the next value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::keys::section;
use crate::plan::fault::{Fault, When};
use crate::plan::gates::{self, LIMIT, MetricNames, Requirement};
use crate::plan::lab::Lab;
use crate::plan::load::Load;
use crate::plan::load_group;
use crate::plan::metric::{MetricFunction, MetricTerm};
use crate::plan::rate::Rate;
use crate::plan::target::TargetKind;
use crate::plan::trial::{self, Trial, TrialTemplate};
use crate::problem::{Problem, join_words, nearest_hint};
use crate::section::Section;
use crate::tree::{Node, TextSpan};
use crate::trial_setting::TrialSetting;

/// The condition that no fault is injected, whatever faults the file has.
pub const NOTHING_LOST: &str = "nothing lost";
/// The condition that one member is down from before the load to its end.
pub const ONE_MEMBER_DOWN: &str = "one member down";

/// The keys of the load or of a group that a search can raise.
const RATE: &str = "rate";
const SESSIONS: &str = "rate.sessions";
const AGENTS: &str = "agents";

section! {
    /// `[find]`: the search for the highest load at which the limits hold.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Find = FIND {
        highest = required: Text => String,
            "Value to raise: \"load.rate\", \"load.rate.sessions\", \"load.agents\", or one of these of a group: \
             \"load.group.NAME.rate\"";
        while = required: Tables(LIMIT) => limits: Vec<Requirement> = |_| Vec::new(), "Limits that must hold";
        /// Conditions, each searched by itself. An empty name means the file's faults as written.
        surviving: TEXTS => surviving: Vec<String> = |_| Vec::new(),
            "Conditions, each searched separately: \"nothing lost\", \"one member down\", or the name of a [[fault]]";
        /// Plans of older versions lack this key.
        #[serde(default = "even")]
        starts = "random": Choice(&["random", "even"]) => starts: String,
            "Start times of the operations of a searched rate: \"random\", as of independent users, or \"even\"";
        from: Positive => Option<f64>, "First value to try; default: the value in [load]";
        up_to: Positive => Option<f64>, "Highest value to try; default: the generator's limit";
        precision_pct = "5": Positive => f64,
            "Width of the 95 % interval at which a search is complete";
        hold_pct = "50": Positive => f64,
            "Share of trials that hold at the load found: 50 is the edge, where every other trial breaks; 95 a load \
             that rarely breaks";
        trials = "24": Whole { min: 3, max: 200 } => trials_max: u32, "Highest number of trials in each search";
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        => accepts_void: bool,
            "Whether void trials count as well (`run --accept`); the result is still void";
        /// Trials without id, value and repeat. Times and rates are in the lab's time. Seeds of
        /// faults are 0 if the file gives none.
        => templates: Vec<Trial>,
            "A trial without id, value and repeat for every variant under every condition";
    }
}

fn even() -> String {
    "even".to_owned()
}

impl Find {
    /// Whether only whole values make sense.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        raised(&self.highest).1 == AGENTS
    }

    /// Returns the unit of the value: `operations/s`, `sessions/s` or `agents`.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        match raised(&self.highest).1 {
            AGENTS => "agents",
            SESSIONS => "sessions/s",
            _ => "operations/s",
        }
    }

    /// Returns the first value to try for a template, in the file's terms.
    #[must_use]
    pub fn first(&self, template: &Trial) -> f64 {
        let load = template.load.as_ref().and_then(|load| load.population(raised(&self.highest).0));
        let own = if self.is_whole() {
            load.map(|load| f64::from(load.agents))
        } else {
            load.and_then(|load| load.rate.as_ref()?.per_s()).map(|rate| rate / template.lab.speed)
        };
        self.from.or(own).unwrap_or(1.0)
    }

    /// Sets the value in a load. The value is in the file's terms: with time dilation a rate is
    /// slowed like everything else.
    pub(crate) fn raise(&self, load: &mut Load, value: f64, speed: f64) {
        let Some(population) = load.population_mut(raised(&self.highest).0) else { return };
        if self.is_whole() {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and within u32")]
            {
                population.agents = value as u32;
            }
        } else {
            let per_s = value * speed;
            let is_even = self.starts == "even" && !population.rate.as_ref().is_some_and(is_random);
            let starts = if is_even { Rate::Constant(per_s) } else { Rate::Poisson { poisson: per_s } };
            population.rate = Some(match raised(&self.highest).1 {
                SESSIONS => Rate::Sessions { sessions: Box::new(starts) },
                _ => starts,
            });
        }
        load.add_up_groups();
    }
}

/// Whether operations or sessions start at random.
fn is_random(rate: &Rate) -> bool {
    matches!(rate.starts(), Rate::Poisson { .. })
}

/// Returns the group, if the path names one, and the key that is raised.
fn raised(highest: &str) -> (Option<&str>, &str) {
    load_group::named(highest).unwrap_or_default()
}

/// Reads the section, except for the templates, which need every trial to be correct.
pub(super) fn read(
    root: &Section<'_>,
    parts: &[Option<TrialTemplate>],
    names: &MetricNames<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Find> {
    let section = root.section("find")?;
    check_alone(root, &section, names, problems);
    let highest = section.text("highest").unwrap_or_default();
    let sections = section.sections("while");
    let limits = gates::requirements(&sections, names, problems);
    for (section, limit) in sections.iter().zip(&limits) {
        if matches!(limit.metric.term(), MetricTerm::Function(MetricFunction::SafeLoad(_))) {
            let problem = Problem::new(section.place("metric"), "the safe load is what this search finds");
            problems.push(problem.expected("not a limit").hint("a [[require]] or a [[claim]] may name it"));
        }
    }
    if section.has("while") && limits.is_empty() {
        problems.push(Problem::new(section.place("while"), "a search needs a limit").expected("an empty list"));
    }
    let nodes = section.node("surviving").and_then(Node::list).unwrap_or_default();
    let conditions: Vec<(&str, &TextSpan)> =
        nodes.iter().filter_map(|node| Some((node.text()?, &node.place))).collect();
    check_raised(&section, highest, parts, problems);
    check_bounds(&section, raised(highest), parts, problems);
    check_conditions(&conditions, parts, names.catalog, problems);
    let surviving = self::conditions(&section, parts);
    Some(Find { limits, surviving, ..Find::read(&section) })
}

/// Returns the conditions to search. Without any, the file's faults as written.
pub(super) fn conditions(section: &Section<'_>, parts: &[Option<TrialTemplate>]) -> Vec<String> {
    let given: Vec<String> = section.get("surviving").unwrap_or_default();
    let faulty = parts.iter().flatten().any(|parts| parts.faults.iter().any(|fault| !fault.repairs));
    match given.as_slice() {
        [] if faulty => vec![String::new()],
        [] => vec![NOTHING_LOST.to_owned()],
        _ => given,
    }
}

/// Returns a template for every variant under every condition.
pub(super) fn templates(
    find: &Find,
    settings: &[TrialSetting],
    parts: &[TrialTemplate],
    catalog: &Catalog,
    file_seed: u64,
) -> Vec<Trial> {
    let pairs = settings.iter().zip(parts);
    pairs
        .flat_map(|(setting, parts)| find.surviving.iter().map(move |condition| (setting, parts, condition)))
        .map(|(setting, parts, condition)| Trial {
            id: String::new(),
            variant: setting.variant.clone(),
            point: BTreeMap::new(),
            place: 0,
            repeat: 1,
            seed: file_seed,
            target: parts.target.clone(),
            lab: parts.lab.clone(),
            prepare: parts.prepare.clone(),
            load: parts.load.clone(),
            fleet: parts.fleet.clone(),
            faults: faults(condition, parts, catalog, file_seed),
            surviving: Some(condition.clone()),
            steps: if condition.is_empty() { parts.steps.clone() } else { Vec::new() },
        })
        .collect()
}

/// Returns the faults of a condition.
fn faults(condition: &str, parts: &TrialTemplate, catalog: &Catalog, file_seed: u64) -> Vec<Fault> {
    match condition {
        "" => parts.faults.clone(),
        NOTHING_LOST => Vec::new(),
        ONE_MEMBER_DOWN => member_down(parts, catalog, file_seed).into_iter().collect(),
        name => {
            let repairs =
                |fault: &Fault| fault.repairs && matches!(&fault.when, When::After { fault, .. } if fault == name);
            parts.faults.iter().filter(|fault| fault.name == name || repairs(fault)).cloned().collect()
        }
    }
}

/// Returns the fault of a member that is down all the time. The seed selects the member, so it is
/// the same in all trials of a search: the trials must differ in their load alone.
fn member_down(parts: &TrialTemplate, catalog: &Catalog, file_seed: u64) -> Option<Fault> {
    let (role, members) = members(&parts.lab, &parts.target.kind, catalog);
    let index = trial::seed_of_fault(file_seed, ONE_MEMBER_DOWN) % (members.len() as u64).max(1);
    let on = members.get(usize::try_from(index).ok()?)?;
    // Only hosts that Plimsoll has made can be switched off.
    let made = parts.lab.hosts.iter().any(|host| host.name == *on && !host.is_real());
    let kind = if made { "host_crash" } else { "kill" };
    let with = role.filter(|_| !made).map(|role| ("process".to_owned(), role.into())).into_iter().collect();
    let known = catalog.faults.iter().find(|fault| fault.name == kind);
    Some(Fault {
        name: ONE_MEMBER_DOWN.to_owned(),
        kind: kind.to_owned(),
        on: on.as_str().into(),
        with,
        when: When::At(0.0),
        for_s: None,
        seed: 0,
        label: ONE_MEMBER_DOWN.to_owned(),
        colour: known.map_or_else(String::new, |known| known.colour.to_owned()),
        standing: true,
        action: None,
        repairs: false,
    })
}

/// Returns the hosts that are members, and their role.
fn members(lab: &Lab, target: &TargetKind, catalog: &Catalog) -> (Option<String>, Vec<String>) {
    let TargetKind::Folder { name, .. } = target else { return (None, Vec::new()) };
    let Some(manifest) = catalog.targets.get(name) else { return (None, Vec::new()) };
    let role = &manifest.about.members;
    (Some(role.clone()), lab.that_run(role).map(|host| host.name.clone()).collect())
}

/// Finest interval, in percent: values have three digits, and trials of one value differ by as
/// much.
const PRECISION_MIN_PCT: f64 = 1.0;
const PRECISION_MAX_PCT: f64 = 100.0;

/// Shares of trials that can be requested. Above the maximum, a search has too few trials to learn
/// how they differ.
const HOLD_MIN_PCT: f64 = 50.0;
const HOLD_MAX_PCT: f64 = 99.0;

/// Reports keys that conflict with a search.
fn check_alone(root: &Section<'_>, section: &Section<'_>, names: &MetricNames<'_>, problems: &mut Vec<Problem>) {
    if let Some(sweep) = names.sweeps.first() {
        problems.push(
            Problem::new(section.place, "[find] and [sweep] exclude each other")
                .expected("searches for a value")
                .related(&sweep.path_place, "goes through given values")
                .hint("variants go with both"),
        );
    }
    if root.get::<u32>("repeat").is_some_and(|repeat| repeat > 1) {
        problems.push(
            Problem::new(root.place("repeat"), "[find] and `repeat` exclude each other")
                .expected("given for all trials")
                .related(section.place, "plays each value as often as needed")
                .hint("remove `repeat`"),
        );
    }
}

/// Checks that the path can be searched and has a first value.
fn check_raised(section: &Section<'_>, highest: &str, parts: &[Option<TrialTemplate>], problems: &mut Vec<Problem>) {
    let Some(place) = section.node("highest").map(|node| &node.place) else { return };
    let (group, key) = raised(highest);
    if ![RATE, SESSIONS, AGENTS].contains(&key) {
        let problem = Problem::new(place, format!("`{highest}` cannot be searched"))
            .expected("neither `load.rate` nor `load.agents`")
            .hint("a search raises one of these two, or `load.rate.sessions`; values of other paths are compared by [sweep]");
        problems.push(problem);
        return;
    }
    let parts: Vec<&TrialTemplate> = parts.iter().flatten().collect();
    if !parts.is_empty() && parts.iter().any(|parts| parts.load.is_none()) {
        let problem = Problem::absent(place, "a search needs a load").expected("there is no [load]");
        problems.push(problem.hint("add [load] with `agents`, `time` and a [[load.cycle]]"));
        return;
    }
    let mut whole = parts.iter().filter_map(|parts| parts.load.as_ref());
    if let Some(without) = whole.find(|load| load.population(group).is_none()) {
        let names: Vec<String> = without.groups.iter().filter_map(|group| group.name.clone()).collect();
        let problem = Problem::absent(place, "a search raises one group's value").expected("not one of the groups");
        let hint = names.first().map_or_else(
            || "this load has no groups".to_owned(),
            |first| format!("write `load.group.{first}.{key}`; the groups are {}", join_words(&names, "and")),
        );
        problems.push(problem.hint(hint));
        return;
    }
    if key != AGENTS {
        let loads: Vec<&Load> = populations(&parts, group).collect();
        check_rate(section, place, key, &loads, problems);
    } else if populations(&parts, group).any(Load::changes_agents) {
        let problem = Problem::new(place, "a search raises a plain number of agents");
        problems.push(
            problem.expected("`agents` in [load] has stages").hint(
                "write `agents = 50` in [load], the first number tried; loads with stages are compared by variants",
            ),
        );
    }
}

/// Returns the loads of all templates, or the group of this name in each.
fn populations<'a>(parts: &'a [&TrialTemplate], group: Option<&str>) -> impl Iterator<Item = &'a Load> {
    parts.iter().filter_map(move |parts| parts.load.as_ref()?.population(group))
}

/// Checks that a search can raise the loads' rate.
fn check_rate(section: &Section<'_>, place: &TextSpan, key: &str, loads: &[&Load], problems: &mut Vec<Problem>) {
    let rates = || loads.iter().filter_map(|load| load.rate.as_ref());
    if let Some(rate) = rates().find(|rate| rate.is_of_sessions() != (key == SESSIONS)) {
        let (is, path) = if rate.is_of_sessions() { ("sessions", "rate.sessions") } else { ("operations", "rate") };
        let problem = Problem::new(place, format!("`rate` in [load] starts {is}"));
        problems.push(problem.expected("another kind of rate").hint(format!("write `load.{path}`, or change `rate`")));
        return;
    }
    let unit = if key == SESSIONS { "sessions/s" } else { "operations/s" };
    if !section.has("from") && loads.iter().any(|load| load.rate.is_none()) {
        let problem = Problem::absent(place, "the first rate of the search is missing");
        problems.push(
            problem.expected("no first value").hint(format!("add `from = …` here, in {unit}, or `rate` to [load]")),
        );
    }
    if rates().any(|rate| rate.per_s().is_none()) {
        let problem = Problem::new(place, "a search raises a plain rate");
        problems.push(problem.expected("`rate` in [load] is no plain number").hint(
            "write `rate = 1000` in [load], the first value tried; rates in stages or as recorded are compared by variants",
        ));
    }
    if section.text("starts") == Some("even") && rates().any(is_random) {
        let problem = Problem::new(section.place("starts"), "`rate.poisson` in [load] starts operations at random");
        problems.push(
            problem.expected("says that they start evenly").hint("remove `starts`, or write a plain `rate` in [load]"),
        );
    }
    if loads.iter().any(|load| load.backlog.is_some()) {
        let problem = Problem::new(place, "`backlog` and a searched rate exclude each other");
        problems.push(
            problem
                .expected(
                    "a trial that drops operations is void, and shows neither that the limits hold nor that they break",
                )
                .hint("remove `backlog` from [load]: operations that wait for the target then show as latency"),
        );
    }
    if key == RATE && loads.iter().any(|load| load.has_pauses()) {
        let problem = Problem::new(place, "`think` and a searched rate exclude each other");
        problems.push(problem.expected("operations start on a schedule").hint("remove `think` from [load]"));
    }
}

/// Checks the numbers.
fn check_bounds(
    section: &Section<'_>,
    (group, key): (Option<&str>, &str),
    parts: &[Option<TrialTemplate>],
    problems: &mut Vec<Problem>,
) {
    let whole = key == AGENTS;
    for key in ["from", "up_to"] {
        let Some(value) = section.number(key).filter(|value| *value > 0.0) else { continue };
        if whole && (value.fract() != 0.0 || value > f64::from(u32::MAX)) {
            let problem = Problem::new(section.place(key), "agents are whole");
            problems.push(problem.expected("a whole number of agents, 1 or more"));
        }
    }
    if let Some(up_to) = section.number("up_to") {
        let own = parts.iter().flatten().find_map(|parts| {
            let load = parts.load.as_ref()?.population(group)?;
            if whole { Some(f64::from(load.agents)) } else { Some(load.rate.as_ref()?.per_s()? / parts.lab.speed) }
        });
        let first = section.number("from").or(own);
        if first.is_some_and(|first| first > up_to) {
            let problem = Problem::new(section.place("up_to"), "the search would begin above its bound");
            let from = if section.has("from") { "the first value" } else { "the first value is that of [load]" };
            problems.push(problem.expected("below the first value").related(section.place("from"), from));
        }
    }
    if let Some(pct) = section.number("precision_pct")
        && pct > 0.0
        && !(PRECISION_MIN_PCT..=PRECISION_MAX_PCT).contains(&pct)
    {
        let problem = Problem::new(section.place("precision_pct"), "`precision_pct` is out of range");
        let range = format!("from {PRECISION_MIN_PCT} to {PRECISION_MAX_PCT}");
        problems.push(problem.expected(range).hint("trials of the same load differ by a few percent themselves"));
    }
    if let Some(pct) = section.number("hold_pct")
        && pct > 0.0
        && !(HOLD_MIN_PCT..=HOLD_MAX_PCT).contains(&pct)
    {
        let problem = Problem::new(section.place("hold_pct"), "`hold_pct` is out of range");
        let range = format!("from {HOLD_MIN_PCT} to {HOLD_MAX_PCT}");
        problems.push(problem.expected(range).hint("50 finds the edge, 95 a load at which 95 of 100 trials hold"));
    }
}

/// Checks the conditions, in every variant.
fn check_conditions(
    given: &[(&str, &TextSpan)],
    parts: &[Option<TrialTemplate>],
    catalog: &Catalog,
    problems: &mut Vec<Problem>,
) {
    for (index, (name, place)) in given.iter().enumerate() {
        if let Some((_, first)) = given[..index].iter().find(|(other, _)| other == name) {
            let problem = Problem::new(place, format!("\"{name}\" is searched twice"));
            problems.push(problem.expected("the second").related(first, "the first"));
            continue;
        }
        // A variant with a single machine is allowed beside a cluster. That it serves nothing while
        // it is down is a valid answer.
        let count = |parts: &TrialTemplate| members(&parts.lab, &parts.target.kind, catalog).1.len();
        let beside_a_cluster = *name == ONE_MEMBER_DOWN && parts.iter().flatten().any(|parts| count(parts) > 1);
        // A problem is reported for one variant only.
        let mut asked = parts.iter().flatten().filter(|parts| !(beside_a_cluster && count(parts) == 1));
        problems.extend(asked.find_map(|parts| check_condition(name, place, parts, catalog)));
    }
}

fn check_condition(name: &str, place: &TextSpan, parts: &TrialTemplate, catalog: &Catalog) -> Option<Problem> {
    match name {
        NOTHING_LOST => None,
        ONE_MEMBER_DOWN => {
            let count = members(&parts.lab, &parts.target.kind, catalog).1.len();
            let what = match count {
                0 => "Plimsoll has no hosts here, so no member can be down".to_owned(),
                1 => "there is one member, so none is left when it is down".to_owned(),
                _ => return None,
            };
            let problem = Problem::new(place, what).expected("needs two members at least");
            Some(problem.hint("add [lab] with `hosts = 2` or more, or name a [[fault]] instead"))
        }
        name => {
            let faults = || parts.faults.iter().filter(|fault| !fault.repairs);
            let names = faults().map(|fault| fault.name.as_str());
            let Some(fault) = faults().find(|fault| fault.name == name) else {
                let known = [NOTHING_LOST, ONE_MEMBER_DOWN].into_iter().chain(names);
                let problem = Problem::absent(place, format!("there is no fault called \"{name}\""));
                return Some(problem.expected("unknown condition").maybe(nearest_hint(name, known)));
            };
            let When::After { fault: other, .. } = &fault.when else { return None };
            let problem =
                Problem::new(place, format!("`{name}` follows `{other}`, which this condition does not play"));
            let hint = "leave `surviving` out to have all faults as written, or give this one an `at`";
            Some(problem.expected("only this fault is played").hint(hint))
        }
    }
}
