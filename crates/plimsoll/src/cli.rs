//! Command-line definitions: subcommands, their options and their help.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::selfcheck;

/// Default directory for run folders.
pub const OUT: &str = "runs";
/// Default directory for the runs of `compare --play`.
const TURNS: &str = "runs/turns";
/// Default directory for the runs of `selfcheck`.
const CHECKS: &str = "runs/selfcheck";

const EXIT_CODES: &str = "Exit codes:
  0    done
  1    Plimsoll itself failed (a full disk, a bug, results that cannot be printed)
  2    bad file or arguments
  3    the lab could not be built, or something is not installed
  4    the target failed to start
  5    a requirement was violated, or a history is not linearizable
  6    the result is void
  7    the gate of `compare` or the verdict of `audit` is inconclusive
  130  interrupted (Ctrl-C, SIGTERM, SIGHUP, or its output is closed); the records are
       kept, and a partial report is written";

const COMPARING: &str = "Examples:
  plimsoll compare runs/before runs/after
  plimsoll compare base/ candidate/ --gate 5% --junit plimsoll.xml --markdown summary.md
  plimsoll compare runs/2026-11-20T10-31-05-variants
  plimsoll compare --play before.toml after.toml --turns 8 --out runs/upgrade --gate 5%
  plimsoll compare --play before.toml after.toml --gate 5% --until-decided --at-most 40

A folder of run folders is one side: its runs are repeats. Runs of two sides that were played in
turn (base, candidate, base, candidate, …) are compared in pairs, which cancels out a drift of the
machine; --play plays runs in turn. With one run of each side, differences are shown but not tested.
docs/compare.md explains how to read the result.

Exit codes: 0 done, 2 bad arguments, 5 the gate fails, 6 a side is void, 7 the gate is inconclusive:
neither a regression nor its absence is shown. With --metric only the named figures are compared, and
fewer figures need fewer repeats; --play --until-decided plays as many repeats as needed.";

const CHECKING: &str =
    "A built-in server has a known behaviour: it limits its throughput, stops or fails for a known time, or uses a
tenth more CPU. The values are drawn from the clock (--seed repeats them). `plimsoll run` measures each value,
and the measurement is right; marked, if it is off but the trial's verdict warns of it; or wrong.
docs/selfcheck.md explains what to do about a wrong measurement.

--statistics simulates runs with known values, analyses them as `plimsoll analyze` and `plimsoll compare` do,
and counts how often the results are right.

Exit codes: 0 all right, 5 a result is wrong or misses its goal, 6 none is wrong but some are marked, 130 interrupted.";

const EXPORTING: &str = "Examples:
  plimsoll export runs/2026-11-20T10-31-05-first-run --csv > seconds.csv
  plimsoll export runs/ --csv --trials --out trials.csv
  plimsoll export runs/ --parquet --out seconds.parquet
  duckdb -c \"SELECT at_s, sum(value) FROM 'seconds.csv' WHERE figure = 'operations' GROUP BY 1 ORDER BY 1\"
  plimsoll export runs/nightly --openmetrics --out nightly.om
  promtool tsdb create-blocks-from openmetrics nightly.om /var/lib/prometheus

Figures have the names of the columns of a run folder's files (docs/formats.md), with the unit at the end. Each row
has the trial's verdict; void trials are exported as well. In OpenMetrics, figures that are counted each second become
counters, which are 0 at load start, and swept values become labels such as point_load_agents.";

const AUDITING: &str = "Examples:
  plimsoll audit store/etcd/latest/history.edn
  plimsoll audit queue.edn --any-order
  plimsoll export runs/2026-11-20T10-31-05-registers --history jepsen --trial 001 | plimsoll audit -

Read are histories of Jepsen in edn, and the logs of etcd that Porcupine's tests read, also in gzip:
  registers  read, write, cas
  sets       add, remove, contains, read
  queues     enqueue, dequeue, drain
Values are pairs of key and value if there are several objects. docs/consistency.md describes the check.

