//! TOML blocks in the documentation. Every block must parse, and those that are whole experiments
//! must plan. Examples of `[lab]` are completed first.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use std::path::PathBuf;

use experiment::source::Source;
use known::here;

fn pages() -> Vec<PathBuf> {
    let root = here().join("../..");
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.retain(|page| page.exists());
    pages.sort();
    pages
}

/// The TOML blocks of a page, each with its first line.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim() == "```toml" {
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
            blocks.push((number + 2, block.join("\n") + "\n"));
        }
    }
    blocks
}

/// Sections that an example of `[lab]` leaves out.
const ELSEWHERE: &str =
    "[target]\nuse = \"vsns\"\n[load]\nagents = 1\ntime = \"1s\"\n[[load.cycle]]\ncall = \"ping\"\n";

#[test]
fn every_toml_block_is_valid() {
    // The pages describe the current targets, and not those that were frozen for the golden files.
    let mut catalog = known::catalog();
    for name in ["docket", "elasticsearch", "pacemaker", "redis"] {
        let source = known::source(&here().join("../../targets").join(name).join("target.toml"));
        catalog.targets.insert(name.to_owned(), experiment::manifest::parse(name, &source).unwrap());
    }
    // Only the tests have this target.
    catalog.targets.remove("store");
    catalog.protocols.extend([&known::LINES, &known::REDIS]);
    catalog.faults.push(&known::COMMAND_FAULT);
    for page in pages() {
        for (line, block) in blocks(&std::fs::read_to_string(&page).unwrap()) {
            let place = format!("{}:{line}", page.display());
            let table: toml::Table = block.parse().unwrap_or_else(|error| panic!("{place}: {error}"));
            if table.contains_key("target") {
                let source = Source { name: place.clone(), text: block };
                experiment::read(&source, &[], &catalog)
                    .unwrap_or_else(|problems| panic!("{place}\n{}", problems.render(false)));
            } else if table.contains_key("lab") {
                let whole = format!("{ELSEWHERE}{block}");
                known::read(&whole, &[]).unwrap_or_else(|problems| panic!("{place}\n{problems}"));
            } else if table.contains_key("cpu") {
                let source = Source { name: place.clone(), text: block };
                experiment::profile::parse("example", &source)
                    .unwrap_or_else(|problems| panic!("{place}\n{}", problems.render(false)));
            }
        }
    }
}

#[test]
fn blocks_are_found() {
    assert_eq!(blocks("a\n```toml\nx = 1\n```\n```text\ny\n```\n"), [(3, "x = 1\n".to_owned())]);
}
