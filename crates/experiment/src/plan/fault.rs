//! `[[fault]]` of a trial: its kind, its time and its victims, checked against the faults that the
//! lab can inject. The fault's look in charts and its healing come from the catalog, so later
//! stages need no catalog.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::{self, Heals};
use crate::duration;
use crate::keys::section;
use crate::manifest::Manifest;
use crate::plan::check_context::CheckContext;
use crate::plan::lab::Lab;
use crate::plan::operation::{self, NamedArgument};
use crate::plan::target::TargetKind;
use crate::problem::{Problem, SHOWN, join_words, nearest_hint};
use crate::section::Section;
use crate::tier::{DISK_TIER, Tier, TierMedium};
use crate::tree::{Node, TextSpan};

section! {
    /// `[[fault]]`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Fault = FAULT {
        name = required: Name => String, "Name for paths and other faults: fault.NAME.at";
        kind = required: Text => String,
            "Kind of fault; `plimsoll faults` lists the kinds", ["type", "fault", "do"];
        on = "one": Text => Victim,
            "one, all, minority, majority, leader, or a member's name", ["target", "host", "node", "member"];
        with: Map(&Any) => BTreeMap<String, Value>, "Arguments of the kind", ["args", "arguments"];
        => when: When = |_| When::At(0.0), "Time of the fault";
        at: PAUSE,
            "Time after load start, ramp included; with `every`, the first time", ["start", "when", "time"];
        every: TIME,
            "Period of repeats while the load lasts; the first time after one period", ["interval", "period"];
        after: Text,
            "Event to follow: \"fault.NAME.healed\", \"fault.NAME.begun\" or \"action.NAME.done\", perhaps with \
             \" + 5s\"";
        for: TIME => for_s: Option<f64>,
            "Time until it is healed; default: it heals by itself, or at the end of the trial", ["duration", "lasts"];
        seed: Whole { min: 1, max: i64::MAX } => u64,
            "Seed for the choice of victim; default: from the trial's";
        => label: String, "Label in charts";
        => colour: String, "Colour in charts, `#rrggbb`";
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        => standing: bool,
            "Whether it is a condition, not an event: it lasts from before the load to its end, and `when` is ignored";
        #[serde(default, skip_serializing_if = "Option::is_none")]
        => action: Option<String>,
            "Action of the target that a step runs on the members, in place of a fault";
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        => repairs: bool,
            "Whether it is an `[[action]]`: an operator's repair, which begins and ends no outage";
    }
}

section! {
    const ACTION {
        name = required: Name, "Name for paths, faults and other actions: action.NAME.at";
        ..FAULT: on, with, at, every, seed;
        kind = required: Text,
            "Kind of action: command, call or restart, as `plimsoll faults` describes them", ["type", "do"];
        after: Text,
            "Event to follow: \"fault.NAME.begun\", \"fault.NAME.healed\" or \"action.NAME.done\", perhaps with \
             \" + 5s\"";
    }
}

/// The members that a fault hits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Victim {
    /// One member, at random.
    #[default]
    One,
    /// All members.
    All,
    /// The largest number of members below half, at random.
    Minority,
    /// The smallest number of members above half, at random.
    Majority,
    /// The member that the target names as its leader.
    Leader,
    /// The member on this host.
    #[serde(untagged)]
    Named(String),
}

impl Victim {
    /// Victims that exist in every lab.
    const GROUPS: [Self; 5] = [Self::One, Self::All, Self::Minority, Self::Majority, Self::Leader];

    /// Returns the victim as it is written in a file.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::One => "one",
            Self::All => "all",
            Self::Minority => "minority",
            Self::Majority => "majority",
            Self::Leader => "leader",
            Self::Named(name) => name,
        }
    }
}

impl From<&str> for Victim {
    fn from(name: &str) -> Self {
        let group = Self::GROUPS.into_iter().find(|group| group.name() == name);
        group.unwrap_or_else(|| Self::Named(name.to_owned()))
    }
}

