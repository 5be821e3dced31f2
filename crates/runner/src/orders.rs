//! Messages to a runner: the setup of its host, then one order per line.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use experiment::profile::{Disk, Link};
use serde::{Deserialize, Serialize};

/// Environment variable that marks every process of a run.
pub const MARK: &str = "PLIMSOLL_RUN";
/// Environment variable with the host's name. Every process of a host also has the run's mark.
/// `PLIMSOLL_HOST` is another variable: hooks get the host's address in it.
pub const HOST_MARK: &str = "PLIMSOLL_RUN_HOST";
/// Version of the protocol: the program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum length of an order. Messages from the runner have their own limits, in `messages`.
pub const ORDER_BYTES: u64 = 16 << 20;

/// Prefix of the names of folders that runs make.
pub const FOLDER_PREFIX: &str = "plimsoll-run-";

/// Returns the folder name of a run's host. Characters of the host's name other than ASCII letters
/// and digits become `-`.
#[must_use]
pub fn folder_name(run: &str, host: &str) -> String {
    let host: String = host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{FOLDER_PREFIX}{run}-{host}")
}

/// First line sent to a runner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Version of the sender. A runner of another version refuses the setup.
    pub version: String,
    pub host: String,
    /// Id of the run. Every process that the runner starts has `PLIMSOLL_RUN=<id>` in its
    /// environment, and every cgroup of the run is below `plimsoll-<id>`.
    pub run: String,
    /// Folder for the host's private folders, as the runner sees it. If empty, the runner makes a
    /// temporary folder and removes it at the end.
    pub folder: PathBuf,
    /// Whether orders reach the runner by another way than the host's network, as in a pod. If so,
    /// even the whole network can be cut and healed again.
    #[serde(default)]
    pub is_reached_aside: bool,
    /// Whether the host is the machine on which Plimsoll runs. Its runner then makes neither
    /// folders nor control groups of its own.
    #[serde(default)]
    pub is_here: bool,
    /// Host that the runner makes itself. `None`: the machine as it is.
    pub isolation: Option<Isolation>,
    /// Limits of the host.
    pub envelope: Envelope,
}

/// A virtual host on this machine, with its own network, mount, pid, ipc and uts namespaces.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Isolation {
    /// Whether the host is a network namespace only, without limits. It holds the bridges, and
    /// clients enter it.
    pub is_switch: bool,
    /// Text of the host's `/etc/hosts`.
    pub hosts_file: String,
    /// Folders and files that are mounted into the host: its private `/tmp`, its data, the target's
    /// folder, this program.
    pub binds: Vec<Bind>,
    /// Separate file system for data, in a file: loop device, ext4.
    pub volume: Option<VolumeSpec>,
    /// Folders of the machine of which the host has private copies, stored with its data.
    pub private: Vec<PathBuf>,
    /// Storage tiers for folders of the target's processes, except the tier that already holds the
    /// data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierMount>,
}

impl Isolation {
    /// Whether the host has its own loop device, which can be limited for this host alone.
    #[must_use]
    pub fn has_volume(&self) -> bool {
        self.volume.is_some() || self.tiers.iter().any(|tier| tier.device.is_some())
    }
}

/// A storage tier inside a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierMount {
    pub name: String,
    /// Mount point inside the host.
    pub at: PathBuf,
    /// Loop device that is mounted at `at`.
    pub device: Option<PathBuf>,
    /// Size of a file system in memory, bytes. If both this and `device` are `None`, a folder of
    /// the machine is mounted.
    pub memory_bytes: Option<u64>,
    /// Folders on the tier. They are made again at each boot of the host, because a crash empties a
    /// tier in memory.
    pub folders: Vec<TierFolder>,
}

/// A folder of a process on a tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierFolder {
    pub name: String,
    /// Owner. `None`: the runner's user.
    pub user: Option<String>,
}

/// A file or folder of the machine that is mounted inside a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Path on the machine.
    pub from: PathBuf,
    /// Path inside the host.
    pub to: PathBuf,
    /// Whether the host can write to it.
    pub writable: bool,
}

/// A file system in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Sparse file on the machine. The caller makes it.
    pub file: PathBuf,
    /// Attached and registered loop device of the file: `/dev/loop3`.
    pub device: PathBuf,
    /// Mount point inside the host.
    pub at: PathBuf,
}

/// Limits of a host: its profile times `lab.speed`, resolved for this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// Number of cores. `None`: one per CPU.
    pub cores: Option<u32>,
    /// Speed of each core, in cores of this machine. `None`: no limit.
    pub core_speed: Option<f64>,
    /// CPUs of this machine on which the host may run. Empty: all.
    pub cpus: Vec<u32>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    pub link: Link,
    pub disk: Disk,
    /// Limits of the storage tiers, for tiers that have limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, Disk>,
}

/// Network configuration of a host. Sent after its links have been made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wiring {
    pub interfaces: Vec<InterfaceSpec>,
    /// Networks behind another host: network, prefix length, that host's address.
    pub routes: Vec<(Ipv4Addr, u8, Ipv4Addr)>,
    /// Whether the host forwards packets.
    pub forwards: bool,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceSpec {
    /// Name, such as `eth0`.
    pub name: String,
    pub address: Ipv4Addr,
    /// Prefix length of the network.
    pub prefix: u8,
}

/// An order with its sequence number, which the reply repeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedOrder {
    /// Sequence number, ascending from 1.
    pub number: u64,
    #[serde(flatten)]
    pub order: Order,
}

