//! Check-ups of a machine: what on it would spoil a measurement, or change its figures, and the remedy. Each is a pure
//! judgement of text and of figures that [`crate::doctor`] gathered; it must not measure, change or print anything.

mod asked;
mod aslr;
mod cgroups;
mod clock;
mod conntrack;
mod cores;
mod disk;
mod emulation;
mod energy;
mod epoll;
mod erlang;
mod files;
mod frequency;
mod guest;
mod memory;
mod noise;
mod numa;
mod persistent;
mod ports;
mod processes;
mod queues;
mod rights;
mod sockets;

use std::str::FromStr;

use serde::Serialize;

use crate::doctor::{Asked, Measured};
use crate::environment::Root;

/// One thing that is looked at.
#[derive(Debug)]
pub struct Kind {
    /// Its name, in a few words.
    pub name: &'static str,
    /// What it belongs to.
    pub about: About,
    /// What it reads.
    pub reads: &'static str,
    /// What it spoils, in a sentence.
    pub why: &'static str,
    /// Where that is written.
    pub source: &'static str,
    /// Rules of the verdict that see it when it happens in a trial.
    pub caught_by: &'static [&'static str],
    /// Which tunings of the article on the name service vsns it covers, and what they are worth today.
    pub article: Option<Tuning>,
    /// Looks.
    pub look: fn(&Patient<'_>) -> Finding,
}

/// What a check-up belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// What the experiment at hand needs.
    Experiment,
    /// What else runs here.
    Noise,
    /// The processors.
    Processor,
    /// Memory.
    Memory,
    /// Clocks and timers.
    Time,
    /// The network.
    Network,
    /// Limits of processes.
    Limits,
    /// The disk of the run folder.
    Disk,
    /// What virtual hosts are made of.
    Lab,
    /// Energy, persistent memory.
    Hardware,
    /// The runtime of targets in Erlang.
    Erlang,
}

/// A tuning of the article.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tuning {
    /// Its number in the article's list, 1 to 6.
    pub number: u8,
    /// As the article writes it.
    pub says: &'static str,
    /// What it is worth today.
    pub worth: &'static str,
}

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It cannot be found out here.
    Unknown,
    /// As one would wish.
    Good,
    /// It changes figures: the same on both sides of a comparison, or to be said beside it.
    Notice,
    /// It spoils a measurement.
    Bad,
}

/// What a check-up came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it is.
    pub state: State,
    /// What was found, in a few words; of [`State::Unknown`] why it cannot be told.
    pub found: String,
    /// What to do about it: a command, or advice.
    pub remedy: Option<String>,
    /// What `--fix` would change.
    pub fixes: Vec<Fix>,
}

/// A value of the running kernel that may be changed and put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// The file, below the root.
    pub path: String,
    /// What it says now.
    pub from: String,
    /// What it would say.
    pub to: String,
}

/// All check-ups, sorted by file.
pub const KINDS: &[&Kind] = &[
    &asked::LAB,
    &asked::TARGET,
    &aslr::KIND,
    &cgroups::CONTROLLERS,
    &cgroups::QUOTA,
    &clock::SOURCE,
    &clock::SYNC,
    &clock::TIMERS,
    &conntrack::KIND,
    &cores::COUNT,
    &cores::ISOLATED,
    &cores::MITIGATIONS,
    &cores::SIBLINGS,
    &disk::FREE,
    &disk::SYNC,
    &emulation::LINKS,
    &emulation::NAMESPACES,
    &energy::KIND,
    &epoll::KIND,
    &erlang::POLL,
    &erlang::PORTS,
    &erlang::PROCESSES,
    &erlang::SCHEDULERS,
    &files::KIND,
    &frequency::GOVERNOR,
    &frequency::TURBO,
    &guest::KIND,
    &memory::AVAILABLE,
    &memory::HUGE_PAGES,
    &memory::SWAP,
    &noise::STEAL,
    &noise::STRANGERS,
    &numa::KIND,
    &persistent::KIND,
    &ports::RANGE,
    &ports::REUSE,
    &processes::KIND,
    &queues::ACCEPT,
    &queues::HALF_OPEN,
    &rights::KIND,
    &sockets::ANY,
    &sockets::TCP,
];

/// Nothing is told.
const NOT_TOLD: &str = "this kernel does not tell";

