//! `[[step]]` of a trial: an exercise. Its steps are played in order. Each step has a condition
//! that ends it, and audits that follow it.

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::manifest::Manifest;
use crate::plan::check_context::CheckContext;
use crate::plan::fault::{self, FAULT, Fault, Victims};
use crate::plan::load;
use crate::problem::{Problem, nearest_hint};
use crate::section::Section;
use crate::tree::Node;

section! {
    /// `[[step]]`: actions, a condition to wait for, and audits. The time until the condition holds
    /// is recorded.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Exercise = STEP {
        name = required: Text => String, "Name in records, reports and metrics: steps.NAME.time_s";
        do: Either(
            &[Table(DOES), Tables(DOES)],
            "{ kind = \"kill\", on = \"one\" }, { action = \"NAME\", on = \"all\" }, or a list of these"
        ) => does: Vec<Fault> = |_| Vec::new(),
            "Faults and actions, one after the other; default: none, the step only waits", ["run"];
        until: Text => Option<String>,
            "Condition of the target that ends the step; default: it ends when all is done", ["wait", "condition"];
        within = "60s": TIME => within_s: f64, "Time limit for the condition to hold", ["timeout"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usual: TIME => usual_s: Option<f64>,
            "Usual time of the step, for the estimate of `check`; default: as in an earlier run, else `within`",
            ["typical"];
        at: PAUSE => at_s: Option<f64>,
            "Earliest time after load start; default: the end of the step before, or load start for the first", ["start"];
        #[serde(default = "load::one", skip_serializing_if = "load::is_one")]
        times = "1": COUNT => times: u32, "Number of times it is played, one after the other", ["repeat", "count"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pause: PAUSE => pause_s: Option<f64>,
            "Pause before each time: from the end of the step before, or from load start", ["sleep", "delay"];
        audits: TEXTS => audits: Option<Vec<String>>,
            "Audits of the target that follow the step; default: all", ["audit", "checks"];
    }
}

section! {
    const DOES {
        ..FAULT: on, with, for, seed;
        kind: Text, "Fault; `plimsoll faults` lists the kinds", ["fault", "type"];
        action: Text, "Action of the target, run on the members of `on`", ["hook", "call", "run"];
    }
}

impl Exercise {
    /// Returns the audits that follow the step: the given ones, or all of the target's.
    pub fn audits<'a>(&'a self, of_target: impl Iterator<Item = &'a String>) -> Vec<String> {
        let all: Vec<String> = of_target.cloned().collect();
        self.audits.clone().unwrap_or(all)
    }
}

impl Fault {
    /// Whether a program does the action of a step. A program may take a long time.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.action.is_some() || self.kind == "command"
    }
}

const NO_CONDITIONS: &str = "only a target folder has them: [conditions], [actions] and [audits] of its target.toml";

pub(super) fn read(root: &Section<'_>, victims: &Victims<'_>, context: &mut CheckContext<'_>) -> Vec<Exercise> {
    let mut steps: Vec<Exercise> = Vec::new();
    let faults = root.sections("fault");
    for section in root.sections("step") {
        let mut step = Exercise::read(&section);
        if step.name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-') {
            let problem = Problem::new(section.place("name"), format!("\"{}\" is not a step's name", step.name));
            context.problems.push(problem.expected("letters, digits, `_` and `-`"));
        }
        if steps.iter().any(|earlier| earlier.name == step.name) {
            let what = format!("two steps are called `{}`", step.name);
            context.problems.push(Problem::new(section.place("name"), what).expected("the second"));
        }
        let namesake = faults.iter().find(|fault| section.has("name") && fault.text("name") == Some(&step.name));
        if let Some(fault) = namesake {
            let what = format!("a fault is called `{}`, too", step.name);
            let problem = Problem::new(section.place("name"), what).expected("a step and a fault of one name");
            context.problems.push(problem.related(fault.place("name"), "the fault").hint("effects are shown by name"));
        }
        if !section.has("do") && !section.has("until") {
            let problem = Problem::absent(section.place("name"), "this step does nothing and waits for nothing");
            let hint = "such as do = { kind = \"kill\", on = \"one\" }, and until = \"CONDITION\"";
            context.problems.push(problem.expected("neither `do` nor `until`").hint(hint));
        }
        step.does = does(&section, &step.name, victims, context);
        named(&section, victims.manifest(), context);
        steps.push(step);
    }
    steps
}

