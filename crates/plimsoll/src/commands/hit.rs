//! `plimsoll hit`: a load on a URL in one command line. The options become an experiment, which is
//! played like the file of `plimsoll run`. The output suggests options to add as next steps.

use std::path::{Path, PathBuf};

use analysis::AnalyzedRun;
use experiment::catalog::Protocol;
use experiment::plan::Plan;
use experiment::secrets::Secrets;
use experiment::source::Source;
use lab::registry::Registry;
use message_protocols::MessageProtocol;
use options::{HitOptions, OptionProblem, TlsOptions};
use record::folder::RunFolder;
use record::results::{Results, Trial, Trust};
use text::numbers;

use crate::catalog::{self, TargetCatalog};
use crate::commands::experiments;
use crate::commands::run::{self, PreparedRun};
use crate::exit::{Exit, Failure};
use crate::{cli, named_files, output, signals};

mod curl_command;
mod debug;
mod elsewhere;
mod message_protocols;
mod options;
mod redirects;
mod terminal_view;

pub use elsewhere::said as said_of_options;

/// Whether a URL is one of gRPC.
pub fn is_grpc(url: &str) -> bool {
    MessageProtocol::of(url) == Some(MessageProtocol::Grpc)
}

/// Reads the options for TLS of a command that asks this URL.
pub fn tls_of(url: &str, words: &cli::TlsWords) -> Result<TlsOptions, Failure> {
    let mut wrong: Vec<OptionProblem> = options::unencrypted(words, url).into_iter().collect();
    let tls = TlsOptions::read(words, &mut wrong);
    if wrong.is_empty() { Ok(tls) } else { Err(refused(&wrong)) }
}

/// File name that is shown with problems of the experiment.
const SOURCE: &str = "plimsoll hit --print";

/// Plays the load and prints the results.
pub fn run(words: &cli::Hit) -> Result<Exit, Failure> {
    let words = &curl_command::in_options(words)?;
    let known = catalog::known(None)?;
    let protocol = spoken(words, &known)?;
    let mut asked = options::read(words, protocol).map_err(|wrong| refused(&wrong))?;
    if words.location {
        asked.place = redirects::followed(&asked, protocol)?;
    }
    let text = options::experiment(&asked);
    let source = Source { name: SOURCE.to_owned(), text: text.clone() };
    let secrets = Secrets::of(&source, &[]);
    if !words.print {
        output::hide(&secrets);
    }
    let plan = experiments::plan(&source, &[], &known)?;
    if words.print {
        output::data(&text)?;
        return Ok(Exit::Well);
    }
    if words.debug {
        return debug::once(&asked, &plan);
    }
    if let Some(hint) = about_secrets(&secrets) {
        output::say(&hint);
    }
    run::clean_up();
    let begun = PreparedRun::of(plan, secrets.hidden_file(&source), secrets, PathBuf::new());
    begun.can_be_played(&known, false)?;
    let interrupts = signals::interrupts()?;
    // The home is declared before the folder, so that it is dropped, and a private folder removed,
    // only after the last use.
    let home = RunHome::of(words.out.as_deref())?;
    let folder = begun.open(home.path(), &known)?;
    let observer = terminal_view::observer(words.plain, &what(&asked), asked.count);
    let (ending, analyzed) = begun.play(&folder, &known, observer, &interrupts).map_err(failure_in_options)?;
    if let Some(page) = &words.report {
        // A copy is written, because the user may share the page but the folder is private.
        let written = std::fs::read(folder.report()).map_err(|error| named_files::cannot_write(page, error))?;
        named_files::write(page, &written)?;
    }
    let printed = tell(words, begun.plan(), &folder, &analyzed);
    run::done(run::outcome(ending, &analyzed.results, words.accept), printed)
}

