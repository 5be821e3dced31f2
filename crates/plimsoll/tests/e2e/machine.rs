//! What of this machine a lab could leave behind: network namespaces, links, queues, control groups, mounts, loop devices,
//! throttles. Tests that look at it take turns. What others make meanwhile, another Plimsoll among them, is not looked at, or
//! waited for where nothing tells whose it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Labs take turns: what one has made must not look left over to another.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for this test's turn to make labs. `None`, and why on standard error, where this user cannot make any.
#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    let user = Command::new("id").arg("-u").output().unwrap();
    if String::from_utf8_lossy(&user.stdout).trim() != "0" {
        eprintln!("skipped: virtual hosts need root");
        return None;
    }
    Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What is there that a lab of this process could have made, a line each.
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
    all.extend(mounts.filter(|line| line.contains(&stages())));
    all.extend(network_namespaces());
    groups(Path::new("/sys/fs/cgroup"), 4, &mut all);
    let throttles = text("/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device");
    let ours = throttles.lines().filter(|line| !others.contains(line.split(' ').next().unwrap_or_default()));
    all.extend(ours.map(|line| format!("throttle {line}")));
    all
}

/// What the folders of this process's stages begin with.
pub fn stages() -> String {
    format!("{}/e2e-{}-", env!("CARGO_TARGET_TMPDIR"), std::process::id())
}

/// Whether labs give links such names: `net0`, `h2n0`, `ifb-eth0`.
fn is_lab_link(name: &str) -> bool {
    let name = name.split(['@', ':']).next().unwrap_or_default();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let of_host = name.strip_prefix('h').and_then(|rest| rest.split_once('n'));
    name.starts_with("ifb-")
        || name.strip_prefix("net").is_some_and(is_number)
        || of_host.is_some_and(|(host, network)| is_number(host) && is_number(network))
}

/// Loop devices whose files these tests have made, a line each, and the numbers of those that somebody else's are behind.
fn loop_devices() -> (Vec<String>, BTreeSet<String>) {
    let lines = said("losetup", &["--all", "--noheadings", "--output", "MAJ:MIN,NAME,BACK-FILE"]);
    let (ours, others): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.contains(&stages()));
    (ours, others.iter().filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect())
}

/// What is there now and was not before. What the kernel is still clearing away, or another Plimsoll, is waited for.
#[expect(clippy::disallowed_methods, reason = "a test waits for the kernel by looking again")]
pub fn added_since(before: &BTreeSet<String>) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let added: Vec<String> = inventory().difference(before).cloned().collect();
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

/// Those that some process of these tests is in. Labs of others, which may be made beside the tests, are none of ours.
fn network_namespaces() -> BTreeSet<String> {
    let ours = format!("PLIMSOLL_TEST_STAGE={}", stages());
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let of_tests = processes.filter(|process| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(ours.as_bytes()))
    });
    of_tests
        .filter_map(|process| fs::read_link(process.join("ns/net")).ok())
        .map(|at| at.display().to_string())
        .collect()
}

/// Control groups of runs that are over: the pid of who played it is the third part of a run's name.
fn groups(folder: &Path, depth: u32, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path().display().to_string();
        let run = path.split("/plimsoll-").nth(1).and_then(|rest| rest.split('/').next());
        let owner = run.and_then(|run| run.split('-').nth(1)?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            all.insert(path);
        }
        if depth > 0 {
            groups(&entry.path(), depth - 1, all);
        }
    }
}
