//! The page: one HTML file that needs nothing else. What stands where is decided here and in the templates; it must not
//! compute a figure.

pub mod contents;
mod figures;
mod sections;

use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, UndefinedBehavior};
use serde::Serialize;

use crate::drawing::markup::visible;
use crate::{Error, Input};

const TEMPLATES: [(&str, &str); 4] = [
    ("chart.html", include_str!("page/chart.html")),
    ("contents.html", include_str!("page/contents.html")),
    ("page.html", include_str!("page/page.html")),
    ("table.html", include_str!("page/table.html")),
];
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The whole page.
///
/// # Errors
/// If a template cannot be filled, which is a fault of ours.
pub fn page(input: &Input) -> Result<String, Error> {
    let templates = Templates::new()?;
    let page = sections::page(input, &templates)?;
    templates.fill("page.html", &page)
}

/// The templates, ready to be filled. Everything that is put into one is escaped, except what a template marks as safe:
/// charts, tables that were filled by another template, our own style and script.
pub struct Templates(minijinja::Environment<'static>);

impl Templates {
    fn new() -> Result<Self, Error> {
        let mut environment = minijinja::Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_formatter(|out, state, value| match value.as_str() {
            Some(text) if !value.is_safe() => {
                let seen = Value::from(visible(text).into_owned());
                minijinja::escape_formatter(out, state, &seen)
            }
            _ => minijinja::escape_formatter(out, state, value),
        });
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        for (name, source) in TEMPLATES {
            environment.add_template(name, source).map_err(|error| broken(name, &error))?;
        }
        Ok(Self(environment))
    }

    /// Fills a template.
    pub fn fill(&self, name: &'static str, with: &impl Serialize) -> Result<String, Error> {
        let template = self.0.get_template(name).map_err(|error| broken(name, &error))?;
        template.render(Value::from(Serde(with))).map_err(|error| broken(name, &error))
    }
}

fn broken(template: &'static str, error: &minijinja::Error) -> Error {
    Error::Template { template, reason: format!("{error:#}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_saved_name_is_no_formula_of_a_spreadsheet() {
        // The script runs in a browser alone; that every cell passes by the guard is what can be seen here.
        let guard = r"typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text";
        let cell = SCRIPT.split("const cell =").nth(1).and_then(|rest| rest.split("};").next()).unwrap();
        assert!(cell.contains(guard), "{cell}");
        assert!(SCRIPT.contains("row.map(cell)"));
    }

    #[test]
    fn what_turns_letters_round_is_shown_by_every_template() {
        let mut templates = Templates::new().unwrap();
        templates.0.add_template("x.html", "{{ name }}{{ drawn|safe }}").unwrap();
        let page = templates.fill("x.html", &serde_json::json!({ "name": "a\u{202e}<b", "drawn": "<i>" })).unwrap();
        assert_eq!(page, "a[U+202E]&lt;b<i>");
    }
}
