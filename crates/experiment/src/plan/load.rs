//! `[load]` of a trial, with every default filled in.

use core::net::IpAddr;
use std::collections::BTreeMap;

use crate::plan::connections;
use crate::plan::operation::{self, Scope};
use crate::plan::rate;
use crate::plan::trial::Scene;
use crate::plan::{Feed, Load, Order, Retry, Step, Warmup, WhenFailed};
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::Node;

/// Names of the feeds, for the templates of all sections.
pub(super) fn feed_names(root: &Section<'_>) -> Vec<String> {
    let feeds = root.section("load").map(|load| load.sections("feed")).unwrap_or_default();
    feeds.iter().filter_map(|feed| feed.text("name")).map(ToOwned::to_owned).collect()
}

/// Reads the section. What is wrong is reported, and stands as 0 in the load, which is not used then.
pub(super) fn read(section: &Section<'_>, scene: &mut Scene<'_>) -> Load {
    times(section, scene);
    let order = order(section, scene);
    let steps = match order {
        Order::Cycle => cycle(section, scene),
        Order::Mix => mix(section, scene),
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
        connections: connections::read(section, scene),
        rate: rate::read(section, scene),
        backlog: rate::backlog(section, scene),
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
fn from(section: &Section<'_>, scene: &mut Scene<'_>) -> Vec<String> {
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
fn times(section: &Section<'_>, scene: &mut Scene<'_>) {
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
fn spread(section: &Section<'_>, scene: &mut Scene<'_>) {
    if section.number("think_spread_pct").is_some_and(|spread_pct| !(0.0..=100.0).contains(&spread_pct)) {
        scene.problems.push(
            Problem::new(section.place("think_spread_pct"), "a pause varies by 0 to 100 percent")
                .expected("percent of `think`"),
        );
    }
}

fn order(section: &Section<'_>, scene: &mut Scene<'_>) -> Order {
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
    if section.has("mix") && !section.has("cycle") { Order::Mix } else { Order::Cycle }
}

fn empty(section: &Section<'_>, key: &str) -> Problem {
    Problem::absent(section.place(key), format!("`load.{key}` is empty")).expected("no operations")
}

fn cycle(section: &Section<'_>, scene: &mut Scene<'_>) -> Vec<Step> {
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

fn mix(section: &Section<'_>, scene: &mut Scene<'_>) -> Vec<Step> {
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

fn feeds(section: &Section<'_>, scene: &mut Scene<'_>) -> Vec<Feed> {
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
