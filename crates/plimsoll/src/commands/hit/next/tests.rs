//! Rates as a person would write them, and steps that fit what was asked.
#![allow(clippy::unwrap_used)]

use clap::{CommandFactory as _, Parser as _};
use record::results::{Outcomes, Throughput, Trial, Verdict};

use super::*;
use crate::cli::{Cli, Command, Hit};

fn words(line: &str) -> Hit {
    match Cli::parse_from(line.split(' ')).command {
        Command::Hit(words) => *words,
        other => unreachable!("{other:?}"),
    }
}

fn results(is: Trust, ok: u64) -> Results {
    let trial = Trial {
        outcomes: Outcomes { ok, ..Outcomes::default() },
        throughput: Throughput { operations_per_s: Some(63_412.0), ..Throughput::default() },
        ..Trial::default()
    };
    Results { verdict: Verdict { is, ..Verdict::default() }, trials: vec![trial], ..Results::default() }
}

#[test]
fn a_rate_has_two_digits() {
    let cases = [(50_729.6, "51000"), (9_960.0, "10000"), (12.34, "12"), (1.26, "1"), (0.5678, "0.57")];
    for (rate, told) in cases {
        assert_eq!(two_digits(rate), told);
    }
}

#[test]
fn only_what_was_not_asked_for_is_proposed() {
    let plain = steps(&results(Trust::Valid, 10), &words("plimsoll hit http://h/"));
    for option in ["--rate 51000", "--expect", "--report", "--print"] {
        assert!(plain.contains(option), "{plain}");
    }
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    let asked = words("plimsoll hit http://h/ --rate 9 --expect status=200 --report p.html");
    let told = steps(&results(Trust::Valid, 10), &asked);
    assert!(told.contains("--print") && !told.contains("--rate") && !told.contains("--report"), "{told}");
    let void = steps(&results(Trust::Void, 10), &words("plimsoll hit http://h/"));
    assert!(!void.contains("--rate"), "{void}");
    assert_eq!(steps(&results(Trust::Valid, 0), &words("plimsoll hit http://h/")), "");
}

#[test]
fn a_handshake_that_failed_has_its_remedy() {
    let words = words("plimsoll hit https://h/");
    let mut failed = results(Trust::Void, 0);
    failed.trials[0].attempt_results.insert("tls: bad certificate".to_owned(), 9);
    let told = steps(&failed, &words);
    assert!(told.contains("--cacert") && told.contains("-k trusts") && !told.contains("--print"), "{told}");
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
}

#[test]
fn a_remedy_names_options_and_no_keys_of_a_file() {
    let mut void = results(Trust::Void, 10);
    let remedy = "Give the generator more `load.threads` or cores of its own, or lower the load";
    void.verdict.remedies = vec![remedy.to_owned(), "Raise `load.time`".to_owned()];
    let told = in_options(&void).verdict.remedies;
    assert_eq!(told, [remedy.replace("`load.threads`", "`--threads`"), "Raise `--time`".to_owned()]);
}

#[test]
fn what_is_said_of_handshakes_names_options_that_there_are() {
    let rule = analysis::rules().iter().find(|rule| rule.name == "failed_handshakes").unwrap();
    let told = words_in_options(rule.remedy);
    let help = Cli::command().find_subcommand_mut("hit").unwrap().render_long_help().to_string();
    for option in ["--cacert", "--server-name", "--insecure"] {
        assert!(told.contains(&format!("`{option}`")) && help.contains(option), "{option}: {told}");
    }
    assert!(!told.contains("`tls."), "{told}");
    let setting = load::Error::Setting("TLS: this machine trusts nobody: name a file with `tls.ca`".to_owned());
    let failure = failure_in_options(Failure::Conduct(conduct::Error::Load(setting)));
    assert!(failure.to_string().ends_with("name a file with `--cacert`"), "{failure}");
    assert_eq!(failure.code(), 2);
}