impl std::fmt::Display for Victim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Time at which a fault begins. Seconds from load start, ramp included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Once, at this second.
    At(f64),
    /// Repeatedly while the load lasts: at `first_s`, then every `every_s`.
    Every {
        /// Time of the first occurrence.
        first_s: f64,
        /// Period.
        every_s: f64,
    },
    /// A fixed delay after another fault began or healed.
    After {
        /// The other fault's name.
        fault: String,
        /// Whether the delay counts from the other fault's healing, and not from its beginning.
        healed: bool,
        /// The delay, in seconds.
        plus_s: f64,
    },
}

/// Colour of actions in charts.
const ACTION_COLOUR: &str = "#4a6d8c";

/// Reads all faults, and then the actions. `end` is the end of the load, and its place in the file.
pub(super) fn read(
    root: &Section<'_>,
    victims: &Victims<'_>,
    end: Option<&(f64, TextSpan)>,
    context: &mut CheckContext<'_>,
) -> Vec<Fault> {
    let mut sections = root.sections("fault");
    let faults_end = sections.len();
    sections.extend(root.sections("action").into_iter().map(|section| Section { keys: FAULT, ..section }));
    let mut names = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let table = if index < faults_end { "fault" } else { "action" };
        names.extend(section.text("name").map(|name| format!("{table}.{name}")));
    }
    let mut faults = Vec::new();
    let mut heals = Vec::new();
    let mut firsts: HashMap<&str, &Section<'_>> = HashMap::new();
    for (index, section) in sections.iter().enumerate() {
        if let Some(name) = section.text("name")
            && let Some(first) = firsts.insert(name, section)
        {
            // A third section of this name is also compared with the first.
            firsts.insert(name, first);
            context.problems.push(
                Problem::new(section.place("name"), format!("two faults or actions are called `{name}`"))
                    .expected("the second")
                    .related(first.place("name"), "the first")
                    .hint("paths and other faults refer to a fault by its name"),
            );
        }
        let kind = kind(section, context);
        if let Some(kind) = kind {
            arguments(section, kind, context);
            healing(section, kind, context);
        }
        victims.check(section, kind, context);
        let when = read_moment(section, &names, context);
        let repairs = index >= faults_end;
        if let Some(kind) = kind.filter(|_| repairs) {
            needs_no_healing(section, kind, context);
        }
        heals.push(kind.map(|kind| if repairs { Heals::ByItself } else { kind.heals }));
        let read = fault(section, kind, when);
        let colour = if repairs { ACTION_COLOUR.to_owned() } else { read.colour.clone() };
        faults.push(Fault { repairs, colour, ..read });
    }
    check_moments(&sections, &faults, &heals, end, root.has("load"), context);
    faults
}

/// Reads the fault of a schedule's step, which has no time. Its section has no name either.
pub(super) fn read_in_step(section: &Section<'_>, victims: &Victims<'_>, context: &mut CheckContext<'_>) -> Fault {
    let kind = kind(section, context);
    if let Some(kind) = kind {
        arguments(section, kind, context);
        healing(section, kind, context);
    }
    victims.check(section, kind, context);
    fault(section, kind, None)
}

fn fault(section: &Section<'_>, kind: Option<&'static catalog::Fault>, when: Option<When>) -> Fault {
    let fault = Fault::read(section);
    Fault {
        // A missing time has been reported.
        when: when.unwrap_or(fault.when),
        label: kind.map_or_else(String::new, |kind| kind.label.to_owned()),
        colour: kind.map_or_else(String::new, |kind| kind.colour.to_owned()),
        ..fault
    }
}

fn kind(section: &Section<'_>, context: &mut CheckContext<'_>) -> Option<&'static catalog::Fault> {
    let name = section.text("kind")?;
    let found = context.catalog.faults.iter().copied().find(|fault| fault.name == name);
    if found.is_none() {
        let hint = nearest_hint(name, context.catalog.faults.iter().map(|fault| fault.name));
        let problem = Problem::absent(section.place("kind"), format!("there is no fault of kind `{name}`"));
        context.problems.push(problem.expected("unknown kind").maybe(hint));
    }
    found
}

