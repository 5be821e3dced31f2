//! Short runs of the fuzz targets as ordinary tests: the corpus, and some thousands of inputs made
//! from it with a fixed seed. A long run without libFuzzer: `FUZZ_TARGET=http FUZZ_S=600 cargo test
//! --profile quick -p fuzzing -- --ignored`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuzzing::mutation::Mutator;
use fuzzing::{FuzzTarget, TARGETS};

const SEED: u64 = 20_261_120;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Returns the committed inputs of a target, sorted by name.
fn corpus(target: &FuzzTarget) -> Vec<Vec<u8>> {
    let folder = root().join("corpus").join(target.name);
    let mut paths: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Runs the target with the input. Panics with the input if the target panics.
fn give(target: &FuzzTarget, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.body)(input))).is_err() {
        panic!("{} found something with b\"{}\"", target.name, input.escape_ascii());
    }
}

fn named(name: &str) -> &'static FuzzTarget {
    TARGETS.iter().find(|target| target.name == name).unwrap()
}

fn short(name: &str) {
    let target = named(name);
    let corpus = corpus(target);
    corpus.iter().for_each(|input| give(target, input));
    let mut mutator = Mutator::new(SEED);
    (0..target.mutants).for_each(|_| give(target, &mutator.input(&corpus)));
}

#[test]
fn chunks() {
    short("chunks");
}

#[test]
fn experiment() {
    short("experiment");
}

#[test]
fn generators() {
    short("generators");
}

#[test]
fn hosts() {
    short("hosts");
}

#[test]
fn http() {
    short("http");
}

#[test]
fn records() {
    short("records");
}

#[test]
fn template() {
    short("template");
}

#[test]
fn vsns() {
    short("vsns");
}

#[test]
fn command() {
    short("command");
}

#[test]
fn expectation() {
    short("expectation");
}

#[test]
fn lines() {
    short("lines");
}

#[test]
fn manifest() {
    short("manifest");
}

#[test]
fn orders() {
    short("orders");
}

#[test]
fn pointer() {
    short("pointer");
}

#[test]
fn redis() {
    short("redis");
}

#[test]
fn replay() {
    short("replay");
}

#[test]
fn service() {
    short("service");
}

/// Each target has a source file, an entry in the manifest and a corpus, and there are no others.
#[test]
fn targets_match_sources_manifest_and_corpora() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert!(names.is_sorted());
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for (folder, end) in [("fuzz_targets", ".rs"), ("corpus", "")] {
        let mut found: Vec<String> = root()
            .join(folder)
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .map(|name| name.strip_suffix(end).unwrap_or(&name).to_owned())
            .collect();
        found.sort();
        assert_eq!(found, names, "{folder}");
    }
    let entries: Vec<&str> = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")).collect();
    assert_eq!(entries, names.iter().map(|name| format!("{name}.rs\"")).collect::<Vec<_>>());
}

/// A finding fails the test and prints the input.
#[test]
#[should_panic(expected = "canary found something with b\"a needle\\x00\"")]
fn a_finding_prints_its_input() {
    let body = |input: &[u8]| assert!(!input.starts_with(b"a needle"));
    give(&FuzzTarget { name: "canary", body, mutants: 0 }, b"a needle\0");
}

/// Mutation goes beyond the corpus: it finds a needle of two bytes from an empty corpus.
#[test]
#[should_panic(expected = "canary found something")]
fn mutation_finds_a_needle() {
    let body = |input: &[u8]| assert!(!input.windows(2).any(|two| two == b"\r\n"));
    let target = FuzzTarget { name: "canary", body, mutants: 0 };
    let mut mutator = Mutator::new(SEED);
    (0..10_000).for_each(|_| give(&target, &mutator.input(&[b"hay".to_vec()])));
}

#[test]
#[ignore = "runs as long as FUZZ_S says"]
fn long() {
    let seconds: u64 = std::env::var("FUZZ_S").map_or(60, |text| text.parse().unwrap());
    let name = std::env::var("FUZZ_TARGET").unwrap();
    let seed: u64 = std::env::var("FUZZ_SEED").map_or(SEED, |text| text.parse().unwrap());
    let target = named(&name);
    let corpus = corpus(target);
    let mut mutator = Mutator::new(seed);
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        give(target, &mutator.input(&corpus));
    }
}
