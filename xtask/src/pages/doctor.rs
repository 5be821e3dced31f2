//! The page of the doctor's check-ups, from the lab's table.

use std::fmt::Write as _;

use lab::checkups::{About, KINDS, Kind};

use super::{Page, cell, sentence};

pub const KIND: Page = Page { name: "doctor", text };

const INTRODUCTION: &str = "# What the doctor looks at

`plimsoll doctor` looks for what on this machine would spoil a measurement, and says what to do about it. With an experiment,
`plimsoll doctor FILE`, it also judges what that one needs: agents against open files and ports, root for its lab, what its target
lacks.

| | |
|---|---|
| bad | spoils a measurement; the verdict of a trial may say so, too, by the rules named below |
| notice | changes figures: the same on both sides of a comparison, or to be said beside it |
| good | as one would wish |
| unknown | this kernel does not tell |

`--fix` makes the changes that a running kernel allows. Each is shown before it is made, and written down where the registry of runs
is, so that `--undo` puts it back whatever happened; a value that somebody else has set since is left alone. Both need root;
without it `--fix` prints the commands. Nothing of it outlives a boot.

`--strict` exits 5 if anything is bad; `--json` prints all of it.
";

fn text() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut kinds: Vec<&Kind> = KINDS.to_vec();
    kinds.sort_by_key(|kind| (kind.about, kind.name));
    let mut about = None;
    for kind in kinds {
        if about != Some(kind.about) {
            // Writing to a String cannot fail.
            let _ = write!(page, "\n## {}\n", heading(kind.about));
            about = Some(kind.about);
        }
        add(&mut page, kind);
    }
    page.push_str(&article());
    page
}

fn heading(about: About) -> &'static str {
    match about {
        About::Experiment => "What the experiment needs",
        About::Noise => "What else runs here",
        About::Processor => "Processors",
        About::Memory => "Memory",
        About::Time => "Clocks and timers",
        About::Network => "Network",
        About::Limits => "Limits of processes",
        About::Disk => "The disk of the run folder",
        About::Lab => "What virtual hosts are made of",
        About::Hardware => "Hardware",
        About::Erlang => "Erlang, for targets written in it",
    }
}

fn add(page: &mut String, kind: &Kind) {
    let _ = write!(page, "\n### {}\n\n{}\n\n- Reads: {}.\n", kind.name, sentence(kind.why), kind.reads);
    if !kind.caught_by.is_empty() {
        let rules: Vec<String> = kind.caught_by.iter().map(|rule| format!("`{rule}`")).collect();
        let _ = writeln!(page, "- In a trial, the verdict says: {}.", rules.join(", "));
    }
    let _ = writeln!(page, "- Source: {}.", source(kind.source));
}

/// A page of this repository as a link from where the reference is.
fn source(source: &str) -> String {
    match source {
        link if link.starts_with("https://") => format!("<{link}>"),
        page if page.ends_with(".md") => format!("[{page}](../../{page})"),
        words => words.trim_end_matches('.').to_owned(),
    }
}

fn article() -> String {
    let mut rows: Vec<_> = KINDS.iter().filter_map(|kind| Some((kind.article?, kind.name))).collect();
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
