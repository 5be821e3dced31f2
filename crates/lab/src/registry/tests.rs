//! Tests of the registry: what an owner that was killed left is found and removed, and only that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;
use crate::fixture::{Bench, Scratch, is_alive, ourselves, until};

fn clean_all(folder: &Path) -> Vec<String> {
    let mut cleaned = Cleaned::default();
    clean_in(folder, &mut cleaned).unwrap();
    cleaned.removed
}

/// Not a test: an owner that starts processes which outlive it, and waits to be killed.
#[test]
#[ignore = "started by other tests"]
fn own() {
    let Ok(folder) = std::env::var("OWNED") else { return };
    let folder = Path::new(&folder);
    let registry = Registry::begin_in(&folder.join("registry"), folder).unwrap();
    let scratch = registry.scratch().unwrap();
    let pids = folder.join("pids");
    // One that has left its group, one that has thrown away its environment, one that ignores TERM as well.
    let script = format!(
        "note() {{ echo $1 >> {0}; }}
         setsid sh -c 'echo $$ >> {0}; exec sleep 1000' &
         env -u PLIMSOLL_RUN sh -c 'echo $$ >> {0}; exec sleep 1000' &
         setsid sh -c \"trap '' TERM; echo \\$\\$ >> {0}; while :; do sleep 1; done\" &
         wait",
        pids.display()
    );
    let hosts = [crate::hosts::local(&registry)];
    let start = crate::hosts::Start {
        role: "server".to_owned(),
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: Vec::new(),
        folder: None,
        log: folder.join("log"),
        ears: Default::default(),
    };
    let process = hosts[0].start(&start).unwrap();
    fs::write(folder.join("scratch"), scratch.display().to_string()).unwrap();
    fs::write(folder.join("up"), process.pid().to_string()).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn what_a_killed_owner_left_is_removed() {
    let folder = Scratch::new();
    let ourselves = ourselves("registry::tests::own");
    let mut command = Command::new(&ourselves[0]);
    command.args(&ourselves[1..]).env("OWNED", &*folder).stdout(Stdio::null()).stderr(Stdio::null());
    let mut owner = command.spawn().unwrap();
    let pids = || -> Vec<u32> {
        let text = fs::read_to_string(folder.join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    until("all are up", || pids().len() == 3 && folder.join("up").exists());
    let direct: u32 = fs::read_to_string(folder.join("up")).unwrap().parse().unwrap();
    let registry = folder.join("registry");
    assert_eq!(clean_all(&registry), [""; 0], "a live run is not touched");
    assert!(pids().iter().all(|pid| is_alive(*pid)));

    owner.kill().unwrap();
    owner.wait().unwrap();
    until("the kernel kills what it started", || !is_alive(direct));
    assert!(pids().iter().all(|pid| is_alive(*pid)), "what that one started lives on");
    let scratch = fs::read_to_string(folder.join("scratch")).unwrap();
    assert!(Path::new(&scratch).is_dir());

    let removed = clean_all(&registry);
    assert!(!pids().iter().any(|pid| is_alive(*pid)), "{removed:?}");
    assert!(!Path::new(&scratch).exists());
    assert!(removed.contains(&format!("folder {scratch}")), "{removed:?}");
    assert!(removed.iter().filter(|line| line.starts_with("process ")).count() >= 3, "{removed:?}");
    assert!(removed.last().unwrap().starts_with("run "), "{removed:?}");
    assert_eq!(clean_all(&registry), [""; 0], "and only once");
}

#[test]
fn two_live_runs_do_not_touch_each_other() {
    let folder = Scratch::new();
    let begin = || Registry::begin_in(&folder, &folder).unwrap();
    let (one, other) = (begin(), begin());
    assert_ne!(one.id(), other.id());
    let start = |registry: &Registry| {
        let hosts = [crate::hosts::local(registry)];
        let start = crate::hosts::Start {
            role: "server".to_owned(),
            program: "sleep".into(),
            arguments: vec!["1000".into()],
            environment: Vec::new(),
            folder: None,
            log: folder.join("log"),
            ears: Default::default(),
        };
        hosts[0].start(&start).unwrap()
    };
    let (mut of_one, mut of_other) = (start(&one), start(&other));
    let (scratch, kept) = (one.scratch().unwrap(), other.scratch().unwrap());
    one.end();
    until("it is gone", || of_one.ended().is_some());
    assert!(!scratch.exists());
    assert_eq!(of_other.ended(), None);
    assert!(kept.is_dir());
    assert_eq!(clean_all(&folder), [""; 0]);
    other.end();
    assert_eq!(entry::entries(&folder), [""; 0].map(PathBuf::from));
}

#[test]
fn scratch_is_private_and_registered() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    let scratch = bench.registry.scratch().unwrap();
    assert_eq!(bench.registry.scratch().unwrap(), scratch, "one for the whole run");
    assert_eq!(fs::metadata(&scratch).unwrap().permissions().mode() & 0o777, 0o700);
    let entries = entry::entries(&bench.folder.join("registry"));
    assert_eq!(entry::read(&entries[0]).unwrap().scratch, [scratch]);
}

fn abandoned(folder: &Scratch, change: impl Fn(&mut Owner), more: &[Line]) -> PathBuf {
    let mut owner = Owner::this_process();
    change(&mut owner);
    let run = Line::Run { id: "test-1".to_owned(), owner, folder: folder.join("run") };
    let lines = std::iter::once(&run).chain(more).map(|line| serde_json::to_string(line).unwrap() + "\n");
    folder.write("test-1.jsonl", &lines.collect::<String>())
}

#[test]
fn an_owner_is_more_than_a_pid() {
    let folder = Scratch::new();
    let mut path = abandoned(&folder, |_| {}, &[]);
    assert_eq!(clean_all(&folder), [""; 0], "this very process is alive");
    assert!(path.exists());
    path = abandoned(&folder, |owner| owner.started_ticks += 1, &[]);
    assert_eq!(clean_all(&folder), [format!("run test-1 ({})", folder.join("run").display())]);
    assert!(!path.exists());
}

#[test]
fn nothing_else_is_removed_or_killed() {
    let folder = Scratch::new();
    let precious = folder.join("precious");
    fs::create_dir(&precious).unwrap();
    let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
    // A damaged entry, and a process group whose number went to somebody else.
    let lines = [Line::Scratch { path: precious.clone() }, Line::Group { pid: bystander.id(), started_ticks: 1 }];
    abandoned(&folder, |owner| owner.started_ticks += 1, &lines);
    clean_all(&folder);
    assert!(precious.is_dir());
    assert!(is_alive(bystander.id()));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn after_a_reboot_only_files_are_left() {
    let folder = Scratch::new();
    let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
    let stat = procfs_stat(bystander.id());
    let lines = [Line::Group { pid: bystander.id(), started_ticks: stat }];
    abandoned(&folder, |owner| owner.boot = "another".to_owned(), &lines);
    assert_eq!(clean_all(&folder).len(), 1);
    assert!(is_alive(bystander.id()));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

fn procfs_stat(pid: u32) -> u64 {
    crate::linux::procfs::stat(pid).unwrap().started_ticks
}

#[test]
fn a_torn_entry_is_read_as_far_as_it_goes() {
    let folder = Scratch::new();
    let path = abandoned(&folder, |owner| owner.started_ticks += 1, &[Line::Scratch { path: "/nowhere".into() }]);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"{\"made\":\"gro").unwrap();
    assert_eq!(entry::read(&path).unwrap().scratch, [PathBuf::from("/nowhere")]);
    // Without a first line there is nothing to find; it goes once its writer is gone.
    let empty = folder.write("boot-4194304-1-1.jsonl", "");
    let young = folder.write(&format!("boot-{}-1-1.jsonl", std::process::id()), "");
    clean_all(&folder);
    assert!(!empty.exists() && young.exists() && !path.exists());
}

/// A loop device of its own, that stays when this goes; and the run whose folder its file is in.
fn forgotten_loop(id: &str) -> Option<(PathBuf, PathBuf, PathBuf)> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        println!("skipped: loop devices need root");
        return None;
    }
    let folder = entry::scratch_of(id);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("volume");
    File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
    let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    Some((folder, file, device))
}

#[test]
fn what_a_run_made_in_the_kernel_is_removed_before_its_files() {
    let id = format!("test-{}-kernel", std::process::id());
    let Some((scratch, file, device)) = forgotten_loop(&id) else { return };
    let group = top_of(&id);
    crate::runner::groups::make_top(&id, 1).unwrap();
    let folder = Scratch::new();
    let mut owner = Owner::this_process();
    owner.started_ticks += 1;
    let lines = [
        Line::Run { id, owner, folder: folder.join("run") },
        Line::Scratch { path: scratch.clone() },
        Line::Cgroups { name: group.clone() },
        Line::Loop { device: device.clone(), file: file.clone() },
        Line::Throttle { device: device.clone() },
    ];
    let text: String = lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    folder.write("entry.jsonl", &text);
    let removed = clean_all(&folder);
    let expected = [
        format!("control groups {group}"),
        format!("loop device {}", device.display()),
        format!("folder {}", scratch.display()),
    ];
    assert_eq!(removed[..3], expected);
    assert_ne!(crate::linux::loop_device::backing(&device).as_ref(), Some(&file));
}

#[test]
fn what_another_made_in_the_kernel_stays() {
    let Some((scratch, file, device)) = forgotten_loop(&format!("test-{}-other", std::process::id())) else { return };
    let folder = Scratch::new();
    // A damaged entry, and a device that went to another file.
    let lines = [
        Line::Cgroups { name: "system.slice".to_owned() },
        Line::Loop { device: device.clone(), file: file.clone() },
        Line::Loop { device: device.clone(), file: entry::scratch_of("test-1").join("volume") },
        Line::Loop { device: PathBuf::from("/dev/null"), file: entry::scratch_of("test-1").join("volume") },
        Line::Throttle { device: device.clone() },
    ];
    abandoned(&folder, |owner| owner.started_ticks += 1, &lines);
    let removed = clean_all(&folder);
    assert_eq!(removed.len(), 1, "{removed:?}");
    assert_eq!(crate::linux::loop_device::backing(&device).as_ref(), Some(&file));
    assert!(crate::linux::loop_device::detach(&device, &file).unwrap());
    fs::remove_dir_all(&scratch).unwrap();
}
