//! The doctor: gathers what check-ups look at, has them look, and makes and undoes the changes
//! they propose. What is good or bad is judged in [`crate::checkups`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use experiment::plan::{Plan, TargetKind, Trial};
use linux::procfs;
use runner::environment::{self, RecordedRoot, chosen};
use runner::probes::CpuTicks;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_getres};
use serde::{Deserialize, Serialize};

use crate::checkups::{CheckKind, CheckResult, CheckScope, CheckState, Fix, KINDS, MachineSnapshot};
use crate::hooks::{Hook, OutputStream};
use crate::hosts::{self, netns};
use crate::readiness::UrlParts;
use crate::trusted::PrivateFolder;
use crate::{Error, registry};

/// What one check-up came to.
#[derive(Debug)]
pub struct CheckOutcome {
    /// Which.
    pub kind: &'static CheckKind,
    /// What it found.
    pub finding: CheckResult,
}

/// Looks at a machine whose files are below `root`, with what was measured of it, and with what an experiment asks of it. The
/// worst comes first; what is alike stays together.
#[must_use]
pub fn examine(root: &Path, measured: &Measured, asked: Option<&TrialDemand>) -> Vec<CheckOutcome> {
    let root = RecordedRoot::at(root);
    let patient = MachineSnapshot { root: &root, measured, asked };
    // What an experiment needs is no question without one.
    let kinds = KINDS.iter().filter(|kind| asked.is_some() || kind.about != CheckScope::Experiment);
    let mut examined: Vec<CheckOutcome> =
        kinds.map(|kind| CheckOutcome { kind, finding: (kind.look)(&patient) }).collect();
    examined.sort_by_key(|one| (std::cmp::Reverse(one.finding.state), one.kind.about, one.kind.name));
    examined
}

/// The worst state among them.
#[must_use]
pub fn worst(examined: &[CheckOutcome]) -> CheckState {
    examined.iter().map(|one| one.finding.state).max().unwrap_or(CheckState::Unknown)
}

/// As `doctor --json` prints it.
impl Serialize for CheckOutcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let (kind, finding) = (self.kind, &self.finding);
        let mut object = serializer.serialize_struct("checkup", 11)?;
        object.serialize_field("name", kind.name)?;
        object.serialize_field("about", &kind.about)?;
        object.serialize_field("state", &finding.state)?;
        object.serialize_field("found", &finding.found)?;
        object.serialize_field("remedy", &finding.remedy)?;
        object.serialize_field("fixes", &finding.fixes)?;
        object.serialize_field("reads", kind.reads)?;
        object.serialize_field("why", kind.why)?;
        object.serialize_field("source", kind.source)?;
        object.serialize_field("caught_by", kind.caught_by)?;
        object.serialize_field("article", &kind.article)?;
        object.end()
    }
}

// What an experiment asks of the machine that it is played on.

/// What the trials of an experiment ask for, each figure of the one that asks for most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialDemand {
    /// Connections of the agents.
    pub agents: u64,
    /// Addresses that they connect to.
    pub services: u64,
    /// Local addresses that they connect from; where they are not named, 1.
    pub sources: u64,
    /// Whether the services are on the loopback, which has many addresses to connect from.
    pub is_on_loopback: bool,
    /// Agents that connect in the same second.
    pub at_once: u64,
    /// The hosts, in words.
    pub lab: String,
    /// Why the hosts cannot be made here, and what to do.
    pub refused: Option<(String, String)>,
    /// The target, in words.
    pub target: String,
    /// What the target lacks, a line each.
    pub missing: Vec<String>,
    /// Whether hosts are virtual: their networks have settings of their own, the kernel's defaults.
    pub is_virtual: bool,
    /// Whether hosts are reached over ssh.
    pub is_remote: bool,
    /// Whether the target is that of the article whose tunings are looked at.
    pub is_articles: bool,
}

