//! What can be broken in a target that the experiment itself started, and how it is healed. A fault must not decide when it
//! happens, nor what came of it.

mod call;
mod kill;

use experiment::{catalog, plan};

use crate::{Error, Site};

/// A kind of fault.
pub struct Kind {
    /// What an experiment sees of it.
    pub info: &'static catalog::Fault,
    /// Injects an occurrence, counted from 1. If it hits several members, those before one that fails are hit.
    pub begin: fn(&plan::Fault, u32, &mut Site) -> Result<Begun, Error>,
    /// Undoes it. Nothing happens if there is nothing to undo.
    pub heal: fn(&plan::Fault, u32, &mut Site) -> Result<(), Error>,
}

/// A fault that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The member it hit; several are separated by `, `.
    pub on: String,
}

/// Every kind, sorted by name.
pub static KINDS: &[&Kind] = &[&call::KIND, &kill::KIND];

/// The kind of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.info.name == name).copied()
}

/// An argument of `[fault] with` as text.
fn argument(fault: &plan::Fault, name: &str) -> Option<String> {
    fault.with.get(name).map(|value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests;