/// Checks `with`: the kind's arguments, and for `call` those of the operation.
fn arguments(section: &Section<'_>, kind: &'static catalog::Fault, context: &mut CheckContext<'_>) {
    let given = section.entries("with");
    let takes_call = kind.takes.iter().any(|field| field.name == "call");
    let call = given.iter().find(|entry| entry.key == "call" && takes_call);
    let operations = context.protocol.map(|protocol| protocol.operations).unwrap_or_default();
    let operation = call.and_then(|call| operations.iter().find(|known| Some(known.name) == call.node.text()));
    if let (Some(call), None, Some(protocol)) = (call, operation, context.protocol) {
        let name = call.node.text().unwrap_or_default();
        let what = format!("the protocol `{}` has no operation `{name}`", protocol.name);
        let hint = nearest_hint(name, operations.iter().map(|operation| operation.name));
        context.problems.push(Problem::absent(&call.node.place, what).expected("unknown operation").maybe(hint));
        return;
    }
    let takes_port = kind.takes.iter().any(|field| field.name == "port");
    for entry in given.iter().filter(|entry| entry.key == "port" && takes_port) {
        let refused = entry.node.text().and_then(|name| context.ports.refuse(name, &entry.node.place));
        context.problems.extend(refused);
    }
    if kind.takes.iter().any(|field| field.name == "tier") {
        let named = given.iter().find(|entry| entry.key == "tier").map(|entry| &entry.node);
        context.problems.extend(refused_tier(kind, named, section.place("kind"), &context.tiers));
    }
    // The arguments beside `call` are those of the operation. While the operation is unknown, any
    // argument passes.
    let own = kind.takes.iter().filter(|field| field.name != "*" || operation.is_none());
    let fields = own.chain(operation.map(|operation| operation.takes).unwrap_or_default());
    let fields: Vec<NamedArgument<'_>> = fields.map(NamedArgument::from).collect();
    let heading = if section.has("with") { section.place("with") } else { section.place("kind") };
    let before = context.problems.len();
    operation::arguments_of(
        &format!("a fault of kind `{}`", kind.name),
        &fields,
        &given,
        heading,
        &mut context.problems,
    );
    // After a misspelt argument, the kind's own check would only report it as missing.
    if let (Some(check), true) = (kind.check, context.problems.len() == before) {
        values(section, kind, check, heading, context);
    }
}

/// Returns the problem of a disk fault that hits no volume of the target.
fn refused_tier(
    kind: &'static catalog::Fault,
    named: Option<&Node>,
    place: &TextSpan,
    tiers: &[Tier],
) -> Option<Problem> {
    let volumes: Vec<String> = tiers
        .iter()
        .filter(|tier| tier.medium == TierMedium::Volume)
        .map(|tier| format!("\"{}\"", tier.name))
        .collect();
    let hint = || format!("with = {{ tier = {} }}", join_words(&volumes, "or"));
    let Some(named) = named else {
        let misses = !volumes.is_empty() && tiers.iter().all(|tier| tier.name != DISK_TIER);
        let problem =
            || Problem::new(place, format!("no folder of the target is on the disk that `{}` hits", kind.name));
        return misses.then(|| problem().expected("without `tier`, it is that of the host's data").hint(hint()));
    };
    let name = named.text()?;
    if name == DISK_TIER || volumes.iter().any(|volume| volume.trim_matches('"') == name) {
        return None;
    }
    let what = format!("no folder of the target is on a tier `{name}` with a volume of its own");
    let problem = Problem::absent(&named.place, what).expected("nothing to hit");
    let none = || "the target's `folders`, in target.toml, say what is on which".to_owned();
    Some(problem.hint(if volumes.is_empty() { none() } else { hint() }))
}

