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

/// Each target takes its corpus and mutants of it.
#[test]
fn short_runs() {
    std::thread::scope(|scope| {
        for target in TARGETS.iter() {
            scope.spawn(|| {
                let corpus = corpus(target);
                corpus.iter().for_each(|input| give(target, input));
                let mut mutator = Mutator::new(SEED);
                (0..target.mutants).for_each(|_| give(target, &mutator.input(&corpus)));
            });
        }
    });
}

#[test]
fn each_target_has_a_corpus() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let folders = root().join("corpus").read_dir().unwrap();
    let mut found: Vec<String> = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, names);
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
    let target = fuzzing::find(&name);
    let corpus = corpus(target);
    let mut mutator = Mutator::new(seed);
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        give(target, &mutator.input(&corpus));
    }
}
