//! `[load]` of a trial, with every default filled in: what is played, at which rate, and over which connections.

use core::net::IpAddr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::duration::show;
use crate::keys;
use crate::keys::experiment::STAGE;
use crate::plan::operation::{self, Scope};
use crate::plan::trial::CheckContext;
use crate::plan::{Feed, Load, Retry, Step, StepOrder, Warmup, WhenFailed};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::{Node, TomlTable, TomlValue};

/// Names of the feeds, for the templates of all sections.
pub(super) fn feed_names(root: &Section<'_>) -> Vec<String> {
    let feeds = root.section("load").map(|load| load.sections("feed")).unwrap_or_default();
    feeds.iter().filter_map(|feed| feed.text("name")).map(ToOwned::to_owned).collect()
}

/// Reads the section. What is wrong is reported, and stands as 0 in the load, which is not used then.
pub(super) fn read(section: &Section<'_>, scene: &mut CheckContext<'_>) -> Load {
    times(section, scene);
    let order = order(section, scene);
    let steps = match order {
        StepOrder::Cycle => cycle(section, scene),
        StepOrder::Mix => mix(section, scene),
    };
    Load {
        agents: section.whole("agents").unwrap_or(0),
        from: from(section, scene),
        ramp_s: section.seconds("ramp").unwrap_or(0.0),
        time_s: section.seconds("time").unwrap_or(0.0),
        timeout_s: section.seconds("timeout").unwrap_or(0.0),
        drain_s: section.seconds("drain").unwrap_or(0.0),
        think_s: section.seconds("think").unwrap_or(0.0),
        think_spread_pct: section.number("think_spread_pct").unwrap_or(0.0),
        warmup: section.seconds("warmup").map_or(Warmup::Auto, Warmup::Seconds),
        retry: retry(section),
        reconnect_s: section.seconds("reconnect").unwrap_or(0.0),
        connections: read_connections(section, scene),
        rate: read_rate(section, scene),
        backlog: backlog(section, scene),
        threads: section.whole("threads"),
        order,
        when_failed: match section.text("when_failed") {
            Some("next cycle") => WhenFailed::NextCycle,
            _ => WhenFailed::GoOn,
        },
        steps,
        feeds: feeds(section, scene),
        script: section.text("script").map(ToOwned::to_owned),
    }
}

/// Whether this machine has them is seen when the load begins.
fn from(section: &Section<'_>, scene: &mut CheckContext<'_>) -> Vec<String> {
    let mut addresses = Vec::new();
    for node in section.node("from").and_then(Node::list).unwrap_or_default() {
        let Some(text) = node.text() else { continue };
        if text.parse::<IpAddr>().is_err() {
            scene.problems.push(
                Problem::new(&node.place, format!("`{text}` is no IP address"))
                    .expected("an address of this machine, such as \"10.0.0.5\"")
                    .hint("`ip address` lists them; names and ports have no place here"),
            );
        }
        addresses.push(text.to_owned());
    }
    addresses
}

/// How the times go together.
fn times(section: &Section<'_>, scene: &mut CheckContext<'_>) {
    let Some(time_s) = section.seconds("time") else { return };
    if section.seconds("ramp").is_some_and(|ramp_s| ramp_s > time_s) {
        scene.problems.push(
            Problem::new(section.place("ramp"), "the ramp is longer than the load")
                .expected("a part of `time`")
                .related(section.place("time"), "the whole load")
                .hint("`time` includes the ramp"),
        );
    }
    if section.seconds("warmup").is_some_and(|warmup_s| warmup_s >= time_s) {
        scene.problems.push(
            Problem::new(section.place("warmup"), "nothing is left to measure after the warm-up")
                .expected("shorter than `time`")
                .related(section.place("time"), "the whole load"),
        );
    }
    spread(section, scene);
    if section.has("rate") && section.seconds("think").is_some_and(|think_s| think_s > 0.0) {
        scene.problems.push(
            Problem::new(section.place("think"), "`think` and `rate` exclude each other")
                .expected("a pause belongs to a closed loop")
                .related(section.place("rate"), "open loop: operations start on a schedule")
                .hint("remove one of the two"),
        );
    }
}

