//! Fleets whose places a platform provides: Slurm and Kubernetes. Stand-ins for their programs play
//! here; `make test-fleet` plays on real ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fixture::KilledAtEnd;
use serde_json::Value;

use crate::hit::echo;
use crate::sandbox::{Playing, Sandbox, json, number, root, signal, until};

/// Returns a sandbox with the tests' stand-ins for platform programs, and their folder.
pub fn sandbox() -> (Sandbox, PathBuf) {
    let mut sandbox = Sandbox::new();
    let programs = root().join("crates/plimsoll/tests/platforms");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    sandbox.set("PATH", path);
    let platform = sandbox.path().join("platform");
    fs::create_dir(&platform).unwrap();
    sandbox.set("PLATFORM", &platform);
    (sandbox, platform)
}

/// Writes an experiment with an open loop on a running server.
fn experiment(sandbox: &Sandbox, url: &str, fleet: &str) -> String {
    let text = format!(
        "title = \"A fleet\"\nasks = \"Does the load come together?\"\n[target]\nurl = \"{url}\"\n[load]\nagents = 12\nrate = 90\n\
         time = \"4s\"\nwarmup = \"0s\"\ndrain = \"60s\"\ntimeout = \"60s\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n\
         [fleet]\ngenerators = 3\n{fleet}\n"
    );
    sandbox.file("fleet.toml", text)
}

const SLURM: &str = "by = \"slurm\"\nslurm = { partition = \"load\" }";
const KUBERNETES: &str = "by = \"kubernetes\"\nkubernetes = { namespace = \"load\", nodes = { pool = \"load\" } }";

/// Checks that all 360 scheduled operations are recorded, from three generators.
fn is_whole(results: &Value) {
    let outcomes = ["ok", "failed", "timeout", "wrong", "unfinished"];
    let all: f64 = outcomes.iter().map(|name| number(results, &format!("/trials/0/outcomes/{name}"))).sum();
    assert!((all - 360.0).abs() < 0.5, "{results:#}");
    let each = results["trials"][0]["generator"]["each"].as_array().unwrap();
    assert_eq!(each.len(), 3);
    assert!(each.iter().all(|one| one["operations"].as_u64().unwrap() > 0), "{each:#?}");
}

fn invocations(platform: &Path, program: &str) -> String {
    fs::read_to_string(platform.join(program)).unwrap_or_default()
}