impl TrialDemand {
    /// Of a plan; `missing` is what `install check` says.
    #[must_use]
    pub fn of(plan: &Plan, missing: Vec<String>) -> Self {
        let loads = || plan.trials.iter().filter_map(|trial| Some((connections(trial)?, trial.load.as_ref()?.ramp_s)));
        let at_once = |(connections, ramp_s): (u32, f64)| (f64::from(connections) / ramp_s.max(1.0)).ceil() as u64;
        let refused = hosts::can_make(&plan.trials).err();
        Self {
            agents: loads().map(|(connections, _)| u64::from(connections)).max().unwrap_or(0),
            services: plan.trials.iter().map(services).min().unwrap_or(1),
            at_once: loads().map(at_once).max().unwrap_or(0),
            sources: plan
                .trials
                .iter()
                .filter_map(|trial| trial.load.as_ref())
                .map(|load| load.from.len().max(1) as u64)
                .min()
                .unwrap_or(1),
            is_on_loopback: plan.trials.iter().all(is_on_loopback),
            lab: plan.trials.first().map(lab).unwrap_or_default(),
            refused: refused.map(|error| (error.to_string(), error.hint().unwrap_or_default())),
            target: plan.trials.first().map(target).unwrap_or_default(),
            missing,
            is_virtual: plan.trials.iter().any(|trial| trial.lab.is_virtual()),
            is_remote: plan.trials.iter().flat_map(|trial| &trial.lab.hosts).any(|host| host.ssh.is_some()),
            is_articles: plan.trials.iter().any(|trial| target(trial) == "vsns"),
        }
    }
}

/// Connections of the trial's agents.
fn connections(trial: &Trial) -> Option<u32> {
    let load = trial.load.as_ref()?;
    Some(load.connections.of(load.agents, u32::try_from(services(trial)).unwrap_or(u32::MAX)))
}

/// Hosts that clients connect to. Where roles are dealt out, it is not known here which of them serves.
fn services(trial: &Trial) -> u64 {
    let hosts = &trial.lab.hosts;
    if hosts.iter().any(|host| host.role.is_some()) { 1 } else { hosts.len().max(1) as u64 }
}

/// Of a name only the usual one is known to lead there.
fn is_on_loopback(trial: &Trial) -> bool {
    match &trial.target.kind {
        TargetKind::Folder { .. } => trial.lab.hosts.is_empty(),
        TargetKind::Running { url } | TargetKind::Started { url, .. } => UrlParts::parse(url).is_ok_and(|place| {
            let address = place.host.parse::<Ipv4Addr>();
            place.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }),
    }
}

fn lab(trial: &Trial) -> String {
    match trial.lab.hosts.len() {
        0 => "this machine itself".to_owned(),
        1 => "one host".to_owned(),
        hosts => format!("{hosts} hosts"),
    }
}

fn target(trial: &Trial) -> String {
    match &trial.target.kind {
        TargetKind::Folder { name, .. } => name.clone(),
        TargetKind::Running { url } if url.is_empty() => trial.target.protocol.clone(),
        TargetKind::Running { url } | TargetKind::Started { url, .. } => url.clone(),
    }
}

// What of a machine no file tells: it is measured, in about two seconds. Nothing of it stays
// behind.

/// What was measured; none where it was not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Whether we are root.
    pub is_root: Option<bool>,
    /// CPUs that we may use.
    pub cpus: Option<u64>,
    /// Who else used the CPU in a second.
    pub noise: Option<CpuNoise>,
    /// Smallest step of the monotonic clock's timers.
    pub timer_resolution_ns: Option<u64>,
    /// How late pauses of a millisecond ended.
    pub late_us: Option<MeasuredSpread>,
    /// Whether the kernel says that its clock is synchronised.
    pub is_synchronised: Option<bool>,
    /// The program that synchronises it.
    pub time_keeper: Option<String>,
    /// The folder that runs go to.
    pub folder: String,
    /// Free there.
    pub free_bytes: Option<u64>,
    /// Type of its file system.
    pub file_system: Option<String>,
    /// How long a write of 4 KiB there takes with its sync.
    pub sync_us: Option<MeasuredSpread>,
    /// What links can be made like; none without root.
    pub links: Option<LinkSupport>,
    /// Erlang, if it is installed.
    pub erlang: Option<Erlang>,
}

