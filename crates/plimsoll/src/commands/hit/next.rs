//! What to do after a hit, as words to add to the same line. It must not judge: what is wrong with a result stands in its verdict.

use experiment::secrets::Secrets;
use record::results::{Results, Trial, Trust};
use report::numbers;

use crate::cli;
use crate::exit::Failure;

/// Of what a closed loop got, a rate that leaves the server room.
const ROOM: f64 = 0.8;
/// Columns of an option in the list.
const OPTION: usize = 20;

/// A heading and a line for each thing; empty where there is nothing to say.
#[must_use]
pub fn steps(results: &Results, words: &cli::Hit) -> String {
    let Some(trial) = results.trials.first() else { return String::new() };
    let mut steps = against_failures(trial);
    if trial.outcomes.ok > 0 {
        steps.extend(further(results, trial, words));
    }
    if steps.is_empty() {
        return String::new();
    }
    let lines: String = steps.into_iter().map(|(option, why)| format!("  {option:OPTION$} {why}\n")).collect();
    format!("On the same line, next:\n{lines}")
}

/// What is said before the load of credentials that stand in the command line.
#[must_use]
pub fn about_secrets(secrets: &Secrets) -> Option<String> {
    let header = secrets.names().find_map(|name| name.strip_prefix("header."))?;
    Some(format!(
        "plimsoll: no record will have the value of `{header}`, but `ps` and the shell's history do; \
         -H '{header}: {{env:NAME}}' with --templates takes it from the environment"
    ))
}

/// Results of attempts that another line may not have, as `attempts.csv` names them, and what to write there.
const FAILURES: [(&str, &str, &str); 2] = [
    ("tls: bad certificate", "--cacert ca.pem", "trusts whom this file vouches for; -k trusts anybody"),
    ("tls: handshake failed", "http://…", "if what answers there speaks no TLS"),
];

fn against_failures(trial: &Trial) -> Vec<(String, &'static str)> {
    let happened = FAILURES.iter().filter(|(result, ..)| trial.attempt_results.contains_key(*result));
    let redirected = trial.attempt_results.keys().any(|result| result.starts_with("redirect "));
    let address =
        redirected.then(|| ("another URL".to_owned(), "that of the redirects' destination: none is followed"));
    happened.map(|(_, option, why)| ((*option).to_owned(), *why)).chain(address).collect()
}

fn further(results: &Results, trial: &Trial, words: &cli::Hit) -> Vec<(String, &'static str)> {
    let mut steps = Vec::new();
    if words.rate.is_none()
        && results.verdict.is != Trust::Void
        && let Some(got) = trial.throughput.operations_per_s
    {
        let rate = two_digits(got * ROOM);
        steps.push((format!("--rate {rate}"), "asks on a schedule, whatever answers take: open loop"));
    }
    if words.expects.is_empty() {
        steps.push(("--expect status=200".to_owned(), "counts any other answer as wrong"));
    }
    if words.report.is_none() {
        steps.push(("--report page.html".to_owned(), "charts over time, hosts and environment on one page"));
    }
    steps.push(("--print > hit.toml".to_owned(), "this as a file for `plimsoll run`: sweeps, faults, gates"));
    steps
}

/// What is said of a file, and how one line says it.
const IN_OPTIONS: [(&str, &str); 10] = [
    ("`load.agents`", "`--agents`"),
    ("`load.rate`", "`--rate`"),
    ("`load.threads`", "`--threads`"),
    ("`load.time`", "`--time`"),
    ("`tls.ca`", "`--cacert`"),
    ("`tls.insecure`", "`--insecure`"),
    ("`tls.server_name`", "`--server-name`"),
    ("without `keep_alive`", "with `--no-keep-alive`"),
    ("Look at the results of the attempts: they name the cause", "Look at `causes` above"),
    ("Go on with `plimsoll run --resume`", "Hit again, to the end"),
];

/// The results for whoever has no file, whose keys could be changed.
#[must_use]
pub fn in_options(results: &Results) -> Results {
    let mut results = results.clone();
    for remedy in &mut results.verdict.remedies {
        *remedy = words_in_options(remedy);
    }
    results
}

/// A failure for whoever has no file.
#[must_use]
pub fn failure_in_options(failure: Failure) -> Failure {
    match failure {
        Failure::Conduct(conduct::Error::Load(load::Error::Setting(text))) => {
            Failure::Conduct(conduct::Error::Load(load::Error::Setting(words_in_options(&text))))
        }
        other => other,
    }
}

/// A text for whoever has no file.
#[must_use]
pub fn words_in_options(text: &str) -> String {
    IN_OPTIONS.iter().fold(text.to_owned(), |text, (key, option)| text.replace(key, option))
}

/// A rate as a person would choose it: 12,345 is 12000, 0.5678 is 0.57.
fn two_digits(rate: f64) -> String {
    let step = 10_f64.powf(rate.log10().floor() - 1.0);
    let rounded = (rate / step).round() * step;
    if rounded >= 1.0 { format!("{}", rounded.round()) } else { numbers::number(rounded) }
}

#[cfg(test)]
mod tests {
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
}
