//! A generator that is kept from doing its work: the result is void, and names the cause.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fixture::{KilledAtEnd, free_address};

use crate::lab_traces;
use crate::sandbox::{Sandbox, until};

const TREE: &str = "/sys/fs/cgroup";
const PERIOD_US: u32 = 100_000;

/// Control group whose CPU time can be limited. Removed when dropped.
struct Group {
    path: PathBuf,
    is_v1: bool,
}

impl Group {
    /// Makes a group. If there is no controller for it, prints the reason and returns `None`.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
    fn new() -> Option<Self> {
        let is_v1 =
            Path::new(TREE).join("cpu/cpu.cfs_quota_us").exists() || Path::new(TREE).join("cpu/cpu.shares").exists();
        let tree = if is_v1 { Path::new(TREE).join("cpu") } else { PathBuf::from(TREE) };
        let group = Self { path: tree.join(format!("e2e-quota-{}", std::process::id())), is_v1 };
        let _ = fs::create_dir(&group.path);
        let is_there = group.set("max").is_ok();
        if !is_there {
            eprintln!("skipped: no control group with a CPU quota can be made here");
        }
        is_there.then_some(group)
    }

    /// Limits the group to a share of a core, or removes the limit with `max`.
    fn set(&self, quota: &str) -> std::io::Result<()> {
        if !self.is_v1 {
            return fs::write(self.path.join("cpu.max"), format!("{quota} {PERIOD_US}"));
        }
        fs::write(self.path.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
        fs::write(self.path.join("cpu.cfs_quota_us"), if quota == "max" { "-1" } else { quota })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes may take a moment to end. A group that stays can be found by its name.
        let _ = self.set("max");
        let _ = fs::remove_dir(&self.path);
    }
}

/// Starts the built-in server outside of the group.
fn echo() -> (KilledAtEnd, u16) {
    let port = free_address().port();
    let mut line = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    line.args(["echo", "--listen", &format!("127.0.0.1:{port}")]).stdin(Stdio::null());
    let server = KilledAtEnd(line.spawn().unwrap());
    until("the server is there", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    (server, port)
}

#[test]
fn a_starved_generator_voids_the_trial() {
    let Some(_turn) = lab_traces::turn() else { return };
    let Some(group) = Group::new() else { return };
    let (_server, port) = echo();
    let mut sandbox = Sandbox::new();
    sandbox.within("echo $$ >\"$0/cgroup.procs\" && exec \"$@\"", &group.path);
    let file = sandbox.file(
        "starved.toml",
        format!(
            "title = \"t\"\nasks = \"a\"\n[target]\nurl = \"http://127.0.0.1:{}/\"\n[load]\nagents = 100\nrate = 50000\n\
             threads = 1\ntime = \"3s\"\ndrain = \"500ms\"\nwarmup = \"500ms\"\n[[load.cycle]]\ncall = \"get\"\nwith = {{ path = \"/\" }}\n",
            port
        ),
    );
    let mut playing = sandbox.start_run(&[&file]);
    playing.wait_for_load(Duration::ZERO);
    group.set(&(PERIOD_US / 20).to_string()).unwrap();
    playing.wait_for_event("\"phase\":\"stopping\"");
    // The limit must not slow the analysis, which is not tested here.
    group.set("max").unwrap();
    let results = playing.wait().exits(0).json();
    assert_eq!(results["verdict"]["is"], "void", "{:#}", results["verdict"]);
    let limit = results["trials"][0]["generator"]["limit"].as_str().unwrap();
    assert!(["cpu", "lateness"].contains(&limit), "{limit}: {:#}", results["verdict"]);
}