/// An order to a runner. The runner replies with [`crate::RunnerMessage::Done`] or
/// [`crate::RunnerMessage::Refused`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Order {
    /// Configures the interfaces: addresses, state, routes, and the link limits of the profile.
    Wire(Wiring),
    /// Starts a process in a new process group, in the host's control groups. The runner sends its
    /// output as [`crate::RunnerMessage::Wrote`] and its end as [`crate::RunnerMessage::Ended`],
    /// both with this order's number. Replies [`crate::OrderReply::Started`].
    Start(ProgramSpec),
    /// Signals a process that a `Start` order started, or its whole group.
    Signal {
        /// Sequence number of the order that started the process.
        process: u64,
        /// Signal number.
        signal: i32,
        /// Whether to signal all processes of the group, even if the first process has ended.
        group: bool,
    },
    /// Signals every process of a program in the process tree of a `Start` order. Replies
    /// [`crate::OrderReply::Processes`]. Refused if there is no such process.
    SignalProgram {
        /// Sequence number of the order that started the process.
        process: u64,
        /// File name of the program.
        program: String,
        /// Signal number.
        signal: i32,
    },
    /// Runs a program to its end. Replies [`crate::OrderReply::Ran`].
    Run {
        program: ProgramSpec,
        /// Standard input of the program.
        input: String,
        /// Time limit, seconds. The program is killed after it.
        within_s: f64,
    },
    /// Finds distinct ports on which nothing listens. Replies [`crate::OrderReply::Ports`].
    Ports {
        /// Number of ports.
        count: usize,
    },
    /// Checks a port. Refused if nothing can listen on it.
    CheckPort { port: u16 },
    /// Makes an empty private folder with this name. Replies [`crate::OrderReply::Folder`].
    Folder { name: String },
    /// Gives a folder and its contents to a user of the host, and makes the folder reachable for
    /// that user.
    Own {
        /// Absolute path.
        path: PathBuf,
        /// Name of the user.
        user: String,
    },
    /// Removes a private folder.
    RemoveFolder { name: String },
    /// Reads the probes. Replies [`crate::OrderReply::Samples`]: the host's row first, then a row
    /// per running role. The receiver fills in `at_s` and `host`. The first reply is empty, because
    /// it is the base of the next one.
    Sample,
    /// Injects a fault under a unique key.
    Inject {
        /// Key that heals the fault.
        key: String,
        /// The fault.
        control: Injection,
    },
    /// Heals the fault with this key. Faults with other keys stay. An unknown key has no effect.
    Heal { key: String },
    /// Measures the storage of the host's folder. Replies [`crate::OrderReply::Figures`].
    MeasureStorage {
        /// Total duration, seconds.
        for_s: f64,
        /// Storage tier to measure instead of the host's folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<String>,
    },
    /// Reports the host's properties and limits. Replies [`crate::OrderReply::Figures`].
    Figures,
    /// Measures the machine for a profile. Replies [`crate::OrderReply::Text`], a profile in TOML.
    MeasureMachine,
    /// Ends every process, heals every fault, removes what the runner made, replies, and ends the
    /// runner.
    End,
}

/// A program to start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// Role of the target, or the program's purpose. It names the program's rows in samples.
    pub role: String,
    /// The program, then its arguments.
    pub command: Vec<String>,
    /// Additional environment variables.
    pub environment: BTreeMap<String, String>,
    /// Working folder.
    pub folder: Option<PathBuf>,
    /// User that the program runs as. `None`: the runner's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Maximum bytes of standard output that a program run to its end returns. `None`: 8 MiB.
    pub keeps_bytes: Option<usize>,
    /// Programs in the process tree that have their own samples.
    pub programs: Vec<String>,
}

/// A fault on a host. It lasts until it is healed. Of two faults of one kind the later applies;
/// cuts add up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum Injection {
    /// Processes are frozen and the network is silent. The runner continues.
    Freeze,
    /// Packets from and to these addresses are dropped silently. `None`: all addresses.
    Cut {
        /// Drops packets from these addresses.
        from: Option<Vec<Ipv4Addr>>,
        /// Drops packets to these addresses.
        to: Option<Vec<Ipv4Addr>>,
    },
    /// The link has other properties than in the profile.
    Link {
        link: Link,
        /// Addresses toward which the fault applies. `None`: all.
        peers: Option<Vec<Ipv4Addr>>,
    },
    /// TCP packets from or to these ports, local or remote, have their own limits within the link.
    Port {
        ports: Vec<u16>,
        /// Rate and delay of each port.
        link: Link,
    },
    /// The link is down: no carrier.
    LinkDown,
    /// The link alternates between down and up.
    LinkFlap {
        /// Time down, seconds.
        down_s: f64,
        /// Time up, seconds.
        up_s: f64,
    },
    /// Cores have this share of their speed: 0.25 is a quarter.
    Cpu {
        /// Share above 0 and below 1.
        of_profile: f64,
    },
    /// Memory has this limit instead of the profile's.
    Memory {
        /// Bytes.
        bytes: u64,
    },
    /// The disk has other limits than in the profile.
    Disk {
        disk: Disk,
        /// Storage tier. `None`: the storage of the data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<String>,
    },
    /// The data's file system is full except for a given space.
    FullDisk {
        /// Free space, bytes.
        leave_bytes: u64,
        /// Storage tier. `None`: the storage of the data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<String>,
    },
    /// The wall clock has an offset.
    Clock {
        /// Seconds. Negative: behind.
        offset_s: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_folder_has_a_name_that_is_safe_in_a_shell() {
        assert_eq!(folder_name("ab-1-2-3", "web $(1)"), "plimsoll-run-ab-1-2-3-web---1-");
    }
}
