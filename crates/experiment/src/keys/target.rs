//! The keys of a `target.toml`.

use super::{Key, Kind};

const TEXTS: Kind = Kind::Map(&Kind::Text);

/// The whole file.
pub(crate) const TARGET: &[Key] = &[
    Key::new("about", Kind::Table(ABOUT), "What it is").required(),
    Key::new("parameters", Kind::Map(&Kind::Table(PARAMETER)), "What an experiment may choose, each by its name"),
    Key::new("process", Kind::Tables(PROCESS), "The programs that make it up").required(),
    Key::new("hooks", Kind::Table(HOOKS), "Executables in the folder that answer with one JSON object"),
    Key::new("metrics", Kind::Table(METRICS), "Figures that it gives of itself, in Prometheus' text format"),
    Key::new("log", Kind::Table(LOG), "What its processes write that belongs into the records"),
];

const ABOUT: &[Key] = &[
    Key::new("what", Kind::Text, "One line").required(),
    Key::new("version", Kind::Text, "Its version, or that of its sources").required(),
    Key::new("licence", Kind::Text, "An SPDX expression").required().elsewhere(&["license"]),
    Key::new("article", Kind::Text, "The article it comes from"),
    Key::new("protocol", Kind::Text, "What its service port speaks; a parameter may decide: \"{protocol}\"").required(),
    Key::new("service", Kind::Text, "\"role.port\": where clients go").required(),
    Key::new(
        "members",
        Kind::Text,
        "The role whose hosts are its members, where clients go to something in front of them",
    ),
];

const PARAMETER: &[Key] = &[
    Key::new("type", Kind::Choice(&["choice", "integer", "boolean", "text", "duration"]), "What it takes").required(),
    Key::new("of", Kind::List(&Kind::Text), "For a choice: the list"),
    Key::new("min", Kind::Whole { min: i64::MIN, max: i64::MAX }, "For an integer: the smallest"),
    Key::new("max", Kind::Whole { min: i64::MIN, max: i64::MAX }, "For an integer: the largest"),
    Key::new("default", Kind::Scalar, "Used where the experiment gives none").required(),
    Key::new("help", Kind::Text, "One line").required(),
];

const PROCESS: &[Key] = &[
    Key::new("role", Kind::Name, "Its name within the target").required().elsewhere(&["name"]),
    Key::new(
        "run",
        Kind::List(&Kind::Text),
        "Program and arguments, with placeholders such as {target}, {host}, {port.NAME}",
    )
    .required()
    .elsewhere(&["command", "cmd", "exec"]),
    Key::new("env", TEXTS, "More environment, with the same placeholders"),
    Key::new("ports", Kind::List(&Kind::Name), "Names of the ports it listens on"),
    Key::new("data", Kind::Boolean, "Whether it wants a private data folder").or("false"),
    Key::new("after", Kind::Text, "The role that must be ready before this one starts"),
    Key::new("ready", Kind::Table(READY), "When it counts as ready; left out: its first port accepts a connection"),
    Key::new("stop", Kind::Table(STOP), "How it is asked to stop"),
];

const READY: &[Key] = &[
    Key::new("call", Kind::Text, "This operation of the protocol is ok"),
    Key::new("tcp", Kind::Text, "This port, by name, accepts a connection"),
    Key::new("http", Kind::Text, "A GET of this URL answers 2xx"),
    Key::new("within", Kind::Duration { zero: false }, "How long it may take").or("30s").elsewhere(&["timeout"]),
];

const STOP: &[Key] = &[
    Key::new("signal", Kind::Choice(&["TERM", "INT", "QUIT", "HUP", "KILL"]), "What it is sent").or("TERM"),
    Key::new("within", Kind::Duration { zero: true }, "How long it is given before it is killed")
        .or("5s")
        .elsewhere(&["timeout"]),
];

const HOOKS: &[Key] = &[
    Key::new("install", Kind::Text, "install check, install apply: what is missing, and putting it there"),
    Key::new("inspect", Kind::Text, "Versions and settings, for the records"),
    Key::new("leader", Kind::Text, "Which member leads"),
    Key::new("audit", Kind::Text, "What the members hold, for the checks after a run"),
    Key::new("reset", Kind::Text, "Puts it back into its first state"),
    Key::new("versions", Kind::Text, "Versions of what is installed for it, before anything is started"),
    Key::new(
        "install_with",
        Kind::List(&Kind::Text),
        "The parameters that install and versions are told, once for each set of their values; left out: all of them",
    ),
];

const METRICS: &[Key] = &[
    Key::new("url", Kind::Text, "Where each host has them: \"http://{host}:{port.NAME}/metrics\"").required(),
    Key::new("keep", Kind::List(&Kind::Text), "Names, without labels, of those that are recorded each second")
        .required(),
];

const LOG: &[Key] = &[
    Key::new(
        "notable",
        Kind::List(&Kind::Text),
        "A line that has one of these texts in it becomes an event, as it stands",
    ),
    Key::new(
        "alarming",
        Kind::List(&Kind::Text),
        "The same, and such a line makes the trial suspect, in the words of whoever wrote it",
    ),
];
