//! `audit` of a step: what its operations do to a key. It must not know any protocol: where the catalog does not say, the file has to.

use serde::{Deserialize, Serialize};

use crate::catalog::{Effect, Operation};
use crate::plan::expectation;
use crate::plan::operation::{self, Scope};
use crate::plan::trial::Scene;
use crate::problem::Problem;
use crate::section::Section;
use crate::template::{Part, Template};
use crate::tree::Entry;

/// `audit = { … }`: what an operation does to a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditAs {
    /// To a key or with it.
    pub effect: AuditEffect,
    /// A template; empty without one.
    #[serde(default)]
    pub space: String,
    /// A template that gives the same text as often as it is filled in.
    pub key: String,
    /// `request.FIELD` of a write, `answer.FIELD` of a read.
    pub value: Option<String>,
}

/// What an operation does to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditEffect {
    /// Its value is what was sent.
    Write,
    /// It is gone.
    Remove,
    /// Its value is what was answered.
    Read,
}

/// Reads `audit = { … }`; `None` for a plain `true` or `false`, and for a table that says too little.
pub(super) fn read(section: &Section<'_>, every: u32, scope: &Scope<'_>, scene: &mut Scene<'_>) -> Option<AuditAs> {
    let audit = section.section("audit")?;
    for entry in ["space", "key"].into_iter().filter_map(|key| audit.table.entry(key)) {
        operation::template(&entry.node, every, scope, scene);
        reproducible(entry, scene);
    }
    let text = |key: &str| audit.node(key).and_then(|node| node.as_written());
    Some(AuditAs {
        effect: effect(audit.text("effect")?)?,
        space: text("space").unwrap_or_default(),
        key: text("key")?,
        value: text("value"),
    })
}

fn effect(word: &str) -> Option<AuditEffect> {
    match word {
        "write" => Some(AuditEffect::Write),
        "remove" => Some(AuditEffect::Remove),
        "read" => Some(AuditEffect::Read),
        _ => None,
    }
}

/// Each template draws its own random numbers, so a drawn key would be another one than the request has.
fn reproducible(entry: &Entry, scene: &mut Scene<'_>) {
    let Some(Ok(template)) = entry.node.text().map(Template::parse) else { return };
    let drawn = template.parts.iter().find_map(|part| match part {
        Part::Bytes(_) => Some(("bytes", ":…")),
        Part::Uniform { .. } => Some(("uniform", ":…")),
        Part::Zipf { .. } => Some(("zipf", ":…")),
        Part::Script(_) => Some(("lua", ".…")),
        _ => None,
    });
    let Some((drawn, rest)) = drawn else { return };
    let what = format!("{{{drawn}{rest}}} is drawn anew here, and is not what the request was sent with");
    let problem =
        Problem::new(&operation::placeholder(&entry.node, drawn), what).expected("a text that can be told again");
    scene.problems.push(problem.hint("make it of {agent}, {seq}, {feed.NAME.COLUMN} and what earlier steps kept"));
}

/// Holds `audit` against what the protocol knows of the operation.
pub(super) fn check(section: &Section<'_>, operation: &'static Operation, scene: &mut Scene<'_>) {
    match section.section("audit") {
        Some(audit) if operation.effect == Effect::None => value(&audit, section, operation, scene),
        Some(_) => {
            let what = format!("what `{}` does to which key is known", operation.name);
            let problem = Problem::new(section.place("audit"), what).expected("nothing is left to say");
            scene.problems.push(problem.hint("write audit = true"));
        }
        None if section.boolean("audit") && operation.effect == Effect::None => {
            let what = format!("`{}` cannot be audited", operation.name);
            let knows_keys = scene
                .protocol
                .is_some_and(|protocol| protocol.operations.iter().any(|operation| operation.effect != Effect::None));
            let problem = Problem::new(section.place("audit"), what);
            scene.problems.push(if knows_keys {
                problem
                    .expected("it reads and writes no key")
                    .hint("audit a step that writes a key; its last value is read back after the run")
            } else {
                problem.expected("what it does to which key is not known").hint(
                    "say it: audit = { effect = \"write\", key = \"case-{agent}-{seq}\", value = \"request.body\" }, or \
                     effect = \"read\" with value = \"answer.body\", or effect = \"remove\"",
                )
            });
        }
        None => {}
    }
}

/// What is written stands in the request, what is read in the answer, and a removal has no value.
fn value(audit: &Section<'_>, section: &Section<'_>, operation: &'static Operation, scene: &mut Scene<'_>) {
    let Some(effect) = audit.text("effect").and_then(effect) else { return };
    let (name, wanted, elsewhere) = match effect {
        AuditEffect::Write => ("write", "request.", "answer."),
        AuditEffect::Read => ("read", "answer.", "request."),
        AuditEffect::Remove => {
            if let Some(node) = audit.node("value") {
                let problem = Problem::new(&node.place, "a removal has no value").expected("what is left is nothing");
                scene.problems.push(problem.hint("remove `value`, or make it effect = \"write\""));
            }
            return;
        }
    };
    let Some(node) = audit.node("value") else {
        let problem = Problem::absent(audit.place, format!("an audited {name} needs `value`"));
        let problem = problem.expected("`value` is missing");
        scene
            .problems
            .push(problem.hint(format!("which field it is in: value = \"{wanted}FIELD\", such as \"{wanted}body\"")));
        return;
    };
    let is_elsewhere = node.text().is_some_and(|text| text.starts_with(elsewhere));
    scene.problems.extend(if is_elsewhere {
        let what =
            if effect == AuditEffect::Write { "what a write writes is sent" } else { "what a read reads is answered" };
        let problem =
            Problem::new(&node.place, what).expected(format!("a field of the {}", &wanted[..wanted.len() - 1]));
        Some(problem.hint(format!("write \"{wanted}FIELD\"")))
    } else {
        expectation::not_a_part(node, section, operation)
    });
}
