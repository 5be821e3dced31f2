//! Commands for work on the workspace: `tidy` checks the house rules, `studies` and `keep` write
//! the results of the studies. Of the workspace's crates it uses only `text`, so that it builds
//! quickly. A user of Plimsoll never needs it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command of the workspace prints")]

mod rules;
mod source;
mod studies;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rules::{HouseRule, KINDS};
use studies::Studies;
use studies::page::PATH;
use tree::Tree;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy             check the house rules; exits 1 if one is broken
  tidy --list      the rules and why they exist
  keep RUN…        copies the page, the first charts and the analysis of run folders into results/, and writes docs/studies.md
  study NAME       prints the title of a study and its experiments, one a line
  studies          writes docs/studies.md from experiments/studies and results/
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy(&root()),
        ["tidy", "--list"] => {
            list();
            Ok(true)
        }
        ["keep", runs @ ..] if !runs.is_empty() => keep(&root(), runs),
        ["studies"] => write_studies(&root()),
        ["study", name] => print_study(&root(), name),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("xtask: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the workspace's folder, independent of the current folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

fn list() {
    for rule in KINDS {
        println!("{}\n    {}", rule.name, rule.reason);
    }
}

fn keep(root: &Path, runs: &[&str]) -> Result<bool, String> {
    for run in runs {
        println!("{}", studies::kept::keep(root, Path::new(run))?);
    }
    write_studies(root)
}

fn write_studies(root: &Path) -> Result<bool, String> {
    let page = studies::page::text(&Studies::of(&Tree::read(root)?));
    std::fs::write(root.join(PATH), page).map_err(|problem| format!("{PATH}: {problem}"))?;
    println!("{PATH}");
    Ok(true)
}

fn print_study(root: &Path, name: &str) -> Result<bool, String> {
    let all = Studies::of(&Tree::read(root)?);
    let study = all.studies.iter().find(|study| study.name == name);
    let study = study.ok_or_else(|| format!("there is no experiments/studies/{name}.toml"))?;
    println!("{}", study.title);
    study.experiments.iter().for_each(|experiment| println!("experiments/{experiment}.toml"));
    Ok(true)
}

/// Prints every offence with the reason of its rule. Returns whether there is no offence.
fn tidy(root: &Path) -> Result<bool, String> {
    let tree = Tree::read(root)?;
    let mut offences = 0;
    for rule in KINDS {
        offences += complain(rule, &tree);
    }
    if offences == 0 {
        println!("tidy: {} files, {} rules, nothing to complain about", tree.files.len(), KINDS.len());
        return Ok(true);
    }
    println!("tidy: {offences} offence{}", if offences == 1 { "" } else { "s" });
    Ok(false)
}

fn complain(rule: &HouseRule, tree: &Tree) -> usize {
    let found = (rule.check)(tree);
    for offence in &found {
        match offence.line {
            Some(line) => println!("{}:{line}: {} [{}]", offence.path, offence.what, rule.name),
            None => println!("{}: {} [{}]", offence.path, offence.what, rule.name),
        }
        println!("    because {}", rule.reason);
    }
    found.len()
}
