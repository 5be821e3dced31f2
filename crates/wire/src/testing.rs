//! Values and feeds for tests of this crate and of the engine.

#[cfg(test)]
pub mod exchange;

use std::collections::BTreeMap;

use experiment::plan;

use crate::values::{TemplateNames, ValueSource};

/// Names without slots or feeds.
pub fn names() -> TemplateNames<'static> {
    TemplateNames { slots: &[], feeds: &[], program: None, own: BTreeMap::new() }
}

/// Inputs without slots or feeds.
pub fn source(agent: u64, seq: u64) -> ValueSource<'static> {
    ValueSource { agent, seq, copy: 1, draw: 99, slots: &[], kept: 0, feeds: &[], records: &[] }
}

pub fn feed(file: &str) -> plan::Feed {
    plan::Feed { name: "docs".into(), file: file.into(), ..plan::Feed::default() }
}
