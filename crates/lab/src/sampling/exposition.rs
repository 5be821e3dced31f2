//! Prometheus' text format, as far as a figure's name and value go: types, help, timestamps and exemplars are passed over.
//! It must not fail on a line that it cannot read; such a line is none.

/// A figure: its name, the same with its labels, and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure<'a> {
    /// `http_requests_total`
    pub name: &'a str,
    /// `{method="get"}`, or nothing.
    pub labels: &'a str,
    /// Finite.
    pub value: f64,
}

/// Every figure that has a finite value: one that is not a number says that there was nothing to measure.
pub fn figures(text: &str) -> impl Iterator<Item = Figure<'_>> {
    text.lines().filter_map(figure)
}

fn figure(line: &str) -> Option<Figure<'_>> {
    let line = line.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let (name, rest) = line.split_at(line.find(|c| !is_name(c))?);
    if !name.starts_with(|c: char| !c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    let (labels, rest) = rest.split_at(if rest.starts_with('{') { labels_end(rest)? } else { 0 });
    // Without labels there has to be space, which the name's end has shown; after them there need not be.
    let value = rest.split_ascii_whitespace().next()?.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some(Figure { name, labels: if labels == "{}" { "" } else { labels }, value })
}

/// Where the closing brace ends; one within quotes does not close.
fn labels_end(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '}' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
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
        for nothing in [
            "",
            "#",
            "x",
            "x ",
            "x{a=\"1\" 2",
            "x{a=\"1}\" 2",
            "1x 2",
            "x two",
            "<html> 1",
            "é 1",
            "{a=\"1\"} 2",
            "x{é",
        ] {
            assert_eq!(read(nothing), [], "{nothing}");
        }
    }
}
