//! The fault `lossy_link`: some of the packets of a host are lost, by chance.

use std::collections::BTreeMap;

use experiment::catalog::{self, Field, Heals, Wrong};
use experiment::profile::Link;
use serde_json::Value;

use super::{Arguments, Kind, impose, lift};
use crate::runner::Control;

/// The table's entry.
pub static KIND: Kind = Kind {
    info: &catalog::Fault {
        name: "lossy_link",
        help: "lose some of a host's packets, in both directions",
        takes: &[Field { name: "loss_pct", help: "how many of a hundred are lost, such as 5", required: true }],
        label: "lossy link",
        colour: "#c026d3",
        heals: Heals::AfterFor,
        check: Some(|with| control(with, 1.0).err().unwrap_or_default()),
    },
    begin: |fault, number, site| impose(fault, number, site, control),
    heal: lift,
};

/// What is lost is the same at any speed of the lab.
fn control(with: &BTreeMap<String, Value>, _speed: f64) -> Result<Control, Vec<Wrong>> {
    let mut arguments = Arguments::new(with);
    let loss_pct = arguments.number("loss_pct", 0.0, 100.0);
    arguments.finish(Control::Link { link: Link { loss_pct, ..Link::default() }, peers: None })
}
