//! TOML blocks in the documentation. Every block must parse, and those that are whole experiments
//! must plan. Examples of `[lab]` are completed first.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use experiment::catalog::Catalog;
use experiment::source::Source;
use experiment::{manifest, profile};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the names that an experiment may use, from the tables and the files of the repository.
fn catalog() -> Catalog {
    let mut catalog = Catalog {
        protocols: load::protocols::KINDS.iter().map(|kind| kind.info).collect(),
        faults: lab::faults::KINDS.iter().map(|kind| kind.info).collect(),
        metrics: analysis::metric_paths(),
        ..Catalog::default()
    };
    for folder in fs::read_dir(root().join("targets")).unwrap() {
        let path = folder.unwrap().path();
        let Ok(text) = fs::read_to_string(path.join("target.toml")) else { continue };
        let name = path.file_name().unwrap().to_str().unwrap();
        let source = Source { name: name.to_owned(), text };
        catalog.targets.insert(name.to_owned(), manifest::parse(name, &source).unwrap());
    }
    for file in fs::read_dir(root().join("profiles")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let source = Source { name: name.to_owned(), text: fs::read_to_string(&path).unwrap() };
        catalog.profiles.insert(name.to_owned(), profile::parse(name, &source).unwrap());
    }
    catalog
}

fn pages() -> Vec<PathBuf> {
    let root = root();
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
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
    let catalog = catalog();
    for page in pages() {
        for (line, block) in blocks(&fs::read_to_string(&page).unwrap()) {
            let place = format!("{}:{line}", page.display());
            let table: toml::Table = block.parse().unwrap_or_else(|error| panic!("{place}: {error}"));
            if table.contains_key("target") || table.contains_key("lab") {
                let before = if table.contains_key("target") { "" } else { ELSEWHERE };
                let source = Source { name: place.clone(), text: format!("{before}{block}") };
                experiment::read(&source, &[], &catalog)
                    .unwrap_or_else(|problems| panic!("{place}\n{}", problems.render(false)));
            } else if table.contains_key("cpu") {
                let source = Source { name: place.clone(), text: block };
                profile::parse("example", &source)
                    .unwrap_or_else(|problems| panic!("{place}\n{}", problems.render(false)));
            }
        }
    }
}

#[test]
fn blocks_are_found() {
    assert_eq!(blocks("a\n```toml\nx = 1\n```\n```text\ny\n```\n"), [(3, "x = 1\n".to_owned())]);
}