/// Reports the problems that the kind's own check finds in the values.
fn values(
    section: &Section<'_>,
    kind: &'static catalog::Fault,
    check: catalog::ArgumentCheck,
    heading: &TextSpan,
    context: &mut CheckContext<'_>,
) {
    let given = section.entries("with");
    let with = given.iter().map(|entry| (entry.key.clone(), entry.node.json())).collect();
    for wrong in check(&with) {
        let entry = given.iter().find(|entry| Some(entry.key.as_str()) == wrong.argument);
        let place = entry.map_or(heading, |entry| &entry.node.place);
        let problem = Problem::new(place, format!("{}: {}", kind.name, wrong.what));
        context.problems.push(problem.expected("not possible").maybe(wrong.hint));
    }
}

/// Checks that an action leaves no damage that Plimsoll would have to undo.
fn needs_no_healing(section: &Section<'_>, kind: &catalog::Fault, context: &mut CheckContext<'_>) {
    if kind.heals == Heals::AfterFor && kind.name != "command" {
        let problem = Problem::new(section.place("kind"), format!("`{}` is no action: it breaks something", kind.name));
        let problem = problem.expected("the actions are command, call and restart");
        context.problems.push(problem.hint("make it a [[fault]]; the outage of the fault before it ends with it"));
    }
    let given = section.entries("with");
    if let Some(entry) = given.iter().find(|entry| entry.key == "heal") {
        let problem = Problem::new(&entry.node.place, "an action is not undone").expected("there is nothing to heal");
        context.problems.push(problem.hint("remove `heal`, or make it a [[fault]]"));
    }
}

fn healing(section: &Section<'_>, kind: &catalog::Fault, context: &mut CheckContext<'_>) {
    if section.has("for") && kind.heals == Heals::ByItself {
        context.problems.push(
            Problem::new(section.place("for"), format!("a fault of kind `{}` heals by itself", kind.name))
                .expected("there is nothing to undo")
                .hint("remove `for`"),
        );
    }
}

/// Formats a time for messages.
fn seconds(seconds: f64) -> String {
    duration::show(seconds)
}

const WHEN_HINT: &str = "`at = \"90s\"` once, `every = \"30s\"` again and again, or `after = \"fault.NAME.healed\"`";

/// Reads the time at which a fault begins.
fn read_moment(section: &Section<'_>, names: &[String], context: &mut CheckContext<'_>) -> Option<When> {
    if section.has("after") {
        for key in ["at", "every"].into_iter().filter(|key| section.has(key)) {
            let problem = Problem::new(section.place(key), format!("`after` and `{key}` exclude each other"));
            context.problems.push(
                problem.expected("by the clock").related(section.place("after"), "by another fault").hint(WHEN_HINT),
            );
        }
        return after(section, names, context);
    }
    match (section.has("every"), section.has("at")) {
        (true, at) => {
            let every_s = section.number("every")?;
            let first_s = if at { section.number("at")? } else { every_s };
            Some(When::Every { first_s, every_s })
        }
        (false, true) => section.number("at").map(When::At),
        (false, false) => {
            let place = section.node("name").map_or(section.place, |node| &node.place);
            let problem = Problem::absent(place, "this fault has no start");
            context.problems.push(problem.expected("none of `at`, `every`, `after`").hint(WHEN_HINT));
            None
        }
    }
}

