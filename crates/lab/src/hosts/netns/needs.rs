//! What virtual hosts need of this machine, looked for before anything is made. It must not make anything.

use std::env;
use std::path::Path;

use experiment::plan;
use rustix::process::geteuid;

use crate::Error;
use crate::runner::Envelope;
use crate::site::Build;

/// Parts of the kernel that a host is made of, and a file that is there where they are.
const PARTS: [(&str, &str); 5] = [
    ("network namespaces (CONFIG_NET_NS)", "/proc/self/ns/net"),
    ("pid namespaces (CONFIG_PID_NS)", "/proc/self/ns/pid"),
    ("mount namespaces", "/proc/self/ns/mnt"),
    ("ipc namespaces (CONFIG_IPC_NS)", "/proc/self/ns/ipc"),
    ("uts namespaces (CONFIG_UTS_NS)", "/proc/self/ns/uts"),
];

/// Faults that drop packets.
const CUTTING: [&str; 3] = ["host_freeze", "lossy_link", "partition"];
/// Faults that shape a link.
const SHAPING: [&str; 2] = ["lossy_link", "slow_link"];
/// Faults that need a file system of the host's own.
const OF_DISKS: [&str; 2] = ["full_disk", "slow_disk"];

/// Whether the trial has a fault of one of these kinds.
fn has_fault(trial: &plan::Trial, kinds: &[&str]) -> bool {
    trial.faults.iter().any(|fault| kinds.contains(&fault.kind.as_str()))
}

/// Whether a host gets a file system of its own.
pub fn needs_volume(trial: &plan::Trial, envelope: &Envelope) -> bool {
    envelope.disk.is_throttled() || envelope.disk.size_bytes.is_some() || has_fault(trial, &OF_DISKS)
}

/// Whether packets get lost by chance.
pub fn loses_packets(trial: &plan::Trial, envelopes: &[Envelope]) -> bool {
    has_fault(trial, &["lossy_link"]) || envelopes.iter().any(|envelope| envelope.link.loss_pct.is_some())
}

/// Whether all is there.
///
/// # Errors
/// [`Error::Needs`], with what works without.
pub fn check(build: &Build<'_>, envelopes: &[Envelope]) -> Result<(), Error> {
    if !geteuid().is_root() {
        return Err(Error::Needs {
            what: "a lab of virtual hosts, and so every profile of one and every fault on one,".to_owned(),
            needs: "root".to_owned(),
            instead: "run it as root; what works without: a target on this machine (leave [lab] out), one that runs \
                      already (`url`), one that a command starts (`start`), and real machines ([lab] ssh = [...])"
                .to_owned(),
        });
    }
    for (part, file) in PARTS {
        if !Path::new(file).exists() {
            return Err(of_kernel("a virtual host", part));
        }
    }
    let trial = build.trial;
    let limited = envelopes.iter().any(|envelope| !envelope.link.is_unlimited());
    let loses = loses_packets(trial, envelopes) || has_fault(trial, &CUTTING);
    let has_volume = envelopes.iter().any(|envelope| needs_volume(trial, envelope));
    if has_volume && !Path::new("/dev/loop-control").exists() {
        return Err(of_kernel("a disk of a host's own", "loop devices (CONFIG_BLK_DEV_LOOP; try `modprobe loop`)"));
    }
    program(true, "a virtual host", "ip", "iproute2")?;
    program(limited || has_fault(trial, &SHAPING), "a limited link", "tc", "iproute2")?;
    program(loses, "a host whose packets are dropped", "nft", "nftables")?;
    program(has_volume, "a disk of a host's own", "mkfs.ext4", "e2fsprogs")
}

/// Something of the kernel that is not there.
pub fn of_kernel(what: &str, part: &str) -> Error {
    Error::Needs {
        what: what.to_owned(),
        needs: format!("{part}, which this kernel has not"),
        instead: "run it on a machine with an ordinary kernel of a distribution".to_owned(),
    }
}

fn program(needed: bool, what: &str, program: &str, package: &str) -> Result<(), Error> {
    if !needed || is_there(program) {
        return Ok(());
    }
    Err(Error::Needs {
        what: what.to_owned(),
        needs: format!("the program `{program}`, which is not in PATH"),
        instead: format!("install it (Debian's package is {package}), or put /usr/sbin into PATH"),
    })
}

fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
