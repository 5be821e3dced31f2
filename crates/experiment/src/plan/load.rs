//! `[load]` of a trial, with every default filled in: operations, rate and connections.

use core::net::IpAddr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::keys::section;
use crate::plan::agent_stages::{self, AGENT_STAGE, AgentStage};
use crate::plan::check_context::{CheckContext, PortNames};
use crate::plan::load_group;
use crate::plan::operation::{self, Scope, Step};
use crate::plan::parallel;
use crate::plan::pause::{self, Pause, THINK};
use crate::plan::prepare;
use crate::plan::rate::{self, DRAWN, Rate, STAGE};
use crate::plan::redirects::{self, FOLLOW};
use crate::plan::site::{self, SITE, Site};
use crate::plan::step_keys::{CYCLE, MIX, START};
use crate::plan::target::Tls;
use crate::problem::Problem;
use crate::section::Section;
use crate::template;
use crate::tier;
use crate::tree::{Node, TextSpan};

/// Returns the names of the feeds, for the templates of all sections.
pub(super) fn feed_names(root: &Section<'_>) -> Vec<String> {
    let feeds = root.section("load").map(|load| load.sections("feed")).unwrap_or_default();
    feeds.iter().filter_map(|feed| feed.text("name")).map(ToOwned::to_owned).collect()
}

