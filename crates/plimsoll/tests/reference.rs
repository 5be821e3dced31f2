//! Test that the pages in docs/reference agree with the tables and types in the code. With
//! `PLIMSOLL_WRITE_REFERENCE=1`, as `make docs` sets it, the test writes the pages instead.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use analysis::{Rule, Threshold};
use doctor::checkups::{self, CheckKind, CheckScope};
use experiment::catalog::{Effect, Fault, Heals, Operation, Protocol};
use serde_json::{Map, Value};

#[derive(Debug)]
struct Page {
    /// File name in docs/reference, without `.md`.
    name: &'static str,
    text: fn() -> String,
}

/// Pages, sorted by name.
const KINDS: &[Page] = &[DOCTOR, EXPERIMENT, FAULTS, METRICS, PROFILE, PROTOCOLS, RESULTS, VERDICTS];

const FOLDER: &str = "docs/reference";

#[test]
fn the_reference_matches_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(FOLDER);
    for page in KINDS {
        let file = folder.join(page.name).with_extension("md");
        if std::env::var_os("PLIMSOLL_WRITE_REFERENCE").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, text(page)).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == text(page), "{FOLDER}/{}.md is not what the code says: run `make docs`", page.name);
    }
}

fn text(page: &Page) -> String {
    let made = "<!-- Made by `make docs` from the code. Edit it there. -->";
    format!("{made}\n\n{}\n", (page.text)().trim_end())
}

/// Returns a line of help as a sentence.
fn sentence(help: &str) -> String {
    let mut letters = help.trim_end_matches('.').chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).chain(['.']).collect())
}

/// Returns a text for a cell of a table: in one line, with escaped bars.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

const DOCTOR: Page = Page { name: "doctor", text: doctor_page };

const DOCTOR_INTRODUCTION: &str = "# The doctor's check-ups

`plimsoll doctor` looks for conditions of this machine that spoil a measurement, and says what to do about them. With an
experiment, `plimsoll doctor FILE`, it also checks what the experiment needs: open files and ports for its agents, root for its
lab, and the programs and settings of its target.

| | |
|---|---|
| bad | spoils a measurement; the verdict of a trial may say so, too, by the rules named below |
| notice | changes figures: the same on both sides of a comparison, or to be reported with it |
| good | as it should be |
| unknown | this kernel does not report it |

`--fix` makes the changes that a running kernel allows. Each is shown before it is made, and recorded beside the registry of
runs, so that `--undo` can put it back, even after a crash; a value that someone else has changed since is left alone. Both need
root; without it `--fix` prints the commands. No change outlives a reboot.

`--strict` exits 5 if anything is bad; `--json` prints all of it.
";

fn doctor_page() -> String {
    let mut page = DOCTOR_INTRODUCTION.to_owned();
    let mut kinds: Vec<&CheckKind> = checkups::KINDS.to_vec();
    kinds.sort_by_key(|kind| (kind.about, kind.name));
    let mut about = None;
    for kind in kinds {
        if about != Some(kind.about) {
            // Writing to a String cannot fail.
            let _ = write!(page, "\n## {}\n", heading(kind.about));
            about = Some(kind.about);
        }
        add_checkup(&mut page, kind);
    }
    page.push_str(&article());
    page
}

fn heading(about: CheckScope) -> &'static str {
    match about {
        CheckScope::Experiment => "Needs of the experiment",
        CheckScope::Noise => "Other programs and machines",
        CheckScope::Processor => "Processors",
        CheckScope::Memory => "Memory",
        CheckScope::Time => "Clocks and timers",
        CheckScope::Network => "Network",
        CheckScope::Limits => "Limits of processes",
        CheckScope::Disk => "The disk of the run folder",
        CheckScope::Lab => "Virtual hosts",
        CheckScope::Hardware => "Hardware",
        CheckScope::Erlang => "Erlang, for targets written in it",
    }
}

fn add_checkup(page: &mut String, kind: &CheckKind) {
    let _ = write!(page, "\n### {}\n\n{}\n\n- Reads: {}.\n", kind.name, sentence(kind.why), kind.reads);
    if !kind.caught_by.is_empty() {
        let rules: Vec<String> = kind.caught_by.iter().map(|rule| format!("`{rule}`")).collect();
        let _ = writeln!(page, "- In a trial, the verdict says: {}.", rules.join(", "));
    }
    let _ = writeln!(page, "- Source: {}.", source_of(kind.source));
}

/// Returns a page of this repository as a link relative to the reference.
fn source_of(source: &str) -> String {
    match source {
        link if link.starts_with("https://") => format!("<{link}>"),
        page if page.ends_with(".md") => format!("[{page}](../../{page})"),
        words => words.trim_end_matches('.').to_owned(),
    }
}