Exit codes: 0 linearizable, 2 a bad file, 5 not linearizable, 7 undecided.";

/// Finds how much load a clustered service safely carries, and what happens when part of it sinks.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_long_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load a URL and report throughput and latency: one line, no file
    #[command(after_long_help = EXAMPLES)]
    Hit(Box<Hit>),
    /// Run an experiment: start the target, load it, break it, report
    #[command(after_long_help = EXIT_CODES)]
    Run(Run),
    /// Check an experiment file and print its trials, their timeline and how long they will take
    Check(Check),
    /// Rebuild analysis.json and report.html from a run's records
    Analyze(OneRun),
    /// Print a run's summary again
    Show(OneRun),
    /// Compare runs, or the variants of one, with significance tests; a gate for builds
    #[command(after_long_help = COMPARING)]
    Compare(Compare),
    /// Show how an experiment's figures developed over its runs, and where they changed
    History(History),
    /// Write one page that lists several runs and links their reports
    Contents(Contents),
    /// Write the figures of runs for other programs: CSV, Parquet, or OpenMetrics for Prometheus
    #[command(after_long_help = EXPORTING)]
    Export(Export),
    /// Check whether a history of registers, sets or queues, such as Jepsen's, is linearizable
    #[command(after_long_help = AUDITING)]
    Audit(AuditedHistory),
    /// Open a run's report in the browser
    Open(Folder),
    /// Check this machine for what would distort a measurement, and suggest what to do
    Doctor(Doctor),
    /// Check Plimsoll's measurements on this machine against known truths, in about three minutes
    #[command(after_long_help = CHECKING)]
    Selfcheck(Selfcheck),
    /// List the experiments that are built in, or print one
    Experiments(Named),
    /// Print a commented experiment file to start from
    New(New),
    /// List the targets, or describe one
    Targets(Named),
    /// List the profiles of machines, or describe one
    Profiles(Named),
    /// Measure a real machine for a profile
    Profile(Profile),
    /// List the faults, or describe one
    Faults(Named),
    /// List the protocols, or describe one
    Protocols(Named),
    /// Install what a target or virtual hosts need
    Install(Install),
    /// Remove what an interrupted run left behind (`run` does this when it starts)
    Clean,
    /// Print the JSON Schema of experiment files, of analysis.json or of comparisons
    Schema(Schema),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write the pages of all commands
    Man(Man),
    /// Run one generator's part of a load, read from standard input (`[fleet]` starts generators)
    #[command(hide = true)]
    Generator(GeneratorCommand),
    /// Run the built-in echo target
    #[command(hide = true)]
    Echo(Echo),
    /// Serve as the runner of a host
    #[command(hide = true)]
    Runner(Runner),
}

#[derive(Debug, Args)]
pub struct GeneratorCommand {
    /// Take commands from a connection to this socket instead of standard input
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Run {
    /// The experiment file, or the name of a built-in experiment
    #[arg(required_unless_present = "resume")]
    pub file: Option<PathBuf>,
    /// Directory for run folders
    #[arg(long, value_name = "DIR", default_value = OUT)]
    pub out: PathBuf,
    /// Override a value of the file, such as load.time=30s or fault.oops.at=15s
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub sets: Vec<String>,
    /// Resume an interrupted run: play its remaining trials
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "sets"])]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub written: WrittenSummaries,
    /// Print analysis.json instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Plain progress lines, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// First install what the target and the virtual hosts need
    #[arg(long)]
    pub install: bool,
    /// Show the report in a browser during the run: prints the URL of a page on this machine, at
    /// PORT or at any free port
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub watch: Option<u16>,
    /// Serve metrics during the run, for Prometheus: GET /metrics at this address, such as
    /// 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    pub serve_metrics: Option<SocketAddr>,
    /// Export the same metrics to an OpenTelemetry collector every 5 s: OTLP over HTTP, such as
    /// http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Exit 0 even if the result is void; the verdict stays
    #[arg(long)]
    pub accept: bool,
}

