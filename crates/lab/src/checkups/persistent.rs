//! Persistent memory, and file systems that reach it without a cache between.

use super::{About, Finding, Kind, Patient};

pub static KIND: Kind = Kind {
    name: "persistent memory",
    about: About::Hardware,
    reads: "/sys/bus/nd/devices, /proc/mounts",
    why: "a file system on persistent memory without `dax` is an ordinary fast disk with a page cache",
    source: "https://docs.kernel.org/filesystems/dax.html",
    caught_by: &[],
    article: None,
    look,
};

fn look(patient: &Patient<'_>) -> Finding {
    let devices = patient.root.names("sys/bus/nd/devices");
    let namespaces = devices.iter().filter(|name| name.starts_with("namespace")).count();
    let mounts = patient.text("proc/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let on_it: Vec<Vec<&str>> =
        fields.filter(|fields| fields.first().is_some_and(|device| device.starts_with("/dev/pmem"))).collect();
    if namespaces == 0 && on_it.is_empty() {
        return Finding::unknown("not on this machine");
    }
    let is_direct = |fields: &Vec<&str>| {
        fields.get(3).is_some_and(|options| options.split(',').any(|option| matches!(option, "dax" | "dax=always")))
    };
    let cached: Vec<&str> =
        on_it.iter().filter(|fields| !is_direct(fields)).filter_map(|fields| fields.get(1).copied()).collect();
    if cached.is_empty() {
        let direct: Vec<&str> = on_it.iter().filter_map(|fields| fields.get(1).copied()).collect();
        let mounted =
            if direct.is_empty() { "none mounted".to_owned() } else { format!("{} with dax", direct.join(", ")) };
        return Finding::good(format!("{namespaces} namespace(s), {mounted}"));
    }
    let found = format!("{} without dax: a page cache is in between", cached.join(", "));
    Finding::notice(found, "mount -o dax (ext4 with blocks of 4096 bytes, or xfs)")
}
