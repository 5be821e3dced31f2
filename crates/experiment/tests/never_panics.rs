//! Fuzzing of the reader: any input gives a plan or problems, and problems can be rendered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod known;

use std::sync::LazyLock;

use experiment::catalog::Catalog;
use experiment::source::Source;
use experiment::{manifest, profile, timeline};
use known::{catalog, files, here};
use proptest::prelude::*;

static CATALOG: LazyLock<Catalog> = LazyLock::new(catalog);

static GOLDEN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folders = ["golden", "tests/bad", "golden/targets/vsns", "golden/profiles"].map(|folder| here().join(folder));
    folders.iter().flat_map(|folder| files(folder)).map(|path| std::fs::read_to_string(path).unwrap()).collect()
});

fn survive(text: &str, sets: &[String]) {
    let source = Source { name: "f.toml".to_owned(), text: text.to_owned() };
    match experiment::read(&source, sets, &CATALOG) {
        Ok(plan) => assert!(!timeline::print(&plan).is_empty()),
        Err(problems) => {
            assert!(!problems.as_slice().is_empty());
            assert!(!problems.render(false).is_empty() && !problems.to_string().is_empty());
        }
    }
    if let Err(problems) = manifest::parse("f", &source) {
        assert!(!problems.render(true).is_empty());
    }
    if let Err(problems) = profile::parse("f", &source) {
        assert!(!problems.render(true).is_empty());
    }
}

/// Returns a golden file with parts removed, doubled, swapped or overwritten.
fn mutated() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n".to_owned()),
        Just("\"".to_owned()),
        Just("\"\"\"".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("=".to_owned()),
        Just(".".to_owned()),
        Just("0".to_owned()),
        Just("-1".to_owned()),
        Just("1e999".to_owned()),
        Just("\r".to_owned()),
        Just("é𝄞".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("\\".to_owned()),
        Just("#".to_owned()),
        ".{0,4}",
    ];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, piece), 1..6);
    (any::<prop::sample::Index>(), edits).prop_map(|(which, edits)| {
        let mut text: Vec<char> = GOLDEN[which.index(GOLDEN.len())].chars().collect();
        for (at, cut, piece) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + cut).min(text.len());
            text.splice(at..end, piece.chars());
        }
        text.into_iter().collect()
    })
}

/// Returns a golden file with lines removed, doubled and reordered.
fn shuffled() -> impl Strategy<Value = String> {
    (any::<prop::sample::Index>(), prop::collection::vec(any::<prop::sample::Index>(), 0..60)).prop_map(
        |(which, picks)| {
            let lines: Vec<&str> = GOLDEN[which.index(GOLDEN.len())].lines().collect();
            picks
                .iter()
                .filter(|_| !lines.is_empty())
                .map(|pick| lines[pick.index(lines.len())])
                .collect::<Vec<_>>()
                .join("\n")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in any::<String>(), set in any::<String>()) {
        survive(&text, &[set]);
    }

    #[test]
    fn any_toml_like_text(text in "([a-z.\\[\\]{}=\"'#0-9 \n,-]|load|target|\\[\\[fault\\]\\]|= ){0,80}") {
        survive(&text, &[]);
    }

    #[test]
    fn a_mutated_file(text in mutated()) {
        survive(&text, &[]);
    }

    #[test]
    fn a_shuffled_file(text in shuffled()) {
        survive(&text, &[]);
    }

    #[test]
    fn a_good_file_with_any_set(which in any::<prop::sample::Index>(), path in "[a-z0-9.\"']{0,20}|load\\.[a-z]{1,6}|fault\\.(0|oops)\\.[a-z]{1,4}|load|sweep|variant\\.[0-9]|lab\\.hosts", value in any::<String>()) {
        survive(&GOLDEN[which.index(GOLDEN.len())], &[format!("{path}={value}"), format!("{path}=3")]);
    }
}

#[test]
fn deep_and_long_files() {
    survive(&format!("a = {}", "[".repeat(100_000)), &[]);
    survive(&format!("{} = 1", "a.".repeat(50_000) + "a"), &[]);
    survive(&"[[fault]]\n".repeat(300), &[]);
    survive("\u{feff}title = \"x\"\r\n[load]\r\nagents = 0\r\n", &[]);
    survive(
        "[sweep]\n\"load.agents\" = [1]\n",
        &["sweep.load.agents=[]".to_owned(), format!("{} = 1", "a.".repeat(10_000) + "a")],
    );
}