/// A pause cannot be less than none.
fn spread(section: &Section<'_>, scene: &mut CheckContext<'_>) {
    if section.number("think_spread_pct").is_some_and(|spread_pct| !(0.0..=100.0).contains(&spread_pct)) {
        scene.problems.push(
            Problem::new(section.place("think_spread_pct"), "a pause varies by 0 to 100 percent")
                .expected("percent of `think`"),
        );
    }
}

fn order(section: &Section<'_>, scene: &mut CheckContext<'_>) -> StepOrder {
    const HINT: &str =
        "[[load.cycle]] for operations in a fixed order, [[load.mix]] for operations at random by `weight`";
    let filled = |key: &str| section.node(key).and_then(Node::list).is_none_or(|list| !list.is_empty());
    match (section.has("cycle"), section.has("mix")) {
        (true, true) => scene.problems.push(
            Problem::new(section.place("mix"), "`cycle` and `mix` exclude each other")
                .expected("at random")
                .related(section.place("cycle"), "in a fixed order")
                .hint(HINT),
        ),
        (false, false) => scene.problems.push(
            Problem::absent(section.place, "the load has no operations")
                .expected("neither `cycle` nor `mix`")
                .hint(HINT),
        ),
        (true, false) if !filled("cycle") => scene.problems.push(empty(section, "cycle").hint(HINT)),
        (false, true) if !filled("mix") => scene.problems.push(empty(section, "mix").hint(HINT)),
        _ => {}
    }
    if section.has("mix") && !section.has("cycle") { StepOrder::Mix } else { StepOrder::Cycle }
}

fn empty(section: &Section<'_>, key: &str) -> Problem {
    Problem::absent(section.place(key), format!("`load.{key}` is empty")).expected("no operations")
}

fn cycle(section: &Section<'_>, scene: &mut CheckContext<'_>) -> Vec<Step> {
    let mut slots: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut steps = Vec::new();
    for part in section.sections("cycle") {
        let step = operation::read(&part, &Scope { slots: &slots, no_slots: None, by_agent: true }, scene);
        for slot in step.keep.keys() {
            slots.entry(slot.clone()).or_default().push(step.every);
        }
        steps.push(step);
    }
    steps
}

fn mix(section: &Section<'_>, scene: &mut CheckContext<'_>) -> Vec<Step> {
    let scope = Scope {
        slots: &BTreeMap::new(),
        no_slots: Some("each operation of a mix is a cycle of its own; slots need a [[load.cycle]]"),
        by_agent: true,
    };
    section.sections("mix").iter().map(|part| operation::read(part, &scope, scene)).collect()
}

fn retry(section: &Section<'_>) -> Retry {
    if let Some(retry) = section.section("retry") {
        let wait_s = retry.seconds("wait").unwrap_or(0.0);
        return match retry.whole("tries") {
            Some(tries) => Retry::Tries { tries, wait_s },
            None => Retry::Wait { wait_s },
        };
    }
    match section.text("retry") {
        Some("wait") => Retry::Wait { wait_s: WAIT_S },
        _ => Retry::FailFast,
    }
}

/// The pause of a plain `retry = "wait"`; the same as the default of `retry.wait`.
const WAIT_S: f64 = 0.05;

fn feeds(section: &Section<'_>, scene: &mut CheckContext<'_>) -> Vec<Feed> {
    let mut feeds: Vec<Feed> = Vec::new();
    for part in section.sections("feed") {
        let (Some(name), Some(file)) = (part.text("name"), part.text("file")) else { continue };
        if feeds.iter().any(|feed| feed.name == name) {
            let what = format!("two feeds are called `{name}`");
            scene.problems.push(Problem::new(part.place("name"), what).expected("the second"));
        }
        feeds.push(Feed { name: name.to_owned(), file: file.to_owned(), random: part.text("order") == Some("random") });
    }
    feeds
}

/// What to write, for whoever wrote something else.
const FORMS: &str = "{ poisson = 5000 } or { replay = \"starts.csv\" }";
const STAGE_FORMS: &str = "{ to = 1000, over = \"10s\" } goes there evenly, { at = 1000, for = \"30s\" } stays";