/// Files for a build server and for a pull request.
#[derive(Debug, Clone, Args)]
pub struct WrittenSummaries {
    /// Write JUnit XML into this file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write a short Markdown summary into this file
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Check {
    /// The experiment file, or the name of a built-in experiment
    pub file: PathBuf,
    /// Override a value of the file, such as load.time=30s
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub sets: Vec<String>,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct OneRun {
    /// A run folder
    pub folder: PathBuf,
    #[command(flatten)]
    pub written: WrittenSummaries,
    /// Print analysis.json instead of the summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// Run folders, or folders that hold several; the first is the baseline. With one run alone,
    /// its variants are compared. With --play: two experiment files
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Play the two experiments in turn first, and compare their runs
    #[arg(long)]
    pub play: bool,
    /// Number of runs of each experiment
    #[arg(long, value_name = "COUNT", default_value_t = 5, requires = "play", value_parser = clap::value_parser!(u32).range(2..=1_000))]
    pub turns: u32,
    /// Play on while the gate of --gate is inconclusive, and check it again after twice as many
    /// turns
    #[arg(long, requires_all = ["play", "gate"])]
    pub until_decided: bool,
    /// Maximum number of runs of each experiment for --until-decided
    #[arg(long, value_name = "COUNT", default_value_t = 40, requires = "until_decided", value_parser = clap::value_parser!(u32).range(2..=1_000))]
    pub at_most: u32,
    /// Directory for the folders `base` and `candidate` with the runs; runs that are already there
    /// count as well
    #[arg(long, value_name = "DIR", default_value = TURNS, requires = "play")]
    pub out: PathBuf,
    /// Exit 5 if a figure is significantly worse than the baseline's by at least this much, such as
    /// 5%; exit 7 if a regression is neither shown nor excluded
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub gate: Option<String>,
    /// Fail only if the whole interval is beyond the gate of --gate, not only the estimate
    #[arg(long, requires = "gate")]
    pub sure: bool,
    /// Compare this figure, such as latency_us.p99, instead of the usual ones; may be repeated
    #[arg(long = "metric", value_name = "PATH")]
    pub metrics: Vec<String>,
    #[command(flatten)]
    pub written: WrittenSummaries,
    /// Print the comparisons as JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Use void trials as well, which the output notes, and do not exit 6 for them
    #[arg(long)]
    pub accept: bool,
    /// Do not exit 7 if the gate is inconclusive
    #[arg(long, requires = "gate")]
    pub allow_inconclusive: bool,
    /// Plain progress lines, also on a terminal
    #[arg(long)]
    pub plain: bool,
}

#[derive(Debug, Args)]
pub struct History {
    /// Run folders, or folders that hold several, all of one experiment
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// A figure to follow, such as latency_us.p99 [default: throughput, latency and recovery after
    /// a fault]
    #[arg(long = "metric", value_name = "PATH")]
    pub metrics: Vec<String>,
    /// Use void trials as well; the output marks the runs that have any
    #[arg(long)]
    pub accept: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Contents {
    /// Run folders, or folders that hold several
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// The page to write [default: contents.html in the folder that holds all runs]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = "Runs")]
    pub title: String,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("format").required(true).args(["csv", "parquet", "openmetrics", "history"]))]
pub struct Export {
    /// Run folders, or folders that hold several
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Write CSV: a row for each figure and second
    #[arg(long)]
    pub csv: bool,
    /// Write Parquet: the same rows and columns, with separate types for texts and numbers
    #[arg(long, requires = "out")]
    pub parquet: bool,
    /// Write a row for each trial instead (in CSV or Parquet), with a column for each figure of
    /// analysis.json
    #[arg(long, conflicts_with_all = ["openmetrics", "history"])]
    pub trials: bool,
    /// Write the figures of each second in the text format of OpenMetrics, with their times
    #[arg(long)]
    pub openmetrics: bool,
    /// Write what clients did with the audited keys of a trial, for another checker of histories
    #[arg(long, value_name = "FORMAT")]
    pub history: Option<HistoryFormat>,
    /// Trial of --history, such as 001; needed if there are several
    #[arg(long, value_name = "ID", requires = "history")]
    pub trial: Option<String>,
    /// Key of --history, as SPACE/KEY, or KEY without a space; default: all keys
    #[arg(long, value_name = "KEY", requires = "history")]
    pub key: Option<String>,
    /// Write into this file instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Formats of histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HistoryFormat {
    /// Events in edn, as Jepsen and Knossos read them
    Jepsen,
    /// Transactions in edn, for Elle's model rw-register
    Elle,
    /// Events of one key, as Porcupine's tests for etcd read them
    Porcupine,
}

#[derive(Debug, Args)]
pub struct AuditedHistory {
    /// The history, or `-` for the standard input
    pub file: PathBuf,
    /// Value of each register before its first operation [default: none]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub initial: Option<String>,
    /// Let values leave a queue in any order
    #[arg(long)]
    pub any_order: bool,
}

#[derive(Debug, Args)]
pub struct Folder {
    /// A run folder
    pub folder: PathBuf,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Also judge what this experiment needs
    #[arg(value_name = "EXPERIMENT")]
    pub file: Option<PathBuf>,
    /// Override a value of the file, such as load.agents=5000
    #[arg(long = "set", value_name = "PATH=VALUE", requires = "file")]
    pub sets: Vec<String>,
    /// Make the changes that a running kernel allows; each is shown first, and can be undone
    #[arg(long)]
    pub fix: bool,
    /// Undo the changes that --fix made
    #[arg(long, conflicts_with_all = ["fix", "file"])]
    pub undo: bool,
    /// Directory for run folders; the doctor checks its disk
    #[arg(long, value_name = "DIR", default_value = OUT)]
    pub out: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Exit 5 if anything is bad
    #[arg(long)]
    pub strict: bool,
    /// Check a recorded machine instead of this one
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

#[derive(Debug, Args)]
pub struct Selfcheck {
    /// Directory for the runs and the page `selfcheck.html` (with --statistics `statistics.json`)
    #[arg(long, value_name = "DIR", default_value = CHECKS)]
    pub out: PathBuf,
    /// Check the statistics on simulated runs instead of this machine: how often intervals hold the
    /// truth, and how often tests and recovery times are wrong; at most five minutes on two cores
    #[arg(long, conflicts_with = "misinformed")]
    pub statistics: bool,
    /// Play ten rounds, with more parts: about half an hour; with --statistics five times as many
    /// runs
    #[arg(long)]
    pub long: bool,
    /// Play only this part; may be repeated
    #[arg(long = "part", value_name = "NAME", value_parser = PossibleValuesParser::new(selfcheck::names()))]
    pub parts: Vec<String>,
    /// Seed of the planted truths, to repeat a check [default: from the clock, with --statistics 1]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Write the table as Markdown into this file
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Print selfcheck.json (with --statistics statistics.json) instead of the table
    #[arg(long)]
    pub json: bool,
    /// Plain progress lines, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Factor of all lengths and of the numbers of simulated runs, for tests
    #[arg(long, default_value_t = 1.0, hide = true)]
    pub scale: f64,
    /// Compare the measurements with wrong truths, for tests
    #[arg(long, hide = true)]
    pub misinformed: bool,
}

#[derive(Debug, Args)]
pub struct New {
    /// URL of a running service, or name of a target; with grpc:// the file has a step for each
    /// method, or for those of grpc://HOST:PORT/package.Service [default: the echo target]
    pub target: Option<String>,
    /// File of another tool to make an experiment from, or `-` for the standard input: curl
    /// commands, HAR, OpenAPI, a Postman collection, targets of vegeta, or an access log, which
    /// needs --out
    #[arg(long, value_name = "FILE", conflicts_with = "target")]
    pub from: Option<PathBuf>,
    /// Format of the file [default: detected from the content]
    #[arg(long, value_name = "NAME", requires = "from", value_parser = PossibleValuesParser::new(import::formats::KINDS.iter().map(|format| format.name)))]
    pub format: Option<String>,
    /// Write the experiment into this file, which must not exist [default: the standard output]
    #[arg(long, value_name = "FILE", requires = "from")]
    pub out: Option<PathBuf>,
    /// gRPC: a .proto file or descriptors with the methods, instead of the server's reflection; may
    /// be repeated
    #[arg(long, value_name = "FILE", requires = "target")]
    pub proto: Vec<String>,
    #[command(flatten)]
    pub tls: TlsWords,
}

/// Options for TLS.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsWords {
    /// TLS: trust only the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// TLS: accept any certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// TLS: the client's own certificate, a PEM file, for a server that asks for one
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// TLS: the private key of --cert, a PEM file [default: the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// TLS: the server name to send (SNI) and to verify, if it is not the URL's host
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
}

impl TlsWords {
    /// Returns the options that are given, as `--cacert and --cert`; `None` without any.
    pub fn given(&self) -> Option<String> {
        let given = [
            (self.cacert.is_some(), "--cacert"),
            (self.insecure, "--insecure"),
            (self.server_name.is_some(), "--server-name"),
            (self.cert.is_some(), "--cert"),
        ];
        let given: Vec<&str> = given.iter().filter(|(is_given, _)| *is_given).map(|(_, option)| *option).collect();
        (!given.is_empty()).then(|| given.join(" and "))
    }
}

#[derive(Debug, Args)]
pub struct Named {
    /// Name of the entry to show
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct Profile {
    #[command(subcommand)]
    pub command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Print a profile of this machine, or of one that is reached over ssh
    Measure {
        /// ssh://user@address [default: this machine]
        host: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct Install {
    /// Name of the target
    #[arg(required_unless_present = "lab")]
    pub target: Option<String>,
    /// Install what the target needs with this parameter, such as serial=true; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "target")]
    pub with: Vec<String>,
    /// Install the tools that make and measure virtual hosts
    #[arg(long)]
    pub lab: bool,
    /// Print what would be done, and do nothing; exit 5 if there is anything to do
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, Args)]
pub struct Schema {
    /// Schema to print
    pub of: SchemaOf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum SchemaOf {
    /// Experiment files
    Experiment,
    /// analysis.json
    Results,
    /// Output of `compare --json`
    Comparison,
}

#[derive(Debug, Args)]
pub struct Completions {
    /// Shell to print the script for
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Man {
    /// Write a page for each command into this directory instead, as for a package
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Echo {
    /// Address and port to listen on
    #[arg(long)]
    pub listen: SocketAddr,
    /// Protocol to speak
    #[arg(long, default_value = "http")]
    pub protocol: EchoProtocol,
    /// Delay of each answer, seconds
    #[arg(long, default_value_t = 0.0)]
    pub delay: f64,
    /// Requests served at the same time, each for the delay; 0: all at once
    #[arg(long, default_value_t = 0)]
    pub workers: u32,
    /// CPU work for each request, in rounds of arithmetic of about 1 ns
    #[arg(long, default_value_t = 0)]
    pub work: u64,
    /// Length of each stall, seconds
    #[arg(long, default_value_t = 0.0)]
    pub stall: f64,
    /// Seconds from one stall to the next
    #[arg(long, default_value_t = 0.0)]
    pub stall_every: f64,
    /// Length of each period in which answers are errors, seconds
    #[arg(long, default_value_t = 0.0)]
    pub errors_for: f64,
    /// Seconds from one error period to the next
    #[arg(long, default_value_t = 0.0)]
    pub errors_every: f64,
    /// Status of an error answer
    #[arg(long, default_value_t = 503)]
    pub error_status: u16,
    /// Length of an answer's body
    #[arg(long, default_value_t = 14)]
    pub body_bytes: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum EchoProtocol {
    /// HTTP/1.1
    Http,
    /// Frames of the target vsns
    Vsns,
}

#[derive(Debug, Args)]
pub struct Runner {
    /// Second start of the runner, inside the host that the first start made
    #[arg(long)]
    pub inside: bool,
}

/// Text below the help of `plimsoll hit`.
pub const EXAMPLES: &str = "Examples:
  plimsoll hit http://localhost:8080/
  plimsoll hit http://localhost:8080/ -c 256 -t 30s
  plimsoll hit http://localhost:8080/ -n 10000
  plimsoll hit http://localhost:8080/ --debug
  plimsoll hit http://localhost:8080/ --rate 2000 --report page.html
  plimsoll hit http://localhost:8080/items -d @item.json -H 'Content-Type: application/json' --expect status=201
  plimsoll hit https://localhost:8443/items --cacert ca.pem --expect body/items/0/id=7
  plimsoll hit http://localhost:8080/ --print > hit.toml && plimsoll run hit.toml
  plimsoll hit -c 8 -- curl -X PUT -H 'Content-Type: application/json' -d @item.json http://localhost:8080/items/7

Every request counts, unless --warmup leaves out a warm-up. A request fails if its status is 400 or more, and an answer
is wrong if it contradicts --expect; redirects are not followed under load. Latency counts from the time when a request
was due: with --rate this is its time in the schedule, even if it was sent later. docs/coming-from.md
translates the options of wrk, hey, oha, k6, ab and vegeta.";

#[derive(Debug, Clone, Args)]
pub struct Hit {
    /// URL to load, such as http://localhost:8080/
    #[arg(required_unless_present = "curl", default_value = "", hide_default_value = true)]
    pub url: String,
    /// Agents (concurrent clients), each with a connection and one request at a time
    #[arg(
        short = 'c',
        long,
        visible_alias = "connections",
        value_name = "N",
        default_value_t = 64,
        value_parser = agents
    )]
    pub agents: u32,
    /// Duration of the load, such as 500ms, 10s or 2m [default: 10s]
    #[arg(short, long, value_name = "DURATION")]
    pub time: Option<String>,
    /// Requests per second in total, sent whether or not answers come (open loop); without it
    /// agents wait for answers
    #[arg(short, long, value_name = "N", value_parser = in_thousands)]
    pub rate: Option<f64>,
    /// Send the requests of --rate at random times (a Poisson process), as from many independent
    /// users
    #[arg(long)]
    pub poisson: bool,
    /// Total number of requests, such as 10000 or 10k; --time still bounds the load, which may take
    /// 10 minutes without it
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub requests: Option<u64>,
    /// HTTP method, also one such as PROPFIND [default: GET, or POST with a body]; of WebSocket
    /// send, post or receive [default: receive, or send with a message]
    #[arg(short, long, value_name = "METHOD")]
    pub method: Option<String>,
    /// A header of the request, 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER", allow_hyphen_values = true)]
    pub headers: Vec<String>,
    /// The request's body, or @FILE; the message of gRPC, as JSON, and of WebSocket
    #[arg(short = 'd', long = "data", value_name = "BODY", allow_hyphen_values = true)]
    pub body: Option<String>,
    /// Name of a header, or body: a value to keep out of all records, as credentials always are;
    /// may be repeated
    #[arg(long = "secret", value_name = "NAME")]
    pub secrets: Vec<String>,
    /// The expected answer: status=200, header.content-type=text/html, body=ok, or in JSON
    /// body/items/0/id=7; may be repeated
    #[arg(long = "expect", value_name = "FIELD=VALUE")]
    pub expects: Vec<String>,
    /// Read each answer as a stream of Server-Sent Events: to its end, or to the event with a text,
    /// as in --stream='[DONE]'
    #[arg(long, value_name = "TEXT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub stream: Option<String>,
    /// Record the time to the first byte of each answer
    #[arg(long, visible_alias = "ttfb")]
    pub first_byte: bool,
    /// Open a connection for each request; latency includes connecting
    #[arg(long, visible_alias = "disable-keepalive")]
    pub no_keep_alive: bool,
    /// Agents that share a connection, each with one request in flight [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub pipeline: Option<u32>,
    /// Use HTTP/2: with TLS for an https URL, with prior knowledge for an http URL; --pipeline is
    /// the number of streams on each connection
    #[arg(long, conflicts_with_all = ["h2c", "unix_socket"])]
    pub http2: bool,
    /// Use HTTP/2 with prior knowledge, without TLS
    #[arg(long, conflicts_with_all = ["unix_socket", "proxy"])]
    pub h2c: bool,
    #[command(flatten)]
    pub tls: TlsWords,
    /// Follow redirects once, before the load, and load the URL that they lead to; redirects under
    /// load are not followed
    #[arg(short = 'L', long, conflicts_with = "templates")]
    pub location: bool,
    /// Connect to this socket in the file system instead of the URL's host
    #[arg(long, value_name = "PATH", conflicts_with_all = ["location", "proxy"])]
    pub unix_socket: Option<String>,
    /// Use this forward proxy, such as http://localhost:3128; an https URL is reached through a
    /// tunnel (CONNECT)
    #[arg(short = 'x', long, value_name = "URL", conflicts_with = "location")]
    pub proxy: Option<String>,
    /// Timeout of each request [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// Warm-up, which is left out of the results: a duration, or auto
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub warmup: String,
    /// Generator threads [default: one for every two cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// Make the load in N processes; agents and rate are totals over all of them [default: this
    /// one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "threads")]
    pub generators: Option<u32>,
    /// Location of the generators: local, ssh=HOST,HOST,…, kubernetes[=NAMESPACE[,IMAGE]],
    /// slurm[=PARTITION] or command=PROGRAM ARGUMENTS [default: local]
    #[arg(long, value_name = "PLACE", requires = "generators")]
    pub by: Option<String>,
    /// Seed of all random values [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u32>,
    /// gRPC: a .proto file or descriptors with the method's messages, instead of the server's
    /// reflection; may be repeated
    #[arg(long, value_name = "FILE")]
    pub proto: Vec<String>,
    /// WebSocket: the answer has the same value as the message at this JSON pointer, such as /id
    /// [default: the next message is the answer]
    #[arg(long = "match", value_name = "POINTER", requires = "body")]
    pub match_at: Option<String>,
    /// Replace placeholders in URL, headers, body and expectations, such as {seq} or {env:TOKEN}
    #[arg(long)]
    pub templates: bool,
    /// Send one request, print it with its answer, and exit
    #[arg(long, conflicts_with_all = ["print", "templates", "report", "out", "json"])]
    pub debug: bool,
    /// Print the same load as an experiment file, and exit
    #[arg(long)]
    pub print: bool,
    /// Write the page with charts into this file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Keep the run folder in this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print analysis.json instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Plain progress lines, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Exit 0 even if the result is void; the verdict stays
    #[arg(long)]
    pub accept: bool,
    /// A curl command instead of the URL: hit -c 8 -- curl -X PUT -d @item.json http://localhost/
    #[arg(last = true, value_name = "CURL COMMAND", conflicts_with_all = ["url", "method", "headers", "body"])]
    pub curl: Vec<String>,
}

/// Parses a number that may have the suffix `k` (thousands) or `M` (millions): `10k`, `1.5M`.
fn in_thousands(text: &str) -> Result<f64, String> {
    let (number, factor) = match (text.strip_suffix('k'), text.strip_suffix('M')) {
        (Some(number), _) => (number, 1e3),
        (_, Some(number)) => (number, 1e6),
        _ => (text, 1.0),
    };
    number.parse().map(|number: f64| number * factor).map_err(|_| "expected a number such as 500 or 10k".to_owned())
}

/// Parses a whole number of at least 1, which may have the suffix `k` or `M`.
fn count(text: &str) -> Result<u64, String> {
    let number = in_thousands(text)?;
    let is_count = number >= 1.0 && number.fract() == 0.0 && number <= 1e15;
    if is_count { Ok(number as u64) } else { Err("expected a whole number above 0".to_owned()) }
}

fn agents(text: &str) -> Result<u32, String> {
    count(text).and_then(|agents| u32::try_from(agents).map_err(|_| "expected at most 4294967295".to_owned()))
}