/// Returns the protocol of the requests: gRPC or WebSocket by the URL's scheme, HTTP/2 by its
/// scheme or by an option, or else the protocol of web servers.
fn spoken(words: &cli::Hit, known: &TargetCatalog) -> Result<&'static Protocol, Failure> {
    let scheme = options::scheme_of(&words.url);
    let by = |scheme: &str| known.catalog.protocols.iter().copied().find(|protocol| protocol.schemes.contains(&scheme));
    let is_http2 = words.http2 || words.h2c || options::is_http2(&words.url);
    let usual = if is_http2 { "h2c" } else { "http" };
    let messages = MessageProtocol::of(&words.url).and_then(|_| by(&scheme));
    let found = messages.or_else(|| by(usual));
    found.ok_or_else(|| Failure::Ours(format!("no protocol speaks {usual}")))
}

/// Returns a failure that lists every invalid option with its remedy.
fn refused(wrong: &[OptionProblem]) -> Failure {
    Failure::Problems(wrong.iter().map(|wrong| format!("plimsoll: {}\n  {}\n", wrong.what, wrong.remedy)).collect())
}

/// Describes the load as `64 agents on GET http://localhost:8080/ for 10s`.
fn what(asked: &HitOptions) -> String {
    let agents = if asked.agents == 1 { "1 agent".to_owned() } else { format!("{} agents", asked.agents) };
    let rate = asked.rate.map_or_else(String::new, |rate| {
        format!(", {} requests/s{}", rate.per_s, if rate.is_poisson { " at random" } else { "" })
    });
    let connections = match asked.connections.pipeline {
        Some(agents) => format!(", {agents} on each connection"),
        None if asked.connections.is_closed => ", a connection for each request".to_owned(),
        None => String::new(),
    };
    let (method, place) = (asked.shown_method(), &asked.place);
    let until = match asked.count {
        Some(count) => format!("{} requests, {} at most", numbers::count(count), asked.time),
        None => asked.time.clone(),
    };
    let url = place.shown();
    format!("{agents} on {method} {url}{rate}{connections}, {until}")
}

/// Prints the results, the next steps and the paths of the pages.
fn tell(words: &cli::Hit, plan: &Plan, folder: &RunFolder, analyzed: &AnalyzedRun) -> Result<(), Failure> {
    let results = &analyzed.results;
    if words.json {
        return output::json(results);
    }
    let mut latency_ns = None;
    if let Some(latency) = analyzed.latencies.first() {
        latency.all_ns.add_to(&mut latency_ns);
    }
    let colour = output::colour_on_stdout();
    let mut text = report::words::at_a_glance(&in_options(results, words), plan, latency_ns.as_ref(), colour);
    let next = next_steps(results, words);
    if !next.is_empty() {
        text.push_str(&format!("\n{next}"));
    }
    let kept = words.out.as_ref().map(|_| folder.report());
    for page in words.report.iter().chain(&kept) {
        text.push_str(&format!("\n{}\n", page.display()));
    }
    output::text(&text)
}

/// Suggested rate, as a share of the throughput that the closed loop reached.
const ROOM: f64 = 0.8;
/// Width of the column of options in the list of next steps.
const OPTION: usize = 20;

/// Returns the suggested next steps: a heading and a line for each option. Returns an empty text if
/// there are no suggestions.
#[must_use]
fn next_steps(results: &Results, words: &cli::Hit) -> String {
    let Some(trial) = results.trials.first() else { return String::new() };
    let mut steps = against_failures(trial, words);
    if trial.outcomes.ok > 0 {
        steps.extend(further(results, trial, words));
    }
    if steps.is_empty() {
        return String::new();
    }
    let lines: String = steps.into_iter().map(|(option, why)| format!("  {option:OPTION$} {why}\n")).collect();
    format!("Options to try next:\n{lines}")
}

/// Returns the warning about credentials on the command line, which is printed before the load.
#[must_use]
fn about_secrets(secrets: &Secrets) -> Option<String> {
    let header = secrets.names().find_map(|name| name.strip_prefix("header."))?;
    Some(format!(
        "plimsoll: the records omit the value of `{header}`, but `ps` and the shell's history show it; with \
         --templates, -H '{header}: {{env:NAME}}' takes it from the environment"
    ))
}