/// When operations start, whatever became of those before: an open loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rate {
    /// So many operations/s, evenly spaced.
    Constant(f64),
    /// At random and independently of each other.
    Poisson {
        /// Operations/s in the mean.
        poisson: f64,
    },
    /// As a file says.
    Replay {
        /// Path as written, relative to the experiment file: CSV with a column `at_s`.
        replay: String,
        /// Each time in it is taken so many times as long.
        #[serde(default = "once")]
        stretch: f64,
    },
    /// The rate rises, falls and stays; after the last     } else if has_rates && stages.iter().all(|stage| stage.from <= 0.0 && stage.to <= 0.0) { its rate holds.
    Stages(Vec<RateStage>),
}

fn once() -> f64 {
    1.0
}

/// A time in which the rate changes evenly, or stays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateStage {
    /// Operations/s at its beginning.
    pub from: f64,
    /// Operations/s at its end.
    pub to: f64,
    /// Its length, seconds.
    pub over_s: f64,
}

/// A bound on the operations that are due and have not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// So many may wait, of all agents together.
    pub most: u32,
    /// What happens when another one becomes due.
    pub overflow: Overflow,
}

/// What happens to an operation that becomes due when as many wait as may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overflow {
    /// It never begins, and is counted.
    #[default]
    Drop,
    /// The load ends there.
    Stop,
}

/// Whether a swept path is an offered rate: nobody in it hinders another, as agents do.
#[must_use]
pub fn is_offered(path: &str) -> bool {
    path == "load.rate" || path.starts_with("load.rate.")
}

impl Rate {
    /// Operations/s, if it is written as a plain number.
    #[must_use]
    pub fn constant(&self) -> Option<f64> {
        if let Self::Constant(per_s) = self { Some(*per_s) } else { None }
    }

    /// Operations/s in the mean, if that is the same at any time.
    #[must_use]
    pub fn per_s(&self) -> Option<f64> {
        match self {
            Self::Constant(per_s) | Self::Poisson { poisson: per_s } => Some(*per_s),
            Self::Replay { .. } | Self::Stages(_) => None,
        }
    }

    /// In the time of a lab of this speed.
    pub(super) fn slow(&mut self, speed: f64) {
        match self {
            Self::Constant(per_s) | Self::Poisson { poisson: per_s } => *per_s *= speed,
            Self::Replay { stretch, .. } => *stretch /= speed,
            Self::Stages(stages) => {
                for stage in stages {
                    stage.from *= speed;
                    stage.to *= speed;
                    stage.over_s /= speed;
                }
            }
        }
    }
}

/// Reads `rate`. What is wrong is reported; the load is not used then.
fn read_rate(section: &Section<'_>, scene: &mut CheckContext<'_>) -> Option<Rate> {
    let node = section.node("rate")?;
    match &node.value {
        TomlValue::Table(table) => drawn(section, table, node, scene),
        TomlValue::List(list) => stages(section, list, node, scene),
        _ => node.number().map(Rate::Constant),
    }
}

fn drawn(section: &Section<'_>, table: &TomlTable, node: &Node, scene: &mut CheckContext<'_>) -> Option<Rate> {
    match (table.get("poisson"), table.get("replay")) {
        (Some(poisson), Some(replay)) => {
            scene.problems.push(
                Problem::new(&replay.place, "`poisson` and `replay` exclude each other")
                    .expected("as recorded")
                    .related(&poisson.place, "at random")
                    .hint("remove one of the two"),
            );
            None
        }
        (Some(poisson), None) => poisson.number().map(|poisson| Rate::Poisson { poisson }),
        (None, Some(replay)) => {
            without_ramp(section, node, scene);
            Some(Rate::Replay { replay: replay.text()?.to_owned(), stretch: 1.0 })
        }
        (None, None) => {
            // Of a key that is none, the shape check speaks.
            if table.entries.is_empty() {
                let problem = Problem::absent(&node.place, "`load.rate` says nothing").expected("an empty table");
                scene.problems.push(problem.hint(format!("write a number of operations/s, {FORMS}, or stages")));
            }
            None
        }
    }
}

