//! `[[prepare]]`: operations done before each trial, and the values that they keep for the load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::plan::audited::AuditAs;
use crate::plan::check_context::CheckContext;
use crate::plan::load::Load;
use crate::plan::operation::{self, Expected, OPERATION, Scope, Step};
use crate::problem::Problem;
use crate::section::Section;
use crate::template;
use crate::tree::TextSpan;

/// `[[prepare]]`: operations done before each trial, not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The operation and its arguments.
    pub step: Step,
    /// Number of times that the operation is done.
    pub count: u64,
}

section! {
    const PREPARE { ..OPERATION: call, name, site, with, set, expect, keep, count, audit; }
}

/// Reads the preparation. Values that an operation keeps may be used in the operations after it and
/// in the load.
pub(super) fn read(root: &Section<'_>, context: &mut CheckContext<'_>) -> Vec<Prepare> {
    let mut slots = BTreeMap::new();
    let mut preparation = Vec::new();
    for section in &root.sections("prepare") {
        let scope = Scope {
            slots: &slots,
            no_slots: Some("an earlier [[prepare]] has to keep it: keep = { token = \"answer.FIELD\" }"),
            by_agent: false,
        };
        let step = operation::read(section, &scope, context);
        let count: u64 = section.get("count").unwrap_or(1);
        if count > 1 && !step.keep.is_empty() {
            context.problems.push(
                Problem::new(section.place("keep"), "`keep` and `count` exclude each other")
                    .expected("each repetition would keep another value")
                    .related(section.place("count"), "several repetitions")
                    .hint("keep the value in a [[prepare]] of its own, without `count`"),
            );
        }
        slots.extend(step.keep.keys().map(|slot| (slot.clone(), vec![1])));
        preparation.push(Prepare { step, count });
    }
    context.prepared = slots;
    preparation
}

/// Reports values of a step that have the name of a value that the preparation keeps.
pub(super) fn check_names(section: &Section<'_>, context: &mut CheckContext<'_>) {
    for entry in section.entries("keep") {
        if context.prepared.contains_key(&entry.key) {
            let what = format!("`{}` is also kept by a [[prepare]]", entry.key);
            context.problems.push(Problem::new(&entry.key_place, what).expected("another name"));
        }
    }
}

/// Reports a shared start of the target without a new preparation: later trials would have no
/// values.
pub(super) fn check_start(start: &TextSpan, prepare: &[Prepare], resets: bool, context: &mut CheckContext<'_>) {
    if !resets && prepare.iter().any(|prepare| !prepare.step.keep.is_empty()) {
        context.problems.push(
            Problem::new(start, "values that [[prepare]] keeps need a start of the target for each trial")
                .expected("[[prepare]] runs only once")
                .hint("remove `start = \"once\"`, or give the target a hook `reset`: then [[prepare]] runs again"),
        );
    }
}

impl Load {
    /// Fills in values that the preparation has kept.
    pub fn fill_in(&mut self, kept: &BTreeMap<String, String>) {
        if !kept.is_empty() {
            self.steps.iter_mut().for_each(|step| step.fill_in(kept));
            self.groups.iter_mut().for_each(|group| group.fill_in(kept));
        }
    }
}

impl Step {
    fn fill_in(&mut self, kept: &BTreeMap<String, String>) {
        let fill = |text: &mut String| *text = template::with_slots(text, kept);
        self.with.values_mut().chain(self.set.values_mut()).for_each(fill);
        self.expect.values_mut().for_each(|expected| fill_in_expected(expected, kept));
        self.audit_as.iter_mut().flat_map(AuditAs::templates).for_each(fill);
    }
}

fn fill_in_expected(expected: &mut Expected, kept: &BTreeMap<String, String>) {
    let fill = |text: &mut String| *text = template::with_slots(text, kept);
    match expected {
        Expected::Text(text) => fill(text),
        Expected::Compared(condition) => {
            condition.contains.iter_mut().chain(condition.one_of.iter_mut().flatten()).for_each(fill);
            condition.not.iter_mut().for_each(|not| fill_in_expected(not, kept));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::TextCondition;

    #[test]
    fn kept_values_are_filled_in_wherever_a_template_is() {
        let compared = TextCondition {
            contains: Some("<{token}>".into()),
            one_of: Some(vec!["{id}".into()]),
            not: Some(Box::new("{token}".into())),
            matches: Some("{token}".into()),
            ..TextCondition::default()
        };
        let step = Step {
            with: BTreeMap::from([
                ("path".into(), "/x/{token}?{other}{{token}}".into()),
                ("body".into(), "{base64:{id}}{pad:8:{id}}{token|raw}".into()),
            ]),
            set: BTreeMap::from([("a".into(), "{id}-{seq}".into())]),
            expect: BTreeMap::from([("body".into(), Expected::Compared(compared))]),
            ..Step::default()
        };
        let group = Load { steps: vec![step], ..Load::default() };
        let mut load = Load { groups: vec![group], ..Load::default() };
        load.fill_in(&BTreeMap::from([("token".into(), "a{b}".into()), ("id".into(), "7".into())]));
        let step = &load.groups[0].steps[0];
        assert_eq!(step.with["path"], r"/x/{text:a\{b\}}?{other}{{token}}");
        assert_eq!(step.with["body"], r"{base64:{text:7}}{pad:8:{text:7}}{text:a\{b\}|raw}");
        assert_eq!(step.set["a"], "{text:7}-{seq}");
        let Expected::Compared(compared) = &step.expect["body"] else { panic!() };
        assert_eq!(compared.contains.as_deref(), Some(r"<{text:a\{b\}}>"));
        assert_eq!(compared.one_of.as_ref().unwrap()[0], "{text:7}");
        assert_eq!(compared.not.as_deref(), Some(&r"{text:a\{b\}}".into()));
        assert_eq!(compared.matches.as_deref(), Some("{token}"), "a pattern is no template");
    }
}
