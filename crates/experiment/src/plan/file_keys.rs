//! Top-level keys of an experiment file.

use crate::keys::section;
use crate::plan::demand::DEMAND;
use crate::plan::exercise::STEP;
use crate::plan::fault::{ACTION, FAULT};
use crate::plan::find::FIND;
use crate::plan::fleet::FLEET;
use crate::plan::gates::{CLAIM, REQUIRE};
use crate::plan::lab::LAB;
use crate::plan::load_group::LOAD_WITH_GROUPS;
use crate::plan::point_repeats::POINT_REPEATS;
use crate::plan::prepare::PREPARE;
use crate::plan::stop_rule::STOP_RULE;
use crate::plan::target::TARGET;

section! {
    const EXPERIMENT {
        title: Text, "Title of the experiment; default: the file's name";
        asks: Text, "Question that the experiment answers", ["description", "question"];
        repeat = "1": Whole { min: 1, max: 1000 },
            "Trials of each point, interleaved: A B A B, never A A B B", ["repeats", "runs", "iterations", "trials"];
        seed = "1": Whole { min: 0, max: i64::MAX }, "Seed of all random values; same seed, same choices";
        secret: TEXTS,
            "Values to keep out of all records, each by the end of its path: header.x-token, body, target.with.key",
            ["secrets", "redact", "hide"];
        ..SETTING: target = required, lab, prepare, load, fleet, fault, action, step;
        sweep: PathsBeside(SWEEP, &Paths(&List(&Any))),
            "Dotted paths of this file, each with a list of values; every combination is a point",
            ["matrix", "parameters"];
        variant: Overlays(VARIANT),
            "Named overlay over this file, to compare environments", ["variants", "scenario", "scenarios"];
        find: Table(FIND), "Search for the highest load at which limits hold, instead of a sweep";
        require: Tables(REQUIRE),
            "Gate: if it does not hold, `plimsoll run` exits with 5",
            ["threshold", "thresholds", "requirement", "expect"];
        claim: Tables(CLAIM), "Claim of a source, checked against this run", ["claims"];
        demand: Table(DEMAND),
            "Amount to carry: the results say how many hosts each variant needs for it", ["capacity"];
    }
}

section! {
    const SWEEP {
        repeat: List(&PathsBeside(POINT_REPEATS, &Paths(&Any))),
            "Repeats at some points: [{ \"load.agents\" = 1, repeat = 4 }]; the other points keep the file's";
        stop: Table(STOP_RULE), "Condition after which higher values of the path are left out", ["until"];
    }
}

section! {
    const VARIANT {
        name = required: Text, "Name in results and in `where`";
        ..SETTING: target, lab, prepare, load, fleet, fault, action, step;
    }
}

section! {
    const SETTING {
        target: Table(TARGET), "System under test";
        lab: Table(LAB), "Hosts that the target runs on; default: this machine, unlimited";
        prepare: Tables(PREPARE),
            "Operations before each trial, in order; not measured, and all must succeed", ["setup", "before"];
        load: Table(LOAD_WITH_GROUPS), "Operations that clients do; default: none", ["workload", "options"];
        fleet: Table(FLEET),
            "Processes that generate the load together; default: this one alone", ["distributed", "generators"];
        fault: Tables(FAULT), "Fault that begins at a given time and is healed", ["faults", "chaos", "nemesis"];
        action: Tables(ACTION),
            "Operator's repair after a fault, such as promoting a replica", ["actions", "recovery"];
        step: Tables(STEP), "Step of an exercise, in order: do something, wait for a condition, check", ["steps", "test"];
    }
}
