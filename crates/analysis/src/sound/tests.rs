//! Checks that a time which cannot be is named, with its file and row, before anything walks up to it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::made_up;

const TIMES: [(&str, bool); 9] = [
    ("4294967296", false),
    ("1e15", false),
    ("inf", false),
    ("-inf", false),
    ("NaN", false),
    ("-1e9", false),
    ("-3.5", true),
    ("0", true),
    ("25", true),
];

const SLOTS: &str = "at_s,slot_s,ok,failed,timeout,wrong\n";

/// A trial's folder of its own for one test.
struct Scratch(TrialFolder);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("plimsoll-sound-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(TrialFolder::at(&path))
    }

    /// What the analysis says of a trial of 20 s with this one record.
    fn said(&self, path: &Path, text: &str) -> Result<(), String> {
        std::fs::write(path, text).unwrap();
        let said = crate::trial(&made_up::trial(made_up::load(10, 20.0)), &self.0).map(drop);
        std::fs::remove_file(path).unwrap();
        said.map_err(|error| error.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.path());
    }
}

#[test]
fn a_time_that_cannot_be_is_named_and_never_walked_to() {
    let scratch = Scratch::new("times");
    let folder = &scratch.0;
    for (time, can_be) in TIMES {
        let tables = [
            (folder.attempts(), format!("at_s,operation,result,count\n1,get,ok,3\n{time},get,ok,3\n")),
            (folder.samples(), format!("at_s,host,process\n1,local,\n{time},local,\n")),
            (folder.generator(), format!("at_s,interval_s,thread\n1,1,0\n{time},1,0\n")),
        ];
        for (path, text) in tables {
            let said = scratch.said(&path, &text);
            assert_eq!(said.is_ok(), can_be, "{text}: {said:?}");
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let reason = format!("{name}: row 2: `at_s` is ");
            assert!(said.as_ref().err().is_none_or(|said| said.contains(&reason)), "{said:?}");
        }
        // No operation ends before the load has begun.
        let said = scratch.said(&folder.outcomes(), &format!("{SLOTS}1,0.001,5,0,0,0\n{time},0.001,5,0,0,0\n"));
        assert_eq!(said.is_ok(), can_be && !time.starts_with('-'), "{time}: {said:?}");
    }
    // JSON has no infinity, and `1e999` is none of its numbers.
    for (time, can_be) in TIMES.into_iter().filter(|(time, _)| !time.contains(['i', 'N'])) {
        for event in [
            r#""event":"fault_begun","fault":"oops","number":1,"kind":"call","on":"n1""#,
            r#""event":"fault_healed","fault":"oops","number":1"#,
            r#""event":"phase","phase":"draining""#,
            r#""event":"ended","how":"done","reason":null"#,
        ] {
            let said = scratch.said(&folder.events(), &format!("{{\"at_s\":{time},{event}}}\n"));
            assert_eq!(said.is_ok(), can_be, "{time} {event}: {said:?}");
        }
    }
}

#[test]
fn a_slot_length_that_cannot_be_is_named() {
    let scratch = Scratch::new("slots");
    for (slots, can_be) in [
        ("0.001 0.001", true),
        ("0.001 0.002", false),
        ("0 0", false),
        ("-1 -1", false),
        ("NaN NaN", false),
        ("1e9 1e9", false),
    ] {
        let (one, other) = slots.split_once(' ').unwrap();
        let said = scratch.said(&scratch.0.outcomes(), &format!("{SLOTS}1,{one},5,0,0,0\n2,{other},5,0,0,0\n"));
        assert_eq!(said.is_ok(), can_be, "{slots}: {said:?}");
    }
}

#[test]
fn counts_that_no_sum_can_hold_are_named() {
    let scratch = Scratch::new("counts");
    let most = u64::MAX;
    let text = format!("at_s,operation,result,count\n1,get,ok,{most}\n2,get,ok,{most}\n");
    assert!(scratch.said(&scratch.0.attempts(), &text).unwrap_err().contains("row 1: `count` is "));
    let text = format!("at_s,interval_s,thread,operations\n1,1,0,{most}\n2,1,0,{most}\n");
    assert!(scratch.said(&scratch.0.generator(), &text).unwrap_err().contains("`operations` is "));
}

#[test]
fn a_plan_that_would_last_for_ever_is_named() {
    for time_s in [1e15, f64::INFINITY, f64::NAN, -1.0] {
        let mut asked = made_up::plan();
        asked.trials.push(made_up::trial(made_up::load(10, time_s)));
        assert!(plan(Path::new("plan.json"), &asked).unwrap_err().to_string().contains("`time_s` is "), "{time_s}");
    }
}
