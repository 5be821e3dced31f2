//! Inventory of what a lab could leave behind on this machine: network namespaces, links, queues,
//! control groups, mounts, loop devices, throttles. A test looks at what its own sandboxes made.
//! Items of other programs are ignored, or waited for if their owner is unknown.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Number of tests that make labs at the same time. More would be so slow that their verdicts
/// change.
const LABS: usize = 2;

/// Held for writing by a test that kills runs, because the control groups that it leaves for a
/// while have no known owner.
static ALONE: RwLock<()> = RwLock::new(());
static LABS_NOW: Mutex<usize> = Mutex::new(0);
static LAB_GONE: Condvar = Condvar::new();

thread_local! {
    /// Folders of the sandboxes of this test.
    static SANDBOXES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Turn of a test to make labs.
pub struct Turn(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>);

impl Drop for Turn {
    fn drop(&mut self) {
        *labs_now() -= 1;
        LAB_GONE.notify_all();
    }
}

fn labs_now() -> MutexGuard<'static, usize> {
    LABS_NOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for this test's turn to make labs. If this user cannot make labs, prints the reason and
/// returns `None`.
pub fn turn() -> Option<Turn> {
    can_make_labs().then(|| {
        let shared = ALONE.read().unwrap_or_else(PoisonError::into_inner);
        let mut labs = labs_now();
        while *labs >= LABS {
            labs = LAB_GONE.wait(labs).unwrap_or_else(PoisonError::into_inner);
        }
        *labs += 1;
        Turn(shared)
    })
}

/// Waits for the turn of a test that kills runs, which is alone.
pub fn turn_alone() -> Option<RwLockWriteGuard<'static, ()>> {
    can_make_labs().then(|| ALONE.write().unwrap_or_else(PoisonError::into_inner))
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
fn can_make_labs() -> bool {
    let user = Command::new("id").arg("-u").output().unwrap();
    let is_root = String::from_utf8_lossy(&user.stdout).trim() == "0";
    if !is_root {
        eprintln!("skipped: virtual hosts need root");
    }
    is_root
}

/// Returns a line for each item that a lab of this process could have made.
pub fn inventory() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    all.extend(said("ip", &["netns", "list"]).into_iter().filter(|line| line.contains("plimsoll")));
    let links = said("ip", &["-oneline", "link"]).into_iter();
    all.extend(links.map(|line| first_words(&line, 3)).filter(|line| line.split(' ').any(is_lab_link)));
    let queues = said("tc", &["qdisc"]).into_iter();
    all.extend(queues.filter(|line| line.contains(" 9e83:") || line.split(' ').any(is_lab_link)));
    let (loops, others) = loop_devices();
    all.extend(loops);
    let mounts = text("/proc/self/mountinfo");
    let mounts = mounts.lines().map(|line| first_words(line.split_once(' ').unwrap().1, 4));
    all.extend(mounts.filter(|line| is_own(line)));
    all.extend(network_namespaces());
    groups(Path::new("/sys/fs/cgroup"), 4, &mut all);
    let throttles = text("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device");
    let ours = throttles.lines().filter(|line| !others.contains(line.split(' ').next().unwrap_or_default()));
    all.extend(ours.map(|line| format!("throttle {line}")));
    all
}

/// Returns the folder of a sandbox of this test, by its number in this process.
pub fn sandbox_folder(number: u32) -> PathBuf {
    let folder = format!("{}/e2e-{}-{number}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    SANDBOXES.with_borrow_mut(|sandboxes| sandboxes.push(folder.clone()));
    PathBuf::from(folder)
}

/// Whether a text has a path in a sandbox of this test.
fn is_own(text: &str) -> bool {
    SANDBOXES.with_borrow(|sandboxes| sandboxes.iter().any(|sandbox| text.contains(&format!("{sandbox}/"))))
}

/// Whether the name is one that labs give to links: `net0`, `h2n0`, `ifb-eth0`.
fn is_lab_link(name: &str) -> bool {
    let name = name.split(['@', ':']).next().unwrap_or_default();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let of_host = name.strip_prefix('h').and_then(|rest| rest.split_once('n'));
    name.starts_with("ifb-")
        || name.strip_prefix("net").is_some_and(is_number)
        || of_host.is_some_and(|(host, network)| is_number(host) && is_number(network))
}

/// Returns a line for each loop device whose file this test has made, and the numbers of all other
/// loop devices.
fn loop_devices() -> (Vec<String>, BTreeSet<String>) {
    let lines = said("losetup", &["--all", "--noheadings", "--output", "MAJ:MIN,NAME,BACK-FILE"]);
    let (ours, others): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| is_own(line));
    (ours, others.iter().filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect())
}

/// Returns the items that were not there before. Waits for items that the kernel or another
/// Plimsoll is about to remove.
#[expect(clippy::disallowed_methods, reason = "a test waits for the kernel by looking again")]
pub fn added_since(before: &BTreeSet<String>) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let now = inventory();
        let added: Vec<String> = now.difference(before).filter(|line| !is_of_a_live_run(line)).cloned().collect();
        if added.is_empty() || begun.elapsed() > Duration::from_secs(60) {
            return added;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn said(program: &str, words: &[&str]) -> Vec<String> {
    let output = Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| format!("{program} {line}")).collect()
}

fn first_words(line: &str, count: usize) -> String {
    line.split_whitespace().take(count).collect::<Vec<_>>().join(" ")
}

/// Returns the network namespaces of this test's processes. Other labs beside the tests do not
/// count.
fn network_namespaces() -> BTreeSet<String> {
    let ours = SANDBOXES.with_borrow(Clone::clone);
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let of_tests = processes.filter(|process| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| {
            let sandbox = variable.strip_prefix(b"PLIMSOLL_TEST_STAGE=");
            sandbox.is_some_and(|sandbox| ours.iter().any(|own| own.as_bytes() == sandbox))
        })
    });
    of_tests
        .filter_map(|process| fs::read_link(process.join("ns/net")).ok())
        .map(|at| at.display().to_string())
        .collect()
}

/// Collects the control groups of runs.
fn groups(folder: &Path, depth: u32, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path().display().to_string();
        if path.contains("/plimsoll-") {
            all.insert(path);
        }
        if depth > 0 {
            groups(&entry.path(), depth - 1, all);
        }
    }
}

/// Whether a control group belongs to a live run. The second part of a run's name is the process id
/// of its player. Only new groups are checked, because an old group may have the number of a
/// current process.
fn is_of_a_live_run(line: &str) -> bool {
    let run = line.split("/plimsoll-").nth(1).and_then(|rest| rest.split('/').next());
    let owner = run.and_then(|run| run.split('-').nth(1)?.parse::<u32>().ok());
    line.starts_with("/sys/fs/cgroup") && owner.is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
}