/// Of repeated measurements, in the unit that the name of the field says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredSpread {
    /// The median.
    pub p50: f64,
    /// The largest.
    pub max: f64,
}

/// What links of virtual hosts can be made like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSupport {
    /// Whether there is a program to make them with.
    pub has_tc: bool,
    /// A limited rate.
    pub rate: bool,
    /// A delay.
    pub delay: bool,
}

const PAUSES: usize = 100;
const PAUSE: Duration = Duration::from_millis(1);
const SYNCS: usize = 20;
/// A disk that needs longer than this for all of them has said enough.
const SYNCS_PATIENCE: Duration = Duration::from_secs(2);

impl Measured {
    /// This machine; `folder` is where runs go, or will.
    #[must_use]
    pub fn here(folder: &Path) -> Self {
        // Pauses are made in the second in which others are watched: they use no CPU.
        let (noise, late_us) = noise_while(late_us);
        Self {
            noise,
            late_us,
            timer_resolution_ns: resolution_ns(),
            is_synchronised: linux::is_clock_synchronised(),
            time_keeper: environment::time_keeper(&RecordedRoot::at(Path::new("/"))),
            links: geteuid().is_root().then(netns::what_links_can_be),
            erlang: erlang(),
            ..Self::without_time(folder)
        }
    }

    /// What takes no time and is the same whichever files are looked at.
    #[must_use]
    pub fn without_time(folder: &Path) -> Self {
        let disk = environment::disk_of(folder);
        Self {
            is_root: Some(geteuid().is_root()),
            cpus: std::thread::available_parallelism().ok().map(|cpus| cpus.get() as u64),
            folder: folder.display().to_string(),
            free_bytes: disk.free_bytes,
            file_system: disk.file_system,
            sync_us: sync_us(folder, SYNCS),
            ..Self::default()
        }
    }
}

fn resolution_ns() -> Option<u64> {
    let resolution = clock_getres(ClockId::Monotonic);
    u64::try_from(resolution.tv_sec * 1_000_000_000 + resolution.tv_nsec).ok()
}

/// How late pauses end, microseconds.
fn late_us() -> Option<MeasuredSpread> {
    // Nobody ever sends: what ends a pause is its time.
    let (_sender, silence) = channel::<()>();
    let late = (0..PAUSES).map(|_| {
        let begun = Instant::now();
        let _ = silence.recv_timeout(PAUSE);
        begun.elapsed().saturating_sub(PAUSE).as_secs_f64() * 1e6
    });
    MeasuredSpread::of(late.collect())
}

/// How long writes of 4 KiB in this folder take, each with its sync; the file is removed. None where nothing can be written.
#[must_use]
pub fn sync_us(folder: &Path, times: usize) -> Option<MeasuredSpread> {
    let folder = environment::existing(folder)?;
    let path = folder.join(format!(".plimsoll-sync-{}", std::process::id()));
    let file = File::options().write(true).create_new(true).open(&path).ok()?;
    let begun = Instant::now();
    let mut took_us = Vec::new();
    while took_us.len() < times && begun.elapsed() < SYNCS_PATIENCE {
        let at = Instant::now();
        let block = [u8::try_from(took_us.len() % 251).unwrap_or(0); 4096];
        if file.write_all_at(&block, took_us.len() as u64 * 4096).and_then(|()| file.sync_all()).is_err() {
            break;
        }
        took_us.push(at.elapsed().as_secs_f64() * 1e6);
    }
    let _ = fs::remove_file(&path);
    MeasuredSpread::of(took_us)
}

impl MeasuredSpread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Self { p50: *values.get(values.len() / 2)?, max: *values.last()? })
    }
}

// Makes changes to the running kernel and undoes them. Each is written down, and that is on the
// disk, before it is made: so whatever ends this program, `--undo` finds it.

/// Beside the entries of runs, and not one of them.
const RECORD: &str = "doctor.undo";
/// Of a record: some thousand changes.
const RECORD_BYTES: u64 = 1 << 20;

/// A machine whose settings are changed.
#[derive(Debug, Clone)]
pub struct FixSession {
    root: PathBuf,
    /// Where records may be, the first being where new ones go.
    folders: Vec<PathBuf>,
}

