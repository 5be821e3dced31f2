//! Devices of a machine: packages and caches of processors, modules of memory, interfaces. It must not talk to them.

use std::collections::BTreeSet;
use std::fs;

use record::environment::{Cache, Interface};

use super::{Root, count_listed};

const CPUS: &str = "sys/devices/system/cpu";

/// How many packages the processors are in.
pub fn sockets(root: &Root) -> Option<u32> {
    let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok());
    let package = |cpu: String| root.text(&format!("{CPUS}/{cpu}/topology/physical_package_id"));
    let packages: BTreeSet<String> = root.names(CPUS).into_iter().filter(is_cpu).filter_map(package).collect();
    u32::try_from(packages.len()).ok().filter(|count| *count > 0)
}

/// The caches of the first processor, the nearest first.
pub fn caches(root: &Root) -> Vec<Cache> {
    let folder = format!("{CPUS}/cpu0/cache");
    let indexes = root.names(&folder).into_iter().filter(|name| name.starts_with("index"));
    let read = |index: String| {
        let says = |what: &str| root.text(&format!("{folder}/{index}/{what}"));
        Cache {
            level: says("level").and_then(|level| level.parse().ok()),
            holds: says("type"),
            size_bytes: says("size").and_then(|size| in_bytes(&size)),
            shared_by: says("shared_cpu_list").and_then(|list| count_listed(&list)),
        }
    };
    indexes.map(read).collect()
}

/// `1024K`
fn in_bytes(size: &str) -> Option<u64> {
    let (number, unit) = size.split_at(size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len()));
    let unit = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// The loopback, and the interfaces that are devices: bridges and tunnels come and go.
pub fn interfaces(root: &Root) -> Vec<Interface> {
    const FOLDER: &str = "sys/class/net";
    let names = root.names(FOLDER).into_iter();
    let kept = names.filter(|name| name == "lo" || root.path(&format!("{FOLDER}/{name}/device")).exists());
    let read = |name: String| {
        let driver = fs::read_link(root.path(&format!("{FOLDER}/{name}/device/driver"))).ok();
        // One that is down says -1.
        let speed = root.number::<i64>(&format!("{FOLDER}/{name}/speed")).filter(|speed| *speed > 0);
        Interface {
            mtu_bytes: root.number(&format!("{FOLDER}/{name}/mtu")),
            driver: driver.and_then(|driver| Some(driver.file_name()?.to_str()?.to_owned())),
            speed_mbit_per_s: speed.and_then(|speed| u64::try_from(speed).ok()),
            name,
        }
    };
    kept.map(read).collect()
}

/// What the fastest module of memory runs at, from the firmware's tables, which only root may read.
pub fn memory_speed_mt_per_s(root: &Root) -> Option<u64> {
    memory_speed(&fs::read(root.path("sys/firmware/dmi/tables/DMI")).ok()?)
}

/// Structures of type 17, "Memory Device": size at 0Ch, speed at 15h, configured speed at 20h (DMTF DSP0134, 7.18).
fn memory_speed(table: &[u8]) -> Option<u64> {
    const MEMORY_DEVICE: u8 = 17;
    let mut fastest = None;
    let mut rest = table;
    while let [kind, length, ..] = *rest {
        let fixed = rest.get(..usize::from(length)).filter(|fixed| fixed.len() >= 4)?;
        let word = |at: usize| Some(u64::from(u16::from_le_bytes([*fixed.get(at)?, *fixed.get(at + 1)?])));
        let known = |at: usize| word(at).filter(|speed| (1..0xffff).contains(speed));
        if kind == MEMORY_DEVICE && word(0x0c).is_some_and(|size| size > 0) {
            fastest = fastest.max(known(0x20).or_else(|| known(0x15)));
        }
        // Behind it its texts, which end with two zeros.
        let texts = &rest[fixed.len()..];
        let end = texts.windows(2).position(|pair| pair == [0, 0])? + 2;
        rest = &texts[end..];
    }
    fastest
}

#[cfg(test)]
mod tests;
