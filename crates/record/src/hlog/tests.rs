//! Checks of the interval log: exact counts, the standard's text, and reading a file cut off at any byte.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::scratch::Scratch;

fn histogram(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    for &value in values {
        histogram.record(value).unwrap();
    }
    histogram
}

fn written(scratch: &Scratch) -> std::path::PathBuf {
    let path = scratch.path("load.hlog");
    let mut writer = Writer::create(&path, 1_795_170_665.25).unwrap();
    writer.write("save/ok/latency", 0.0, 1.0, &histogram(&[1_000, 2_000_000, 2_000_000])).unwrap();
    writer.write("save/ok/service", 0.0, 1.0, &histogram(&[900])).unwrap();
    writer.write("save/failed/latency", 1.0, 1.0, &histogram(&[59_000_000_000])).unwrap();
    writer.flush().unwrap();
    path
}

#[test]
fn what_is_written_is_read_with_exact_counts() {
    let scratch = Scratch::new("hlog");
    let log = read(&written(&scratch)).unwrap();
    assert_eq!(log.start_unix_s, Some(1_795_170_665.25));
    assert!(!log.torn);
    let seen: Vec<_> =
        log.intervals.iter().map(|one| (one.tag.as_str(), one.start_s, one.length_s, one.histogram.len())).collect();
    assert_eq!(
        seen,
        [("save/ok/latency", 0.0, 1.0, 3), ("save/ok/service", 0.0, 1.0, 1), ("save/failed/latency", 1.0, 1.0, 1)]
    );
    assert_eq!(log.intervals[0].histogram, histogram(&[1_000, 2_000_000, 2_000_000]));
}

#[test]
fn the_text_is_that_of_the_standard_log_writer() {
    let scratch = Scratch::new("hlog");
    let text = std::fs::read_to_string(written(&scratch)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "#[Values are nanoseconds; Interval_Max is in milliseconds]",
            "#[Histogram log format version 1.3]",
            "#[StartTime: 1795170665.250 (seconds since epoch), Fri Nov 20 10:31:05 UTC 2026]",
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"HdrHistogram_CompressedBase64\"",
        ]
    );
    // `HISTFAAA` is how a compressed V2 histogram begins in base64; other readers know it by that.
    assert!(lines[4].starts_with("Tag=save/ok/latency,0.000,1.000,2.001,HISTFAAA"), "{}", lines[4]);
    assert_eq!(lines.len(), 7);
}

#[test]
fn a_file_cut_off_at_any_byte_is_readable_up_to_there() {
    let scratch = Scratch::new("hlog");
    let path = written(&scratch);
    let (whole, all) = (std::fs::read(&path).unwrap(), read(&path).unwrap());
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
        let log = read(&path).unwrap();
        assert_eq!(log.intervals, all.intervals[..lines.saturating_sub(4)], "cut at {cut}");
        assert_eq!(log.start_unix_s.is_some(), lines >= 3, "cut at {cut}");
        assert_eq!(log.torn, cut > 0 && whole[cut - 1] != b'\n', "cut at {cut}");
    }
}

#[test]
fn a_broken_line_in_the_middle_is_an_error() {
    let scratch = Scratch::new("hlog");
    let path = written(&scratch);
    let text = std::fs::read_to_string(&path).unwrap();
    for broken in ["Tag=save/ok/service,0.000,1.000,0.001,HISTFA", "nonsense"] {
        let mut lines: Vec<_> = text.lines().collect();
        lines[5] = broken;
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains("load.hlog:6: "), "{message}");
    }
}

#[test]
fn what_a_log_line_cannot_hold_is_refused() {
    let scratch = Scratch::new("hlog");
    let mut writer = Writer::create(&scratch.path("load.hlog"), 0.0).unwrap();
    let empty = histogram(&[]);
    for (tag, start_s) in [("a,b", 0.0), ("", 0.0), ("a b", 0.0), ("a", -1.0), ("a", f64::NAN), ("a", f64::INFINITY)] {
        assert!(writer.write(tag, start_s, 1.0, &empty).is_err(), "{tag} {start_s}");
    }
    writer.write("a", 0.0, 1.0, &empty).unwrap();
}

#[test]
fn tags_are_read_as_they_are_written() {
    for outcome in Outcome::ALL {
        for time in [Time::Latency, Time::Service] {
            let tag = Tag { operation: "save_for-good2".into(), outcome, time };
            assert_eq!(Tag::parse(&tag.to_string()), Some(tag));
        }
    }
    for foreign in ["", "save", "save/ok", "save/ok/latency/x", "save/good/latency", "save/ok/time", "Save/ok/latency"]
    {
        assert_eq!(Tag::parse(foreign), None, "{foreign}");
    }
}
