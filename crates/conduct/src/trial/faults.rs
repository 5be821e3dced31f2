//! Faults as a trial performs them: by the lab's table. It must not know what a kind of fault does.

use std::time::Instant;

use record::events::What;

use super::Shell;
use crate::conductor::{Conductor, Input};
use crate::schedule::Occurrence;

impl Shell<'_> {
    pub(super) fn begin_fault(&mut self, conductor: &Conductor, occurrence: Occurrence) -> Input {
        let fault = conductor.fault(occurrence);
        let Some(site) = &mut self.site else {
            return Input::FaultRefused(occurrence, "there is no target".to_owned());
        };
        let Some(kind) = lab::faults::find(&fault.kind) else {
            return Input::FaultRefused(occurrence, format!("no fault of kind `{}`", fault.kind));
        };
        match (kind.begin)(fault, occurrence.number, site) {
            Ok(begun) => {
                if fault.standing {
                    self.down.extend(begun.on.split(", ").map(ToOwned::to_owned));
                }
                Input::FaultBegun(occurrence, begun.on)
            }
            Err(error) => Input::FaultRefused(occurrence, error.to_string()),
        }
    }

    pub(super) fn heal_fault(&mut self, conductor: &Conductor, occurrence: Occurrence) -> Input {
        let fault = conductor.fault(occurrence);
        let healed = match (&mut self.site, lab::faults::find(&fault.kind)) {
            (Some(site), Some(kind)) => (kind.heal)(fault, occurrence.number, site).map_err(|error| error.to_string()),
            _ => Err("there is no target".to_owned()),
        };
        if let Err(reason) = healed {
            let text = format!("fault `{}` could not be healed: {reason}", fault.name);
            self.note(Instant::now(), What::Notice { text });
        }
        Input::FaultHealed(occurrence)
    }
}
