//! Tests of the registry: the leftovers of a killed run, and nothing else, are found and removed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::process::{Command, Stdio};

use fixture::{TestDir, in_pid_namespace, is_alive, ourselves, stays_alive, stranger, until};
use rustix::process::Signal;

use super::cleanup::{CleanupReport, clean_in};
use super::*;
use crate::fakes::Bench;

fn clean_all(folder: &Path) -> Vec<String> {
    let cleaned = cleaned(folder);
    assert!(cleaned.failed.is_empty() && cleaned.left_alone.is_empty(), "{cleaned:?}");
    cleaned.removed
}

fn cleaned(folder: &Path) -> CleanupReport {
    let mut cleaned = CleanupReport::default();
    clean_in(folder, &mut cleaned);
    cleaned
}

fn opened(folder: &Path) -> PrivateFolder {
    PrivateFolder::find(folder).unwrap().unwrap()
}

/// A run that starts processes which outlive it, and waits to be killed. This is no test; other
/// tests start it.
#[test]
#[ignore = "started by other tests"]
fn own() {
    let Ok(folder) = std::env::var("OWNED") else { return };
    let folder = Path::new(&folder);
    let registry = Registry::begin_in(&folder.join("registry"), folder).unwrap();
    let scratch = registry.scratch().unwrap();
    let pids = folder.join("pids");
    // One process leaves its group, one drops its environment, and one also ignores SIGTERM.
    let script = format!(
        "note() {{ echo $1 >> {0}; }}
         setsid sh -c 'echo $$ >> {0}; exec sleep 1000' &
         env -u PLIMSOLL_RUN sh -c 'echo $$ >> {0}; exec sleep 1000' &
         setsid sh -c \"trap '' TERM; echo \\$\\$ >> {0}; while :; do sleep 1; done\" &
         wait",
        pids.display()
    );
    let hosts = [crate::hosts::local(&registry)];
    let start = crate::host_process::Start {
        role: "server".to_owned(),
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        log: folder.join("log"),
        ..Default::default()
    };
    let process = hosts[0].start(&start).unwrap();
    fs::write(folder.join("scratch"), scratch.display().to_string()).unwrap();
    fs::write(folder.join("up"), process.pid().to_string()).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn leftovers_of_a_killed_run_are_removed() {
    let folder = TestDir::new();
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
    let folder = TestDir::new();
    let begin = || Registry::begin_in(&folder, &folder).unwrap();
    let (one, other) = (begin(), begin());
    assert_ne!(one.id(), other.id());
    let start = |registry: &Registry| {
        let hosts = [crate::hosts::local(registry)];
        let start = crate::host_process::Start {
            role: "server".to_owned(),
            program: "sleep".into(),
            arguments: vec!["1000".into()],
            log: folder.join("log"),
            ..Default::default()
        };
        (hosts[0].start(&start).unwrap(), hosts)
    };
    let ((of_one, _one_host), (of_other, _other_host)) = (start(&one), start(&other));
    let (scratch, kept) = (one.scratch().unwrap(), other.scratch().unwrap());
    one.end();
    until("it is gone", || of_one.ended().is_some());
    assert!(!scratch.exists());
    assert_eq!(of_other.ended(), None);
    assert!(kept.is_dir());
    assert_eq!(clean_all(&folder), [""; 0]);
    other.end();
    assert_eq!(entries(&opened(&folder)), [""; 0]);
}

#[test]
fn scratch_is_private_and_registered() {
    let bench = Bench::new();
    let scratch = bench.registry.scratch().unwrap();
    assert_eq!(bench.registry.scratch().unwrap(), scratch, "one for the whole run");
    assert_eq!(fs::metadata(&scratch).unwrap().permissions().mode() & 0o777, 0o700);
    let registry = opened(&bench.folder.join("registry"));
    let entries = entries(&registry);
    assert_eq!(read_entry(&registry, &entries[0]).unwrap().unwrap().scratch, [scratch]);
}

fn abandoned(folder: &TestDir, change: impl Fn(&mut RunOwner), more: &[RegistryLine]) -> PathBuf {
    let mut owner = RunOwner::this_process();
    change(&mut owner);
    let run = RegistryLine::Run { id: "test-1".to_owned(), owner, folder: folder.join("run") };
    let lines = std::iter::once(&run).chain(more).map(|line| serde_json::to_string(line).unwrap() + "\n");
    folder.write("test-1.jsonl", lines.collect::<String>())
}

#[test]
fn an_owner_is_identified_by_pid_and_start_time() {
    let folder = TestDir::new();
    let mut path = abandoned(&folder, |_| {}, &[]);
    assert_eq!(clean_all(&folder), [""; 0], "this very process is alive");
    assert!(path.exists());
    path = abandoned(&folder, |owner| owner.started_ticks += 1, &[]);
    assert_eq!(clean_all(&folder), [format!("run test-1 ({})", folder.join("run").display())]);
    assert!(!path.exists());
}

#[test]
fn foreign_files_and_processes_are_left_alone() {
    let folder = TestDir::new();
    let precious = folder.join("precious");
    fs::create_dir(&precious).unwrap();
    let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
    // A damaged entry, and a process group whose id now belongs to another process.
    let lines = [RegistryLine::Scratch { path: precious.clone() }, group(bystander.id(), 1)];
    abandoned(&folder, |owner| owner.started_ticks += 1, &lines);
    clean_all(&folder);
    assert!(precious.is_dir());
    assert!(is_alive(bystander.id()));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn no_process_is_killed_after_a_reboot() {
    let folder = TestDir::new();
    let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
    let lines = [RegistryLine::Group(ProcessGroup::of(bystander.id(), Vec::new()))];
    abandoned(&folder, |owner| owner.boot = "another".to_owned(), &lines);
    assert_eq!(clean_all(&folder).len(), 1);
    assert!(is_alive(bystander.id()));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

fn group(pid: u32, started_ticks: u64) -> RegistryLine {
    RegistryLine::Group(ProcessGroup { pid, started_ticks, pipes: Vec::new() })
}

#[test]
fn a_truncated_entry_is_read_in_part() {
    let folder = TestDir::new();
    let path =
        abandoned(&folder, |owner| owner.started_ticks += 1, &[RegistryLine::Scratch { path: "/nowhere".into() }]);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"{\"made\":\"gro").unwrap();
    let read = read_entry(&opened(&folder), "test-1.jsonl").unwrap().unwrap();
    assert_eq!(read.scratch, [PathBuf::from("/nowhere")]);
    // An entry without a first line has no leftovers. It is removed once its writer is gone. The
    // writer may be in another pid namespace.
    let old = |name: &str| {
        let path = folder.write(name, "");
        let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        path
    };
    let empty = old("boot-4194304-1-1.jsonl");
    let written_by_us = old(&format!("boot-{}-1-1.jsonl", std::process::id()));
    let young = folder.write("boot-4194303-1-1.jsonl", "");
    clean_all(&folder);
    assert!(!empty.exists() && written_by_us.exists() && young.exists() && !path.exists());
}

/// Makes a loop device that remains. Also returns its file, and the folder of its run.
fn forgotten_loop(id: &str) -> Option<(PathBuf, PathBuf, PathBuf)> {
    if !geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
        println!("skipped: loop devices need root");
        return None;
    }
    let folder = scratch_of(id);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("volume");
    File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
    let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    Some((folder, file, device))
}

#[test]
fn kernel_objects_are_removed_before_files() {
    let id = format!("test-{}-kernel", std::process::id());
    let Some((scratch, file, device)) = forgotten_loop(&id) else { return };
    let group = top_of(&id);
    runner::make_top(&id, 1).unwrap();
    let folder = TestDir::new();
    let mut owner = RunOwner::this_process();
    owner.started_ticks += 1;
    let lines = [
        RegistryLine::Run { id, owner, folder: folder.join("run") },
        RegistryLine::Scratch { path: scratch.clone() },
        RegistryLine::Cgroups { name: group.clone() },
        RegistryLine::Loop { device: device.clone(), file: file.clone() },
        RegistryLine::Throttle { device: device.clone() },
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
    assert_ne!(mount::backing_file(&device).as_ref(), Some(&file));
}

#[test]
fn kernel_objects_of_others_are_left_alone() {
    let Some((scratch, file, device)) = forgotten_loop(&format!("test-{}-other", std::process::id())) else { return };
    let folder = TestDir::new();
    // A damaged entry, and a device that now has another file.
    let lines = [
        RegistryLine::Cgroups { name: "system.slice".to_owned() },
        RegistryLine::Loop { device: device.clone(), file: file.clone() },
        RegistryLine::Loop { device: device.clone(), file: scratch_of("test-1").join("volume") },
        RegistryLine::Loop { device: PathBuf::from("/dev/null"), file: scratch_of("test-1").join("volume") },
        RegistryLine::Throttle { device: device.clone() },
    ];
    abandoned(&folder, |owner| owner.started_ticks += 1, &lines);
    let removed = clean_all(&folder);
    assert_eq!(removed.len(), 1, "{removed:?}");
    assert_eq!(mount::backing_file(&device).as_ref(), Some(&file));
    assert!(mount::detach_loop(&device, &file).unwrap());
    fs::remove_dir_all(&scratch).unwrap();
}

/// Makes a registry with the entry of an ended run without leftovers, obstructs its cleanup, and
/// checks that the entry is left alone for the reason `why`.
fn is_left_alone(obstruct: impl Fn(&TestDir, &Path) -> PathBuf, why: &str) {
    let folder = TestDir::new();
    fs::create_dir(folder.join("registry")).unwrap();
    fs::set_permissions(folder.join("registry"), Permissions::from_mode(0o700)).unwrap();
    let entry = abandoned(&folder, |owner| owner.started_ticks += 1, &[]);
    let moved = folder.join("registry/test-1.jsonl");
    fs::rename(entry, &moved).unwrap();
    let named = obstruct(&folder, &moved);
    let cleaned = cleaned(&folder.join("registry"));
    assert!(cleaned.failed.is_empty() && cleaned.removed.is_empty(), "{cleaned:?}");
    let [line] = cleaned.left_alone.as_slice() else { panic!("{cleaned:?}") };
    assert!(line.contains(&named.display().to_string()) && line.contains(why), "{line}");
    assert!(named.symlink_metadata().is_ok(), "it was removed");
}

#[test]
fn a_registry_that_others_can_write_is_ignored() {
    let mode = |path: PathBuf, mode| {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    };
    is_left_alone(|folder, _| mode(folder.join("registry"), 0o770), "may write to it");
    is_left_alone(|folder, _| mode(folder.join("registry"), 0o1777), "all users may write to it");
    is_left_alone(|_, entry| mode(entry.to_path_buf(), 0o606), "all users may write to it");
    // A user who may rename the folder can replace it.
    is_left_alone(|folder, _| mode(folder.canonicalize().unwrap(), 0o777), "all users may write to it");
    let link = |folder: &TestDir, _: &Path| {
        fs::rename(folder.join("registry"), folder.join("elsewhere")).unwrap();
        symlink("elsewhere", folder.join("registry")).unwrap();
        folder.join("registry")
    };
    is_left_alone(link, "it is a link");
    let file = |folder: &TestDir, _: &Path| {
        fs::remove_dir_all(folder.join("registry")).unwrap();
        folder.write("registry", "")
    };
    is_left_alone(file, "it is a file");
}

#[test]
fn irregular_entries_are_left_alone() {
    let elsewhere = |to: &'static str| {
        move |_: &TestDir, entry: &Path| {
            fs::remove_file(entry).unwrap();
            symlink(to, entry).unwrap();
            entry.to_path_buf()
        }
    };
    is_left_alone(elsewhere("/dev/zero"), "it is a link");
    is_left_alone(elsewhere("/etc/passwd"), "it is a link");
    let pipe = |_: &TestDir, entry: &Path| {
        fs::remove_file(entry).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, entry, mode).unwrap();
        entry.to_path_buf()
    };
    is_left_alone(pipe, "it is a pipe");
    let linked = |folder: &TestDir, entry: &Path| {
        fs::hard_link(entry, folder.join("other")).unwrap();
        entry.to_path_buf()
    };
    is_left_alone(linked, "it has 2 hard links");
    let endless = |_: &TestDir, entry: &Path| {
        File::options().write(true).open(entry).unwrap().set_len((1 << 20) + 1).unwrap();
        entry.to_path_buf()
    };
    is_left_alone(endless, "longer than 1024 KiB");
}

