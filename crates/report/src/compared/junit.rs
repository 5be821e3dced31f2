//! The comparison as JUnit XML, which build servers show: a suite for each side, a case for each comparison. It must stay within
//! what the common schema knows.

use record::compared::{Compared, Gated, Judged};

use super::{finding, name, outcome};

/// All of it. A comparison that fails the gate is a failure, one that could not be made is skipped.
#[must_use]
pub fn junit(compared: &Compared) -> String {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for judged in &compared.comparisons {
        let name = (judged.comparison.a.as_str(), judged.comparison.b.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let suites: String = names.into_iter().map(|(a, b)| suite(compared, a, b)).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"plimsoll compare\">\n{suites}</testsuites>\n"
    )
}

fn suite(compared: &Compared, a: &str, b: &str) -> String {
    let of_suite = |judged: &&Judged| judged.comparison.a == a && judged.comparison.b == b;
    let judged: Vec<&Judged> = compared.comparisons.iter().filter(of_suite).collect();
    let failures = judged.iter().filter(|judged| judged.gate == Some(Gated::Fails)).count();
    let skipped = judged.iter().filter(|judged| is_skipped(judged)).count();
    let title = escaped(&format!("{b} against {a}"));
    let mut properties = String::new();
    for one in compared.surroundings.iter().filter(|one| one.side == b) {
        let (name, value) = (format!("{} {}", one.of, one.field), format!("{} → {}", one.a, one.b));
        properties.push_str(&format!("      <property name=\"{}\" value=\"{}\"/>\n", escaped(&name), escaped(&value)));
    }
    if !properties.is_empty() {
        properties = format!("    <properties>\n{properties}    </properties>\n");
    }
    let cases: String = judged.iter().map(|judged| case(judged, &title)).collect();
    let notes: Vec<String> = compared.warnings.iter().map(|warning| escaped(warning) + "\n").collect();
    format!(
        "  <testsuite name=\"{title}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n{properties}{cases}    \
         <system-out>{}\n{}</system-out>\n  </testsuite>\n",
        judged.len(),
        escaped(&outcome(compared)),
        notes.concat()
    )
}

/// Whether nothing can be said of it.
fn is_skipped(judged: &Judged) -> bool {
    judged.comparison.p.is_none()
}

fn case(judged: &Judged, suite: &str) -> String {
    let (name, finding) = (escaped(&name(judged)), escaped(&finding(judged)));
    let inside = if judged.gate == Some(Gated::Fails) {
        format!("\n      <failure type=\"regression\" message=\"{finding}\">{finding}</failure>\n    ")
    } else if is_skipped(judged) {
        format!("\n      <skipped message=\"{finding}\"/>\n    ")
    } else {
        format!("\n      <system-out>{finding}</system-out>\n    ")
    };
    format!("    <testcase name=\"{name}\" classname=\"{suite}\" time=\"0\">{inside}</testcase>\n")
}

/// Text as content or attribute of XML 1.0, without the characters that it does not allow.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}