/// A virtual lab's networks are new ones.
const OF_LAB: &str = "the lab's own networks have the kernel's defaults";

/// The machine that is looked at.
pub struct Patient<'a> {
    pub(crate) root: &'a Root,
    pub(crate) measured: &'a Measured,
    pub(crate) asked: Option<&'a Asked>,
}

impl Patient<'_> {
    fn text(&self, path: &str) -> Option<String> {
        self.root.text(path)
    }

    fn number<N: FromStr>(&self, path: &str) -> Option<N> {
        self.root.number(path)
    }

    /// `net.core.somaxconn`, which may be several numbers.
    fn sysctl(&self, name: &str) -> Option<Vec<u64>> {
        let text = self.text(&sysctl_path(name))?;
        text.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
    }

    /// The change of a file to another value.
    fn fix(&self, path: &str, to: &str) -> Option<Fix> {
        let from = chosen(&self.text(path)?);
        (from != to).then(|| Fix { path: path.to_owned(), from, to: to.to_owned() })
    }

    fn fix_sysctl(&self, name: &str, to: &str) -> Option<Fix> {
        self.fix(&sysctl_path(name), to)
    }

    fn is_guest(&self) -> bool {
        crate::environment::virtualisation(self.root).is_some_and(|kind| kind != "none")
    }

    /// Whether clients and target are in networks that the lab makes, whose settings are not the machine's (network_namespaces(7)).
    fn is_in_lab(&self) -> bool {
        self.asked.is_some_and(|asked| asked.is_virtual)
    }

    /// Agents of the experiment at hand.
    fn agents(&self) -> Option<u64> {
        self.asked.map(|asked| asked.agents)
    }
}

impl Finding {
    fn good(found: impl Into<String>) -> Self {
        Self::of(State::Good, found)
    }

    fn notice(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::of(State::Notice, found) }
    }

    fn bad(found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::of(State::Bad, found) }
    }

    fn unknown(why: impl Into<String>) -> Self {
        Self::of(State::Unknown, why)
    }

    fn of(state: State, found: impl Into<String>) -> Self {
        Self { state, found: found.into(), remedy: None, fixes: Vec::new() }
    }

    fn fixed_by(mut self, fixes: impl IntoIterator<Item = Fix>) -> Self {
        self.fixes.extend(fixes);
        self
    }
}

impl Fix {
    /// The command that makes the change.
    #[must_use]
    pub fn command(&self) -> String {
        match self.path.strip_prefix("proc/sys/") {
            Some(name) if self.to.contains(' ') => format!("sysctl -w {}=\"{}\"", name.replace('/', "."), self.to),
            Some(name) => format!("sysctl -w {}={}", name.replace('/', "."), self.to),
            None => format!("echo {} > /{}", self.to, self.path),
        }
    }
}

/// The commands that make these changes; one for all files that differ in a number only, such as one for each CPU.
#[must_use]
pub fn commands(fixes: &[Fix]) -> Vec<String> {
    let without_numbers = |path: &str| path.split(|c: char| c.is_ascii_digit()).collect::<String>();
    let is_like = |a: &Fix, b: &Fix| a.to == b.to && without_numbers(&a.path) == without_numbers(&b.path);
    let mut commands = Vec::new();
    for (index, fix) in fixes.iter().enumerate() {
        let alike = fixes.iter().filter(|other| is_like(fix, other)).count();
        if alike == 1 {
            commands.push(fix.command());
        } else if fixes.iter().position(|other| is_like(fix, other)) == Some(index) {
            commands.push(format!("echo {} | tee /{}", fix.to, with_stars(&fix.path)));
        }
    }
    commands
}

fn with_stars(path: &str) -> String {
    let mut text = String::new();
    for letter in path.chars() {
        match letter {
            digit if digit.is_ascii_digit() => {
                if !text.ends_with('*') {
                    text.push('*');
                }
            }
            other => text.push(other),
        }
    }
    text
}

fn sysctl_path(name: &str) -> String {
    format!("proc/sys/{}", name.replace('.', "/"))
}

/// What a file of the kernel says, with its white space made even; of `always [madvise] never` the choice.
pub(crate) fn chosen(text: &str) -> String {
    let choice = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(choice, _)| choice);
    choice.map_or_else(|| text.split_ascii_whitespace().collect::<Vec<_>>().join(" "), str::to_owned)
}

/// `1 core`, `2 cores`.
fn count(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