#[test]
fn registries_and_entries_of_other_users_are_ignored() {
    if !geteuid().is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let give = |path: PathBuf| {
        chown(&path, Some(65534), Some(65534)).unwrap();
        path
    };
    is_left_alone(|folder, _| give(folder.join("registry")), "(uid 65534)");
    is_left_alone(|_, entry| give(entry.to_path_buf()), "(uid 65534)");
    is_left_alone(|folder, _| give(folder.canonicalize().unwrap()), "(uid 65534)");
}

#[test]
fn a_bad_entry_does_not_hide_the_others() {
    let folder = TestDir::new();
    symlink("/dev/zero", folder.join("a.jsonl")).unwrap();
    abandoned(&folder, |owner| owner.started_ticks += 1, &[]);
    symlink("/dev/zero", folder.join("z.jsonl")).unwrap();
    let cleaned = cleaned(&folder);
    assert_eq!((cleaned.removed.len(), cleaned.left_alone.len()), (1, 2), "{cleaned:?}");
}

#[test]
fn a_link_in_place_of_the_registry_is_refused() {
    let folder = TestDir::new();
    symlink(folder.join("elsewhere"), folder.join("registry")).unwrap();
    fs::create_dir(folder.join("elsewhere")).unwrap();
    let refused = Registry::begin_in(&folder.join("registry"), &folder).unwrap_err();
    assert!(matches!(refused, Error::Distrusted(_)), "{refused}");
    assert!(refused.to_string().contains("registry") && refused.hint().is_some(), "{refused}");
    assert_eq!(fs::read_dir(folder.join("elsewhere")).unwrap().count(), 0);
    // Other users may not enter the folder from now on.
    fs::create_dir(folder.join("open")).unwrap();
    let registry = Registry::begin_in(&folder.join("open"), &folder).unwrap();
    assert_eq!(fs::metadata(folder.join("open")).unwrap().permissions().mode() & 0o777, 0o700);
    registry.end();
    assert!(Registry::begin_in(&folder.join("no/such"), &folder).is_err());
    assert!(!folder.join("no").exists(), "no folder is made that nobody asked for");
}

