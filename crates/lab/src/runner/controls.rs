//! The states that faults put a host into.

use std::sync::Arc;

use super::groups::Groups;
use super::{Control, Refusal, Setup};

/// What is imposed.
#[derive(Debug)]
pub struct Controls {}

impl Controls {
    /// Nothing imposed.
    pub fn new(setup: &Setup, groups: Arc<Groups>) -> Self {
        let _ = (setup, groups);
        Self {}
    }

    /// Imposes a fault under a key.
    pub fn impose(&self, key: &str, control: &Control) -> Result<(), Refusal> {
        let _ = (key, control);
        Err(Refusal::Cannot { reason: "this version cannot do that to a host yet".to_owned() })
    }

    /// Lifts it; harmless if there is none.
    pub fn lift(&self, key: &str) -> Result<(), Refusal> {
        let _ = key;
        Ok(())
    }

    /// Lifts everything.
    pub fn lift_all(&self) {}
}
