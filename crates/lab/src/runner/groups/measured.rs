//! Asked against got: how slow a slow core is. Run by hand, as root, on a machine that is otherwise quiet:
//! `cargo test -p lab -- --ignored --nocapture asked_and_got`. It must not judge the figures.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::tests::{can_be_slow, setup, slow};
use super::{Groups, make_top, top_of};
use crate::fixture::ourselves;
use crate::linux::cgroup::{Group, Hierarchies, remove_tree};
use crate::linux::procfs;

/// For how long each is measured, after as long as it takes to settle.
const MEASURED: Duration = Duration::from_secs(3);
const SETTLES: Duration = Duration::from_millis(900);

/// What is run: its name, threads, how, and what it would get of so many cores.
type Work = (&'static str, fn(usize) -> usize, fn(usize) -> f64);

const WORK: &[Work] = &[
    ("one thread", |_| 1, |_| 1.0),
    ("a thread per core", |cores| cores, |cores| cores as f64),
    ("two threads per core", |cores| 2 * cores, |cores| cores as f64),
    ("children, one by one", |_| 1, |_| 1.0),
    ("children, one per core", |cores| cores, |cores| cores as f64),
    ("hops every 1 ms", |cores| cores.max(2), |_| 1.0),
    ("hops every 20 ms", |cores| cores.max(2), |_| 1.0),
];

#[test]
#[ignore = "it measures for minutes and asserts nothing"]
fn asked_and_got() {
    if !can_be_slow() {
        return;
    }
    // A part of all that: of the name of the work.
    let only = std::env::var("ONLY").unwrap_or_default();
    println!("{:24} cores speed  asked    got  error  got, no balancer  balancer's CPU", "work");
    for speed in [0.05, 0.1, 0.25, 0.5] {
        for cores in [1_u32, 2, 4] {
            for work in WORK.iter().filter(|work| work.0.contains(&only)) {
                let asked = (work.2)(cores as usize) * speed;
                if asked > 1.2 {
                    continue;
                }
                let (got, cost) = measure(work, cores, speed, true);
                let (without, _) = measure(work, cores, speed, false);
                println!(
                    "{:24} {cores:5} {speed:5.2} {asked:6.3} {got:6.3} {:+5.1}% {without:17.3} {:14.2}%",
                    work.0,
                    (got / asked - 1.0) * 100.0,
                    cost * 100.0,
                );
            }
        }
    }
}

/// Cores used; what the balancer used.
fn measure(work: &Work, cores: u32, speed: f64, balanced: bool) -> (f64, f64) {
    let setup = setup("measured", slow(cores, speed));
    make_top(&setup.run, 16).unwrap();
    let (groups, _) = Groups::make(&setup).unwrap();
    if !balanced && let Ok(made) = &groups.made {
        made.cpu.stop();
    }
    let mut process = worker(&groups, work.0, (work.1)(cores as usize));
    pause(SETTLES);
    let target = super::host_of(&Arc::new(Hierarchies::detect()), &setup).child("target");
    let used_ns = || used_ns(&target).unwrap();
    let (before_ns, own_ns, start) = (used_ns(), balancer_ns(), Instant::now());
    pause(MEASURED);
    let took_ns = start.elapsed().as_nanos() as f64;
    let got = (used_ns() - before_ns) as f64 / took_ns;
    let cost = balancer_ns().saturating_sub(own_ns) as f64 / took_ns;
    groups.remove().unwrap();
    remove_tree(&top_of(&setup.run)).unwrap();
    let _ = process.wait();
    (got, cost)
}

/// CPU time of a group, from version 2, or from version 1 without it.
fn used_ns(group: &Group) -> Option<u64> {
    let files = group.join_files().into_iter();
    let mut texts =
        files.flat_map(|file| ["cpu.stat", "cpuacct.usage"].map(|name| procfs::text(&file.with_file_name(name))));
    texts.find_map(|text| {
        let text = text?;
        let us = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse::<u64>().ok());
        us.map(|us| us * 1000).or_else(|| text.trim().parse().ok())
    })
}

fn pause(time: Duration) {
    let (_held, never) = channel::<()>();
    let _ = never.recv_timeout(time);
}

fn balancer_ns() -> u64 {
    let tasks = std::path::Path::new("/proc/self/task");
    let figure = |id: u32| {
        let folder = tasks.join(id.to_string());
        procfs::stat_at(&folder).filter(|stat| stat.name == "cores")?;
        procfs::text(&folder.join("schedstat"))?.split(' ').next()?.parse::<u64>().ok()
    };
    procfs::numbers(tasks).into_iter().filter_map(figure).sum()
}

fn worker(groups: &Groups, work: &str, threads: usize) -> Child {
    let joins: Vec<String> = groups.join_files().iter().map(|file| format!("echo 0 > {}", file.display())).collect();
    let program = ourselves("runner::groups::measured::work");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{}; exec \"$@\"", joins.join("; ")), "sh"]).args(program);
    command.env("WORK", work).env("THREADS", threads.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
#[ignore = "started by the test above, to be busy until it is killed"]
fn work() {
    let (Ok(work), Ok(threads)) = (std::env::var("WORK"), std::env::var("THREADS")) else { return };
    let threads: usize = threads.parse().unwrap();
    if let Some(ms) = work.strip_prefix("hops every ").and_then(|text| text.strip_suffix(" ms")) {
        return hop(threads, Duration::from_millis(ms.parse().unwrap()));
    }
    let is_forking = work.starts_with("children");
    let busy = move || if is_forking { fork() } else { spin(Duration::MAX) };
    let others: Vec<_> = (1..threads).map(|_| std::thread::Builder::new().spawn(busy).unwrap()).collect();
    busy();
    others.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Uses that much CPU time.
fn spin(time: Duration) {
    let used = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let until = used().saturating_add(time);
    while used() < until {
        std::hint::spin_loop();
    }
}

fn fork() {
    loop {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let _ = Command::new("sh").args(["-c", script]).status();
    }
}

/// One thread works at a time, and after so much work it is another's turn.
fn hop(threads: usize, each: Duration) {
    let (mut to, first) = channel::<()>();
    let start = to.clone();
    let mut from = Some(first);
    for index in 0..threads {
        let (next, receiver) = channel::<()>();
        let turn = from.replace(receiver).unwrap();
        // The last one hands it to the first.
        let next = if index + 1 == threads { start.clone() } else { next };
        to = next.clone();
        std::thread::Builder::new()
            .spawn(move || {
                while turn.recv().is_ok() {
                    spin(each);
                    let _ = next.send(());
                }
            })
            .unwrap();
    }
    drop(to);
    start.send(()).unwrap();
    pause(Duration::from_secs(600));
}