section! {
    /// `[load]`, with every default filled in. Durations are seconds.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Load = LOAD {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        => name: Option<String> = |load| load.text("name").map(ToOwned::to_owned),
            "Name of a group; none if the load has no groups";
        agents = (unless group): Either(
            &[COUNT, Tables(AGENT_STAGE)],
            "a number such as 50, or stages in a closed loop: [{ to = 50, over = \"1m\" }, { at = 50, for = \"3m\" }]",
        ) => agents: u32 = agent_stages::most,
            "Virtual users",
            ["vus", "users", "clients", "connections", "concurrency", "workers", "stages"];
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        => agent_stages: Vec<AgentStage> = |_| Vec::new(),
            "Stages in which agents come and go; `agents` is the largest number then";
        #[serde(default = "one", skip_serializing_if = "is_one")]
        copies = "1": COUNT => u32,
            "Copies of the whole load that are played side by side, each with all its agents, or those of each group; \
             {copy} is the number of an agent's copy, from 1", ["races"];
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        from: TEXTS => Vec<IpAddr>,
            "Local addresses that agents connect from in turn, [\"10.0.0.5\", …]; default: the kernel's choice, and on \
             the loopback several of 127.0.0.0/8 if one has too few ports",
            ["source", "sources", "bind", "local_addr", "local_ips", "localIPs"];
        ramp = "0s": PAUSE => ramp_s: f64,
            "Time over which the agents start, evenly; part of `time`", ["ramp_up", "rampup", "rampUp"];
        time = required: TIME => time_s: f64,
            "Time from load start to the last new operation", ["duration", "for", "length"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Whole { min: 1, max: i64::MAX } => Option<u64>,
            "Closed loop: total number of cycles, after which the load ends; `time` still limits it",
            ["requests", "total"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iterations: Whole { min: 1, max: i64::MAX } => Option<u64>,
            "Closed loop: number of cycles of each agent, after which it is done; `time` still limits it",
            ["cycles", "loops", "loop_count"];
        timeout = "10s": TIME => timeout_s: f64, "Timeout of each attempt";
        drain = "5s": PAUSE => drain_s: f64,
            "Time for open operations to end; those still open then are `unfinished`, and in no rate",
            ["graceful_stop", "gracefulStop"];
        think = "0s": THINK => think_s: f64,
            "An agent's pause between operations; not with a `rate` of operations", ["pause", "sleep", "think_time", "pacing"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        => think: Option<Pause> = |load| Pause::read(load).filter(|pause| !matches!(pause, Pause::Fixed(_))),
            "Drawn pauses between operations; `think_s` is 0 then";
        #[serde(default)]
        think_spread_pct = "0": Number => f64,
            "Range around `think`, ± percent, from which each pause is drawn evenly, as people do not think in step",
            ["jitter"];
        warmup = "auto": Either(&[Choice(&["auto"]), PAUSE], "\"auto\", or a duration such as \"10s\"")
            => warmup: Warmup = |load| load.number("warmup").map_or(Warmup::Auto, Warmup::Seconds),
            "Time cut off before rates are taken; \"auto\" detects the steady state", ["warm_up", "warmup_time"];
        retry = "fail-fast": Either(
            &[Choice(&["fail-fast", "wait"]), Table(RETRY)],
            "\"fail-fast\", \"wait\", { wait = \"50ms\" } or { tries = 3, wait = \"50ms\" }",
        ) => retry: Retry = read_retry,
            "Retries after a failed attempt; \"wait\" means { wait = \"50ms\" }", ["retries"];
        when_failed = "go on": Choice(&["go on", "next cycle"]),
            "Continuation after a wrong answer: the rest of the cycle, or the next one; after a failure or timeout \
             always the next", ["on_failure", "on_error", "abort_on_fail"];
        reconnect = "100ms": PAUSE => reconnect_s: f64,
            "An agent's pause after a failed connect, so that a dead target is not flooded";
        ..RECONNECTS: reconnect_delay, reconnect_spread_pct, failover;
        #[serde(default, skip_serializing_if = "Reconnects::is_default")]
        => reconnects: Reconnects = Reconnects::read,
            "When and where agents reconnect after they lost their connection";
        ..CONNECTIONS: keep_alive, pipeline;
        #[serde(default, skip_serializing_if = "Connections::is_default")]
        => connections: Connections = Connections::read, "How agents share and keep connections";
        rate: Either(
            &[Positive, Table(DRAWN), Tables(STAGE)],
            "operations/s such as 5000, { poisson = 5000 }, { replay = \"starts.csv\" }, stages: \
             [{ to = 1000, over = \"10s\" }, { at = 1000, for = \"30s\" }], or sessions/s: { sessions = 40 }",
        ) => rate: Option<Rate> = |_| None,
            "Total operations/s, or sessions/s, in an open loop; default: closed loop",
            ["rps", "qps", "throughput", "arrival_rate", "arrivals"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backlog: Whole { min: 0, max: u32::MAX as i64 } => backlog: Option<Backlog> = read_backlog,
            "Open loop: limit of operations, or sessions, that are due but not begun, over all agents; default: no limit",
            ["max_backlog", "queue"];
        overflow = "drop": Choice(&["drop", "stop"]),
            "If an operation or session is due while `backlog` is full: drop and count it, or stop the load",
            ["when_full"];
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stop_at_violation = "false": Boolean => bool,
            "Whether audited keys are also checked while the load runs, and the load ends when a key is not linearizable",
            ["stop_on_violation", "stop_at_first_violation"];
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cookies = "false": Boolean => bool,
            "Whether each session has a cookie jar: it sends the cookies that its answers have set (RFC 6265); a cycle is a \
             session", ["cookie_jar", "cookiejar"];
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        sites: Map(&Either(
            &[Text, Table(SITE)],
            "a URL such as \"http://127.0.0.1:9001\", or { url = \"https://…\", tls = { ca = \"ca.pem\" } }",
        )) => sites: BTreeMap<String, Site> = site::read,
            "Other servers that steps may go to, by the name in `site` of a step, such as a login service", ["servers"];
        #[serde(default, skip_serializing_if = "redirects::is_none")]
        follow = "false": FOLLOW => follow: u32 = |load| redirects::read(load).unwrap_or(0),
            "Whether steps follow redirects: true (at most 10 in a row), or their largest number in a row; not to other hosts",
            ["redirects", "follow_redirects", "allow_redirects", "max_redirects", "location"];
        threads: Whole { min: 1, max: 1024 } => Option<u32>,
            "Generator threads; default: one for every two cores";
        => order: StepOrder = order, "Order in which an agent goes through `steps`";
        #[serde(default)]
        => when_failed: WhenFailed = |load| load.get("when_failed").unwrap_or_default(),
            "Continuation of a cycle after a wrong answer";
        => steps: Vec<Step>, "Operations";
        on_start: Tables(START),
            "Operations that each agent does once, before its cycles; their slots last for all its cycles",
            ["onStart", "setup", "before", "login"];
        cycle: Tables(CYCLE), "Operations, done in this order, again and again", ["steps", "operations"];
        mix: Tables(MIX), "Operations or sequences of operations, chosen at random by `weight`; each is a cycle", ["weighted"];
        feed: Tables(FEED) => feeds: Vec<Feed> = |load| load.sections("feed").iter().map(Feed::read).collect(),
            "Files with values for templates", ["feeds", "data"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        script: Text => Option<String>,
            "File of Luau functions for {lua.NAME} and { lua = \"NAME\" }, relative to the experiment";
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        proto: TEXTS => Vec<String>,
            "gRPC: files that describe the methods and messages, [\"shop.proto\", …] or the output of `protoc \
             --descriptor_set_out`, relative to the experiment; default: the target is asked by server reflection",
            ["protos", "protoset", "proto_files", "descriptors"];
        /// Groups of agents. With groups, `agents` and `ramp` cover all groups, and the load itself
        /// has no steps.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        => groups: Vec<Load> = |_| Vec::new(), "Groups, each as the load it would be alone";
    }
}

section! {
    /// `[[load.feed]]`: records of a file; `{feed.NAME.COLUMN}` in templates.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Feed = FEED {
        name = required: Name => String, "Name in templates: {feed.NAME.COLUMN}";
        file = required: Text => String,
            "CSV file with a header line, or JSON lines (.json, .jsonl, .ndjson); also packed: .gz, .zst, .bz2; \
             relative to the experiment";
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delimiter: Text => Option<String>,
            "CSV: character between two columns, such as \";\" or \"\\t\"; default: \",\"", ["separator", "sep"];
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        columns: TEXTS => Vec<String>,
            "CSV without a header line: names of the columns", ["variable_names", "variableNames", "fieldnames"];
        order = "sequential": Choice(&["sequential", "random"])
            => random: bool = |feed| feed.text("order") == Some("random"), "Order in which cycles take records";
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stream = "false": Boolean => bool,
            "Whether it is read during the load, and never all in memory; false: read completely before the load";
        #[serde(default = "one", skip_serializing_if = "is_one")]
        batch = "1": Whole { min: 1, max: 1_000_000 } => u32,
            "Stream of JSON lines: number of records at a time, in {feed.NAME.lines}", ["bulk_size", "bulk"];
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Text => Option<String>,
            "Stream of JSON lines: line to put before each record in {feed.NAME.lines}", ["action"];
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        at_end = "again": Choice(&["again", "stop"]) => ends: bool = |feed| feed.text("at_end") == Some("stop"),
            "After a stream's last record: begin again with the first, or end all agents that need one";
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Text => Option<String>,
            "Stream: storage tier whose limits slow the reading; default: as fast as the disk allows";
        #[serde(default, skip_serializing_if = "FeedLimits::is_none")]
        => limits: FeedLimits = |_| FeedLimits::default(), "Limits of that tier's device";
    }
}

pub(super) fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(super) fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Limits on reading a feed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FeedLimits {
    /// Reads per second. A read is up to 128 KiB, the kernel's read-ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<f64>,
    /// Bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<f64>,
}

impl FeedLimits {
    /// Whether there are no limits.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the time to read this many bytes in sequence, in seconds.
    #[must_use]
    pub fn time_s(&self, bytes: usize) -> f64 {
        let by_rate = self.read_bytes_per_s.map_or(0.0, |per_s| bytes as f64 / per_s);
        by_rate.max(self.read_iops.map_or(0.0, |per_s| bytes as f64 / READ_AHEAD_BYTES / per_s))
    }

    /// Scales the limits to a lab of this speed.
    pub(super) fn slow(&mut self, speed: f64) {
        for limit in [&mut self.read_iops, &mut self.read_bytes_per_s].into_iter().flatten() {
            *limit *= speed;
        }
    }
}

/// Bytes that the kernel reads ahead in a file that is read sequentially.
const READ_AHEAD_BYTES: f64 = 131_072.0;

/// Applies the limits of their tiers to the feeds of a load.
pub(super) fn limit_feeds(root: &Section<'_>, load: &mut Load, context: &mut CheckContext<'_>) {
    let Some(section) = root.section("load") else { return };
    let lab = root.section("lab");
    for (feed, section) in load.feeds.iter_mut().zip(section.sections("feed")) {
        let Some(name) = &feed.tier else { continue };
        let tier = tier::of_feed(name, lab.as_ref(), section.place("tier"), &mut context.problems);
        feed.limits = tier.map_or_else(FeedLimits::default, |tier| FeedLimits {
            read_iops: tier.limits.read_iops,
            read_bytes_per_s: tier.limits.read_bytes_per_s,
        });
    }
    let Load { feeds, groups, .. } = load;
    groups.iter_mut().for_each(|group| group.feeds.clone_from(feeds));
}

/// Format of a feed's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedFormat {
    /// CSV with a header line.
    Csv,
    /// One JSON object per line.
    JsonLines,
}

/// Compression of a feed's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedPacking {
    /// Uncompressed.
    Plain,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
    /// bzip2.
    Bzip2,
}

impl Feed {
    /// Returns the byte between two columns of a CSV file.
    #[must_use]
    pub fn delimiter_byte(&self) -> u8 {
        self.delimiter.as_ref().and_then(|text| text.bytes().next()).unwrap_or(b',')
    }

    /// Returns the feed's format and compression, by the endings of its file name. Other endings
    /// mean CSV, not compressed.
    #[must_use]
    pub fn format(&self) -> (FeedFormat, FeedPacking) {
        let packings = [(".gz", FeedPacking::Gzip), (".zst", FeedPacking::Zstd), (".bz2", FeedPacking::Bzip2)];
        let packed = packings.into_iter().find_map(|(end, packing)| Some((self.file.strip_suffix(end)?, packing)));
        let (file, packing) = packed.unwrap_or((&self.file, FeedPacking::Plain));
        let is_json = [".json", ".jsonl", ".ndjson"].iter().any(|end| file.ends_with(end));
        (if is_json { FeedFormat::JsonLines } else { FeedFormat::Csv }, packing)
    }
}

section! {
    const RETRY {
        tries: COUNT, "Attempts in all; default: until one succeeds or the drain ends";
        wait = "50ms": PAUSE, "Pause between attempts";
    }
}

section! {
    /// Sharing and keeping of connections.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Connections = CONNECTIONS {
        keep_alive = "true": Boolean => bool,
            "Whether connections are kept between operations; false: each operation makes one, as part of its latency",
            ["keepalive", "no_connection_reuse", "disable_keepalive"];
        // A deeper pipeline reveals nothing more about a server, and one broken connection would
        // fail all its operations.
        pipeline = "1": Whole { min: 1, max: 1024 } => u32,
            "Number of agents that share a connection, each with an operation in flight, answered in order",
            ["pipelining", "depth"];
    }
}