#[test]
fn a_link_in_place_of_a_scratch_folder_stays() {
    let (folder, other) = (TestDir::new(), TestDir::new());
    let name = "plimsoll-run-test-1";
    other.write("precious", "x");
    symlink(&*other, folder.join(name)).unwrap();
    abandoned(&folder, |owner| owner.started_ticks += 1, &[RegistryLine::Scratch { path: folder.join(name) }]);
    assert_eq!(clean_all(&folder).len(), 1, "only the entry");
    assert!(other.join("precious").exists() && folder.join(name).exists());
}

#[test]
fn a_process_that_reuses_a_pid_is_not_killed() {
    in_pid_namespace("registry::tests::pid_reused_after_the_run");
    in_pid_namespace("registry::tests::pid_reused_during_the_run");
}

/// Runs in a separate pid namespace. This is no test; another test starts it.
#[test]
#[ignore = "started by another test"]
fn pid_reused_after_the_run() {
    use std::os::unix::process::CommandExt as _;
    let folder = TestDir::new();
    // A process that was registered and is gone, with its children.
    let mut ours = Command::new("true").process_group(0).spawn().unwrap();
    let line = RegistryLine::Group(ProcessGroup::of(ours.id(), vec![1]));
    ours.wait().unwrap();
    let bystander = stranger(ours.id());
    abandoned(&folder, |owner| owner.started_ticks += 1, &[line]);
    clean_all(&folder);
    assert!(stays_alive(bystander), "`clean` killed what had only got the number");
}

