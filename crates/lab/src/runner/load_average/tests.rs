//! Tests of the damping against the kernel's formula, and of the counting on a made-up /proc.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::fixture::Scratch;

/// The text of a long row of equal counts.
fn after(times: usize, active: u64) -> Averages {
    (0..times).fold(Averages::default(), |averages, _| averages.after(active))
}

fn shown(averages: Averages) -> String {
    averages.text(Count::default())
}

#[test]
fn the_first_steps_are_the_kernels() {
    // 1 * 2048 * (2048 - 1884), (2048 - 2014), (2048 - 2037), rounded up, over 2048.
    assert_eq!(after(1, 1), Averages([164, 34, 11]));
    // 164 * 1884 + 2048 * 164 + 2047 = 646,895, and so on.
    assert_eq!(after(2, 1), Averages([315, 68, 22]));
    // Rounded down while it falls: 315 * 1884 / 2048.
    assert_eq!(after(2, 1).after(0), Averages([289, 66, 21]));
}

#[test]
fn a_constant_load_gets_there_and_nothing_comes_back_to_nothing() {
    assert_eq!(shown(after(3000, 3)), "3.00 3.00 3.00 0/0 0\n");
    // A minute and 1/e: 63 % of the way.
    let minute = shown(after(12, 10));
    assert!(minute.starts_with("6.3"), "{minute}");
    let gone = (0..20_000).fold(after(100, 50), |averages, _| averages.after(0));
    assert_eq!(shown(gone), "0.00 0.00 0.00 0/0 0\n");
}

#[test]
fn the_line_is_the_kernels() {
    let count = Count { running: 2, waiting: 1, threads: 95, last_pid: 14759 };
    // 0.24, 0.36 and 5.995, which shows as 6.00.
    let averages = Averages([491, 737, 12278]);
    assert_eq!(averages.text(count), "0.24 0.36 6.00 2/95 14759\n");
}

#[test]
fn threads_that_run_or_wait_for_a_disk_are_counted_but_not_the_runners() {
    let proc = Scratch::new();
    let thread = |pid: u32, tid: u32, state: char| {
        let line = format!("{tid} (x) {state} 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 1 1 1 1\n");
        proc.write(&format!("{pid}/task/{tid}/stat"), &line);
    };
    thread(1, 1, 'R');
    thread(2, 2, 'R');
    thread(10, 10, 'S');
    thread(10, 11, 'R');
    thread(12, 12, 'D');
    thread(13, 13, 'Z');
    let count = Count::of(&proc, &[1, 2]);
    assert_eq!(count, Count { running: 1, waiting: 1, threads: 4, last_pid: 13 });
    proc.write("sys/kernel/ns_last_pid", "77\n");
    assert_eq!(Count::of(&proc, &[1, 2]).last_pid, 77);
}

#[test]
fn the_file_is_there_at_once_and_its_thread_ends() {
    let folder = Scratch::new();
    let file = folder.write("loadavg", "something much longer than any line of averages could ever be\n");
    let keeper = LoadAverage::start(&file).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("0.00 0.00 0.00 ") && text.lines().count() == 1, "{text}");
    drop(keeper);
    assert!(LoadAverage::start(&folder.join("no/such/folder")).is_err());
}
