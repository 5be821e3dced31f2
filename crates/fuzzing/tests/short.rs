//! Short runs of the fuzz targets as ordinary tests: the corpus, and some thousands of inputs made
//! from it with a fixed seed. A long run without libFuzzer: `FUZZ_TARGET=http FUZZ_S=600 cargo test
//! --profile quick -p fuzzing -- --ignored`, or `FUZZ_INPUTS=10000000` instead of the time.
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

/// Returns the committed inputs of a target, sorted by name, and its seeds.
fn corpus(target: &FuzzTarget) -> Vec<Vec<u8>> {
    let folder = root().join("corpus").join(target.name).read_dir();
    let mut paths: Vec<PathBuf> = folder.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut inputs: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    inputs.extend(fuzzing::seeds(target.name));
    assert!(!inputs.is_empty(), "{} has no inputs", target.name);
    inputs
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
fn each_corpus_belongs_to_a_target() {
    assert!(TARGETS.is_sorted_by_key(|target| target.name));
    for folder in root().join("corpus").read_dir().unwrap() {
        fuzzing::find(folder.unwrap().file_name().to_str().unwrap());
    }
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
#[ignore = "runs as long as FUZZ_S says, or for FUZZ_INPUTS inputs"]
fn long() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let most = number("FUZZ_INPUTS").unwrap_or(u64::MAX);
    let seconds = number("FUZZ_S").unwrap_or(if most == u64::MAX { 60 } else { u64::from(u32::MAX) });
    let name = std::env::var("FUZZ_TARGET").unwrap();
    let seed: u64 = number("FUZZ_SEED").unwrap_or(SEED);
    let target = fuzzing::find(&name);
    let corpus = corpus(target);
    let mut mutator = Mutator::new(seed);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut inputs = 0;
    while inputs < most && Instant::now() < until {
        give(target, &mutator.input(&corpus));
        inputs += 1;
    }
    println!("{name}: {inputs} inputs");
}