/// Runs in a separate pid namespace, while the run is alive. This is no test; another test starts
/// it.
#[test]
#[ignore = "started by another test"]
fn pid_reused_during_the_run() {
    let folder = TestDir::new();
    let registry = Registry::begin_in(&folder.join("registry"), &folder).unwrap();
    let start = crate::host_process::Start {
        role: "server".to_owned(),
        program: "true".into(),
        arguments: Vec::new(),
        log: folder.join("log"),
        ..Default::default()
    };
    let host = crate::hosts::local(&registry);
    let process = host.start(&start).unwrap();
    until("it has ended", || process.ended().is_some());
    let bystander = stranger(process.pid());
    process.signal_group(Signal::KILL);
    assert!(stays_alive(bystander), "a signal to an old group reached a new one");
    registry.end();
    assert!(stays_alive(bystander), "the end of a run killed what had only got the number");
}

#[test]
fn a_run_of_another_pid_namespace_is_left_alone() {
    let bench = Bench::new();
    let scratch = bench.registry.scratch().unwrap();
    let registry = bench.folder.join("registry");
    in_pid_namespace_with("registry::tests::clean_inside", &registry);
    assert!(scratch.is_dir() && entries(&opened(&registry)).len() == 1, "a live run was removed");
}

/// Finds a run of the outer namespace. This is no test; another test starts it.
#[test]
#[ignore = "started by another test"]
fn clean_inside() {
    let Ok(folder) = std::env::var("REGISTRY") else { return };
    let cleaned = cleaned(Path::new(&folder));
    assert!(cleaned.removed.is_empty() && cleaned.failed.is_empty(), "{cleaned:?}");
    assert!(cleaned.left_alone[0].contains("began in another pid namespace"), "{cleaned:?}");
}

