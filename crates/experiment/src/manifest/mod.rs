//! `target.toml`: what a target is, takes, runs and offers. Parsing only; finding the folder is the lab's work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod placeholders;
mod reading;

pub use reading::parse;

/// A target folder's `target.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The folder's name.
    pub name: String,
    /// `[about]`.
    pub about: About,
    /// `[parameters.NAME]`.
    pub parameters: BTreeMap<String, Parameter>,
    /// `[[process]]`, in file order.
    pub processes: Vec<Process>,
    /// `[hooks]`: hook name to path inside the folder.
    pub hooks: BTreeMap<String, String>,
    /// `[hooks] install_with`: the parameters that the hooks `install` and `versions` are told; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_with: Option<Vec<String>>,
    /// `[metrics]`.
    pub metrics: Option<Metrics>,
    /// `[log]`.
    pub log: LogTexts,
}

impl Manifest {
    /// Of a trial's parameters those that decide what has to be installed.
    #[must_use]
    pub fn installed_with(&self, with: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let decides = |name: &String| self.install_with.as_ref().is_none_or(|listed| listed.contains(name));
        with.iter().filter(|(name, _)| decides(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// `[log]`: a line of a process's output that has one of these texts in it becomes an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogTexts {
    /// Worth reading.
    pub notable: Vec<String>,
    /// Signs that the target is not whole: they make a trial suspect.
    pub alarming: Vec<String>,
}

/// `[metrics]`: figures that the target gives of itself, in Prometheus' text format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Where each host has them; placeholders as for the process that serves.
    pub url: String,
    /// Names, without labels, of those that are recorded.
    pub keep: Vec<String>,
}

/// `[about]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// One line.
    pub what: String,
    /// Version of the target, or of its sources.
    pub version: String,
    /// SPDX expression.
    pub licence: String,
    /// The article it comes from, if any.
    pub article: Option<String>,
    /// The protocol that its service port speaks. A parameter may decide: `"{protocol}"`.
    pub protocol: String,
    /// `role.port`: where clients go.
    pub service: String,
    /// The role whose hosts are the members: whom faults hit, hooks ask and metrics are asked of. The service's, unless said.
    pub members: String,
}

/// `[parameters.NAME]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its type and the values it takes.
    #[serde(flatten)]
    pub takes: Takes,
    /// Used where the experiment gives none. Always a text; `takes` says what it must parse as.
    pub default: String,
    /// One line.
    pub help: String,
}

/// The values a parameter takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Takes {
    /// One of a list.
    Choice {
        /// The list.
        of: Vec<String>,
    },
    /// A whole number.
    Integer {
        /// Smallest allowed.
        min: Option<i64>,
        /// Largest allowed.
        max: Option<i64>,
    },
    /// true or false.
    Boolean,
    /// Any text.
    Text,
    /// A duration such as `"50ms"`; handed to the target in seconds.
    Duration,
}

/// `[[process]]`: one program of the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its name within the target.
    pub role: String,
    /// Program and arguments, with placeholders `{target}`, `{data}`, `{host}`, `{port.NAME}`, `{plimsoll}`
    /// and `{PARAMETER}`.
    pub run: Vec<String>,
    /// More environment, with the same placeholders.
    pub env: BTreeMap<String, String>,
    /// Names of the ports it listens on.
    pub ports: Vec<String>,
    /// Whether it wants a private data folder.
    pub data: bool,
    /// The role that must be ready before this one starts.
    pub after: Option<String>,
    /// When it counts as ready.
    pub ready: Ready,
    /// How it is asked to stop.
    pub stop: Stop,
}

/// When a process counts as ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The check.
    pub check: ReadyCheck,
    /// Seconds after which the target is said to have failed to start.
    pub within_s: f64,
}

/// What is tried until it succeeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadyCheck {
    /// This operation of the target's protocol, sent to the service port, is `ok`.
    Call(String),
    /// This port (by name) accepts a connection.
    Tcp(String),
    /// A GET of this URL (placeholders allowed) answers 2xx.
    Http(String),
}

/// How a process is asked to stop, before it is killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// `TERM`, `INT`, `QUIT`, `HUP` or `KILL`.
    pub signal: String,
    /// Seconds it is given.
    pub within_s: f64,
}

#[cfg(test)]
mod tests;
