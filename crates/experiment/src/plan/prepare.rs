//! `[[prepare]]` of a trial.

use std::collections::BTreeMap;

use crate::plan::Prepare;
use crate::plan::operation::{self, Scope};
use crate::plan::trial::Scene;
use crate::section::Section;

pub(super) fn read(root: &Section<'_>, scene: &mut Scene<'_>) -> Vec<Prepare> {
    let scope = Scope {
        slots: &BTreeMap::new(),
        no_slots: Some("the preparation keeps nothing: each of its operations stands by itself"),
        by_agent: false,
    };
    let sections = root.sections("prepare");
    let read = |section: &Section<'_>| Prepare {
        step: operation::read(section, &scope, scene),
        count: section.whole("count").unwrap_or(1),
    };
    sections.iter().map(read).collect()
}