section! {
    /// Times and addresses at which agents reconnect.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Reconnects = RECONNECTS {
        reconnect_delay = "0s": PAUSE => delay_s: f64,
            "Time that an agent makes no new connection after the target cut its connection in mid-operation; its \
             operations fail meanwhile, one every `reconnect`", ["reconnect_backoff", "backoff"];
        reconnect_spread_pct = "0": Number => spread_pct: f64,
            "Range around `reconnect` and `reconnect_delay`, ± percent, from which each is drawn evenly, so that \
             agents do not reconnect in step";
        failover = "none": Choice(&["none", "next"]) => Failover,
            "Member that an agent tries after a failed connect, or after two timeouts in a row without a byte: the same \
             again, or the next in the list, in a circle; it stays where it succeeds", ["redispatch", "fallback"];
    }
}

/// Order in which an agent plays its steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepOrder {
    /// `[[load.cycle]]`: the steps in file order, again and again.
    #[default]
    Cycle,
    /// `[[load.mix]]`: a random step by weight. Each step is a cycle.
    Mix,
}

/// Treatment of the rest of a cycle after an operation that is not `ok`. A failed or
/// timed-out operation always ends its cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenFailed {
    /// A wrong answer does not end the cycle. The cycle is complete when its last operation is.
    #[default]
    #[serde(rename = "go on")]
    GoOn,
    /// Any outcome but `ok` ends the cycle. The cycle counts only if every operation was `ok`.
    #[serde(rename = "next cycle")]
    NextCycle,
}