fn stages(section: &Section<'_>, list: &[Node], node: &Node, scene: &mut CheckContext<'_>) -> Option<Rate> {
    let mut stages = Vec::new();
    let mut last = 0.0;
    // Of a stage without one, that is said.
    let has_rate = |table: &TomlTable| table.get("at").or_else(|| table.get("to")).is_some();
    let has_rates = list.iter().all(|item| item.table().is_some_and(has_rate));
    for item in list {
        let part = Section { table: item.table()?, keys: STAGE, place: &item.place };
        let stage = stage(&part, last, scene);
        last = stage.to;
        stages.push(stage);
    }
    if stages.is_empty() {
        let problem = Problem::absent(&node.place, "`load.rate` has no stage").expected("an empty list");
        scene.problems.push(problem.hint(STAGE_FORMS));
    } else if has_rates && stages.iter().all(|stage| stage.from <= 0.0 && stage.to <= 0.0) {
        let problem = Problem::new(&node.place, "no operation ever starts at this rate").expected("0 all the time");
        scene.problems.push(problem.hint("give one of the stages a rate above 0"));
    }
    too_long(section, &stages, list, scene);
    without_ramp(section, node, scene);
    Some(Rate::Stages(stages))
}

/// Where a schedule says how it begins, agents do not join one after the other.
fn without_ramp(section: &Section<'_>, node: &Node, scene: &mut CheckContext<'_>) {
    if section.seconds("ramp").is_some_and(|ramp_s| ramp_s > 0.0) {
        scene.problems.push(
            Problem::new(section.place("ramp"), "`ramp` and a `rate` that changes exclude each other")
                .expected("a second way to begin slowly")
                .related(&node.place, "says when operations start")
                .hint("remove `ramp`; a rate rises in a stage such as { to = 1000, over = \"10s\" }"),
        );
    }
}

/// A stage; what is wrong with it stands as 0. It begins with the rate of the one before, if it does not say otherwise.
fn stage(part: &Section<'_>, last: f64, scene: &mut CheckContext<'_>) -> RateStage {
    let rates = ["from", "to", "at"].into_iter().filter_map(|key| part.node(key));
    for node in rates.filter(|node| node.number().is_some_and(|rate| rate < 0.0)) {
        let problem = Problem::new(&node.place, "a rate is not negative");
        scene.problems.push(problem.expected("operations/s, 0 or more"));
    }
    let has = |keys: &[&str]| keys.iter().any(|key| part.has(key));
    // Of a key that is none, the shape check speaks.
    let is_known = part.table.entries.iter().all(|entry| keys::find(STAGE, &entry.key).is_some());
    let lacking = |scene: &mut CheckContext<'_>, key: &str| {
        if !is_known {
            return;
        }
        let problem = Problem::absent(part.place, format!("this stage needs `{key}`"));
        scene.problems.push(problem.expected(format!("`{key}` is missing")).hint(STAGE_FORMS));
    };
    match (has(&["at", "for"]), has(&["from", "to", "over"])) {
        (true, true) => {
            let problem = Problem::new(part.place, "a stage either goes to a rate or stays at one");
            scene.problems.push(problem.expected("says both").hint(STAGE_FORMS));
        }
        (true, false) => ["at", "for"].into_iter().filter(|key| !part.has(key)).for_each(|key| lacking(scene, key)),
        (false, true) => ["to", "over"].into_iter().filter(|key| !part.has(key)).for_each(|key| lacking(scene, key)),
        (false, false) => lacking(scene, "to"),
    }
    let at = part.number("at");
    RateStage {
        from: at.or_else(|| part.number("from")).unwrap_or(last),
        to: at.or_else(|| part.number("to")).unwrap_or(0.0),
        over_s: part.seconds("for").or_else(|| part.seconds("over")).unwrap_or(0.0),
    }
}

/// Stages that `time` cuts off are not played, and somebody waits for them.
fn too_long(section: &Section<'_>, stages: &[RateStage], list: &[Node], scene: &mut CheckContext<'_>) {
    let Some(time_s) = section.seconds("time") else { return };
    let mut ends_s = 0.0;
    for (stage, node) in stages.iter().zip(list) {
        ends_s += stage.over_s;
        // Sums of decimal fractions are not exact.
        if ends_s > time_s * (1.0 + 1e-9) {
            let all_s: f64 = stages.iter().map(|stage| stage.over_s).sum();
            scene.problems.push(
                Problem::new(&node.place, "the stages are longer than the load")
                    .expected(format!("ends after {}", show(ends_s)))
                    .related(section.place("time"), "the whole load")
                    .hint(format!("all stages take {}: write that as `time`, or leave some out", show(all_s))),
            );
            return;
        }
    }
}