#[test]
fn a_run_of_another_time_namespace_is_left_alone() {
    let bench = Bench::new();
    let scratch = bench.registry.scratch().unwrap();
    let registry = bench.folder.join("registry");
    let mut command = Command::new("unshare");
    command.args(["--time", "--boottime", "100000", "--fork"]);
    let played = command.args(ourselves("registry::tests::clean_by_another_clock")).env("REGISTRY", &registry).output();
    let played = played.unwrap();
    if String::from_utf8_lossy(&played.stderr).starts_with("unshare: ") {
        println!("skipped: no time namespace here");
        return;
    }
    assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stdout));
    assert!(scratch.is_dir() && entries(&opened(&registry)).len() == 1, "a live run was removed");
}

/// Helper that another test starts in a different time namespace.
#[test]
#[ignore = "started by another test"]
fn clean_by_another_clock() {
    let Ok(folder) = std::env::var("REGISTRY") else { return };
    let cleaned = cleaned(Path::new(&folder));
    assert!(cleaned.removed.is_empty() && cleaned.failed.is_empty(), "{cleaned:?}");
    assert!(cleaned.left_alone[0].contains("began in another time namespace"), "{cleaned:?}");
}

#[test]
fn start_times_are_not_compared_without_a_time_namespace() {
    let me = RunOwner::this_process();
    let older = RunOwner { time_namespace: None, started_ticks: me.started_ticks + 1, ..me.clone() };
    assert_eq!(me.standing(), OwnerState::Alive);
    if me.time_namespace.is_some() {
        assert_eq!(older.standing(), OwnerState::Elsewhere("time"));
    }
    assert_eq!(RunOwner { started_ticks: older.started_ticks, ..me }.standing(), OwnerState::Gone);
    assert_eq!(RunOwner { pid: 4_194_305, ..older }.standing(), OwnerState::Gone, "there is no such process");
}

#[test]
fn a_run_ends_with_its_pid_namespace() {
    let folder = TestDir::new();
    let registry = folder.join("registry");
    if !in_pid_namespace_with("registry::tests::begin_inside", &registry) {
        return;
    }
    let cleaned = cleaned(&registry);
    // Only the first pid namespace shows whether another one has no more processes.
    if procfs::pid_namespace() == Some(procfs::FIRST_PID_NAMESPACE) {
        assert!(cleaned.removed.iter().any(|line| line.starts_with("folder ")), "{cleaned:?}");
        assert_eq!(fs::read_dir(&registry).unwrap().count(), 0);
    } else {
        assert_eq!((cleaned.removed.len(), cleaned.left_alone.len()), (0, 1), "{cleaned:?}");
    }
}

/// A run that ends with its namespace. This is no test; another test starts it.
#[test]
#[ignore = "started by another test"]
fn begin_inside() {
    let Ok(folder) = std::env::var("REGISTRY") else { return };
    let registry = Registry::begin_in(Path::new(&folder), Path::new("run")).unwrap();
    registry.scratch().unwrap();
    std::mem::forget(registry);
}

fn in_pid_namespace_with(test: &str, registry: &Path) -> bool {
    let parent = registry.parent().unwrap().as_os_str();
    fixture::in_pid_namespace_with(test, &[("REGISTRY", registry.as_os_str()), ("TMPDIR", parent)])
}

#[test]
fn the_entry_of_a_long_run_stays_readable() {
    let bench = Bench::new();
    let scratch = bench.registry.scratch().unwrap();
    let ledger = bench.registry.ledger();
    let mut alive = Command::new("sleep");
    let mut alive = std::os::unix::process::CommandExt::process_group(&mut alive, 0).arg("1000").spawn().unwrap();
    ledger.started(&ProcessGroup::of(alive.id(), Vec::new())).unwrap();
    let folder = bench.folder.join("registry");
    let longest = (0..12_000)
        .map(|number| {
            ledger.announce("n1", "server").unwrap();
            // Process ids that do not exist.
            ledger.started(&ProcessGroup { pid: 5_000_000 + number, started_ticks: 1, pipes: vec![1] }).unwrap();
            fs::metadata(folder.join(format!("{}.jsonl", bench.registry.id()))).unwrap().len()
        })
        .max();
    assert!(longest.is_some_and(|bytes| bytes < ENTRY_BYTES), "{longest:?}");
    let registry = opened(&folder);
    let [name] = entries(&registry).try_into().unwrap();
    let read = read_entry(&registry, &name).unwrap().unwrap();
    assert_eq!((read.id.as_str(), read.scratch), (bench.registry.id(), vec![scratch]));
    assert!(read.groups.contains(&ProcessGroup::of(alive.id(), Vec::new())), "what is alive is still known");
    assert_eq!(registry.names(), [name]);
    alive.kill().unwrap();
    alive.wait().unwrap();
}