/// Address to which an agent connects when it cannot connect to its member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Failover {
    /// The same member again.
    #[default]
    None,
    /// The next member in the list, after the last one the first. The agent stays with the member
    /// that it reaches.
    Next,
}

/// Part of the load that is cut off before results are taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warmup {
    /// The time until steady state, which is detected.
    Auto,
    /// A fixed time from load start, in seconds.
    Seconds(f64),
}

/// An agent's reaction to an attempt that fails or times out: the three designs of the name-service
/// article.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "kebab-case")]
pub enum Retry {
    /// The first failure is the operation's outcome.
    FailFast,
    /// Tries again until it works or the drain ends.
    Wait {
        /// Pause between attempts.
        wait_s: f64,
    },
    /// Tries a limited number of times.
    Tries {
        /// Attempts in all.
        tries: u32,
        /// Pause between attempts.
        wait_s: f64,
    },
}

/// Reads the section. Problems are reported. A wrong value becomes 0 in the load, which is not used
/// then.
pub(super) fn read(section: &Section<'_>, context: &mut CheckContext<'_>) -> Load {
    check_from(section, context);
    check_failover(section, context);
    check_feeds(section, context);
    check_cookies(section, context);
    site::check(section, context);
    redirects::check(section, context);
    for group in section.sections("group") {
        check_cookies(&group, context);
        redirects::check(&group, context);
    }
    if section.has("group") { load_group::read(section, context) } else { read_population(section, context) }
}

/// Reads a load without groups, or one group as a load.
pub(super) fn read_population(section: &Section<'_>, context: &mut CheckContext<'_>) -> Load {
    times(section, context);
    pause::check(section, context);
    check_count(section, context);
    check_order(section, context);
    check_overflow(section, context);
    let mut slots = context.prepared.clone();
    let once = sequence(section.place("on_start"), &section.sections("on_start"), &mut slots, context);
    let steps = match order(section) {
        StepOrder::Cycle => sequence(section.place("cycle"), &section.sections("cycle"), &mut slots, context),
        StepOrder::Mix => mix(section, &slots, context),
    };
    let steps = once.into_iter().map(|step| Step { once: true, ..step }).chain(steps).collect();
    let rate = rate::read(section, context).or(section.has("rate").then_some(Rate::Constant(0.0)));
    let agent_stages = agent_stages::read(section, context);
    let mut load = Load { rate, steps, agent_stages, ..Load::read(section) };
    load.agents = load.agents.saturating_mul(load.copies);
    for agents in load.agent_stages.iter_mut().flat_map(|stage| [&mut stage.from, &mut stage.to]) {
        *agents = agents.saturating_mul(load.copies);
    }
    for conflict in load.conflicts() {
        let place = match section.node(conflict.key) {
            Some(node) => &node.place,
            None => place_in_steps(section, conflict.key).unwrap_or(section.place),
        };
        let problem = Problem::new(place, conflict.what).expected(conflict.why).hint(conflict.hint);
        context.problems.push(match conflict.with {
            Some((key, what)) => problem.related(section.place(key), what),
            None => problem,
        });
    }
    load
}