/// Reads `fault.NAME.healed` or `fault.NAME.begun`, with an optional ` + 5s`.
fn after(section: &Section<'_>, names: &[String], context: &mut CheckContext<'_>) -> Option<When> {
    let node = section.node("after")?;
    let text = node.text()?;
    let (event, plus) = text.split_once('+').map_or((text, None), |(event, plus)| (event, Some(plus)));
    let plus_s = match plus.map(duration::parse_s) {
        None => 0.0,
        Some(Ok(plus_s)) => plus_s,
        Some(Err(error)) => {
            let place = node.inside(event.len() + 1..text.len());
            let problem = Problem::new(&place, "this is not a duration").expected("such as \"fault.x.healed + 5s\"");
            context.problems.push(problem.hint(error.to_string()));
            return None;
        }
    };
    let event = event.trim();
    let parts = event.rsplit_once('.').and_then(|(path, moment)| Some((path, path.split_once('.')?, moment)));
    let Some((path, (table, name), moment)) = parts.filter(|(_, (table, _), moment)| {
        matches!((*table, *moment), ("fault", "healed" | "begun") | ("action", "done"))
    }) else {
        let problem = Problem::new(&node.place, "a fault cannot follow this");
        context.problems.push(problem.expected("\"fault.NAME.healed\", \"fault.NAME.begun\" or \"action.NAME.done\""));
        return None;
    };
    let place = node.inside(table.len() + 1..path.len());
    if section.text("name") == Some(name) {
        context.problems.push(Problem::new(&place, "a fault cannot follow itself").expected("itself").hint(WHEN_HINT));
        return None;
    }
    if !names.iter().any(|known| known == path) {
        let what = format!("there is no {table} called `{name}`");
        let problem = Problem::absent(&place, what).expected(format!("unknown {table}"));
        let of_table = names.iter().filter_map(|known| known.strip_prefix(table)?.strip_prefix('.'));
        let others = of_table.filter(|other| section.text("name") != Some(other));
        // Only problems that are shown get a hint. Otherwise thousands of wrong names would each be
        // compared with thousands of others.
        let is_shown = context.problems.len() < SHOWN;
        context.problems.push(problem.maybe(if is_shown { nearest_hint(name, others) } else { None }));
        return None;
    }
    Some(When::After { fault: name.to_owned(), healed: moment == "healed", plus_s })
}

/// Checks that each fault begins at all, and before the load ends.
fn check_moments(
    sections: &[Section<'_>],
    faults: &[Fault],
    heals: &[Option<Heals>],
    end: Option<&(f64, TextSpan)>,
    has_load: bool,
    context: &mut CheckContext<'_>,
) {
    for (section, fault) in sections.iter().zip(faults) {
        if matches!(fault.when, When::Every { .. }) && !has_load {
            let problem = Problem::new(section.place("every"), "this fault would repeat without end");
            context.problems.push(problem.expected("there is no load to end it").hint("add [load], or use `at`"));
        }
        let begins = match begins(fault, faults, heals, faults.len()) {
            Ok(begins_s) => begins_s,
            Err(never) => {
                let what = match never {
                    Never::Heals(name) => {
                        format!("`{name}` is not healed before the trial ends, so this fault never begins")
                    }
                    Never::Ends => "these faults wait for each other without end".to_owned(),
                };
                let problem = Problem::new(section.place("after"), what).expected("this event never happens");
                context.problems.push(problem.hint("give the other fault `for`, or follow its `begun`"));
                continue;
            }
        };
        if let (Some(begins_s), Some((end_s, place))) = (begins, end)
            && begins_s >= *end_s
        {
            let key = ["at", "every", "after"].into_iter().find(|key| section.has(key)).unwrap_or("name");
            context.problems.push(
                Problem::new(section.place(key), format!("the fault `{}` begins when the load is over", fault.name))
                    .expected(format!("{} after load start", seconds(begins_s)))
                    .related(place, format!("the load ends after {}", seconds(*end_s)))
                    .hint("times count from load start, the ramp included; with a short --set load.time=…, set the fault's time too"),
            );
        }
    }
}

enum Never {
    /// The fault waits for this fault to heal, which never happens.
    Heals(String),
    /// The fault waits in a cycle of faults.
    Ends,
}

/// Returns the time at which a fault first begins, or `None` if it is not known.
fn begins(fault: &Fault, faults: &[Fault], heals: &[Option<Heals>], depth: usize) -> Result<Option<f64>, Never> {
    let (name, healed, plus_s) = match &fault.when {
        When::At(at_s) => return Ok(Some(*at_s)),
        When::Every { first_s, .. } => return Ok(Some(*first_s)),
        When::After { fault, healed, plus_s } => (fault, *healed, *plus_s),
    };
    if depth == 0 {
        return Err(Never::Ends);
    }
    let Some(index) = faults.iter().position(|other| other.name == *name) else { return Ok(None) };
    let other = &faults[index];
    let Some(other_s) = begins(other, faults, heals, depth - 1)? else { return Ok(None) };
    let lasts_s = match (healed, heals[index], other.for_s) {
        (false, _, _) | (true, Some(Heals::ByItself), _) => Some(0.0),
        (true, Some(Heals::AfterFor), None) => return Err(Never::Heals(name.clone())),
        (true, _, for_s) => for_s,
    };
    Ok(lasts_s.map(|lasts_s| other_s + lasts_s + plus_s))
}

/// Faults allowed for pods that Plimsoll did not start: faults of their network, and their end.
/// Signals from outside do not reach a pod's processes. Its CPU, memory and disk belong to its
/// platform.
const OF_PODS: &[&str] = &["command", "host_crash", "link_flap", "lossy_link", "partition", "slow_link"];
/// Faults allowed for machines reached over ssh on which the target already runs: faults of their
/// network, and commands that the user gives.
const OF_MACHINES: &[&str] = &["command", "link_flap", "lossy_link", "partition", "slow_link"];
/// Faults allowed for any other target that already runs: commands that the user gives, on this
/// machine.
const OF_OTHERS: &[&str] = &["command"];

/// Smallest number of members that has a minority.
const MINORITY_FROM: usize = 3;

/// The hosts and members that the faults of a trial may hit.
pub(super) struct Victims<'a> {
    lab: &'a Lab,
    /// Manifest of the target on the hosts, if it is known.
    manifest: Option<&'a Manifest>,
    /// Whether Plimsoll starts the processes.
    is_ours: bool,
    /// Allowed faults of a target that already runs, and the reason why others are refused.
    allowed: Option<(&'static [&'static str], &'static str)>,
}