fn article() -> String {
    let mut rows: Vec<_> = checkups::KINDS.iter().filter_map(|kind| Some((kind.article?, kind.name))).collect();
    rows.sort_by_key(|(tuning, _)| (tuning.number, tuning.says));
    let mut text = "\n## The six tunings of the article on the name service, today\n\n\
                    The article that the target `vsns` comes from (vsns-complex-and-crash) lists six tunings.\n\n\
                    | | the article says | today | check-up |\n|---|---|---|---|\n"
        .to_owned();
    for (tuning, name) in rows {
        let _ = writeln!(text, "| {} | `{}` | {} | {name} |", tuning.number, cell(tuning.says), cell(tuning.worth));
    }
    text
}

const EXPERIMENT: Page = Page { name: "experiment", text: experiment::schema::reference };

const FAULTS: Page = Page { name: "faults", text: faults_page };

fn faults_page() -> String {
    let mut page = String::from("# Faults\n\nValues of `kind` in `[[fault]]`.\n");
    for kind in lab::faults::KINDS {
        add_fault(&mut page, kind.info);
    }
    page
}

fn add_fault(page: &mut String, fault: &Fault) {
    let healing = match fault.heals {
        Heals::ByItself => "It is an instant and takes no `for`: the target recovers by itself or not at all.",
        Heals::AfterFor => "It lasts for `for`, or to the end of the trial.",
    };
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## `{}`\n\n{} {healing}\n", fault.name, sentence(fault.help));
    if fault.takes.is_empty() {
        return;
    }
    page.push_str("\n| `with` | | |\n|---|---|---|\n");
    for field in fault.takes {
        let need = if field.required { "required" } else { "" };
        let _ = writeln!(page, "| `{}` | {need} | {} |", cell(field.name), cell(field.help));
    }
}

const METRICS: Page = Page { name: "metrics", text: metrics_page };

fn metrics_page() -> String {
    let mut page = String::from(
        "# Metrics\n\nValues of `metric` in `[[require]]` and `[[claim]]`: paths inside a trial of `analysis.json`. `*` stands \
         for a name, such as that of an operation or a fault. [results](results.md) explains each, with its unit.\n\n| path |\n|---|\n",
    );
    for path in analysis::metric_paths() {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{path}` |");
    }
    page
}

const PROFILE: Page = Page { name: "profile", text: experiment::schema::profile_reference };

const PROTOCOLS: Page = Page { name: "protocols", text: protocols_page };

const PROTOCOLS_INTRODUCTION: &str = "# Protocols

The scheme of a target's URL, or `protocol` in `[target]` or in `target.toml`, selects the protocol. `call` names an
operation. Arguments go into `with`; fields of the answer can be named in `expect` and, as `answer.FIELD`, in `keep`.
`plimsoll protocols NAME` prints the arguments and fields of a protocol.

## What cannot be sent

Values from feeds, `keep` and scripts may be any bytes. If a protocol cannot hold them, the operation fails before any
of it is sent, is not retried, and certainly had no effect. So a value can never inject a request.
";

fn protocols_page() -> String {
    let mut page = PROTOCOLS_INTRODUCTION.to_owned();
    for kind in load::protocols::KINDS {
        add_protocol(&mut page, kind.info);
    }
    page
}

/// Adds a protocol, with the text of `page.md` in its folder.
fn add_protocol(page: &mut String, protocol: &Protocol) {
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## `{}`\n\n{}", protocol.name, sentence(protocol.help));
    if !protocol.schemes.is_empty() {
        let schemes: Vec<String> = protocol.schemes.iter().map(|scheme| format!("`{scheme}://`")).collect();
        let _ = write!(page, " URLs: {}.", schemes.join(", "));
    }
    let file = format!("{}/../wire/src/protocols/{}/page.md", env!("CARGO_MANIFEST_DIR"), protocol.name);
    // Links in the file start at its folder, and links in the page at docs/reference.
    let text = fs::read_to_string(file).unwrap();
    let text = text.replace("](../../../../../docs/", "](../").replace("](../../../../../", "](../../");
    let _ = write!(page, "\n\n{text}");
    for operation in protocol.operations {
        add_operation(page, operation);
    }
}

fn add_operation(page: &mut String, operation: &Operation) {
    let effect = match operation.effect {
        Effect::None => "",
        Effect::Read => " The audit counts it as a read.",
        Effect::Write => " The audit counts it as a write.",
        Effect::CompareAndSet => " The audit counts it as a compare-and-set.",
        Effect::Remove => " The audit counts it as a removal.",
        Effect::RemoveAll => " The audit counts it as the removal of all keys of a space.",
        Effect::Enqueue => " The audit checks the key as a queue.",
        Effect::AddToSet | Effect::ReadMembers => " The audit checks the key as a set.",
        Effect::Dequeue => " The audit checks the key as a queue; an answer without a value says that it was empty.",
    };
    let _ = write!(page, "\n### `{}`\n\n{}{effect}\n", operation.name, sentence(operation.help));
    if operation.takes.is_empty() && operation.answers.is_empty() {
        return;
    }
    page.push_str("\n| | field | | |\n|---|---|---|---|\n");
    for (what, fields) in [("argument", operation.takes), ("answer", operation.answers)] {
        for field in fields {
            let need = if field.required { "required" } else { "" };
            let _ = writeln!(page, "| {what} | `{}` | {need} | {} |", cell(field.name), cell(field.help));
        }
    }
}