/// Reads `backlog` and `overflow`.
fn backlog(section: &Section<'_>, scene: &mut CheckContext<'_>) -> Option<Backlog> {
    if section.has("backlog") && !section.has("rate") {
        scene.problems.push(
            Problem::new(section.place("backlog"), "`backlog` belongs to an open loop")
                .expected("without `rate` nothing waits: an agent starts an operation when it is free")
                .hint("add `rate`, or remove it"),
        );
    }
    if section.has("overflow") && !section.has("backlog") {
        scene.problems.push(
            Problem::new(section.place("overflow"), "`overflow` needs `backlog`")
                .expected("what happens when too many wait")
                .hint("add `backlog`, the most operations that may wait; without it there is no bound"),
        );
    }
    let overflow = match section.text("overflow") {
        Some("stop") => Overflow::Stop,
        _ => Overflow::Drop,
    };
    section.whole("backlog").map(|most| Backlog { most, overflow })
}

/// How agents share and keep connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Whether a connection is kept between operations.
    pub keep_alive: bool,
    /// Agents on each connection, and so operations in flight on it; 1 or more.
    pub pipeline: u32,
}

impl Default for Connections {
    fn default() -> Self {
        Self { keep_alive: true, pipeline: 1 }
    }
}

impl Connections {
    /// How many connections so many agents have to so many services: as many to each, as long as there are agents for them.
    #[must_use]
    pub fn of(self, agents: u32, services: u32) -> u32 {
        let services = services.max(1);
        agents.div_ceil(services).div_ceil(self.pipeline.max(1)).saturating_mul(services).min(agents)
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whom a client trusts at the other end of a TLS connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tls {
    /// A PEM file, path as written, relative to the experiment file; `None`: the roots that this machine trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Whether any certificate is taken.
    pub insecure: bool,
    /// The name to ask for and to find in the certificate; `None`: that of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

impl Tls {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads what `[load]` says about connections.
fn read_connections(section: &Section<'_>, scene: &mut CheckContext<'_>) -> Connections {
    let keep_alive = !section.has("keep_alive") || section.boolean("keep_alive");
    let pipeline: u32 = section.whole("pipeline").unwrap_or(1);
    if !keep_alive && pipeline > 1 {
        scene.problems.push(
            Problem::new(section.place("pipeline"), "`pipeline` needs connections that are kept")
                .expected("1, or without `keep_alive = false`")
                .related(section.place("keep_alive"), "each operation makes its own connection")
                .hint("remove one of the two"),
        );
    }
    Connections { keep_alive, pipeline }
}

/// Reads `[target] tls`.
pub(super) fn tls(section: &Section<'_>, scene: &mut CheckContext<'_>) -> Tls {
    let Some(tls) = section.section("tls") else { return Tls::default() };
    if let Some((scheme, _)) = section.text("url").and_then(|url| url.split_once("://"))
        && scheme != "https"
    {
        scene.problems.push(
            Problem::new(section.place("tls"), format!("nothing is encrypted on the way to `{scheme}://…`"))
                .expected("not without `https`")
                .related(section.place("url"), "this is spoken to in the clear")
                .hint("write url = \"https://…\", or remove `tls`"),
        );
    }
    if tls.boolean("insecure") && tls.has("ca") {
        scene.problems.push(
            Problem::new(tls.place("insecure"), "`ca` and `insecure` exclude each other")
                .expected("any certificate is taken")
                .related(tls.place("ca"), "only what these vouch for is taken")
                .hint("remove `insecure`: a certificate that this file vouches for is checked as it should be"),
        );
    }
    Tls {
        ca: tls.text("ca").map(ToOwned::to_owned),
        insecure: tls.boolean("insecure"),
        server_name: tls.text("server_name").map(ToOwned::to_owned),
    }
}