/// Prefixes of attempts' results as in `attempts.csv`, each with the option that may avoid the
/// result, and the option's effect.
const FAILURES: [(&str, &str, &str); 9] = [
    ("tls: bad certificate", "--cacert ca.pem", "trusts the CAs in this file; -k disables the check"),
    ("tls: refused by the target: certificate", CERT.0, CERT.1),
    ("tls: refused by the target: bad certificate", CERT.0, CERT.1),
    ("tls: refused by the target: handshake failure", CERT.0, CERT.1),
    ("tls: refused by the target: unknown CA", CERT.0, "a certificate that the server trusts: this one was refused"),
    ("tls: refused by the target: access denied", CERT.0, CERT.1),
    ("tls: refused by the target: unrecognised name", "--server-name NAME", "a name that the server recognises"),
    ("tls: refused by the target: no application", "--http2", "this port may only accept HTTP/2"),
    ("tls: handshake failed", "http://…", "if the server speaks no TLS at this port"),
];
const CERT: (&str, &str) = ("--cert client.pem", "if the server requires a client certificate");
/// Results of attempts that do not use TLS, at a server that expects TLS.
const AS_BY_TLS: [&str; 4] = ["connection reset", "connection closed", "bad answer", "status 400"];

fn against_failures(trial: &Trial, words: &cli::Hit) -> Vec<(String, &'static str)> {
    let mut happened: Vec<(&str, &str)> = Vec::new();
    for (start, option, why) in FAILURES {
        let has_happened = trial.attempt_results.keys().any(|result| result.starts_with(start));
        let is_given = option == "--http2" && words.http2;
        if has_happened && !is_given && !happened.contains(&(option, why)) {
            happened.push((option, why));
        }
    }
    let is_clear = !options::is_encrypted(&words.url);
    let may_be_tls =
        is_clear && trial.outcomes.ok == 0 && AS_BY_TLS.iter().any(|how| trial.attempt_results.contains_key(*how));
    let encrypted = match MessageProtocol::of(&words.url) {
        None => "https://…",
        Some(MessageProtocol::Grpc) => "grpcs://…",
        Some(MessageProtocol::Websocket) => "wss://…",
    };
    let by_tls = may_be_tls.then(|| (encrypted.to_owned(), "if the server speaks TLS at this port"));
    let debug = (trial.outcomes.ok == 0).then(|| ("--debug".to_owned(), "sends one request and prints its answer"));
    let redirected = trial.attempt_results.keys().any(|result| result.starts_with("redirect "));
    let address = redirected.then(|| ("--location".to_owned(), "hits the URL that the redirects lead to"));
    let happened = happened.into_iter().map(|(option, why)| (option.to_owned(), why));
    happened.chain(by_tls).chain(address).chain(debug).collect()
}

fn further(results: &Results, trial: &Trial, words: &cli::Hit) -> Vec<(String, &'static str)> {
    let mut steps = Vec::new();
    if words.rate.is_none()
        && results.verdict.is != Trust::Void
        && let Some(got) = trial.throughput.operations_per_s
    {
        let rate = two_digits(got * ROOM);
        steps.push((format!("--rate {rate}"), "sends on a schedule that no answer delays: open loop"));
    }
    if words.expects.is_empty() {
        let expected = match MessageProtocol::of(&words.url) {
            None => Some("status=200"),
            Some(MessageProtocol::Grpc) => Some("status=ok"),
            Some(MessageProtocol::Websocket) => words.body.as_ref().map(|_| "message=TEXT"),
        };
        steps.extend(expected.map(|field| (format!("--expect {field}"), "counts any other answer as wrong")));
    }
    if words.report.is_none() {
        steps.push(("--report page.html".to_owned(), "charts over time, hosts and environment on one page"));
    }
    steps.push(("--print > hit.toml".to_owned(), "writes a file for `plimsoll run`: sweeps, faults, gates"));
    steps
}