const RESULTS: Page = Page { name: "results", text: results_page };

fn results_page() -> String {
    let schema = schemars::schema_for!(record::results::Results).to_value();
    let mut page = String::from(
        "# Results\n\n`analysis.json`, format 1; `plimsoll schema results` prints its JSON Schema. Fields are added, never \
         removed. A value that was not measured is null, not 0.\n",
    );
    add_type(&mut page, "Results", &schema);
    for (name, definition) in schema["$defs"].as_object().unwrap_or(&Map::new()) {
        add_type(&mut page, name, definition);
    }
    page
}

fn add_type(page: &mut String, name: &str, definition: &Value) {
    let help = definition["description"].as_str().unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## {name}\n\n{}\n", help.trim());
    if let Some(fields) = definition["properties"].as_object() {
        page.push_str("\n| field | type | |\n|---|---|---|\n");
        for (field, schema) in fields {
            let help = cell(schema["description"].as_str().unwrap_or_default());
            let _ = writeln!(page, "| `{field}` | {} | {help} |", type_in_words(schema));
        }
        return;
    }
    let words: Vec<String> = choices(definition);
    if !words.is_empty() {
        page.push_str("\n| value | |\n|---|---|\n");
        page.extend(words);
    }
}

/// Returns the values of an enumeration as rows.
fn choices(definition: &Value) -> Vec<String> {
    let listed = definition["enum"].as_array().map_or(&[][..], Vec::as_slice);
    let plain = listed.iter().filter_map(Value::as_str).map(|word| format!("| `{word}` | |\n"));
    let alternatives = definition["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
    let told = alternatives.iter().filter_map(|one| {
        let help = cell(one["description"].as_str().unwrap_or_default());
        Some(format!("| `{}` | {help} |\n", one["const"].as_str()?))
    });
    plain.chain(told).collect()
}

/// Describes a type in words: `number or null`, `list of Trial`.
fn type_in_words(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(any) = schema["anyOf"].as_array() {
        return any.iter().map(type_in_words).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(name) => named(name, schema),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).map(|name| named(name, schema)).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn named(name: &str, schema: &Value) -> String {
    match name {
        "array" => format!("list of {}", type_in_words(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("table of {}", type_in_words(&schema["additionalProperties"]))
        }
        name => name.to_owned(),
    }
}

const VERDICTS: Page = Page { name: "verdicts", text: verdicts_page };

fn verdicts_page() -> String {
    let mut page = String::from(
        "# Verdicts\n\nPlimsoll checks these rules against every trial. A rule that finds a problem makes the trial `suspect` or \
         `void` and gives a reason. [verdict](../verdict.md) explains how the rules make a verdict.\n\n\
         | rule | looks at | suspect | void |\n|---|---|---|---|\n",
    );
    for rule in analysis::rules() {
        let (suspect, void) = bounds(rule);
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| [`{0}`](#{0}) | {1} | {suspect} | {void} |", rule.name, cell(rule.looks_at));
    }
    for rule in analysis::rules() {
        let (why, remedy) = (rule.why, sentence(rule.remedy));
        let _ = write!(page, "\n## `{}`\n\n{why}\n\n*What to do:* {remedy}\n", rule.name);
    }
    page
}

/// Returns the thresholds for suspect and void.
fn bounds(rule: &Rule) -> (String, String) {
    let (word, suspect, void) = match rule.threshold {
        Threshold::From { suspect, void } => ("from", suspect, void),
        Threshold::Under { suspect, void } => ("below", suspect, void),
    };
    let bound = |at: f64| match rule.unit {
        _ if at.is_infinite() => String::new(),
        "" => "if so".to_owned(),
        unit => format!("{word} {at} {unit}"),
    };
    if suspect == void { (String::new(), bound(void)) } else { (bound(suspect), bound(void)) }
}

#[test]
fn pages_are_sorted_and_have_a_table() {
    assert!(KINDS.is_sorted_by_key(|page| page.name));
    for page in KINDS {
        let text = (page.text)();
        assert!(text.starts_with("# "), "{}", page.name);
        assert!(text.lines().filter(|line| line.starts_with('|')).count() > 3, "{} has no table", page.name);
    }
}

#[test]
fn rows_have_as_many_cells_as_their_heading() {
    for page in KINDS {
        let mut cells = 0;
        for line in (page.text)().lines() {
            let here = if line.starts_with('|') { line.replace("\\|", "").matches('|').count() } else { 0 };
            assert!(cells == 0 || here == 0 || cells == here, "{}: {line}", page.name);
            cells = here;
        }
    }
}

#[test]
fn pipes_and_newlines_are_escaped_in_cells() {
    assert_eq!(cell("a | b\nc"), "a \\| b c");
}

/// Rules that the doctor names must exist.
#[test]
fn the_doctor_names_rules_that_exist() {
    for rule in checkups::KINDS.iter().flat_map(|kind| kind.caught_by) {
        assert!(analysis::rules().iter().any(|known| known.name == *rule), "no rule `{rule}`");
    }
}
