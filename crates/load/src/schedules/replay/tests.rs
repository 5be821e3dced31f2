//! Recorded starts: who takes which, what is refused and with which line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::super::tests::{S, all_starts, recorded, starts};
use super::*;

#[test]
fn agents_take_the_starts_in_turn() {
    let text = "user,at_s\na,0\nb,0.25\n# no comment,0.5\nd, 0.5 \ne,1\nf,7\n";
    let replay = recorded("turns", text, 2, 5 * S).unwrap();
    assert_eq!(starts(&replay, 0), [0, S / 2, S]);
    assert_eq!(starts(&replay, 1), [S / 4, S / 2]);
    assert!(replay.notice().unwrap().starts_with("1 of the 6 starts in "), "{:?}", replay.notice());
    assert_eq!(recorded("whole", text, 2, 8 * S).unwrap().notice(), None);
}

#[test]
fn none_is_lost_where_several_start_at_once() {
    let replay = recorded("at-once", "at_s\n0\n0\n0\n0\n0\n0.000000001\n", 2, S).unwrap();
    assert_eq!(all_starts(&replay, 2), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn a_slow_lab_stretches_it() {
    let path = std::env::temp_dir().join(format!("plimsoll-{}-stretched.csv", std::process::id()));
    std::fs::write(&path, "at_s\n0.5\n1.5\n").unwrap();
    let read = Replay::read(&path, 10.0, 1, 60 * S);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(starts(&read.unwrap(), 0), [5 * S, 15 * S]);
}

#[test]
fn what_is_refused_says_where() {
    let table = [
        ("", "names no column `at_s`"),
        ("time\n1\n", "names no column `at_s`"),
        ("at_s\n", "no start below its header line"),
        ("at_s\n0\n1.5\n1.25\n", "line 4: 1.25 comes after 1.5"),
        ("at_s\n0\nsoon\n", "line 3: `soon` is no time"),
        ("at_s\n-1\n", "line 2: `-1` is no time"),
        ("at_s\ninf\n", "line 2: `inf` is no time"),
        ("at_s,user\n0,a\n1\n", "line: 3"),
    ];
    for (number, (text, expected)) in table.iter().enumerate() {
        let error = recorded(&format!("refused-{number}"), text, 1, S).unwrap_err().to_string();
        assert!(error.contains(expected), "`{error}` should contain `{expected}`");
        assert!(error.starts_with("the schedule ") && error.contains("refused-"), "{error}");
    }
    let missing = Replay::read(Path::new("no-such-file.csv"), 1.0, 1, S).unwrap_err().to_string();
    assert!(missing.contains("no-such-file.csv") && missing.contains("No such file"), "{missing}");
}
