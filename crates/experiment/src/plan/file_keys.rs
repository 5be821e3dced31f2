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
use crate::plan::operation::PREPARE;
use crate::plan::point_repeats::POINT_REPEATS;
use crate::plan::stop_rule::STOP_RULE;
use crate::plan::target::TARGET;

section! {
    const EXPERIMENT {
        title: Text, "What the experiment is called; without it, the file's name";
        asks: Text, "The question it answers", ["description", "question"];
        repeat = "1": Whole { min: 1, max: 1000 },
            "Trials of each point; interleaved: A B A B, never A A B B", ["repeats", "runs", "iterations", "trials"];
        seed = "1": Whole { min: 0, max: i64::MAX }, "Seed of all random values; same seed, same choices";
        secret: TEXTS,
            "Values that no record may have, each by the end of its path: header.x-token, body, target.with.key",
            ["secrets", "redact", "hide"];
        ..SETTING: target = required, lab, prepare, load, fleet, fault, action, step;
        sweep: PathsBeside(SWEEP, &Paths(&List(&Any))),
            "Dotted paths of this file, each with a list of values; trials are the product of all lists",
            ["matrix", "parameters"];
        variant: Overlays(VARIANT),
            "A named overlay over this file, for environments side by side", ["variants", "scenario", "scenarios"];
        find: Table(FIND), "Instead of a sweep: searches for the highest load at which limits hold";
        require: Tables(REQUIRE),
            "A gate: if it does not hold, `plimsoll run` exits with 5",
            ["threshold", "thresholds", "requirement", "expect"];
        claim: Tables(CLAIM), "What a source says, checked against this run", ["claims"];
        demand: Table(DEMAND),
            "What has to be carried: the results say how many hosts each variant takes for it", ["capacity"];
    }
}

section! {
    const SWEEP {
        repeat: List(&PathsBeside(POINT_REPEATS, &Paths(&Any))),
            "Other repeats at some points: [{ \"load.agents\" = 1, repeat = 4 }]; the other points keep the file's";
        stop: Table(STOP_RULE), "When it goes no higher: higher values of the path are not played then", ["until"];
    }
}

section! {
    const VARIANT {
        name = required: Text, "Its name, in results and in `where`";
        ..SETTING: target, lab, prepare, load, fleet, fault, action, step;
    }
}

section! {
    const SETTING {
        target: Table(TARGET), "The system under test";
        lab: Table(LAB), "Where it runs; left out: this machine, unlimited";
        prepare: Tables(PREPARE),
            "Operations before each trial, in order; not measured, and all must succeed", ["setup", "before"];
        load: Table(LOAD_WITH_GROUPS), "What clients do; left out: none", ["workload", "options"];
        fleet: Table(FLEET),
            "Processes that make the load together; left out: this one makes it", ["distributed", "generators"];
        fault: Tables(FAULT), "Something that is broken at a time, and healed", ["faults", "chaos", "nemesis"];
        action: Tables(ACTION),
            "Something that an operator does to repair what is broken, such as promoting a replica", ["actions", "recovery"];
        step: Tables(STEP), "Of an exercise, in order: do something, wait for a condition, check", ["steps", "test"];
    }
}