#[test]
fn platform_generators_share_one_load_and_leave_nothing() {
    for (fleet, left, asked) in [(SLURM, "srun", "--partition=load"), (KUBERNETES, "kubectl", "--namespace=load")] {
        let (sandbox, platform) = sandbox();
        let (server, url) = echo(&sandbox, &[]);
        let results = sandbox.run(&[&experiment(&sandbox, &url, fleet)]).exits(0).json();
        is_whole(&results);
        assert!(invocations(&platform, left).contains(asked), "{}", invocations(&platform, left));
        assert!(!platform.join("job.json").exists(), "the Job is removed");
        assert_eq!(platform.join("cancelled").exists(), fleet == SLURM);
        drop(server);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

/// Starts a long load, and waits until it runs.
fn long_load(sandbox: &Sandbox, url: &str, fleet: &str) -> Playing {
    let mut playing = sandbox.start_run(&[&experiment(sandbox, url, fleet), "--set", "load.time=10m"]);
    playing.wait_for_records();
    playing
}

/// Kills the second of three generators.
fn kill_the_second(sandbox: &Sandbox) {
    let all = sandbox.processes("generator");
    assert_eq!(all.len(), 3);
    signal("KILL", all[1]);
}

#[test]
fn a_killed_platform_generator_voids_the_trial() {
    for (fleet, place) in [(SLURM, "a job of Slurm"), (KUBERNETES, "on node kn")] {
        let (sandbox, platform) = sandbox();
        let (server, url) = echo(&sandbox, &[]);
        let playing = long_load(&sandbox, &url, fleet);
        kill_the_second(&sandbox);
        playing.wait();
        let results = json(&sandbox.run_folder().join("analysis.json"));
        let verdict = results["verdict"].to_string();
        assert_eq!(results["verdict"]["is"], "void", "{verdict}");
        assert!(verdict.contains("its stream ended") && verdict.contains(place), "{verdict}");
        assert!(!platform.join("job.json").exists(), "the Job is removed");
        drop(server);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

#[test]
fn clean_removes_platform_jobs_of_a_killed_conductor() {
    for (fleet, removed) in [(SLURM, "Slurm's job 7"), (KUBERNETES, "job.batch/plimsoll-")] {
        let (sandbox, platform) = sandbox();
        let (server, url) = echo(&sandbox, &[]);
        let playing = long_load(&sandbox, &url, fleet);
        let all = sandbox.processes("generator");
        playing.signal("KILL");
        playing.wait();
        // Their streams end, too.
        until("the generators end", || all.iter().all(|pid| !Path::new(&format!("/proc/{pid}/exe")).exists()));
        let cleaned = sandbox.play(&["clean"]).exits(0);
        assert!(cleaned.stdout.contains(removed), "{}{}", cleaned.stdout, cleaned.stderr);
        assert!(!platform.join("job.json").exists(), "the Job is removed");
        assert_eq!(platform.join("cancelled").exists(), fleet == SLURM);
        drop(server);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

#[test]
fn platform_scheduling_errors_are_reported() {
    let pod = r#"[{"metadata": {"name": "p"}, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled",
        "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu."}]}}]"#;
    let image = r#"[{"metadata": {"name": "p"}, "status": {"containerStatuses": [{"state": {"waiting":
        {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}}]}}]"#;
    let cases = [
        (SLURM, "full", "", "7 is PENDING: Resources"),
        (KUBERNETES, "pods", pod, "0/3 nodes are available: 3 Insufficient cpu."),
        (KUBERNETES, "pods", image, "ImagePullBackOff: Back-off pulling image"),
    ];
    for (fleet, name, content, words) in cases {
        let (sandbox, platform) = sandbox();
        fs::write(platform.join(name), content).unwrap();
        let (server, url) = echo(&sandbox, &[]);
        let file = experiment(&sandbox, &url, &fleet.replacen('\n', "\nwait = \"1s\"\n", 1));
        sandbox.run(&[&file]).exits(3).says(&[words]);
        assert!(!platform.join("job.json").exists(), "the Job is removed");
        drop(server);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

#[test]
fn a_missing_platform_program_is_reported() {
    let (mut sandbox, _) = sandbox();
    let (server, url) = echo(&sandbox, &[]);
    sandbox.set("PATH", "/nowhere");
    for (fleet, program) in [(SLURM, "srun"), (KUBERNETES, "kubectl")] {
        sandbox
            .run(&[&experiment(&sandbox, &url, fleet)])
            .exits(3)
            .says(&[&format!("`{program}` is not on this machine")]);
    }
    drop(server);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn hit_translates_its_platform_options() {
    let sandbox = Sandbox::new();
    let print = |by: &str| {
        let words = ["hit", "http://127.0.0.1:1/", "--generators", "3", "--by", by, "--print"];
        sandbox.play(&words).exits(0).stdout
    };
    let kubernetes = print("kubernetes=load,debian:12");
    assert!(kubernetes.contains("kubernetes = { namespace = \"load\", image = \"debian:12\" }"), "{kubernetes}");
    assert!(print("slurm=load").contains("slurm = { partition = \"load\" }"));
    assert!(print("slurm").contains("by = \"slurm\"\n"));
}

/// Needs a Slurm, as `make test-fleet` starts it.
#[test]
#[ignore = "needs a Slurm that runs; make test-fleet brings one up"]
fn load_loss_and_cleanup_work_on_a_real_slurm() {
    let queue = || {
        let listed = Command::new("squeue").args(["--noheader", "--format=%j"]).output().unwrap();
        String::from_utf8(listed.stdout).unwrap()
    };
    let sandbox = Sandbox::new();
    let (server, url) = echo(&sandbox, &[]);
    let results = sandbox.run(&[&experiment(&sandbox, &url, SLURM)]).exits(0).json();
    is_whole(&results);
    println!("fleet: {}", results["trials"][0]["generator"]["fleet"]);
    assert_eq!(queue(), "", "no job is left");

    let sandbox_of_lost = Sandbox::new();
    let playing = long_load(&sandbox_of_lost, &url, SLURM);
    kill_the_second(&sandbox_of_lost);
    playing.wait();
    let results = json(&sandbox_of_lost.run_folder().join("analysis.json"));
    println!("lost: {}", results["verdict"]);
    assert!(results["verdict"].to_string().contains("was lost at"), "{}", results["verdict"]);
    until("no job is left", || queue().is_empty());

    let sandbox_of_killed = Sandbox::new();
    let playing = long_load(&sandbox_of_killed, &url, SLURM);
    playing.signal("KILL");
    playing.wait();
    let cleaned = sandbox_of_killed.play(&["clean"]).exits(0);
    println!("cleaned: {}", cleaned.stdout);
    until("no job is left", || queue().is_empty() && sandbox_of_killed.processes("generator").is_empty());
    drop(server);
    assert_eq!(sandbox_of_killed.leftovers(), [""; 0]);
}

/// Needs a cluster: the URL of a server in it, a namespace, and an image with a shell and this
/// machine's C library.
#[test]
#[ignore = "needs a cluster: PLIMSOLL_TEST_KUBERNETES=URL,NAMESPACE,IMAGE; make test-fleet plays it where that is set"]
fn load_loss_and_cleanup_work_on_a_real_kubernetes() {
    let named = std::env::var("PLIMSOLL_TEST_KUBERNETES").expect("PLIMSOLL_TEST_KUBERNETES=URL,NAMESPACE,IMAGE");
    let [url, namespace, image] = named.split(',').collect::<Vec<_>>()[..] else { panic!("{named}") };
    let fleet = format!(
        "by = \"kubernetes\"\nkubernetes = {{ namespace = \"{namespace}\", image = \"{image}\", cpu = \"100m\" }}"
    );
    let kubectl = |words: &[&str]| {
        let said = Command::new("kubectl").args(["--namespace", namespace]).args(words).output().unwrap();
        assert!(said.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap()
    };
    let jobs = || kubectl(&["get", "jobs", "--output=name"]);
    let sandbox = Sandbox::new();
    let results = sandbox.run(&[&experiment(&sandbox, url, &fleet)]).exits(0).json();
    is_whole(&results);
    println!("fleet: {}", results["trials"][0]["generator"]["fleet"]);
    until("the Job is gone", || jobs().is_empty());

    let sandbox = Sandbox::new();
    let playing = long_load(&sandbox, url, &fleet);
    let pods = kubectl(&["get", "pods", "--selector=app.kubernetes.io/name=plimsoll", "--output=name"]);
    let pods: Vec<&str> = pods.lines().collect();
    assert_eq!(pods.len(), 3, "{pods:?}");
    kubectl(&["delete", pods[1], "--grace-period=0", "--force"]);
    playing.wait();
    let results = json(&sandbox.run_folder().join("analysis.json"));
    println!("lost: {}", results["verdict"]);
    assert!(results["verdict"].to_string().contains("was lost at"), "{}", results["verdict"]);
    until("the Job is gone", || jobs().is_empty());

    let sandbox = Sandbox::new();
    let playing = long_load(&sandbox, url, &fleet);
    playing.signal("KILL");
    playing.wait();
    let cleaned = sandbox.play(&["clean"]).exits(0);
    println!("cleaned: {}", cleaned.stdout);
    assert!(cleaned.stdout.contains("job.batch/plimsoll-"), "{}", cleaned.stdout);
    until("the Job is gone", || jobs().is_empty());
    assert_eq!(sandbox.leftovers(), [""; 0]);

    // If the image is missing, the error has the cluster's own words.
    let sandbox = Sandbox::new();
    let fleet = fleet.replace(image, "plimsoll.test/there-is-none:1");
    let played = sandbox.run(&[&experiment(&sandbox, url, &fleet)]).exits(3);
    println!("no image: {}", played.stderr);
    until("the Job is gone", || jobs().is_empty());
}

#[test]
fn platform_generators_start_once_for_all_trials() {
    for (fleet, program, asked) in [(SLURM, "srun", "--ntasks=1"), (KUBERNETES, "kubectl", " attach ")] {
        let (sandbox, platform) = sandbox();
        let (server, url) = echo(&sandbox, &[]);
        let file = experiment(&sandbox, &url, &format!("{fleet}\n[sweep]\n\"load.rate\" = [60, 90]"));
        let results = sandbox.run(&[&file, "--set", "load.time=2s"]).exits(0).json();
        assert_eq!(results["trials"].as_array().unwrap().len(), 2);
        let counted = |pointer: &str| number(&results, pointer);
        assert_eq!((counted("/trials/0/outcomes/ok"), counted("/trials/1/outcomes/ok")), (120.0, 180.0));
        assert_eq!(invocations(&platform, program).matches(asked).count(), 3, "{}", invocations(&platform, program));
        drop(server);
        assert_eq!(sandbox.leftovers(), [""; 0]);
    }
}

/// The address of a service in a cluster is useless elsewhere.
#[test]
fn generators_prepare_and_load_targets_that_only_they_reach() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a network of its own needs root");
        return;
    }
    let (sandbox, platform) = sandbox();
    let mut inside = Sandbox::new();
    inside.within("exec unshare --net sh -c 'ip link set lo up && exec \"$@\"' sh \"$@\"", Path::new("/"));
    let server = inside.start(&["echo", "--listen", "127.0.0.1:7000"]);
    until_listening(server.pid());
    fs::write(platform.join("beside"), server.pid().to_string()).unwrap();
    let prepare = "[[prepare]]\ncall = \"get\"\ncount = 7\nwith = { path = \"/{seq}\" }";
    let file = experiment(&sandbox, "http://127.0.0.1:7000/", &format!("{SLURM}\n{prepare}"));
    is_whole(&sandbox.run(&[&file]).exits(0).json());
    let nobody = file.replace("fleet.toml", "nobody.toml");
    fs::write(&nobody, fs::read_to_string(&file).unwrap().replace(":7000", ":7001")).unwrap();
    let (sandbox, platform) = self::sandbox();
    fs::write(platform.join("beside"), server.pid().to_string()).unwrap();
    sandbox.run(&[&nobody]).exits(4).says(&["g1", "nothing answers at http://127.0.0.1:7001"]);
    drop(server);
    assert_eq!((sandbox.leftovers(), inside.leftovers()), (vec![], vec![]));
}

/// Starts a Redis server on a network without any other process.
fn unreachable_redis(sandbox: &Sandbox) -> KilledAtEnd {
    let serve = "ip link set lo up && exec redis-server --port 7000 --bind 127.0.0.1 --save '' --dir \"$0\"";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", serve]).arg(sandbox.path().join("scratch")).stdout(Stdio::null());
    let server = KilledAtEnd(command.spawn().unwrap());
    until_listening(server.0.id());
    server
}

/// Waits until this process listens at port 7000 of its network.
fn until_listening(pid: u32) {
    let sockets = format!("/proc/{pid}/net/tcp");
    until("the server listens", || fs::read_to_string(&sockets).is_ok_and(|text| text.contains(":1B58 ")));
}

/// Regression: keys were read back from the conductor, and were unknown if only generators could
/// reach the target.
#[test]
fn a_generator_reads_back_keys_that_the_conductor_cannot() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a network of its own needs root");
        return;
    }
    let (sandbox, platform) = sandbox();
    let server = unreachable_redis(&sandbox);
    fs::write(platform.join("beside"), server.0.id().to_string()).unwrap();
    let text = format!(
        "title = \"t\"\nasks = \"a\"\n[target]\nurl = \"redis://127.0.0.1:7000\"\n[load]\nagents = 9\nrate = 60\n\
         time = \"3s\"\nwarmup = \"0s\"\n[[load.cycle]]\ncall = \"set\"\naudit = true\n\
         with = {{ key = \"{{agent}}-{{seq}}\", value = \"{{seq}}\" }}\n[fleet]\ngenerators = 3\n{SLURM}\n"
    );
    let results = sandbox.run(&[&sandbox.file("redis.toml", text)]).exits(0).json();
    assert_eq!(number(&results, "/trials/0/consistency/checked"), 180.0, "{results:#}");
    assert_eq!(number(&results, "/trials/0/consistency/lost_writes"), 0.0, "{results:#}");
    let reasons = results["trials"][0]["verdict"]["rules"].as_array().unwrap();
    assert!(!reasons.iter().any(|rule| rule == "unread_keys"), "{reasons:?}");
    drop(server);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// Regression: files of a load had to exist on each generator's machine.
#[test]
fn files_of_a_load_are_sent_to_generators() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: hiding a folder needs root");
        return;
    }
    let (sandbox, platform) = sandbox();
    fs::create_dir(sandbox.path().join("input")).unwrap();
    sandbox.file("input/paths.csv", "path\none\ntwo\n");
    fs::write(platform.join("hides"), sandbox.path().join("input").display().to_string()).unwrap();
    let (server, url) = echo(&sandbox, &[]);
    let feed = "[[load.feed]]\nname = \"paths\"\nfile = \"input/paths.csv\"\n";
    let file = experiment(
        &sandbox,
        &url,
        &format!("{SLURM}\n{feed}[[prepare]]\ncall = \"get\"\nwith = {{ path = \"/{{feed.paths.path}}\" }}"),
    );
    let text = fs::read_to_string(&file).unwrap().replace("path = \"/\"", "path = \"/{feed.paths.path}\"");
    fs::write(&file, text).unwrap();
    is_whole(&sandbox.run(&[&file]).exits(0).json());
    drop(server);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
