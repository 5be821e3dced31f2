//! The experiment of `plimsoll hit` as a file has it: the way from one line to a file. It must not check anything.

use std::fmt::Write as _;

use super::asked::{Asked, Rate};
use super::connections::{Connections, Tls};

/// Writes the file.
#[must_use]
pub fn experiment(asked: &Asked) -> String {
    let title = format!("{} {}{}", asked.method.to_ascii_uppercase(), asked.place.service, asked.place.path);
    let mut head = vec![
        ("title", quoted(&title)),
        ("asks", quoted("How many requests per second, and how fast are they answered?")),
    ];
    if !asked.secrets.is_empty() {
        let names: Vec<String> = asked.secrets.iter().map(|name| quoted(name)).collect();
        head.push(("secret", format!("[{}]", names.join(", "))));
    }
    head.extend(asked.seed.map(|seed| ("seed", seed.to_string())));
    let mut load = vec![("agents", asked.agents.to_string()), ("time", quoted(&asked.time))];
    load.extend(asked.rate.map(|rate| ("rate", self::rate(rate))));
    load.extend(asked.timeout.as_ref().map(|timeout| ("timeout", quoted(timeout))));
    load.extend(connections(&asked.connections));
    load.push(("warmup", quoted(&asked.warmup)));
    load.extend(asked.threads.map(|threads| ("threads", threads.to_string())));
    let mut target = vec![("url", quoted(&asked.place.service))];
    target.extend(tls(&asked.connections.tls).map(|tls| ("tls", tls)));
    let headers = asked.headers.iter().map(|(name, value)| (format!("header.{name}"), value.clone()));
    let with: Vec<(String, String)> = std::iter::once(("path".to_owned(), asked.place.path.clone()))
        .chain(headers)
        .chain(asked.body.clone().map(|body| ("body".to_owned(), body)))
        .collect();
    let mut step = vec![("call", quoted(&asked.method)), ("with", table(&with))];
    if !asked.expects.is_empty() {
        step.push(("expect", table(&asked.expects)));
    }
    [
        "# Made by `plimsoll hit`; `plimsoll run FILE` plays it, and every line of it can be changed.\n".to_owned(),
        lines(&head),
        "\n[target]\n".to_owned(),
        lines(&target),
        "\n[load]\n".to_owned(),
        lines(&load),
        "\n[[load.cycle]]\n".to_owned(),
        lines(&step),
    ]
    .concat()
}

fn rate(rate: Rate) -> String {
    if rate.is_poisson { format!("{{ poisson = {} }}", rate.per_s) } else { rate.per_s.to_string() }
}

fn connections(connections: &Connections) -> Vec<(&'static str, String)> {
    let closed = connections.is_closed.then(|| ("keep_alive", "false".to_owned()));
    let pipeline = connections.pipeline.map(|agents| ("pipeline", agents.to_string()));
    closed.into_iter().chain(pipeline).collect()
}

/// An inline table, if there is anything to say.
fn tls(tls: &Tls) -> Option<String> {
    let ca = tls.ca.as_ref().map(|file| format!("ca = {}", quoted(file)));
    let insecure = tls.is_insecure.then(|| "insecure = true".to_owned());
    let server_name = tls.server_name.as_ref().map(|name| format!("server_name = {}", quoted(name)));
    let said: Vec<String> = [ca, insecure, server_name].into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!("{{ {} }}", said.join(", ")))
}

/// `key = value`, with the equals signs below each other.
fn lines(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    pairs.iter().map(|(key, value)| format!("{key:width$} = {value}\n")).collect()
}

/// An inline table of texts.
fn table(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{} = {}", key(name), quoted(value))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// A key as it is where TOML allows that; a dot in the name of a header would be one of TOML's.
fn key(name: &str) -> String {
    let is_bare = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let bare = match name.split_once('.') {
        Some((field, rest)) => is_bare(field) && is_bare(rest),
        None => is_bare(name),
    };
    if bare { name.to_owned() } else { quoted(name) }
}

/// A basic string of TOML, in one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
