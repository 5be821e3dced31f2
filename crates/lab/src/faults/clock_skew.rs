//! The fault `clock_skew`: a host's wall clock is wrong.

use std::collections::BTreeMap;

use experiment::catalog::{self, Field, Heals, Wrong};
use serde_json::Value;

use super::{Arguments, Kind, impose, lift};
use crate::runner::Control;

/// The table's entry.
pub static KIND: Kind = Kind {
    info: &catalog::Fault {
        name: "clock_skew",
        help: "set a real host's wall clock wrong; virtual hosts share this machine's, so there it is refused",
        takes: &[Field { name: "offset", help: "how far: \"5s\" ahead, \"-5s\" behind", required: true }],
        label: "clock skew",
        colour: "#653fff",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    begin: |fault, number, site| impose(fault, number, site, control),
    heal: lift,
};

/// At the lab's speed.
fn control(with: &BTreeMap<String, Value>, speed: f64) -> Result<Control, Vec<Wrong>> {
    let mut arguments = Arguments::new(with);
    let offset_s = arguments.signed_seconds("offset").unwrap_or(0.0);
    arguments.finish(Control::Clock { offset_s: offset_s / speed })
}
