//! Measures a machine for a profile: cores and their score, memory, link, storage; what cannot be measured is left to be
//! filled in, never made up. It must not know who will play the profile.

mod cpu;
mod disk;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use record::environment::Environment;
use record::events::HostFigures;

use crate::environment;
use crate::runner::storage::Measure;

pub use cpu::score;

/// Seconds that the storage is measured.
const STORAGE_S: f64 = 4.0;

/// Interfaces of this machine.
const INTERFACES: &str = "/sys/class/net";

/// The profile of this machine, in TOML. It takes about eight seconds, in which the machine should do nothing else.
///
/// # Errors
/// In words, if the machine cannot even be read.
pub fn measure() -> Result<String, String> {
    let folder = std::env::temp_dir().join(format!("plimsoll-measure-{}", std::process::id()));
    fs::create_dir(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let measured = measure_in(&folder);
    let _ = fs::remove_dir_all(&folder);
    measured
}

/// The same, with the storage under this folder.
///
/// # Errors
/// As [`measure`].
pub fn measure_in(folder: &Path) -> Result<String, String> {
    let cores = std::thread::available_parallelism().map_err(|error| format!("cannot count the CPUs: {error}"))?.get();
    let alone = score();
    let together = if cores > 1 { cpu::score_of_all(cores) } else { None };
    let machine = environment::read(folder);
    let mut disk = Measure { folder, groups: &[], is_throttled: false }.take(STORAGE_S);
    let by_fio = disk.storage_read_per_s.is_some() || disk.storage_write_per_s.is_some();
    if !by_fio {
        disk = disk::measure(folder);
    }
    let found = Found {
        cores,
        alone,
        together,
        link_mbit_per_s: fastest_link(Path::new(INTERFACES)),
        disk,
        by: if by_fio { "fio" } else { "a loop of reads and synced writes, for fio could not" },
        machine,
    };
    Ok(written(&found))
}

/// What was found out.
struct Found {
    cores: usize,
    /// Rounds/s of one core, the others idle.
    alone: f64,
    /// Rounds/s of all cores at once.
    together: Option<f64>,
    link_mbit_per_s: Option<u64>,
    disk: HostFigures,
    /// Who measured the disk.
    by: &'static str,
    machine: Environment,
}

/// The fastest interface that is a device and says its speed: bridges, tunnels and the loopback are none.
fn fastest_link(interfaces: &Path) -> Option<u64> {
    let speed = |interface: &Path| {
        let speed: i64 = fs::read_to_string(interface.join("speed")).ok()?.trim().parse().ok()?;
        // One that is down says -1.
        u64::try_from(speed).ok().filter(|speed| *speed > 0)
    };
    let devices = fs::read_dir(interfaces).ok()?.flatten().map(|entry| entry.path());
    devices.filter(|interface| interface.join("device").exists()).filter_map(|interface| speed(&interface)).max()
}

fn written(found: &Found) -> String {
    let machine = &found.machine;
    let model = machine.cpu.model.as_deref().unwrap_or("a processor that does not say what it is");
    let of = machine.hostname.as_deref().unwrap_or("this machine");
    let mut text = format!(
        "# {of}, measured by Plimsoll {}. Save it as profiles/NAME.toml.\n",
        machine.plimsoll.as_deref().unwrap_or_default()
    );
    let _ = writeln!(text, "what = {}", quoted(&format!("{of}: {} × {model}", found.cores)));
    cpu_section(&mut text, found, model);
    if let Some(bytes) = machine.memory_bytes {
        let _ = write!(text, "\n[memory]\nsize = \"{}MiB\"\nsource = \"/proc/meminfo\"\n", bytes / (1 << 20));
    }
    match found.link_mbit_per_s {
        Some(rate) => {
            let _ = write!(text, "\n[link]\nrate = \"{rate}mbit\"\nsource = \"what its fastest interface says\"\n");
        }
        None => text.push_str("\n# No interface says its speed.\n# [link]\n# rate = \"1gbit\"\n# source = \"\"\n"),
    }
    disk_section(&mut text, found);
    text.push_str(
        "\n# To be filled in, from a power meter and an invoice; `lifetime_years = 5` then goes to the top.\n\
         # [power]\n# idle_watts = 0\n# load_watts = 0\n# source = \"\"\n\n\
         # [price]\n# amount = 0\n# currency = \"EUR\"\n# source = \"\"\n",
    );
    text
}

fn cpu_section(text: &mut String, found: &Found, model: &str) {
    let together = found.together.map_or_else(String::new, |together| {
        format!("; all {} at once did {:.2} times that", found.cores, together / found.alone.max(f64::MIN_POSITIVE))
    });
    // Only builds that are alike can be compared.
    let build =
        if cfg!(debug_assertions) { ", by a build without optimisation: not to be compared with others" } else { "" };
    let source = format!("measured on {model}: rounds/s of one core while the others were idle{together}{build}");
    let _ = write!(
        text,
        "\n[cpu]\ncores = {}\n# A core's speed is this against the score of the machine that plays it; `speed = 1` would be as it is.\n\
         score = {:.0}\nsource = {}\n",
        found.cores,
        found.alone,
        quoted(&source)
    );
}

fn disk_section(text: &mut String, found: &Found) {
    let figures = [("read_iops", found.disk.storage_read_per_s), ("write_iops", found.disk.storage_write_per_s)];
    let figures: Vec<String> = figures
        .into_iter()
        .filter_map(|(name, figure)| Some(format!("{name} = {:.0}", figure.filter(|figure| *figure >= 1.0)?)))
        .collect();
    if figures.is_empty() {
        let why = found.disk.storage_unmeasured.as_deref().unwrap_or("nothing was measured");
        let why = why.lines().next().unwrap_or_default();
        let _ = write!(
            text,
            "\n# The disk was not measured: {why}\n# [disk]\n# read_iops = 0\n# write_iops = 0\n# source = \"\"\n"
        );
        return;
    }
    let disk = &found.machine.disk;
    let on = match (&disk.device, &disk.file_system) {
        (Some(device), Some(system)) => format!(" on {device} ({system})"),
        _ => String::new(),
    };
    let sync = found.disk.storage_sync_us.map_or_else(String::new, |us| format!("; a sync took {us:.0} us"));
    let source =
        format!("measured{on} by {}: random blocks of 4 KiB, each read waited for, each write synced{sync}", found.by);
    let _ = write!(text, "\n[disk]\n{}\nsource = {}\n", figures.join("\n"), quoted(&source));
}

/// As a TOML text: what JSON escapes is escaped the same there.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use experiment::profile::{self, Profile};
    use experiment::source::Source;
    use record::environment::{Cpu, Disk};

    use super::*;
    use crate::fixture::Scratch;

    fn found() -> Found {
        Found {
            cores: 4,
            alone: 20_000.4,
            together: Some(70_000.0),
            link_mbit_per_s: Some(1000),
            disk: HostFigures {
                storage_read_per_s: Some(8000.2),
                storage_write_per_s: Some(900.0),
                storage_sync_us: Some(1100.0),
                ..HostFigures::default()
            },
            by: "fio",
            machine: Environment {
                hostname: Some("pi".into()),
                cpu: Cpu { model: Some("A \"quoted\" processor".into()), ..Cpu::default() },
                memory_bytes: Some(1 << 30),
                disk: Disk { device: Some("/dev/sda1".into()), file_system: Some("ext4".into()), ..Disk::default() },
                ..Environment::default()
            },
        }
    }

    fn read(text: &str) -> Profile {
        let source = Source { name: "measured.toml".into(), text: text.into() };
        profile::parse("measured", &source).unwrap_or_else(|problems| panic!("{}\n{text}", problems.render(false)))
    }

    #[test]
    fn what_was_found_is_a_profile() {
        let profile = read(&written(&found()));
        assert_eq!((profile.cores, profile.core_speed, profile.score), (Some(4), None, Some(20_000.0)));
        assert_eq!((profile.memory_bytes, profile.link.rate_bits_per_s), (Some(1 << 30), Some(1e9)));
        assert_eq!((profile.disk.read_iops, profile.disk.write_iops), (Some(8000.0), Some(900.0)));
        assert!(profile.source.contains("3.50 times") && profile.source.contains("fio"), "{}", profile.source);
        assert_eq!((profile.idle_watts, profile.price), (None, None), "nobody measured that");
    }

    #[test]
    fn what_was_not_found_is_left_to_be_filled_in() {
        let disk = HostFigures { storage_unmeasured: Some("full\nof lines".into()), ..HostFigures::default() };
        let text =
            written(&Found { together: None, link_mbit_per_s: None, disk, machine: Environment::default(), ..found() });
        let profile = read(&text);
        assert!(profile.link.is_unlimited() && !profile.disk.is_throttled() && profile.memory_bytes.is_none());
        assert!(text.contains("# rate = ") && text.contains("not measured: full\n"), "{text}");
    }

    #[test]
    fn the_fastest_device_counts() {
        let folder = Scratch::new();
        for (name, speed, device) in
            [("eth0", "100", true), ("eth1", "1000", true), ("br0", "10000", false), ("wlan0", "-1", true)]
        {
            folder.write(&format!("{name}/speed"), speed);
            if device {
                folder.write(&format!("{name}/device/vendor"), "");
            }
        }
        assert_eq!(fastest_link(&folder), Some(1000));
        assert_eq!(fastest_link(&folder.join("none")), None);
    }

    #[test]
    fn cores_and_disks_are_measured() {
        assert!(score() > 0.0);
        assert!(cpu::score_of_all(2).unwrap() > 0.0);
        let folder = Scratch::new();
        let figures = disk::measure(&folder);
        assert!(figures.storage_write_per_s.is_some() || figures.storage_unmeasured.is_some());
        assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0, "nothing is left");
    }
}