/// Keys of experiment files, each with the option that replaces it in messages.
const IN_OPTIONS: [(&str, &str); 14] = [
    ("`load.proto`", "`--proto`"),
    ("`load.agents`", "`--agents`"),
    ("`load.rate`", "`--rate`"),
    ("`load.threads`", "`--threads`"),
    ("`load.time`", "`--time`"),
    ("in `target.also`", "in `target.also` of the file that `--print` writes"),
    ("`tls.ca`", "`--cacert`"),
    ("`tls.cert`", "`--cert`"),
    ("`tls.key`", "`--key`"),
    ("`tls.insecure`", "`--insecure`"),
    ("`tls.server_name`", "`--server-name`"),
    ("without `keep_alive`", "with `--no-keep-alive`"),
    ("Look at the results of the attempts: they name the cause", "Look at `causes` above"),
    ("Continue with `plimsoll run --resume`", "Run again without interrupting"),
];

/// Replaces keys of experiment files by options in the remedies, because a user of `hit` has no
/// experiment file.
#[must_use]
fn in_options(results: &Results, words: &cli::Hit) -> Results {
    let mut results = results.clone();
    // If a number of requests ends the load, a longer `--time` changes nothing.
    let is_counted = words.requests.is_some() && words.rate.is_none();
    for remedy in &mut results.verdict.remedies {
        *remedy = words_in_options(remedy);
        if is_counted {
            *remedy = remedy.replace("`--time`", "`--requests`");
        }
    }
    results
}

/// Replaces keys of experiment files by options in a failure's message.
#[must_use]
fn failure_in_options(failure: Failure) -> Failure {
    match failure {
        Failure::Conduct(conduct::Error::Load(load::Error::Setting(text))) => {
            Failure::Conduct(conduct::Error::Load(load::Error::Setting(words_in_options(&text))))
        }
        other => other,
    }
}

/// Replaces keys of experiment files by options in a text.
#[must_use]
pub fn words_in_options(text: &str) -> String {
    IN_OPTIONS.iter().fold(text.to_owned(), |text, (key, option)| text.replace(key, option))
}

/// Rounds a rate to two significant digits: 12,345 is 12000, 0.5678 is 0.57.
fn two_digits(rate: f64) -> String {
    let step = 10_f64.powf(rate.log10().floor() - 1.0);
    let rounded = (rate / step).round() * step;
    if rounded >= 1.0 { format!("{}", rounded.round()) } else { numbers::number(rounded) }
}

/// Folder that contains the run folder.
struct RunHome {
    path: PathBuf,
    /// Removes the private folder when dropped. After a kill, the next start removes it.
    _private: Option<Registry>,
}

impl RunHome {
    /// Returns the folder that the user requested, or makes a private folder.
    fn of(asked: Option<&Path>) -> Result<Self, Failure> {
        if let Some(asked) = asked {
            return Ok(Self { path: asked.to_path_buf(), _private: None });
        }
        let private = Registry::begin(&std::env::temp_dir())?;
        Ok(Self { path: private.scratch()?, _private: Some(private) })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};
    use record::results::{Outcomes, Throughput, Trial, Verdict};

    use super::*;
    use crate::cli::{Cli, Command, Hit};

    fn words(options: &[&str]) -> Hit {
        match Cli::parse_from([&["plimsoll", "hit"][..], options].concat()).command {
            Command::Hit(words) => *words,
            other => panic!("{other:?}"),
        }
    }

    fn read(options: &[&str]) -> Result<HitOptions, Vec<OptionProblem>> {
        let words = words(options);
        options::read(&words, spoken(&words, &catalog::known(None).unwrap()).unwrap())
    }

    /// Returns the experiment of these options, which has a plan.
    fn experiment(options: &[&str]) -> String {
        let asked = read(options).unwrap_or_else(|wrong| panic!("{options:?}: {wrong:#?}"));
        let text = options::experiment(&asked);
        let source = Source { name: SOURCE.to_owned(), text: text.clone() };
        experiments::plan(&source, &[], &catalog::known(None).unwrap())
            .unwrap_or_else(|failure| panic!("{text}\n{failure}"));
        text
    }

    fn experiments_of(table: &[&[&str]]) -> String {
        let told = table.iter().map(|options| format!("$ plimsoll hit {options:?}\n{}", experiment(options)));
        told.collect::<Vec<String>>().join("\n")
    }

