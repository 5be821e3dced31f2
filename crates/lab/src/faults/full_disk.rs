//! The fault `full_disk`: the file system with a host's data is full.

use std::collections::BTreeMap;

use experiment::catalog::{self, Field, Heals, Wrong};
use serde_json::Value;

use super::{Arguments, Kind, impose, lift};
use crate::runner::Control;

/// The table's entry.
pub static KIND: Kind = Kind {
    info: &catalog::Fault {
        name: "full_disk",
        help: "fill the file system with a host's data",
        takes: &[Field { name: "leave", help: "how much stays free; 0B without it", required: false }],
        label: "full disk",
        colour: "#999900",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    begin: |fault, number, site| impose(fault, number, site, control),
    heal: lift,
};

/// A size is the same at any speed of the lab.
fn control(with: &BTreeMap<String, Value>, _speed: f64) -> Result<Control, Vec<Wrong>> {
    let mut arguments = Arguments::new(with);
    let leave_bytes = arguments.bytes("leave").unwrap_or(0);
    arguments.finish(Control::FullDisk { leave_bytes })
}