/// A line of the record: a change that was about to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ChangeRecord {
    /// Which boot: nothing of it outlives the next one.
    boot: String,
    root: PathBuf,
    path: String,
    from: String,
    to: String,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was made.
    Done,
    /// The value is not what it was when it was looked at; nothing was done.
    ChangedSince(String),
    /// The kernel did not take it, and why.
    Refused(String),
}

/// What came of undoing a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// The old value is back.
    Done,
    /// It was back already.
    Already,
    /// Somebody else has set another value since, which stays.
    ChangedSince(String),
    /// It could not be done, and why; it can be tried again.
    Failed(String),
}

impl FixSession {
    /// For the machine whose files are below `root`; the record is where the registry of runs is.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf(), folders: registry::folders() }
    }

    #[cfg(test)]
    fn in_folder(root: &Path, folder: &Path) -> Self {
        Self { root: root.to_path_buf(), folders: vec![folder.to_path_buf()] }
    }

    /// Makes a change, if the value is still what it was when it was looked at.
    ///
    /// # Errors
    /// If it cannot be written down; then it is not made.
    pub fn apply(&self, fix: &Fix) -> Result<Applied, Error> {
        if !is_setting(&fix.path) {
            return Ok(Applied::Refused("it is no setting of the kernel".to_owned()));
        }
        match self.value(&fix.path) {
            Some(now) if now == fix.from => {}
            now => return Ok(Applied::ChangedSince(now.unwrap_or_default())),
        }
        self.note(fix)?;
        Ok(match self.put(&fix.path, &fix.to) {
            Err(error) => Applied::Refused(error.to_string()),
            Ok(()) => match self.value(&fix.path) {
                Some(now) if now == fix.to => Applied::Done,
                now => Applied::Refused(format!("it says {} now", now.unwrap_or_default())),
            },
        })
    }

    /// Puts back what was changed, the last first, and forgets it. `tell` hears of each.
    ///
    /// # Errors
    /// If a record cannot be read or forgotten.
    pub fn undo(&self, tell: &mut dyn FnMut(&Fix, Undone)) -> Result<(), Error> {
        let mut failed = None;
        for folder in &self.folders {
            // What tells root what to write must be root's own. What another wrote keeps nobody from undoing the rest.
            let undone = match PrivateFolder::find(folder) {
                Ok(Some(folder)) if folder.has(RECORD) => self.undo_in(&folder, tell),
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = undone {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn undo_in(&self, folder: &PrivateFolder, tell: &mut dyn FnMut(&Fix, Undone)) -> Result<(), Error> {
        let text = folder.read(RECORD, RECORD_BYTES)?;
        // A torn line is of a change that was not made yet.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<ChangeRecord>(line).ok());
        let (ours, mut kept): (Vec<ChangeRecord>, Vec<ChangeRecord>) = lines.partition(|line| line.root == self.root);
        for line in ours.into_iter().rev().filter(|line| line.boot == procfs::boot() && is_setting(&line.path)) {
            let fix = Fix { path: line.path.clone(), from: line.from.clone(), to: line.to.clone() };
            let undone = self.undo_one(&line);
            if matches!(undone, Undone::Failed(_)) {
                kept.push(line);
            }
            tell(&fix, undone);
        }
        self.keep(folder, &kept)
    }

    fn undo_one(&self, line: &ChangeRecord) -> Undone {
        match self.value(&line.path) {
            None => Undone::Failed("it cannot be read".to_owned()),
            Some(now) if now == line.from => Undone::Already,
            Some(now) if now != line.to => Undone::ChangedSince(now),
            Some(_) => match self.put(&line.path, &line.from) {
                Ok(()) => Undone::Done,
                Err(error) => Undone::Failed(error.to_string()),
            },
        }
    }

    /// What is still to be undone stays on record, in its order.
    fn keep(&self, folder: &PrivateFolder, kept: &[ChangeRecord]) -> Result<(), Error> {
        let record = folder.path(RECORD);
        if kept.is_empty() {
            return folder.remove(RECORD).map_err(Error::system(format!("remove {}", record.display())));
        }
        let mut text = String::new();
        for line in kept.iter().rev() {
            text.push_str(&in_json(line)?);
        }
        record::checked_file::write_whole(&record, text.as_bytes())
            .map_err(Error::system(format!("write {}", record.display())))
    }

    /// Writes a change down before it is made.
    fn note(&self, fix: &Fix) -> Result<(), Error> {
        let line = ChangeRecord {
            boot: procfs::boot(),
            root: self.root.clone(),
            path: fix.path.clone(),
            from: fix.from.clone(),
            to: fix.to.clone(),
        };
        let mut refused = None;
        for folder in &self.folders {
            match PrivateFolder::make(folder).and_then(|folder| folder.append(RECORD, &in_json(&line)?)) {
                Ok(()) => return Ok(()),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| Error::NotYet("a change without a folder to write it down".to_owned())))
    }

    fn value(&self, path: &str) -> Option<String> {
        procfs::text(&self.root.join(path)).map(|text| chosen(&text))
    }

    /// In one write, as the kernel wants it; nothing is created.
    fn put(&self, path: &str, value: &str) -> io::Result<()> {
        let mut file = File::options().write(true).truncate(true).open(self.root.join(path))?;
        file.write_all(format!("{value}\n").as_bytes())
    }
}

fn in_json(line: &ChangeRecord) -> Result<String, Error> {
    let text = serde_json::to_string(line).map_err(io::Error::other);
    Ok(text.map_err(Error::system("write a change down"))? + "\n")
}

/// Whether it is a file of the kernel's settings: a damaged record must not have anything else written.
fn is_setting(path: &str) -> bool {
    (path.starts_with("proc/sys/") || path.starts_with("sys/")) && !path.split('/').any(|part| part == "..")
}

// Asks the installed Erlang what it is.

/// What the runtime says of itself without any flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erlang {
    /// `25`
    pub release: u32,
    /// `25.2.3`
    pub version: String,
    /// Scheduler threads that run.
    pub schedulers_online: u64,
    /// Processes at a time.
    pub processes: u64,
    /// Ports at a time.
    pub ports: u64,
}

/// A runtime that needs longer to start is not asked.
const WITHIN: Duration = Duration::from_secs(5);

const QUESTION: &str = r#"
    Release = erlang:system_info(otp_release),
    File = filename:join([code:root_dir(), "releases", Release, "OTP_VERSION"]),
    Version = case file:read_file(File) of {ok, Text} -> Text; _ -> Release end,
    io:format("~s ~s ~b ~b ~b~n", [Release, string:strip(hd(string:tokens(lists:flatten(io_lib:format("~s", [Version])), "\n"))),
        erlang:system_info(schedulers_online), erlang:system_info(process_limit), erlang:system_info(port_limit)]),
    halt()."#;

/// The Erlang in `PATH`.
pub(crate) fn erlang() -> Option<Erlang> {
    let hook = Hook {
        name: "erl".to_owned(),
        folder: std::env::temp_dir(),
        path: PathBuf::from("erl"),
        arguments: ["-noshell", "-noinput", "-eval", QUESTION].map(str::to_owned).to_vec(),
        environment: BTreeMap::new(),
        within: WITHIN,
        answer_bytes: crate::hooks::ANSWER_BYTES,
        in_foreground: false,
    };
    let mut said = None;
    let status = hook.run(&mut |stream, line| {
        if stream == OutputStream::Output && said.is_none() {
            said = parse_erlang(line);
        }
    });
    status.ok().filter(std::process::ExitStatus::success).and(said)
}

fn parse_erlang(line: &str) -> Option<Erlang> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [release, version, schedulers, processes, ports] = words.as_slice() else { return None };
    Some(Erlang {
        // Before 17 a release was called R16B03.
        release: release.trim_start_matches('R').split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?,
        version: (*version).to_owned(),
        schedulers_online: schedulers.parse().ok()?,
        processes: processes.parse().ok()?,
        ports: ports.parse().ok()?,
    })
}

// Who uses the processors, over a second.

const SECOND: Duration = Duration::from_secs(1);
/// So many programs are named.
const NAMED: usize = 3;

/// What used the processors, in percent of all of them together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuNoise {
    /// Programs other than this one.
    pub others_pct: f64,
    /// The busiest of them by name, those of one name added up.
    pub busiest: Vec<(String, f64)>,
    /// Taken by the hypervisor; none where the kernel does not tell.
    pub steal_pct: Option<f64>,
}

