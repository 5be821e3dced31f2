//! Tests of the text format, with what its description allows and with what servers do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn read(text: &str) -> Vec<(String, f64)> {
    figures(text).map(|figure| (format!("{}{}", figure.name, figure.labels), figure.value)).collect()
}

#[test]
fn the_description_s_own_example_is_read() {
    let text = r#"# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9
metric_without_timestamp_and_labels 12.47
something_weird{problem="division by zero"} +Inf -3982045
http_request_duration_seconds_bucket{le="+Inf"} 144320
rpc_duration_seconds{quantile="0.01"} NaN
"#;
    let names: Vec<String> = read(text).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            r#"http_requests_total{method="post",code="200"}"#,
            r#"http_requests_total{method="post",code="400"}"#,
            r#"msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""}"#,
            "metric_without_timestamp_and_labels",
            r#"http_request_duration_seconds_bucket{le="+Inf"}"#,
        ]
    );
    assert_eq!(read(text)[2].1, 1.458_255_915e9);
}

#[test]
fn odd_lines_are_read_or_passed_over() {
    assert_eq!(read("\ta_b:c\t 1\r\n"), [("a_b:c".to_owned(), 1.0)]);
    assert_eq!(read(r#"x{a="}{",b="\\"} -0.5"#), [(r#"x{a="}{",b="\\"}"#.to_owned(), -0.5)]);
    assert_eq!(read("x {a=\"1\"} 2"), [("x{a=\"1\"}".to_owned(), 2.0)]);
    assert_eq!(read("x{} 2 # {trace=\"1\"} 0.5"), [("x".to_owned(), 2.0)]);
    for nothing in
        ["", "#", "x", "x ", "x{a=\"1\" 2", "x{a=\"1}\" 2", "1x 2", "x two", "<html> 1", "é 1", "{a=\"1\"} 2", "x{é"]
    {
        assert_eq!(read(nothing), [], "{nothing}");
    }
}
