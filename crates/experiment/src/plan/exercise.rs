//! `[[step]]` of a trial: an exercise instead of a load and faults. What is done is kept as written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::trial::Scene;
use crate::problem::Problem;
use crate::section::Section;

/// `[[step]]`: do something, wait for a named condition, record how long it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exercise {
    /// Name in records and reports.
    pub name: String,
    /// What is done, as written.
    pub does: BTreeMap<String, Value>,
    /// Named condition of the target.
    pub until: Option<String>,
    /// Seconds it may take.
    pub within_s: f64,
}

pub(super) fn read(root: &Section<'_>, scene: &mut Scene<'_>) -> Vec<Exercise> {
    let mut steps: Vec<Exercise> = Vec::new();
    for section in root.sections("step") {
        let does = section.entries("do").iter().map(|entry| (entry.key.clone(), entry.node.json())).collect();
        let name = section.text("name").unwrap_or_default().to_owned();
        if steps.iter().any(|step| step.name == name) {
            let what = format!("two steps are called `{name}`");
            scene.problems.push(Problem::new(section.place("name"), what).expected("the second"));
        }
        if section.has("do") && section.entries("do").is_empty() {
            let problem = Problem::absent(section.place("do"), "this step does nothing").expected("an empty table");
            scene
                .problems
                .push(problem.hint("such as do = { kind = \"kill\", on = \"one\" } or do = { call = \"…\" }"));
        }
        steps.push(Exercise {
            name,
            does,
            until: section.text("until").map(ToOwned::to_owned),
            within_s: section.seconds("within").unwrap_or(0.0),
        });
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
