//! What the experiment at hand asks of this machine as a whole. What it needs of one thing is judged where that thing is.

use super::{About, Finding, Kind, Patient};

pub static LAB: Kind = Kind {
    name: "its lab",
    about: About::Experiment,
    reads: "what `plimsoll run` looks for before it makes hosts",
    why: "a lab that cannot be made ends the run with exit code 3 before anything is measured",
    source: "docs/lab.md",
    caught_by: &[],
    article: None,
    look: look_at_lab,
};

pub static TARGET: Kind = Kind {
    name: "its target",
    about: About::Experiment,
    reads: "the target's hook `install check`",
    why: "a target that lacks something does not start",
    source: "targets/README.md",
    caught_by: &[],
    article: None,
    look: look_at_target,
};

const NONE: &str = "no experiment was given";

fn look_at_lab(patient: &Patient<'_>) -> Finding {
    let Some(asked) = patient.asked else { return Finding::unknown(NONE) };
    match &asked.refused {
        Some((why, remedy)) => Finding::bad(why.clone(), remedy.clone()),
        None => Finding::good(format!("can be made here ({})", asked.lab)),
    }
}

fn look_at_target(patient: &Patient<'_>) -> Finding {
    let Some(asked) = patient.asked else { return Finding::unknown(NONE) };
    match asked.missing.as_slice() {
        [] => Finding::good(format!("{}: nothing is missing", asked.target)),
        missing => {
            let found = format!("{} is not installed completely: {}", asked.target, missing.join("; "));
            Finding::bad(found, "plimsoll run FILE --install, which does this before the run")
        }
    }
}
