//! The workspace's own chores: `tidy` holds the house rules. It is built without the
//! workspace's crates, so that it is there at once. Nothing that a user of Plimsoll needs may live here.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command of the workspace prints")]

mod ratchet;
mod rules;
mod source;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rules::{HouseRule, KINDS};
use tree::Tree;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy             check the house rules; exits 1 if one is broken
  tidy --list      the rules and why they exist
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

/// The workspace, whatever folder the command was given in.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

fn list() {
    for rule in KINDS {
        println!("{}\n    {}", rule.name, rule.reason);
    }
}

/// Prints every offence with the reason of its rule; true if there is none.
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
