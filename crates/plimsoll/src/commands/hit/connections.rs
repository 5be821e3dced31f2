//! The options of `plimsoll hit` about connections: how they are kept and shared, and whom an `https` URL is trusted to be. It must not
//! connect.

use std::path::Path;

use super::asked::Wrong;
use super::place::Place;
use crate::cli;

/// How agents are connected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connections {
    /// Whether each request has a connection of its own.
    pub is_closed: bool,
    /// Agents on each connection, if several are asked for.
    pub pipeline: Option<u32>,
    /// Whom to trust.
    pub tls: Tls,
}

/// What is said of `https`; if nothing, this machine is asked whom it trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// A PEM file.
    pub ca: Option<String>,
    /// Whether any certificate is taken.
    pub is_insecure: bool,
    /// A name that is not the URL's.
    pub server_name: Option<String>,
}

/// Reads them; `place` is where requests go, if that is known.
pub fn read(words: &cli::Hit, place: Option<&Place>, wrong: &mut Vec<Wrong>) -> Connections {
    let pipeline = words.pipeline.filter(|agents| *agents > 1);
    if let Some(agents) = pipeline.filter(|_| words.no_keep_alive) {
        wrong.push(Wrong::new(
            format!("--pipeline {agents} with --no-keep-alive: a connection that ends with its request is not shared"),
            "leave one of the two out",
        ));
    }
    Connections { is_closed: words.no_keep_alive, pipeline, tls: tls(words, place, wrong) }
}

fn tls(words: &cli::Hit, place: Option<&Place>, wrong: &mut Vec<Wrong>) -> Tls {
    let given = [
        (words.cacert.is_some(), "--cacert"),
        (words.insecure, "--insecure"),
        (words.server_name.is_some(), "--server-name"),
    ];
    let given: Vec<&str> = given.iter().filter(|(is_given, _)| *is_given).map(|(_, option)| *option).collect();
    if let Some(place) = place.filter(|place| !given.is_empty() && !place.service.starts_with("https:")) {
        wrong.push(Wrong::new(
            format!("{} without https: nothing is encrypted on the way to {}", given.join(" and "), place.service),
            "write a URL such as https://localhost:8443/, or leave that out",
        ));
    }
    if words.insecure && words.cacert.is_some() {
        wrong.push(Wrong::new(
            "--insecure with --cacert: either any certificate is taken, or what this file vouches for",
            "leave --insecure out",
        ));
    }
    let ca = words.cacert.as_deref().and_then(|file| certificates(file).map_err(|refused| wrong.push(refused)).ok());
    Tls { ca, is_insecure: words.insecure, server_name: words.server_name.clone() }
}

/// What begins a certificate in PEM (RFC 7468, 5.1).
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// A file as an experiment names it, if there is a certificate in it.
fn certificates(file: &Path) -> Result<String, Wrong> {
    let option = format!("--cacert {}", file.display());
    let read = std::fs::read(file)
        .map_err(|error| Wrong::new(format!("{option}: cannot read it: {error}"), "give a PEM file"))?;
    if !read.windows(CERTIFICATE.len()).any(|window| window == CERTIFICATE) {
        return Err(Wrong::new(
            format!("{option}: there is no certificate in it"),
            "give a PEM file: it has lines that say BEGIN CERTIFICATE",
        ));
    }
    let path = file.to_str().map(str::to_owned);
    path.ok_or_else(|| Wrong::new(format!("{option}: not a path in UTF-8"), "an experiment is a text: rename it"))
}
