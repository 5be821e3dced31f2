//! The page of faults, from the lab's table.

use std::fmt::Write as _;

use experiment::catalog::{Fault, Heals};

use super::{Page, cell, sentence};

pub const KIND: Page = Page { name: "faults", text };

fn text() -> String {
    let mut page = String::from("# Faults\n\nWhat `kind` may be in `[[fault]]`.\n");
    for kind in lab::faults::KINDS {
        add(&mut page, kind.info);
    }
    page
}

fn add(page: &mut String, fault: &Fault) {
    let healing = match fault.heals {
        Heals::ByItself => "It is an instant and takes no `for`: the target recovers by itself or not at all.",
        Heals::AfterFor => "It lasts for `for`, or to the end of the trial.",
    };
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## `{}`\n\n{} {healing}\n", fault.name, sentence(fault.help));
    if fault.takes.is_empty() {
        return;
    }
    page.push_str("\n| `with` | | |\n|---|---|---|\n");
    for field in fault.takes {
        let need = if field.required { "required" } else { "" };
        let _ = writeln!(page, "| `{}` | {need} | {} |", cell(field.name), cell(field.help));
    }
}
