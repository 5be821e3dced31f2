//! `plimsoll hit`: a load on a URL in one line. Its options become an experiment, which is played on the same road as the file of
//! `plimsoll run`; it must not measure, judge or decide anything of its own.

mod asked;
mod connections;
mod home;
mod live;
mod next;
mod place;
mod text;

use std::path::PathBuf;

use experiment::catalog::Protocol;
use experiment::plan::Plan;
use experiment::secrets::Secrets;
use experiment::source::Source;
use record::folder::RunFolder;
use record::results::Results;

use crate::catalog::{self, Known};
use crate::cli;
use crate::commands::check;
use crate::commands::run::{self, Begun};
use crate::exit::{Done, Failure};
use crate::{output, signals};
use asked::{Asked, Wrong};
use home::Home;

/// What problems of the experiment name as its file.
const SOURCE: &str = "plimsoll hit --print";

/// Hits, and says what came of it.
pub fn run(words: &cli::Hit) -> Result<Done, Failure> {
    let known = catalog::known(None)?;
    let asked = asked::read(words, spoken(&known)?).map_err(|wrong| refused(&wrong))?;
    let text = text::experiment(&asked);
    let source = Source { name: SOURCE.to_owned(), text: text.clone() };
    let secrets = Secrets::of(&source, &[]);
    if !words.print {
        output::hide(&secrets);
    }
    let plan = check::plan(&source, &[], &known)?;
    if words.print {
        output::text(&text)?;
        return Ok(Done::Well);
    }
    if let Some(hint) = next::about_secrets(&secrets) {
        output::say(&hint);
    }
    run::clean_up();
    let begun = Begun::of(plan, secrets.hidden_file(&source), secrets, PathBuf::new());
    begun.can_be_played(&known, false)?;
    let interrupts = signals::interrupts()?;
    // Before the folder is made, and after it is no longer read: what is private goes with it.
    let home = Home::of(words.out.as_deref())?;
    let folder = begun.open(home.path(), &known)?;
    let audience = live::audience(words.plain, &what(&asked));
    let (ending, results) = begun.play(&folder, &known, audience, &interrupts).map_err(next::failure_in_options)?;
    if let Some(page) = &words.report {
        // The page is the user's to show; the folder is not.
        std::fs::read(folder.report())
            .and_then(|written| std::fs::write(page, written))
            .map_err(|error| Failure::File { what: format!("cannot write {}", page.display()), error })?;
    }
    let told = tell(words, begun.plan(), &folder, &results);
    run::done(run::outcome(ending, &results, words.accept), told)
}

/// What web servers are spoken to in.
fn spoken(known: &Known) -> Result<&'static Protocol, Failure> {
    let http = known.catalog.protocols.iter().copied().find(|protocol| protocol.schemes.contains(&"http"));
    http.ok_or_else(|| Failure::Ours("no protocol speaks http".to_owned()))
}

/// Every option that cannot be, each with what to write instead.
fn refused(wrong: &[Wrong]) -> Failure {
    Failure::Problems(wrong.iter().map(|wrong| format!("plimsoll: {}\n  {}\n", wrong.what, wrong.remedy)).collect())
}

/// `64 agents on GET http://localhost:8080/ for 10s`
fn what(asked: &Asked) -> String {
    let agents = if asked.agents == 1 { "1 agent".to_owned() } else { format!("{} agents", asked.agents) };
    let rate = asked.rate.map_or_else(String::new, |rate| {
        format!(", {} requests/s{}", rate.per_s, if rate.is_poisson { " at random" } else { "" })
    });
    let connections = match asked.connections.pipeline {
        Some(agents) => format!(", {agents} on each connection"),
        None if asked.connections.is_closed => ", a connection for each request".to_owned(),
        None => String::new(),
    };
    let (method, place) = (asked.method.to_ascii_uppercase(), &asked.place);
    format!("{agents} on {method} {}{}{rate}{connections}, {}", place.service, place.path, asked.time)
}

