//! A load whose feed is on a slow disk: the result is void, and the reason names the disk. Also a
//! load that counts documents.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::{Sandbox, number};

const THROTTLE: &str = "/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device";

/// File system in a file, from which this machine reads at a limited rate. Removed when dropped.
struct SlowDisk {
    at: PathBuf,
    /// Number of the device, such as `7:3`.
    device: String,
}

impl SlowDisk {
    /// Makes a disk with this file on it. If this user cannot make one, prints the reason and
    /// returns `None`.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
    fn new(sandbox: &Sandbox, name: &str, content: &[u8], bytes_per_s: u32) -> Option<Self> {
        let (image, at) = (sandbox.path().join("disk.img"), sandbox.path().join("disk"));
        fs::create_dir(&at).unwrap();
        let ran = |program: &str, words: &[&Path]| {
            Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
        };
        let size = Path::new("64M");
        let can = crate::local_attacks::is_root()
            && Path::new(THROTTLE).exists()
            && ran("truncate", &[Path::new("-s"), size, &image])
            && ran("mkfs.ext4", &[Path::new("-q"), &image]);
        let mount = || ran("mount", &[Path::new("-o"), Path::new("loop"), &image, &at]);
        if !can || !mount() {
            eprintln!(
                "NOT TESTED: a slow disk takes root, mkfs.ext4, loop devices and the blkio controller of version 1"
            );
            return None;
        }
        fs::write(at.join(name), content).unwrap();
        // Written data is in memory until the disk is unmounted.
        assert!(ran("umount", &[&at]) && mount());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let own = mounts.lines().find(|line| line.split(' ').nth(4) == at.to_str()).unwrap();
        let device = own.split(' ').nth(2).unwrap().to_owned();
        let disk = Self { at, device };
        disk.limit(bytes_per_s);
        Some(disk)
    }

    /// Limits the rate; 0 removes the limit.
    fn limit(&self, bytes_per_s: u32) {
        fs::write(THROTTLE, format!("{} {bytes_per_s}", self.device)).unwrap();
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.limit(0);
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}

fn experiment(file: &str, more: &str) -> String {
    format!(
        r#"
title = "Fed"
asks  = "How many documents per second?"

[target]
use = "echo"

[load]
agents = 4
time   = "8s"
warmup = "0s"
{more}

[[load.feed]]
name   = "docs"
file   = "{file}"
stream = true

[[load.cycle]]
call  = "get"
with  = {{ path = "/{{feed.docs.id}}" }}
units = 10
"#
    )
}

fn documents(count: u32) -> Vec<u8> {
    (0..count).flat_map(|id| format!("{{\"id\": {id}, \"text\": \"{:x<1000}\"}}\n", id).into_bytes()).collect()
}

#[test]
fn a_load_that_waits_for_its_feeds_disk_is_void() {
    let Some(_turn) = crate::lab_traces::turn_alone() else { return };
    let sandbox = Sandbox::new();
    let Some(disk) = SlowDisk::new(&sandbox, "docs.json", &documents(20_000), 1_000_000) else { return };
    let file = sandbox.file("slow.toml", experiment(disk.at.join("docs.json").to_str().unwrap(), ""));
    let results = sandbox.run(&[&file]).exits(0).json();
    let trial = &results["trials"][0];
    assert_eq!(trial["verdict"]["is"], "void");
    assert!(trial["verdict"]["rules"].as_array().unwrap().iter().any(|rule| rule == "slow_feed"), "{trial:#}");
    assert!(trial["verdict"]["reasons"].to_string().contains("its disk delivered"), "{trial:#}");
    assert_eq!(trial["generator"]["limit"], "disk");
    assert!(number(trial, "/generator/feed/wait_pct") > 30.0 && number(trial, "/generator/feed/read_pct") > 50.0);
    drop(disk);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

/// Returns an experiment with a feed on a tier with this rate.
fn on_a_slow_tier(read_rate: &str, more: &str) -> String {
    let stream = format!("stream = true\ntier   = \"slow\"\n{more}");
    let tier = format!("\n[lab.tier.slow]\nread_rate = \"{read_rate}\"\n");
    experiment("docs.json", "").replace("stream = true", &stream) + &tier
}

#[test]
fn a_feed_on_a_slow_tier_voids_the_trial() {
    let sandbox = Sandbox::new();
    sandbox.file("docs.json", documents(20_000));
    let file = sandbox.file("tier.toml", on_a_slow_tier("1MB/s", ""));
    let results = sandbox.run(&[&file]).exits(0).json();
    let trial = &results["trials"][0];
    assert_eq!(trial["verdict"]["is"], "void");
    assert!(trial["verdict"]["reasons"].to_string().contains("the emulated tier `slow` delivered"), "{trial:#}");
    assert_eq!(trial["generator"]["limit"], "disk");
}

#[test]
fn a_feed_too_slow_for_any_operation_is_reported() {
    let sandbox = Sandbox::new();
    sandbox.file("docs.json", documents(20_000));
    // A record of 10 MB takes longer than the load, so that no operation begins.
    let file = on_a_slow_tier("200kB/s", "batch  = 10000");
    let file = file.replace("/{feed.docs.id}", "/x\", body = \"{feed.docs.lines}").replace("\"get\"", "\"post\"");
    let file = sandbox.file("crawl.toml", file.replace("time   = \"8s\"", "time   = \"4s\""));
    let results = sandbox.run(&[&file]).json();
    let trial = &results["trials"][0];
    assert_eq!((&trial["measured_s"], &trial["outcomes"]["ok"]), (&serde_json::Value::Null, &serde_json::json!(0)));
    assert!(trial["verdict"]["rules"].as_array().unwrap().iter().any(|rule| rule == "slow_feed"), "{trial:#}");
    assert_eq!(trial["generator"]["limit"], "disk");
    assert!(number(trial, "/generator/feed/wait_pct") > 90.0, "{trial:#}");
}

#[test]
fn documents_are_counted_and_a_fast_feed_is_not_blamed() {
    let sandbox = Sandbox::new();
    sandbox.file("docs.json", documents(1_000));
    let file = sandbox.file("fed.toml", experiment("docs.json", "think = \"5ms\""));
    let results = sandbox.run(&[&file]).json();
    let trial = &results["trials"][0];
    assert!(!trial["verdict"]["rules"].as_array().unwrap().iter().any(|rule| rule == "slow_feed"), "{trial:#}");
    let (units, ok) = (number(trial, "/units"), number(trial, "/outcomes/ok"));
    assert_eq!(units, 10.0 * ok);
    assert!(
        number(trial, "/throughput/median_units_per_s") > 0.0 && number(trial, "/generator/feed/records_per_s") > 0.0
    );
    let page = fs::read_to_string(sandbox.run_folder().join("report.html")).unwrap();
    assert!(page.contains("Units of work"));
}

#[test]
fn truncated_and_missing_feeds_are_reported() {
    let sandbox = Sandbox::new();
    let mut cut = documents(1_000);
    cut.truncate(cut.len() - 30);
    sandbox.file("cut.json", &cut);
    let file = sandbox.file("cut.toml", experiment("cut.json", ""));
    let played = sandbox.run(&[&file]).says(&["feed `docs`", "it ends in mid-line: line 1000"]);
    assert_ne!(played.code, 0);
    let file = sandbox.file("none.toml", experiment("none.json.gz", ""));
    assert_ne!(sandbox.run(&[&file]).says(&["feed `docs`", "none.json.gz", "No such file"]).code, 0);
}