impl<'a> Victims<'a> {
    pub fn of(lab: &'a Lab, target: Option<&TargetKind>, catalog: &'a catalog::Catalog) -> Self {
        let manifest = match target {
            Some(TargetKind::Folder { name, .. }) => catalog.targets.get(name),
            _ => None,
        };
        let is_ours = manifest.is_some() || matches!(target, Some(TargetKind::Started { .. })) || lab.pods.is_some();
        let allowed = match target {
            _ if lab.pods.is_some() => Some((OF_PODS, "cannot be done to a pod")),
            Some(TargetKind::Running { .. }) if lab.hosts.iter().any(super::Host::is_real) => {
                Some((OF_MACHINES, "cannot be done to a machine on which the target runs already"))
            }
            Some(TargetKind::Running { .. }) => {
                Some((OF_OTHERS, "is refused: this experiment does not start the target, so it must not break it"))
            }
            _ => None,
        };
        Self { lab, manifest, is_ours, allowed }
    }

    /// Returns the manifest of the target on the hosts, if it is known.
    pub fn manifest(&self) -> Option<&'a Manifest> {
        self.manifest
    }

    /// Returns the names of the hosts. This machine without a lab is `n1`.
    fn hosts(&self) -> Vec<&'a str> {
        match self.lab.hosts.as_slice() {
            [] => vec!["n1"],
            hosts => hosts.iter().map(|host| host.name.as_str()).collect(),
        }
    }

    /// Returns the hosts that run a role.
    fn that_run(&self, role: &str) -> Vec<&'a str> {
        if self.lab.hosts.is_empty() {
            return self.hosts();
        }
        self.lab.that_run(role).map(|host| host.name.as_str()).collect()
    }

    /// Checks `on`, and the role that a fault of processes names.
    pub fn check(&self, section: &Section<'_>, kind: Option<&catalog::Fault>, context: &mut CheckContext<'_>) {
        if let (Some((allowed, why)), Some(kind)) = (self.allowed, kind)
            && !allowed.contains(&kind.name)
        {
            let problem = Problem::new(section.place("kind"), format!("`{}` {why}", kind.name));
            let problem = problem.expected("not with a target that runs already");
            let choices: Vec<String> = allowed.iter().map(|name| format!("`{name}`")).collect();
            let hint = match choices.as_slice() {
                [_] => "let Plimsoll start it, with `use` or `start`; or say what breaks it: kind = \"command\", \
                        with = { run = \"…\", heal = \"…\" }"
                    .to_owned(),
                _ => format!("the choices are {}", join_words(&choices, "and")),
            };
            context.problems.push(problem.hint(hint));
        }
        let Some(on) = section.text("on") else { return };
        let hosts = self.hosts();
        if matches!(Victim::from(on), Victim::Named(_)) && !hosts.contains(&on) {
            let groups = Victim::GROUPS;
            let hint = nearest_hint(on, groups.iter().map(Victim::name).chain(hosts));
            let problem = Problem::absent(section.place("on"), format!("there is no `{on}` in this lab"));
            context.problems.push(problem.expected("unknown victim").maybe(hint));
            return;
        }
        let takes = |name: &str| kind.is_some_and(|kind| kind.takes.iter().any(|field| field.name == name));
        let given = section.entries("with").into_iter().find(|entry| entry.key == "process" && takes("process"));
        if let (Some(entry), Some(manifest)) = (&given, self.manifest)
            && let Some(role) = entry.node.text()
            && !manifest.processes.iter().any(|process| process.role == role)
        {
            let roles = manifest.processes.iter().map(|process| process.role.as_str());
            let problem = Problem::absent(&entry.node.place, format!("`{}` has no role `{role}`", manifest.name));
            context.problems.push(problem.expected("unknown role").maybe(nearest_hint(role, roles)));
            return;
        }
        let asked = given.as_ref().and_then(|entry| entry.node.text());
        let role = asked.or(self.manifest.map(|manifest| manifest.about.members.as_str()));
        let generators = |name: &&str| self.lab.hosts.iter().any(|host| host.is_generator && host.name == **name);
        let plain = || hosts.iter().copied().filter(|name| !generators(name)).collect();
        let members = role.map_or_else(plain, |role| self.that_run(role));
        let of_processes = takes("process") || takes("call");
        if let (true, true, Some(role)) = (hosts.contains(&on), of_processes && !members.contains(&on), role) {
            let what = format!("`{on}` runs no `{role}`");
            let runs = self.lab.hosts.iter().find(|host| host.name == on).and_then(|host| host.roles.first());
            let hint = match runs.filter(|_| takes("process") && asked.is_none()) {
                Some(runs) => {
                    format!("add with = {{ process = \"{runs}\" }} to hit this process; {}", those(role, &members))
                }
                None => those(role, &members),
            };
            context.problems.push(Problem::new(section.place("on"), what).expected("no such process there").hint(hint));
        }
        if on == "minority" && self.is_ours && members.len() < MINORITY_FROM {
            let what = match members.len() {
                1 => "one member has no minority".to_owned(),
                count => format!("{count} members have no minority"),
            };
            let problem = Problem::new(section.place("on"), what).expected("needs at least three members");
            context.problems.push(problem.hint("more hosts in [lab], or on = \"one\""));
        }
    }
}

fn those(role: &str, members: &[&str]) -> String {
    let named: Vec<String> = members.iter().map(|name| format!("`{name}`")).collect();
    match named.as_slice() {
        [] => format!("no host runs `{role}`"),
        named => format!("`{role}` runs on {}", join_words(named, "and")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_are_recorded_as_they_are_written() {
        for group in Victim::GROUPS {
            assert_eq!(Victim::from(group.name()), group);
            assert_eq!(serde_json::to_value(&group).unwrap(), Value::from(group.name()));
        }
        let host: Victim = serde_json::from_str("\"n2\"").unwrap();
        assert_eq!((&host, host.name()), (&Victim::Named("n2".to_owned()), "n2"));
        assert_eq!(serde_json::to_string(&host).unwrap(), "\"n2\"");
    }
}