/// Returns the place of the key in the first step that has it.
fn place_in_steps<'a>(section: &Section<'a>, key: &str) -> Option<&'a TextSpan> {
    step_sections(section).into_iter().find_map(|step| step.node(key)).map(|node| &node.place)
}

/// Returns the sections of all steps of a load or a group.
pub(super) fn step_sections<'a>(section: &Section<'a>) -> Vec<Section<'a>> {
    let entries = ["on_start", "cycle", "mix"].into_iter().flat_map(|key| section.sections(key));
    let below = |entry: Section<'a>, key| if entry.has(key) { entry.sections(key) } else { vec![entry] };
    let steps = entries.flat_map(|entry| below(entry, "steps"));
    steps
        .flat_map(
            |step| if step.has("parallel") { [vec![step], step.sections("parallel")].concat() } else { vec![step] },
        )
        .collect()
}

impl Load {
    /// Returns the groups, or the load itself if it has none.
    #[must_use]
    pub fn populations(&self) -> &[Self] {
        if self.groups.is_empty() { std::slice::from_ref(self) } else { &self.groups }
    }

    /// Returns the files that the load names, as written there, without duplicates.
    #[must_use]
    pub fn files(&self) -> Vec<String> {
        let mut files: Vec<&str> = self.feeds.iter().map(|feed| feed.file.as_str()).collect();
        for population in self.populations() {
            files.extend(population.script.as_deref());
            files.extend(population.rate.as_ref().and_then(Rate::recorded));
        }
        files.extend(self.script.as_deref());
        files.extend(self.proto.iter().map(String::as_str));
        files.extend(self.sites.values().filter_map(|site| site.tls.as_ref()).flat_map(Tls::files));
        let mut files: Vec<String> = files.into_iter().map(str::to_owned).collect();
        for step in self.all_steps().filter_map(|step| serde_json::to_value(step).ok()) {
            template::visit_parts(&step, &mut |part| files.extend(part.file().map(str::to_owned)));
        }
        files.sort_unstable();
        files.dedup();
        files
    }

    /// Returns the sequences of steps that are a cycle each: all steps, or the entries of a mix.
    pub fn sequences(&self) -> impl Iterator<Item = &[Step]> {
        let is_mix = self.order == StepOrder::Mix;
        self.steps[self.steps_on_start()..].chunk_by(move |_, next| !is_mix || next.follows)
    }

    /// Returns the number of steps that each agent does once. They come first.
    #[must_use]
    pub fn steps_on_start(&self) -> usize {
        self.steps.iter().take_while(|step| step.once).count()
    }

    /// Returns the operations of all populations.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.populations().iter().flat_map(|population| &population.steps)
    }

    /// Whether the load ends after a number of cycles.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.populations().iter().any(|population| population.count.is_some() || population.iterations.is_some())
    }

    /// Whether the load has an open loop: operations that start on a schedule.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.populations().iter().any(|population| population.rate.is_some())
    }

    /// Returns the mean operations/s that the load starts, if it has a rate that is the same at all
    /// times. A session has all steps of its cycle.
    #[must_use]
    pub fn operations_per_s(&self) -> Option<f64> {
        let rate = self.rate.as_ref()?;
        let each = if rate.is_of_sessions() { self.operations_per_cycle() } else { 1.0 };
        Some(rate.per_s()? * each)
    }

    /// Returns the mean number of operations in a cycle that does not break.
    #[must_use]
    pub fn operations_per_cycle(&self) -> f64 {
        let mut weights = 0.0;
        let each = self.sequences().map(|steps| {
            let weight = steps.first().map_or(1.0, |step| f64::from(step.weight.max(1)));
            weights += weight;
            weight * steps.iter().map(Step::times_per_cycle).sum::<f64>()
        });
        let all: f64 = each.sum();
        all / f64::max(weights, 1.0)
    }

    /// Whether a schedule or a pause decides when operations start, and not only the end of the
    /// operation before.
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.is_open() || self.populations().iter().any(Self::has_pauses)
    }

    /// Whether agents without groups pause between operations.
    #[must_use]
    pub fn has_pauses(&self) -> bool {
        let drawn = self.think.iter().chain(self.steps.iter().filter_map(|step| step.think.as_ref()));
        self.think_s > 0.0 || drawn.into_iter().any(|pause| !pause.is_none())
    }

    /// Returns the pause after the step: its own, or that of the load. The load's
    /// `think_spread_pct` is left out.
    #[must_use]
    pub fn pause_after(&self, step: &Step) -> Pause {
        step.think.or(self.think).unwrap_or(Pause::Fixed(self.think_s))
    }

    /// Whether an offered rate or the number of agents changes during the load, by plan.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.changes_rate() || self.changes_agents()
    }

    /// Whether an offered rate changes during the load.
    #[must_use]
    pub fn changes_rate(&self) -> bool {
        self.populations().iter().filter_map(|population| population.rate.as_ref()).any(|rate| rate.per_s().is_none())
    }
}