    /// Returns the text of all problems of these options.
    fn error_text(options: &[&str]) -> String {
        let Err(wrong) = read(options) else { panic!("{options:?} are right") };
        refused(&wrong).to_string()
    }

    const URL: &str = "http://127.0.0.1:8080/";

    /// File with the markers of a certificate and a key.
    const CA: &str = "src/commands/hit.rs"; // -----BEGIN CERTIFICATE----- -----BEGIN PRIVATE KEY-----

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
            &[URL, "-n", "20", "-c", "64"],
            &[URL, "-n", "10k", "-c", "1k", "-t", "30s"],
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
            &[URL, "-m", "PROPFIND", "-H", "Depth: 1"],
            &["http://h/{id}?q={x}", "-H", "X: {y}", "--expect", "body={}"],
            &[URL, "--no-keep-alive", "-r", "100", "--poisson"],
            &[URL, "--disable-keepalive", "--pipeline", "1"],
            &[URL, "--pipeline", "16", "--expect", "body/items/0/id=7", "--expect", "body/a b.c={x}"],
            &["https://h", "-k", "--server-name", "shop.example"],
            &["https://h:8443/", "--cacert", CA],
            &["https://h:8443/", "--cert", CA, "--key", CA],
            &["http://h/a?b", "--proxy", "localhost:3128"],
            &["https://h/a", "-k", "--proxy", "localhost:3128"],
            &["http://h/a?b", "--unix-socket", "/run/a b.sock"],
            &[
                "grpc://h:1/shop.Cart/Add",
                "-d",
                "{\"item\": {\"id\": 7}}",
                "-H",
                "Authorization: Bearer x",
                "--proto",
                "a.proto",
            ],
            &["grpcs://h/shop.Cart/List", "-k", "--expect", "status=ok", "--expect", "message.items.0.id=7"],
            &["http://h/{seq}", "--templates", "-H", "Authorization: Bearer {env:TOKEN}", "-d", "{bytes:100}"],
        ];
        insta::assert_snapshot!(experiments_of(table));
    }

    #[test]
    fn urls_of_websockets_become_experiments() {
        let table: &[&[&str]] = &[
            &[
                "WS://h:1/chat?a={b}",
                "-d",
                "{\"id\": 7}",
                "-H",
                "Origin: https://a.example/?x&y",
                "--expect",
                "message/id=7",
            ],
            &["wss://h/#x-room=a%20b", "-k", "-H", "X-B: {c}"],
            &["ws://h", "-m", "POST", "-d", "x", "--pipeline", "2"],
            &["ws://h/", "-d", "{{\"id\": {seq}}}", "--match", "/id", "--templates"],
        ];
        insta::assert_snapshot!(experiments_of(table));
    }

    #[test]
    fn several_cookies_are_one_header() {
        let text = experiment(&[URL, "-H", "Cookie: a=1", "-H", "cookie: b=2", "-t", "1m30s"]);
        assert!(text.contains("a=1; b=2") && text.contains("1m30s"), "{text}");
    }

    #[test]
    fn a_body_may_come_from_a_file() {
        let here = concat!("@", env!("CARGO_MANIFEST_DIR"), "/tests/e2e/main.rs");
        assert_eq!(read(&[URL, "-d", here]).unwrap().method, "post");
        assert!(experiment(&[URL, "-d", here]).contains("mod sandbox;\\n"));
        assert!(error_text(&[URL, "-d", "@no-such-file"]).contains("no-such-file"));
    }

    #[test]
    fn the_time_follows_from_requests_and_rate() {
        for (requests, rate, time) in
            [("1000", "100", "10s"), ("11", "10", "1.1s"), ("1000", "3", "333.333333s"), ("1", "0.5", "2s")]
        {
            let asked = read(&[URL, "-n", requests, "--rate", rate]).unwrap();
            assert_eq!(asked.time, time, "{requests} at {rate}");
        }
    }

    #[test]
    fn all_wrong_options_are_reported_at_once() {
        let wrong = error_text(&[
            "gopher://h/",
            "-m",
            "fetch it",
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
    fn invalid_options_are_refused() {
        let table: &[(&[&str], &str)] = &[
            (&["http://"], "names no host"),
            (&["http://h:0/"], "not a number from 1 to 65535"),
            (&["http://h:99999/"], "not a number from 1 to 65535"),
            (&["http://::1:80/"], "http://[::1]:8080/"),
            (&["http://[fe80::1%25eth0]/"], "zone"),
            (&["http://bücher.localhost/"], "xn--"),
            (&["grpc://h:1"], "expected the method as the path"),
            (&["grpc://h:1/S/M", "-m", "PUT"], "a call of gRPC has no HTTP method"),
            (&["grpc://h:1/S/M", "--unix-socket", "/s"], "gRPC with --unix-socket"),
            (&[URL, "--proto", "a.proto"], "--proto a.proto: the URL is not one of gRPC"),
            (&["ws://h:1", "-m", "PUT", "-d", "x"], "write one of send, post, receive"),
            (&["ws://h:1", "-m", "post"], "the message is missing"),
            (&["ws://h:1", "-m", "receive", "-d", "x"], "sends no message"),
            (&["ws://h:1", "--http2"], "WebSocket with --http2"),
            (&["ws://h:1", "-d", "x", "--expect", "status=ok"], "the fields are message, kind"),
            (&[URL, "-d", "x", "--match", "/id"], "--match /id: the URL is not one of WebSocket"),
            (&["grpc://h:1/S/M", "-d", "{}", "--match", "/id"], "gRPC with --match"),
            (&["vsns://h:1"], "for other protocols `plimsoll new URL` writes a file"),
            (&["rediss://h:1"], "grpcs://, ws:// and wss://; for other protocols"),
            (&["postgres://h:1"], "`command`"),
            (&[URL, "-H", "Connection: close"], "--no-keep-alive"),
            (&[URL, "-H", "content-length: 3"], "remove it"),
            (&["http://user:word@h/"], "Authorization"),
            (&["http://h/a b"], "%20"),
            (&["ftp://h/"], "does not load such a URL"),
            (&[URL, "--rate", "0"], "not a rate"),
            (&[URL, "--rate", "nan"], "not a rate"),
            (&[URL, "--expect", "statsu=200"], "the fields are status, body"),
            (&[URL, "--expect", "status=200", "--expect", "status=201"], "expected twice"),
            (&[URL, "--expect", "bdoy/a=200"], "has no `bdoy`"),
            (&[URL, "--expect", "body/~=200"], "`~` is written `~0`"),
            (&[URL, "--expect", "body/a=1", "--expect", "body/a=2"], "expected twice"),
            (&[URL, "-k", "--server-name", "a"], "--insecure and --server-name without https"),
            (&["https://h/", "-k", "--cacert", CA], "--insecure with --cacert"),
            (&["https://h/", "--cacert", "Cargo.toml"], "contains no certificate"),
            (&["https://h/", "--cacert", "no-such-file"], "no-such-file"),
            (&[URL, "--pipeline", "2", "--no-keep-alive"], "--pipeline 2 with --no-keep-alive"),
            (&[URL, "--poisson"], "needs --rate"),
            (&[URL, "--poisson", "-r", "9", "-n", "9"], "-n 9 with --poisson"),
            (&[URL, "-r", "9", "-n", "9", "-t", "9s"], "-n 9 with --time 9s"),
            (&[URL, "-H", ": x"], "not a header name"),
            (&[URL, "-H", "A b: x"], "not a header name"),
            (&[URL, "--report", "/"], "this is a folder"),
        ];
        for (options, words) in table {
            let told = error_text(options);
            assert!(told.contains(words), "{options:?}: {told}");
            assert_eq!(refused(&read(options).unwrap_err()).code(), 2);
        }
    }

    #[test]
    fn a_duration_as_body_is_refused_without_a_method() {
        let told = error_text(&[URL, "-d", "30s"]);
        assert!(told.contains("-d 30s: expected a body") && told.contains("-t 30s"), "{told}");
        for meant in [&[URL, "-d", "30s", "-m", "POST"][..], &[URL, "-d", "30"], &[URL, "-d", "30s."]] {
            assert!(experiment(meant).contains("body = \"30"), "{meant:?}");
        }
    }

    fn typed(line: &str) -> Hit {
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
    fn next_steps_suggest_only_unused_options() {
        let plain = next_steps(&results(Trust::Valid, 10), &typed("plimsoll hit http://h/"));
        for option in ["--rate 51000", "--expect", "--report", "--print"] {
            assert!(plain.contains(option), "{plain}");
        }
        assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
        let asked = typed("plimsoll hit http://h/ --rate 9 --expect status=200 --report p.html");
        let told = next_steps(&results(Trust::Valid, 10), &asked);
        assert!(told.contains("--print") && !told.contains("--rate") && !told.contains("--report"), "{told}");
        let void = next_steps(&results(Trust::Void, 10), &typed("plimsoll hit http://h/"));
        assert!(!void.contains("--rate"), "{void}");
        let none = next_steps(&results(Trust::Valid, 0), &typed("plimsoll hit http://h/"));
        assert!(none.contains("--debug") && none.lines().count() == 2, "{none}");
    }

    #[test]
    fn failed_tls_handshakes_have_a_remedy() {
        let words = typed("plimsoll hit https://h/");
        let mut failed = results(Trust::Void, 0);
        failed.trials[0].attempt_results.insert("tls: bad certificate".to_owned(), 9);
        let told = next_steps(&failed, &words);
        assert!(told.contains("--cacert") && told.contains("-k disables") && !told.contains("--print"), "{told}");
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
        let mut refused = results(Trust::Void, 0);
        for alert in ["certificate required", "bad certificate"] {
            refused.trials[0].attempt_results.insert(format!("tls: refused by the target: {alert}"), 9);
        }
        assert_eq!(next_steps(&refused, &words).matches("--cert client.pem").count(), 1);
        let mut closed = results(Trust::Void, 0);
        closed.trials[0].attempt_results.insert("connection reset".to_owned(), 9);
        let told = next_steps(&closed, &typed("plimsoll hit http://h/"));
        assert!(told.contains("https://…") && told.contains("speaks TLS at this port"), "{told}");
        assert!(!next_steps(&closed, &words).contains("https://…"), "it is https already");
    }

    #[test]
    fn remedies_name_options_instead_of_plan_keys() {
        let mut void = results(Trust::Void, 10);
        let remedy = "Give the generator more `load.threads` or cores of its own, or lower the load";
        void.verdict.remedies = vec![remedy.to_owned(), "Raise `load.time`".to_owned()];
        let counted = in_options(&void, &typed("plimsoll hit http://h/ -n 10")).verdict.remedies;
        assert_eq!(counted[1], "Raise `--requests`");
        let told = in_options(&void, &typed("plimsoll hit http://h/")).verdict.remedies;
        assert_eq!(told, [remedy.replace("`load.threads`", "`--threads`"), "Raise `--time`".to_owned()]);
    }

    #[test]
    fn handshake_remedies_name_existing_options() {
        let rule = analysis::rules().iter().find(|rule| rule.name == "failed_handshakes").unwrap();
        let told = words_in_options(rule.remedy);
        let help = Cli::command().find_subcommand_mut("hit").unwrap().render_long_help().to_string();
        for option in ["--cacert", "--server-name", "--insecure"] {
            assert!(told.contains(&format!("`{option}`")) && help.contains(option), "{option}: {told}");
        }
        assert!(!told.contains("`tls."), "{told}");
        let setting = load::Error::Setting("TLS: no CA certificates found: name a file with `tls.ca`".to_owned());
        let failure = failure_in_options(Failure::Conduct(conduct::Error::Load(setting)));
        assert!(failure.to_string().ends_with("name a file with `--cacert`"), "{failure}");
        assert_eq!(failure.code(), 2);
    }
}
