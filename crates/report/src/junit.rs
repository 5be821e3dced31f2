//! JUnit's format, for a build server.

/// A suite of tests.
pub struct Suite {
    pub title: String,
    /// Names and values.
    pub properties: Vec<(String, String)>,
    pub cases: Vec<TestCase>,
    pub output: String,
}

/// A test.
pub struct TestCase {
    pub name: String,
    pub class: String,
    pub outcome: CaseOutcome,
    /// Finding or reason; may be empty.
    pub text: String,
}

/// Outcome of a test. Failures and errors have a type.
#[derive(Clone, Copy, PartialEq)]
pub enum CaseOutcome {
    Passed,
    Skipped,
    Failure(&'static str),
    Error(&'static str),
}

/// Returns the whole file.
pub fn file(name: &str, suites: &[Suite]) -> String {
    let suites: String = suites.iter().map(Suite::xml).collect();
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{name}\">\n{suites}</testsuites>\n")
}

impl Suite {
    fn xml(&self) -> String {
        let [mut failures, mut errors, mut skipped] = [0; 3];
        for case in &self.cases {
            match case.outcome {
                CaseOutcome::Passed => {}
                CaseOutcome::Skipped => skipped += 1,
                CaseOutcome::Failure(_) => failures += 1,
                CaseOutcome::Error(_) => errors += 1,
            }
        }
        let mut text = format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\">\n",
            escaped(&self.title),
            self.cases.len()
        );
        if !self.properties.is_empty() {
            text.push_str("    <properties>\n");
            for (name, value) in self.properties.iter().map(|(name, value)| (escaped(name), escaped(value))) {
                text.push_str(&format!("      <property name=\"{name}\" value=\"{value}\"/>\n"));
            }
            text.push_str("    </properties>\n");
        }
        text.extend(self.cases.iter().map(TestCase::xml));
        text + &format!("    <system-out>{}</system-out>\n  </testsuite>\n", lines_escaped(&self.output))
    }
}

impl TestCase {
    fn xml(&self) -> String {
        let text = escaped(&self.text);
        let inside = match self.outcome {
            CaseOutcome::Passed if text.is_empty() => text,
            CaseOutcome::Passed => format!("<system-out>{text}</system-out>"),
            CaseOutcome::Skipped => format!("<skipped message=\"{text}\"/>"),
            CaseOutcome::Failure(kind) => format!("<failure type=\"{kind}\" message=\"{text}\">{text}</failure>"),
            CaseOutcome::Error(kind) => format!("<error type=\"{kind}\" message=\"{text}\">{text}</error>"),
        };
        let (name, class) = (escaped(&self.name), escaped(&self.class));
        format!("    <testcase name=\"{name}\" classname=\"{class}\" time=\"0\">{inside}</testcase>\n")
    }
}

fn lines_escaped(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Escapes a text for content or attributes of XML 1.0, and replaces characters that XML does not
/// allow.
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