impl Step {
    /// Whether the step is done in each cycle that `every` gives it.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.probability_pct.is_none_or(|pct| pct >= 100.0)
    }

    /// Returns the mean number of times that a cycle does the step.
    #[must_use]
    pub fn times_per_cycle(&self) -> f64 {
        let share = self.probability_pct.map_or(1.0, |pct| (pct / 100.0).min(1.0));
        share * f64::from(self.repeat.max(1)) / f64::from(self.every.max(1))
    }
}

/// Checks only the syntax. Whether this machine has the addresses shows when the load begins.
fn check_from(section: &Section<'_>, context: &mut CheckContext<'_>) {
    for node in section.node("from").and_then(Node::list).unwrap_or_default() {
        let Some(text) = node.text() else { continue };
        if text.parse::<IpAddr>().is_err() {
            context.problems.push(
                Problem::new(&node.place, format!("`{text}` is no IP address"))
                    .expected("an address of this machine, such as \"10.0.0.5\"")
                    .hint("`ip address` lists them; names and ports are not allowed here"),
            );
        }
    }
}

/// Reports `cookies` for a protocol without cookies.
fn check_cookies(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let Some(protocol) = context.protocol.filter(|_| section.boolean("cookies")) else { return };
    let answers = protocol.operations.iter().flat_map(|operation| operation.answers);
    if !answers.into_iter().any(|field| field.name == "cookie.*") {
        context.problems.push(
            Problem::new(section.place("cookies"), format!("the protocol `{}` has no cookies", protocol.name))
                .expected("cookies belong to HTTP")
                .hint("remove it"),
        );
    }
}

/// Checks that the times fit together.
fn times(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let Some(time_s) = section.number("time") else { return };
    if section.number("ramp").is_some_and(|ramp_s| ramp_s > time_s) {
        context.problems.push(
            Problem::new(section.place("ramp"), "the ramp is longer than the load")
                .expected("a part of `time`")
                .related(section.place("time"), "the whole load")
                .hint("`time` includes the ramp"),
        );
    }
    if section.number("warmup").is_some_and(|warmup_s| warmup_s >= time_s) {
        context.problems.push(
            Problem::new(section.place("warmup"), "nothing is left to measure after the warm-up")
                .expected("shorter than `time`")
                .related(section.place("time"), "the whole load"),
        );
    }
    spread(section, context);
    if section.number("think_spread_pct").is_some_and(|pct| pct > 0.0) && section.section("think").is_some() {
        context.problems.push(
            Problem::new(section.place("think_spread_pct"), "`think_spread_pct` belongs to a fixed `think`")
                .expected("a second way to draw pauses")
                .related(section.place("think"), "drawn already")
                .hint("remove `think_spread_pct`"),
        );
    }
}

/// Reports `count` beside `rate`: with a rate, `time` determines the number of operations.
fn check_count(section: &Section<'_>, context: &mut CheckContext<'_>) {
    if section.has("count") && section.has("rate") {
        context.problems.push(
            Problem::new(section.place("count"), "`count` and `rate` exclude each other")
                .expected("belongs to a closed loop")
                .related(section.place("rate"), "open loop: rate × time operations start")
                .hint("remove one of the two"),
        );
    }
}

/// Checks that a spread is at most 100 %, since a pause cannot be negative.
fn spread(section: &Section<'_>, context: &mut CheckContext<'_>) {
    for (key, of) in [("think_spread_pct", "think"), ("reconnect_spread_pct", "reconnect")] {
        if section.number(key).is_some_and(|spread_pct| !(0.0..=100.0).contains(&spread_pct)) {
            context.problems.push(
                Problem::new(section.place(key), "a pause varies by 0 to 100 percent")
                    .expected(format!("percent of `{of}`")),
            );
        }
    }
}

fn order(section: &Section<'_>) -> StepOrder {
    if section.has("mix") && !section.has("cycle") { StepOrder::Mix } else { StepOrder::Cycle }
}