struct DoctorMeasurement {
    machine: CpuTicks,
    programs: BTreeMap<(u32, u64), (String, u64)>,
}

fn look() -> Option<DoctorMeasurement> {
    let machine = CpuTicks::parse(&procfs::text(Path::new("/proc/stat"))?, "cpu ")?;
    let programs = procfs::alive()
        .into_iter()
        .map(|stat| ((stat.pid, stat.started_ticks), (stat.name, stat.user_ticks + stat.system_ticks)));
    Some(DoctorMeasurement { machine, programs: programs.collect() })
}

/// Watches for a second, in which `meanwhile` is done.
fn noise_while<T>(meanwhile: impl FnOnce() -> T) -> (Option<CpuNoise>, T) {
    let (begun, before) = (Instant::now(), look());
    let done = meanwhile();
    let (_sender, silence) = channel::<()>();
    let _ = silence.recv_timeout(SECOND.saturating_sub(begun.elapsed()));
    let noise = before.zip(look()).and_then(|(before, after)| between(&before, &after, std::process::id()));
    (noise, done)
}

fn between(before: &DoctorMeasurement, after: &DoctorMeasurement, ours: u32) -> Option<CpuNoise> {
    let total = after.machine.total().checked_sub(before.machine.total()).filter(|total| *total > 0)? as f64;
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    let mut own = 0;
    for (key, (name, ticks)) in &after.programs {
        let used = ticks.saturating_sub(before.programs.get(key).map_or(0, |(_, ticks)| *ticks));
        if key.0 == ours {
            own = used;
        } else {
            *by_name.entry(name).or_default() += used;
        }
    }
    // Programs that ended meanwhile are in the machine's time only.
    let busy = after.machine.busy().saturating_sub(before.machine.busy()).saturating_sub(own);
    let mut busiest: Vec<(String, f64)> =
        by_name.into_iter().map(|(name, ticks)| (name.to_owned(), ticks as f64 / total * 100.0)).collect();
    busiest.retain(|(_, pct)| *pct >= 1.0);
    busiest.sort_by(|a, b| b.1.total_cmp(&a.1));
    busiest.truncate(NAMED);
    let steal = after.machine.steal.zip(before.machine.steal).map(|(after, before)| after.saturating_sub(before));
    Some(CpuNoise {
        others_pct: busy as f64 / total * 100.0,
        busiest,
        steal_pct: steal.map(|steal| steal as f64 / total * 100.0),
    })
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;
    use crate::fakes::machine;

    const QUEUE: &str = "proc/sys/net/core/somaxconn";

    fn fix(path: &str, from: &str, to: &str) -> Fix {
        Fix { path: path.to_owned(), from: from.to_owned(), to: to.to_owned() }
    }

    fn says(tree: &Path, path: &str) -> String {
        fs::read_to_string(tree.join(path)).unwrap().trim().to_owned()
    }

    fn undo(remedies: &FixSession) -> Vec<(String, Undone)> {
        let mut undone = Vec::new();
        remedies.undo(&mut |fix, came| undone.push((fix.path.clone(), came))).unwrap();
        undone
    }

    /// Every fix of a machine is made, and then everything is as it was.
    #[test]
    fn what_is_fixed_is_good_and_can_be_undone() {
        let (tree, registry) = (machine("bad"), TestDir::new());
        let before = examine(&tree, &Measured::default(), None);
        let remedies = FixSession::in_folder(&tree, &registry);
        let fixes: Vec<&Fix> = before.iter().flat_map(|one| &one.finding.fixes).collect();
        assert!(fixes.len() >= 14, "{fixes:?}");
        for fix in &fixes {
            assert_eq!(remedies.apply(fix).unwrap(), Applied::Done, "{fix:?}");
            assert_eq!(says(&tree, &fix.path), fix.to);
        }
        let after = examine(&tree, &Measured::default(), None);
        assert!(after.iter().all(|one| one.finding.fixes.is_empty()), "{after:?}");
        let undone = undo(&remedies);
        assert_eq!(undone.len(), fixes.len());
        assert!(undone.iter().all(|(_, came)| *came == Undone::Done), "{undone:?}");
        // The last first.
        assert_eq!(undone[0].0, fixes.last().unwrap().path);
        for fix in &fixes {
            assert_eq!(says(&tree, &fix.path), fix.from);
        }
        assert!(undo(&remedies).is_empty() && fs::read_dir(&*registry).unwrap().next().is_none());
    }

    #[test]
    fn what_others_have_changed_is_left_alone() {
        let (tree, registry) = (machine("bad"), TestDir::new());
        let remedies = FixSession::in_folder(&tree, &registry);
        let change = fix(QUEUE, "128", "4096");
        assert_eq!(remedies.apply(&fix(QUEUE, "100", "4096")).unwrap(), Applied::ChangedSince("128".to_owned()));
        assert_eq!(says(&tree, QUEUE), "128");
        assert_eq!(remedies.apply(&change).unwrap(), Applied::Done);
        tree.write(QUEUE, "999\n");
        assert_eq!(undo(&remedies), [(QUEUE.to_owned(), Undone::ChangedSince("999".to_owned()))]);
        assert_eq!(says(&tree, QUEUE), "999");
        assert!(undo(&remedies).is_empty());
    }

    /// Written down and then killed: before the change was made, after it, and in the middle of the line.
    #[test]
    fn a_kill_at_any_moment_leaves_what_undo_needs() {
        let (tree, registry) = (machine("bad"), TestDir::new());
        let remedies = FixSession::in_folder(&tree, &registry);
        assert_eq!(remedies.apply(&fix(QUEUE, "128", "4096")).unwrap(), Applied::Done);
        let line = says(&registry, "doctor.undo");
        assert!(line.contains(QUEUE) && line.contains("\"from\":\"128\""), "{line}");
        tree.write(QUEUE, "128\n");
        let swap = "proc/sys/vm/swappiness";
        let other = line.replace(QUEUE, swap).replace("\"128\"", "\"60\"").replace("\"4096\"", "\"1\"");
        registry.write("doctor.undo", &format!("{line}\n{other}\n{}", &line[..line.len() / 2]));
        tree.write(swap, "1\n");
        assert_eq!(undo(&remedies), [(swap.to_owned(), Undone::Done), (QUEUE.to_owned(), Undone::Already)]);
        assert_eq!((says(&tree, swap), says(&tree, QUEUE)), ("60".to_owned(), "128".to_owned()));
    }

    #[test]
    fn a_change_of_another_boot_or_of_another_machine_is_not_ours_to_undo() {
        let (tree, other, registry) = (machine("bad"), machine("bad"), TestDir::new());
        let remedies = FixSession::in_folder(&tree, &registry);
        assert_eq!(FixSession::in_folder(&other, &registry).apply(&fix(QUEUE, "128", "4096")).unwrap(), Applied::Done);
        assert!(undo(&remedies).is_empty());
        assert_eq!(says(&other, QUEUE), "4096");
        let line = says(&registry, "doctor.undo");
        let boot = procfs::boot();
        registry.write("doctor.undo", &line.replace(&boot, "another-boot"));
        assert!(undo(&FixSession::in_folder(&other, &registry)).is_empty());
        assert_eq!(says(&other, QUEUE), "4096");
    }

    #[test]
    fn only_settings_are_written_and_nothing_is_created() {
        let (tree, registry) = (machine("bad"), TestDir::new());
        tree.write("etc/passwd", "root\n");
        let remedies = FixSession::in_folder(&tree, &registry);
        for path in ["etc/passwd", "proc/sys/../../etc/passwd"] {
            assert!(matches!(remedies.apply(&fix(path, "root", "x")).unwrap(), Applied::Refused(_)));
        }
        assert_eq!(remedies.apply(&fix("proc/sys/new", "", "1")).unwrap(), Applied::ChangedSince(String::new()));
        assert!(!tree.join("proc/sys/new").exists() && fs::read_dir(&*registry).unwrap().next().is_none());
        assert_eq!(says(&tree, "etc/passwd"), "root");
    }

    #[test]
    fn what_cannot_be_written_down_is_not_changed() {
        let tree = machine("bad");
        let nowhere = tree.join("proc/sys/net/core/somaxconn/registry");
        assert!(FixSession::in_folder(&tree, &nowhere).apply(&fix(QUEUE, "128", "4096")).is_err());
        assert_eq!(says(&tree, QUEUE), "128");
    }

    #[test]
    fn the_worst_comes_first() {
        let tree = machine("bad");
        let examined = examine(&tree, &Measured::default(), None);
        assert!(examined.is_sorted_by_key(|one| std::cmp::Reverse(one.finding.state)));
        assert_eq!(worst(&examined), CheckState::Bad);
        assert_eq!(worst(&[]), CheckState::Unknown);
    }

    #[test]
    fn this_machine_can_be_measured() {
        let folder = TestDir::new();
        let measured = Measured::here(&folder);
        assert!(measured.is_root.is_some() && measured.cpus.is_some_and(|cpus| cpus > 0));
        assert!(measured.noise.is_some() && measured.late_us.is_some() && measured.timer_resolution_ns.is_some());
        assert!(measured.sync_us.is_some() && measured.free_bytes.is_some() && measured.file_system.is_some());
        assert!(measured.is_synchronised.is_some());
        assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0, "the measured file was left");
    }

    #[test]
    fn an_answer_is_five_words() {
        let erlang = parse_erlang("25 25.2.3 2 262144 65536").unwrap();
        assert_eq!((erlang.release, erlang.version.as_str()), (25, "25.2.3"));
        assert_eq!((erlang.schedulers_online, erlang.processes, erlang.ports), (2, 262_144, 65_536));
        assert_eq!(parse_erlang("R16B03 R16B03 2 262144 65536").unwrap().release, 16);
        assert_eq!(parse_erlang("{\"init terminating\"}"), None);
        assert_eq!(parse_erlang(""), None);
    }

    fn look_with(stat: &str, programs: &[(u32, &str, u64)]) -> DoctorMeasurement {
        DoctorMeasurement {
            machine: CpuTicks::parse(stat, "cpu ").unwrap(),
            programs: programs.iter().map(|(pid, name, ticks)| ((*pid, 7), ((*name).to_owned(), *ticks))).collect(),
        }
    }

    #[test]
    fn our_own_time_is_not_that_of_others() {
        let before =
            look_with("cpu  100 0 100 1000 0 0 0 0", &[(1, "plimsoll", 10), (2, "rustc", 50), (3, "rustc", 5)]);
        let after =
            look_with("cpu  150 0 110 1130 0 0 0 10", &[(1, "plimsoll", 20), (2, "rustc", 80), (3, "rustc", 15)]);
        let noise = between(&before, &after, 1).unwrap();
        // 60 of 200 ticks were busy, 10 of them ours.
        assert_eq!((noise.others_pct, noise.steal_pct), (25.0, Some(5.0)));
        assert_eq!(noise.busiest, [("rustc".to_owned(), 20.0)]);
    }

    #[test]
    fn a_machine_that_stands_still_tells_nothing() {
        let look = || look_with("cpu  100 0 100 1000", &[]);
        assert_eq!(between(&look(), &look(), 1), None);
        let later = look_with("cpu  100 0 100 1100", &[]);
        let noise = between(&look(), &later, 1).unwrap();
        assert_eq!((noise.others_pct, noise.steal_pct), (0.0, None));
    }

    #[test]
    fn a_pid_that_is_used_again_counts_from_its_start() {
        let before = look_with("cpu  0 0 0 0 0 0 0 0", &[(2, "old", 1000)]);
        let mut after = look_with("cpu  50 0 0 50 0 0 0 0", &[]);
        after.programs.insert((2, 9), ("new".to_owned(), 40));
        assert_eq!(between(&before, &after, 1).unwrap().busiest, [("new".to_owned(), 40.0)]);
    }
}
