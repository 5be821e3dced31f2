//! `parallel` of a cycle: operations that an agent sends at once, such as the resources of a page.
//! In the plan they are steps that follow each other.

use std::collections::BTreeMap;

use crate::keys::section;
use crate::plan::check_context::CheckContext;
use crate::plan::load::Load;
use crate::plan::load_conflicts::LoadConflict;
use crate::plan::operation::{self, OPERATION, Scope, Step};
use crate::plan::pause;
use crate::plan::prepare;
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::Node;

section! {
    const PARALLEL { ..OPERATION: call, name, site, with, set, expect, keep, follow, stream, first_byte, repeat, probability_pct, units, parts; }
}

section! {
    const BLOCK {
        parallel: Tables(PARALLEL),
            "Instead of one operation, operations that are sent at once, each on a connection of its own; the cycle goes on \
             when all have ended", ["resources", "batch", "concurrently"];
        connections = "6": Whole { min: 1, max: 64 },
            "With `parallel`: most connections that they use at once; a further operation begins when one has ended",
            ["max_connections", "batch_per_host"];
    }
}

/// Reads operations that are sent at once. Adds the slots that they keep to those of later steps.
pub(super) fn read(
    section: &Section<'_>,
    slots: &mut BTreeMap<String, Vec<u32>>,
    context: &mut CheckContext<'_>,
) -> Vec<Step> {
    check(section, context);
    let at_once = section.get("connections").unwrap_or(1);
    let think = pause::Pause::read(section);
    let mut steps: Vec<Step> = Vec::new();
    for part in section.sections("parallel") {
        prepare::check_names(&part, context);
        // None of them waits for the values of another.
        let step = operation::read(&part, &Scope { slots, no_slots: None, by_agent: true }, context);
        for entry in part.entries("keep") {
            if steps.iter().any(|other| other.keep.contains_key(&entry.key)) {
                let what = format!("`{}` is also kept by an operation that is sent at once with this one", entry.key);
                context.problems.push(Problem::new(&entry.key_place, what).expected("another name"));
            }
        }
        steps.push(Step { at_once, beside: !steps.is_empty(), think, ..step });
    }
    for step in &steps {
        for slot in step.keep.keys() {
            slots.entry(slot.clone()).or_default().push(if step.is_certain() { step.every } else { 0 });
        }
    }
    steps
}

/// Checks an entry of a cycle that has `parallel`.
fn check(section: &Section<'_>, context: &mut CheckContext<'_>) {
    pause::check(section, context);
    let place = section.place("parallel");
    if section.sections("parallel").is_empty() && section.node("parallel").and_then(Node::list).is_some() {
        let problem = Problem::absent(place, "`parallel` is empty").expected("no operations");
        context.problems.push(problem.hint("write `call` for a single operation"));
    }
    let own = ["parallel", "connections", "think"];
    for entry in section.table.entries.iter().filter(|entry| !own.contains(&entry.key.as_str())) {
        context.problems.push(
            Problem::new(&entry.key_place, format!("`{}` and `parallel` exclude each other", entry.key))
                .expected("belongs to one operation")
                .related(place, "several operations at once")
                .hint(format!("move `{}` into the operations", entry.key)),
        );
    }
    let Some(protocol) = context.protocol else { return };
    if !protocol.schemes.contains(&"http") {
        let what = format!("the protocol `{}` has no parallel operations", protocol.name);
        let problem = Problem::new(place, what).expected("`parallel` belongs to HTTP");
        context.problems.push(problem.hint("use more agents, each with a connection of its own"));
    }
}

/// Reports `connections` of a single operation.
pub(super) fn check_alone(section: &Section<'_>, context: &mut CheckContext<'_>) {
    if section.has("connections") {
        let problem = Problem::new(section.place("connections"), "`connections` belongs to `parallel`");
        context.problems.push(
            problem
                .expected("an operation uses one connection")
                .hint("the number of connections of a load is that of its `agents`"),
        );
    }
}

/// Returns the setting of the load that excludes its parallel operations, if any.
pub(super) fn conflict(load: &Load) -> Option<LoadConflict> {
    if load.steps.iter().all(|step| step.at_once == 0) {
        return None;
    }
    let (what, why, with, hint) = match &load.rate {
        Some(rate) if !rate.is_of_sessions() => (
            "`parallel` and a `rate` of operations exclude each other",
            "operations that belong together have one start",
            ("rate", "open loop: each operation has a start of its own"),
            "start sessions: rate = { sessions = … }, or remove `rate`",
        ),
        Some(_) if load.begins_in_parallel() => (
            "a session at a rate begins with one operation",
            "several operations at once, for one start",
            ("rate", "each start is the first operation of a session"),
            "put another step before it, such as the page of these resources",
        ),
        _ if load.connections.pipeline > 1 => (
            "`parallel` and `pipeline` exclude each other",
            "each operation has a connection of its own",
            ("pipeline", "agents share connections"),
            "remove one of the two",
        ),
        _ => return None,
    };
    Some(LoadConflict { key: "parallel", what, why, with: Some(with), hint })
}

impl Load {
    /// Returns the most operations that an agent of this load or group has open at once, without
    /// its groups.
    #[must_use]
    pub fn at_once(&self) -> u32 {
        let of_block = |steps: &[Step]| {
            let operations = steps.iter().map(|step| step.repeat.max(1)).fold(0, u32::saturating_add);
            steps.first().map_or(1, |step| step.at_once.clamp(1, operations))
        };
        self.steps.chunk_by(|_, next| next.beside).map(of_block).max().unwrap_or(1)
    }

    /// Whether the first step of a session, or of the steps before the first, is sent at once with
    /// others.
    #[must_use]
    fn begins_in_parallel(&self) -> bool {
        let firsts = self.sequences().filter_map(<[Step]>::first).chain(self.steps.first());
        firsts.into_iter().any(|step| step.at_once > 0)
    }
}