fn check_order(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let path = load_group::path(section);
    let whose = if path == "load" { "load" } else { "group" };
    let hint = format!(
        "[[{path}.cycle]] for operations in a fixed order, [[{path}.mix]] for operations at random by `weight`"
    );
    let filled = |key: &str| section.node(key).and_then(Node::list).is_none_or(|list| !list.is_empty());
    match (section.has("cycle"), section.has("mix")) {
        (true, true) => context.problems.push(
            Problem::new(section.place("mix"), "`cycle` and `mix` exclude each other")
                .expected("at random")
                .related(section.place("cycle"), "in a fixed order")
                .hint(hint),
        ),
        (false, false) => context.problems.push(
            Problem::absent(section.place, format!("the {whose} has no operations"))
                .expected("neither `cycle` nor `mix`")
                .hint(hint),
        ),
        (true, false) if !filled("cycle") => context.problems.push(empty(section, path, "cycle").hint(hint)),
        (false, true) if !filled("mix") => context.problems.push(empty(section, path, "mix").hint(hint)),
        _ => {}
    }
}

fn empty(section: &Section<'_>, path: &str, key: &str) -> Problem {
    Problem::absent(section.place(key), format!("`{path}.{key}` is empty")).expected("no operations")
}

/// Slots that earlier steps keep, as in [`Scope::slots`].
type KeptSlots = BTreeMap<String, Vec<u32>>;

/// Reads steps that follow each other. Adds the slots that they keep.
fn sequence(
    place: &TextSpan,
    parts: &[Section<'_>],
    slots: &mut KeptSlots,
    context: &mut CheckContext<'_>,
) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for part in parts {
        if part.has("parallel") {
            steps.extend(parallel::read(part, slots, context));
            continue;
        }
        parallel::check_alone(part, context);
        prepare::check_names(part, context);
        let step = operation::read(part, &Scope { slots, no_slots: None, by_agent: true }, context);
        for slot in step.keep.keys() {
            slots.entry(slot.clone()).or_default().push(if step.is_certain() { step.every } else { 0 });
        }
        steps.push(step);
    }
    if !steps.is_empty() && !steps.iter().any(Step::is_certain) {
        let problem = Problem::new(place, "a cycle may have no operation at all");
        context.problems.push(
            problem
                .expected("each step has `probability_pct`")
                .hint("remove it from one of the steps; a choice between operations is a mix with weights"),
        );
    }
    steps
}

/// Reads a mix. `slots` are those that every entry may use.
fn mix(section: &Section<'_>, slots: &KeptSlots, context: &mut CheckContext<'_>) -> Vec<Step> {
    let scope = Scope {
        slots,
        no_slots: Some(
            "each operation of a mix is a cycle of its own; slots need a [[load.cycle]], or `steps` of an entry of the mix",
        ),
        by_agent: true,
    };
    let mut steps = Vec::new();
    for part in section.sections("mix") {
        if !part.has("steps") {
            prepare::check_names(&part, context);
            steps.push(operation::read(&part, &scope, context));
            continue;
        }
        check_entry(&part, context);
        let weight = part.get("weight").unwrap_or(1);
        let own = sequence(part.place("steps"), &part.sections("steps"), &mut slots.clone(), context);
        steps.extend(own.into_iter().enumerate().map(|(index, step)| Step { weight, follows: index > 0, ..step }));
    }
    steps
}

/// Checks an entry of a mix that is a sequence.
fn check_entry(part: &Section<'_>, context: &mut CheckContext<'_>) {
    let steps = part.place("steps");
    if part.sections("steps").is_empty() && part.node("steps").and_then(Node::list).is_some() {
        let problem = Problem::absent(steps, "`steps` is empty").expected("no operations");
        context.problems.push(problem.hint("write `call` for a single operation"));
    }
    for entry in part.table.entries.iter().filter(|entry| !["weight", "steps"].contains(&entry.key.as_str())) {
        context.problems.push(
            Problem::new(&entry.key_place, format!("`{}` and `steps` exclude each other", entry.key))
                .expected("belongs to one operation")
                .related(steps, "a sequence of operations")
                .hint(format!("move `{}` into the steps", entry.key)),
        );
    }
}

fn read_retry(section: &Section<'_>) -> Retry {
    let read = |retry: &Section<'_>| {
        let wait_s = retry.number("wait").unwrap_or_default();
        retry.get("tries").map_or(Retry::Wait { wait_s }, |tries| Retry::Tries { tries, wait_s })
    };
    match section.section("retry") {
        Some(retry) => read(&retry),
        None if section.text("retry") == Some("wait") => Section::nothing(RETRY, read),
        None => Retry::FailFast,
    }
}