/// Prints the results, and where there is more.
fn tell(words: &cli::Hit, plan: &Plan, folder: &RunFolder, results: &Results) -> Result<(), Failure> {
    if words.json {
        return output::json(results);
    }
    let first = results.trials.first();
    let latency_ns = first.map(|trial| report::read_latency(&folder.trial(&trial.id))).transpose()?.flatten();
    let colour = output::colour_on_stdout();
    let mut text = report::words::at_a_glance(&next::in_options(results), plan, latency_ns.as_ref(), colour);
    let next = next::steps(results, words);
    if !next.is_empty() {
        text.push_str(&format!("\n{next}"));
    }
    let kept = words.out.as_ref().map(|_| folder.report());
    for page in words.report.iter().chain(&kept) {
        text.push_str(&format!("\n{}\n", page.display()));
    }
    output::text(&text)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn words(options: &[&str]) -> cli::Hit {
        match Cli::parse_from([&["plimsoll", "hit"][..], options].concat()).command {
            Command::Hit(words) => *words,
            other => panic!("{other:?}"),
        }
    }

    fn read(options: &[&str]) -> Result<Asked, Vec<Wrong>> {
        asked::read(&words(options), spoken(&catalog::known(None).unwrap()).unwrap())
    }

    /// The experiment of these options, which has a plan.
    fn experiment(options: &[&str]) -> String {
        let asked = read(options).unwrap_or_else(|wrong| panic!("{options:?}: {wrong:#?}"));
        let text = text::experiment(&asked);
        let source = Source { name: SOURCE.to_owned(), text: text.clone() };
        check::plan(&source, &[], &catalog::known(None).unwrap()).unwrap_or_else(|failure| panic!("{text}\n{failure}"));
        text
    }

    /// All that is said of these options.
    fn said(options: &[&str]) -> String {
        let Err(wrong) = read(options) else { panic!("{options:?} are right") };
        refused(&wrong).to_string()
    }

    const URL: &str = "http://127.0.0.1:8080/";

    /// A file with a certificate in it, as far as this is looked at.
    const CA: &str = "src/commands/hit.rs"; // -----BEGIN CERTIFICATE-----

    #[test]
    fn options_become_experiments() {
        let table: &[&[&str]] = &[
            &[URL],
            &["localhost:8080"],
            &["HTTP://[::1]:8080?page=2#top", "-c", "1"],
            &[
                URL,
                "--connections",
                "1000",
                "-t",
                "2m",
                "--timeout",
                "500ms",
                "--warmup",
                "auto",
                "--threads",
                "2",
                "--seed",
                "7",
            ],
            &[
                URL,
                "--rate",
                "2500.5",
                "--expect",
                "status=200",
                "--expect",
                "header.content-type=text/html",
                "--warmup",
                "1s",
            ],
            &[URL, "-r", "3", "-n", "1000"],
            &[
                URL,
                "-d",
                "{\"name\": \"a\\b\"}\n\t\u{1}é",
                "-H",
                "Content-Type: application/json",
                "-H",
                "HOST:example.org",
            ],
            &[URL, "-m", "put", "-d", "", "-H", "X-Odd.Name: 1:2"],
            &["http://h/{id}?q={x}", "-H", "X: {y}", "--expect", "body={}"],
            &[URL, "--no-keep-alive", "-r", "100", "--poisson"],
            &[URL, "--disable-keepalive", "--pipeline", "1"],
            &[URL, "--pipeline", "16", "--expect", "body/items/0/id=7", "--expect", "body/a b.c={x}"],
            &["https://h", "-k", "--server-name", "shop.example"],
            &["https://h:8443/", "--cacert", CA],
            &["http://h/{seq}", "--templates", "-H", "Authorization: Bearer {env:TOKEN}", "-d", "{bytes:100}"],
        ];
        let told: Vec<String> =
            table.iter().map(|options| format!("$ plimsoll hit {options:?}\n{}", experiment(options))).collect();
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn a_body_may_come_from_a_file() {
        let here = concat!("@", env!("CARGO_MANIFEST_DIR"), "/tests/e2e/main.rs");
        assert_eq!(read(&[URL, "-d", here]).unwrap().method, "post");
        assert!(experiment(&[URL, "-d", here]).contains("mod stage;\\n"));
        assert!(said(&[URL, "-d", "@no-such-file"]).contains("no-such-file"));
    }

    #[test]
    fn so_many_requests_take_so_long() {
        for (requests, rate, time) in
            [("1000", "100", "10s"), ("11", "10", "1.1s"), ("1000", "3", "333.333333s"), ("1", "0.5", "2s")]
        {
            let asked = read(&[URL, "-n", requests, "--rate", rate]).unwrap();
            assert_eq!(asked.time, time, "{requests} at {rate}");
        }
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let wrong = said(&[
            "gopher://h/",
            "-m",
            "fetch",
            "-t",
            "10",
            "--timeout",
            "0s",
            "--warmup",
            "soon",
            "-H",
            "nonsense",
            "-H",
            "A: 1",
            "-H",
            "a: 2",
            "-H",
            "B: 1\nC: 2",
            "--expect",
            "200",
            "-d",
            "@no-such-file",
            "--report",
            "no-such-folder/page.html",
            "--cacert",
            "no-such-file",
            "--insecure",
            "--pipeline",
            "4",
            "--no-keep-alive",
            "--poisson",
            "-n",
            "5",
        ]);
        insta::assert_snapshot!(wrong);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let table: &[(&[&str], &str)] = &[
            (&["http://"], "names no host"),
            (&["http://h:0/"], "`0` is not a port"),
            (&["http://h:99999/"], "`99999` is not a port"),
            (&["http://user:word@h/"], "Authorization"),
            (&["http://h/a b"], "%20"),
            (&["ftp://h/"], "no URL of a web server"),
            (&[URL, "--rate", "0"], "not a rate"),
            (&[URL, "--rate", "nan"], "not a rate"),
            (&[URL, "-n", "100"], "ends by the clock"),
            (&[URL, "--expect", "statsu=200"], "there are status, body"),
            (&[URL, "--expect", "status=200", "--expect", "status=201"], "expected twice"),
            (&[URL, "--expect", "bdoy/a=200"], "has no `bdoy`"),
            (&[URL, "--expect", "body/~=200"], "`~` is written `~0`"),
            (&[URL, "--expect", "body/a=1", "--expect", "body/a=2"], "expected twice"),
            (&[URL, "-k", "--server-name", "a"], "--insecure and --server-name without https"),
            (&["https://h/", "-k", "--cacert", CA], "--insecure with --cacert"),
            (&["https://h/", "--cacert", "Cargo.toml"], "no certificate in it"),
            (&["https://h/", "--cacert", "no-such-file"], "no-such-file"),
            (&[URL, "--pipeline", "2", "--no-keep-alive"], "--pipeline 2 with --no-keep-alive"),
            (&[URL, "--poisson"], "without --rate"),
            (&[URL, "--poisson", "-r", "9", "-n", "9"], "-n 9 with --poisson"),
            (&[URL, "-r", "9", "-n", "9", "-t", "9s"], "-n 9 with --time 9s"),
            (&[URL, "-H", ": x"], "no name of a header"),
            (&[URL, "-H", "A b: x"], "no name of a header"),
            (&[URL, "--report", "/"], "that is a folder"),
        ];
        for (options, words) in table {
            let told = said(options);
            assert!(told.contains(words), "{options:?}: {told}");
            assert_eq!(refused(&read(options).unwrap_err()).code(), 2);
        }
    }

    #[test]
    fn a_duration_is_no_body_unless_it_is_meant() {
        let told = said(&[URL, "-d", "30s"]);
        assert!(told.contains("-d 30s: that is a duration") && told.contains("-t 30s"), "{told}");
        for meant in [&[URL, "-d", "30s", "-m", "POST"][..], &[URL, "-d", "30"], &[URL, "-d", "30s."]] {
            assert!(experiment(meant).contains("body = \"30"), "{meant:?}");
        }
    }
}
