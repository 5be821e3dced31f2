//! Tests of the live view: what it tells of seconds that threads tell of one after the other.
#![allow(clippy::unwrap_used)]

use super::*;

fn second(at_s: f64, ok: u64, failed: u64, latency_us: u64) -> Second {
    let mut latency_ns = Histogram::<u64>::new(DIGITS).unwrap();
    latency_ns.record_n(latency_us * 1_000, ok).unwrap();
    Second { at_s, of_s: 10.0, ok, failed, latency_ns: Some(Box::new(latency_ns)), ..Second::default() }
}

fn after(seconds: &[Second]) -> Course {
    let mut course = Course::default();
    seconds.iter().for_each(|second| course.add(second));
    course
}

#[test]
fn a_second_is_that_of_all_threads() {
    let course = after(&[second(1.0, 300, 0, 900), second(1.0, 100, 0, 900), second(2.0, 500, 2, 900)]);
    assert_eq!(course.rates(), [500.0, 450.0], "one thread has told of the second second");
    let course = after(&[
        second(1.0, 300, 0, 900),
        second(1.0, 100, 0, 900),
        second(2.0, 500, 2, 900),
        second(2.0, 100, 0, 900),
    ]);
    assert_eq!(course.rates(), [600.0, 500.0]);
    assert_eq!((course.ok, course.not_ok()), (1_000, 2));
}

#[test]
fn what_ends_just_after_the_load_is_no_second_of_its_own() {
    let course = after(&[second(9.0, 400, 0, 900), second(10.0, 400, 0, 900), second(10.004, 4, 0, 900)]);
    assert!((course.rates()[0] - 404.0 / 1.004).abs() < 0.01, "{:?}", course.rates());
}

#[test]
fn the_view_fits_and_shows_what_failed() {
    let mut seconds: Vec<Second> = (1..=4_u32).map(|at| second(f64::from(at), 20_000, 0, 1_000)).collect();
    seconds.push(Second { timeout: 1, wrong: 2, ..second(4.0, 50, 30, 48_000) });
    let course = after(&seconds);
    let lines = course.lines("64 agents on GET http://localhost:8080/, 10s", false);
    assert!(lines.iter().all(|line| line.chars().count() <= 80 && !line.contains('\x1b')), "{lines:#?}");
    insta::assert_snapshot!(lines.join("\n"));
    let coloured = course.lines("", true).join("\n");
    assert!(coloured.contains("\x1b[31mfailed 30\x1b[0m") && coloured.contains("  ok 80,050"), "{coloured}");
}

#[test]
fn before_the_first_answer_there_is_no_figure() {
    let lines = Course::default().lines("what", false).join("\n");
    assert!(lines.contains("none yet"), "{lines}");
    let few = after(&[second(1.0, 10, 0, 900)]);
    assert_eq!(few.quantiles().matches("too few").count(), 1, "{}", few.quantiles());
}