fn does(step: &Section<'_>, name: &str, victims: &Victims<'_>, context: &mut CheckContext<'_>) -> Vec<Fault> {
    let sections: Vec<Section<'_>> = step.section("do").map_or_else(|| step.sections("do"), |only| vec![only]);
    let mut does = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        let Some(done) = deed(section, victims, context) else { continue };
        let name = if sections.len() == 1 { name.to_owned() } else { format!("{name}-{}", index + 1) };
        does.push(Fault { name, ..done });
    }
    does
}

/// Reads an action of a step: a fault, or an action of the target.
fn deed(section: &Section<'_>, victims: &Victims<'_>, context: &mut CheckContext<'_>) -> Option<Fault> {
    let of_step = Section { keys: FAULT, ..*section };
    match (section.node("kind"), section.node("action")) {
        (Some(_), None) => Some(fault::read_in_step(&of_step, victims, context)),
        (None, Some(action)) => {
            if section.has("for") {
                let problem = Problem::new(section.place("for"), "an action lasts until its program ends");
                context.problems.push(problem.expected("there is nothing to undo").hint("remove `for`"));
            }
            let known = victims.manifest().map(|manifest| manifest.actions.keys());
            unknown(action, "action", known.map(Iterator::collect), context);
            victims.check(&of_step, None, context);
            let action = action.text()?.to_owned();
            Some(Fault {
                kind: "action".to_owned(),
                label: action.clone(),
                colour: "#4a6d8c".to_owned(),
                action: Some(action),
                ..Fault::read(&of_step)
            })
        }
        (Some(_), Some(_)) => {
            let problem = Problem::new(section.place("action"), "`kind` and `action` exclude each other");
            let problem = problem.expected("an action").related(section.place("kind"), "a fault");
            context.problems.push(problem.hint("do = [{ kind = … }, { action = … }] does one after the other"));
            None
        }
        (None, None) => {
            let problem = Problem::absent(section.place, "this entry of `do` has neither a fault nor an action");
            let hint = "kind = \"kill\" for a fault, action = \"NAME\" for an action of the target";
            context.problems.push(problem.expected("neither `kind` nor `action`").hint(hint));
            None
        }
    }
}

/// Checks that the target has the condition and the audits that a step names.
fn named(step: &Section<'_>, manifest: Option<&Manifest>, context: &mut CheckContext<'_>) {
    if let Some(node) = step.node("until") {
        unknown(node, "condition", manifest.map(|manifest| manifest.conditions.keys().collect()), context);
    }
    for node in step.node("audits").and_then(Node::list).unwrap_or_default() {
        unknown(node, "audit", manifest.map(|manifest| manifest.audits.keys().collect()), context);
    }
}

/// Reports a name that the target does not have.
fn unknown(node: &Node, what: &str, known: Option<Vec<&String>>, context: &mut CheckContext<'_>) {
    let Some(name) = node.text() else { return };
    let known_of_target = known.as_deref().unwrap_or_default();
    if known_of_target.iter().any(|known| *known == name) {
        return;
    }
    let hint = match &known {
        // An unknown target has been reported.
        None if context.ports.is_unknown() => return,
        None => Some(NO_CONDITIONS.to_owned()),
        Some(known) => nearest_hint(name, known.iter().map(|known| known.as_str())),
    };
    let problem = Problem::absent(&node.place, format!("the target has no {what} `{name}`"));
    context.problems.push(problem.expected(format!("unknown {what}")).maybe(hint));
}