fn check_feeds(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let feeds = section.sections("feed");
    for (index, feed) in feeds.iter().enumerate() {
        check_stream(feed, context);
        if let Some(name) = feed.text("name")
            && feeds[..index].iter().any(|earlier| earlier.text("name") == Some(name))
        {
            let what = format!("two feeds are called `{name}`");
            context.problems.push(Problem::new(feed.place("name"), what).expected("the second"));
        }
    }
}

/// Checks the keys that only CSV files have.
fn check_csv(feed: &Feed, section: &Section<'_>, context: &mut CheckContext<'_>) {
    if feed.format().0 == FeedFormat::JsonLines {
        for key in ["delimiter", "columns"].into_iter().filter(|key| section.has(key)) {
            let problem = Problem::new(section.place(key), format!("`{key}` belongs to CSV"));
            let problem = problem.expected("this feed has JSON lines").related(section.place("file"), "JSON lines");
            context.problems.push(problem.hint("remove it"));
        }
    }
    let is_character =
        |text: &String| matches!(text.as_bytes(), [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte));
    if feed.delimiter.as_ref().is_some_and(|text| !is_character(text)) {
        let problem = Problem::new(section.place("delimiter"), "not a delimiter").expected("one ASCII character");
        context.problems.push(problem.hint("such as \";\", \"|\" or \"\\t\" for a tab"));
    }
    if let Some(double) = (1..feed.columns.len()).find(|at| feed.columns[..*at].contains(&feed.columns[*at])) {
        let what = format!("two columns are called `{}`", feed.columns[double]);
        context.problems.push(Problem::new(section.place("columns"), what).expected("a name twice"));
    }
}

/// Checks the keys that only streams and JSON lines have.
fn check_stream(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let feed = Feed::read(section);
    check_csv(&feed, section, context);
    let is_json = feed.format().0 == FeedFormat::JsonLines;
    if feed.stream && feed.random {
        context.problems.push(
            Problem::new(section.place("order"), "a stream has no random order")
                .expected("any record at any time")
                .related(section.place("stream"), "read from the beginning to the end")
                .hint("remove one of the two: without `stream` all records are held in memory"),
        );
    }
    for key in ["batch", "before", "at_end", "tier"].into_iter().filter(|key| section.has(key)) {
        if !feed.stream {
            let problem = Problem::new(section.place(key), format!("`{key}` belongs to a stream"));
            context.problems.push(problem.expected("this feed is read whole").hint("add stream = true, or remove it"));
        } else if !matches!(key, "at_end" | "tier") && !is_json {
            let problem = Problem::new(section.place(key), format!("`{key}` belongs to JSON lines"));
            let problem = problem.expected("not JSON lines").related(section.place("file"), "CSV");
            context.problems.push(
                problem.hint("such a file's name ends in .json, .jsonl or .ndjson, and perhaps .gz, .zst or .bz2"),
            );
        }
    }
}

/// A limit on the operations that are due and have not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Backlog limit, over all agents.
    pub most: u32,
    /// Reaction when another operation becomes due.
    pub overflow: Overflow,
}

/// Reaction to an operation that becomes due when the backlog is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overflow {
    /// The operation never starts, and is counted.
    #[default]
    Drop,
    /// The load ends.
    Stop,
}

fn read_backlog(section: &Section<'_>) -> Option<Backlog> {
    let most = section.get("backlog")?;
    Some(Backlog { most, overflow: section.get("overflow").unwrap_or_default() })
}

fn check_overflow(section: &Section<'_>, context: &mut CheckContext<'_>) {
    if section.has("overflow") && !section.has("backlog") {
        context.problems.push(
            Problem::new(section.place("overflow"), "`overflow` needs `backlog`")
                .expected("what happens when too many wait")
                .hint("add `backlog`, the most operations that may wait; without it there is no bound"),
        );
    }
}

impl Connections {
    /// Returns the number of connections that the agents have to the services. Each service gets
    /// the same number, as far as there are enough agents.
    #[must_use]
    pub fn of(self, agents: u32, services: u32) -> u32 {
        let services = services.max(1);
        agents.div_ceil(services).div_ceil(self.pipeline.max(1)).saturating_mul(services).min(agents)
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Reconnects {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Reports `failover` for a single address. The number of members of a target folder is known only
/// when it is up.
fn check_failover(section: &Section<'_>, context: &mut CheckContext<'_>) {
    let is_alone = matches!(context.ports, PortNames::Nameless) && context.addresses < 2;
    if Reconnects::read(section).failover == Failover::Next && is_alone {
        context.problems.push(
            Problem::new(section.place("failover"), "this target has one address, so there is no next member")
                .expected("agents have no other address")
                .hint("list all members of a running cluster, `urls = […]`; with a target folder, the hosts are the members: `[lab] hosts = 3`"),
        );
    }
}
