//! `[[step]]` of a trial: an exercise instead of a load with faults.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::keys::section;
use crate::plan::check_context::CheckContext;
use crate::problem::Problem;
use crate::section::Section;

section! {
    /// `[[step]]`: do something, wait for a named condition, record how long it took.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Exercise = STEP {
        name = required: Name => String, "Its name in records and reports";
        do = required: Map(&Any) => does: BTreeMap<String, Value>, "What is done", ["call", "action"];
        until: Text => Option<String>, "A named condition of the target that ends the step";
        within = "60s": TIME => within_s: f64, "How long it may take", ["timeout"];
    }
}

pub(super) fn read(root: &Section<'_>, scene: &mut CheckContext<'_>) -> Vec<Exercise> {
    let mut steps: Vec<Exercise> = Vec::new();
    for section in root.sections("step") {
        let step = Exercise::read(&section);
        if steps.iter().any(|earlier| earlier.name == step.name) {
            let what = format!("two steps are called `{}`", step.name);
            scene.problems.push(Problem::new(section.place("name"), what).expected("the second"));
        }
        if section.has("do") && step.does.is_empty() {
            let problem = Problem::absent(section.place("do"), "this step does nothing").expected("an empty table");
            scene
                .problems
                .push(problem.hint("such as do = { kind = \"kill\", on = \"one\" } or do = { call = \"…\" }"));
        }
        steps.push(step);
    }
    for other in ["load", "fault"] {
        if let (Some(step), Some(place)) = (root.table.entry("step"), root.node(other).map(|node| &node.place)) {
            scene.problems.push(
                Problem::new(&step.node.place, format!("[[step]] and [{other}] exclude each other"))
                    .expected("an exercise, step by step")
                    .related(place, "by the clock")
                    .hint("an exercise has steps only; a load with faults has none"),
            );
        }
    }
    steps
}
