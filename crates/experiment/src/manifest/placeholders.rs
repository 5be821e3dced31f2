//! `{host}`, `{port.NAME}` and the like in a manifest: whether each stands for something. The lab fills them in.

use crate::manifest::Manifest;
use crate::nearest;
use crate::problem::Problem;
use crate::section::Section;
use crate::tree::Node;

/// Placeholders of every target; `{port.NAME}`, `{host.ROLE}`, `{hosts.ROLE}` and `{PARAMETER}` come on top.
pub(super) const OWN: [&str; 12] =
    ["cores", "data", "first", "host", "hosts", "index", "memory_mb", "name", "names", "peers", "plimsoll", "target"];

/// Checks every text of the manifest that may hold placeholders.
pub(super) fn check(root: &Section<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let mut known: Vec<String> = OWN.iter().map(|own| (*own).to_owned()).collect();
    for process in &manifest.processes {
        let role = &process.role;
        known.extend(process.ports.iter().flat_map(|port| [format!("port.{port}"), format!("port.{role}.{port}")]));
        known.extend([format!("host.{role}"), format!("hosts.{role}")]);
    }
    known.extend(manifest.parameters.keys().cloned());
    for process in root.sections("process") {
        for node in process.node("run").and_then(Node::list).unwrap_or_default() {
            text(node, &known, problems);
        }
        for entry in process.entries("env") {
            text(&entry.node, &known, problems);
        }
        if let Some(http) = process.section("ready").and_then(|ready| ready.node("http")) {
            text(http, &known, problems);
        }
    }
    if let Some(url) = root.section("metrics").and_then(|metrics| metrics.node("url")) {
        text(url, &known, problems);
    }
    let parameters: Vec<String> = manifest.parameters.keys().cloned().collect();
    if let Some(protocol) = root.section("about").and_then(|about| about.node("protocol")) {
        text(protocol, &parameters, problems);
    }
}

/// `{{` and `}}` are braces; everything else between braces has to stand for something.
fn text(node: &Node, known: &[String], problems: &mut Vec<Problem>) {
    let Some(text) = node.text() else { return };
    let mut rest = 0;
    while let Some(open) = text[rest..].find(['{', '}']).map(|found| rest + found) {
        let brace = &text[open..=open];
        rest = open + 1;
        if text[rest..].starts_with(brace) {
            rest += 1;
            continue;
        }
        let Some(length) = text[rest..].find('}').filter(|_| brace == "{") else {
            let problem = Problem::new(&node.inside(open..open + 1), "this brace has no partner");
            problems
                .push(problem.expected("alone").hint("a brace that is meant as a brace is written twice: `{{`, `}}`"));
            return;
        };
        let word = &text[rest..rest + length];
        if !known.iter().any(|known| known == word) {
            let problem = Problem::absent(&node.inside(rest..rest + length), format!("{{{word}}} stands for nothing"));
            let hint =
                nearest::name(word, known.iter().map(String::as_str)).map(|near| format!("did you mean {{{near}}}?"));
            problems.push(problem.expected("unknown placeholder").hint(hint.unwrap_or_else(|| {
                format!("there are {}; a brace that is meant as a brace is written twice", known.join(", "))
            })));
        }
        rest += length + 1;
    }
}
