//! The page: one HTML file that needs nothing else. What stands where is decided here and in the templates; it must not
//! compute a figure.

pub mod contents;
mod figures;
mod sections;

use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, UndefinedBehavior};
use serde::Serialize;

use crate::{Error, Input};

const TEMPLATES: [(&str, &str); 4] = [
    ("chart.html", include_str!("chart.html")),
    ("contents.html", include_str!("contents.html")),
    ("page.html", include_str!("page.html")),
    ("table.html", include_str!("table.html")),
];
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");

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
