//! What a runner is told: what its host is to be, then an order a line.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use experiment::profile::{Disk, Link};
use serde::{Deserialize, Serialize};

/// The variable that marks every process of a run.
pub const MARK: &str = "PLIMSOLL_RUN";
/// The variable with the host's name that every process of a host has beside the run's mark.
pub const HOST_MARK: &str = "PLIMSOLL_HOST";
/// Version of the language that is spoken here: the program's.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Of an order; what is longer is none. What a runner says has limits of its own, in `said`.
pub const ORDER_BYTES: u64 = 16 << 20;

/// How the names of the folders that runs make begin.
pub const FOLDER_PREFIX: &str = "plimsoll-run-";

/// A name for the folder of a run's host; what is no letter or digit is replaced.
#[must_use]
pub fn folder_name(run: &str, host: &str) -> String {
    let host: String = host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{FOLDER_PREFIX}{run}-{host}")
}

/// The first line it is told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Version of the program that speaks; a runner of another one refuses.
    pub version: String,
    /// The host's name.
    pub host: String,
    /// The run's id: every process it starts has `PLIMSOLL_RUN=<id>` in its environment, and every cgroup of the run is
    /// under `plimsoll-<id>`.
    pub run: String,
    /// Where the host's private folders go, as the runner sees it. Empty: the runner makes a temporary one and removes it.
    pub folder: PathBuf,
    /// Whether orders come to it by another way than its network, which can then be cut and healed again: so it is in a pod.
    #[serde(default)]
    pub is_reached_aside: bool,
    /// A host that it makes itself; `None`: the machine as it is.
    pub isolation: Option<Isolation>,
    /// What the host may use.
    pub envelope: Envelope,
}

/// A host of its own on this machine: network, mount, pid, ipc and uts namespaces.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Isolation {
    /// Only a network namespace, without any limit: it holds the bridges, and the clients enter it.
    pub is_switch: bool,
    /// Text of its `/etc/hosts`.
    pub hosts_file: String,
    /// Folders and files that are shown inside: its private `/tmp`, its data, the target's folder, this program.
    pub binds: Vec<Bind>,
    /// A file system of its own for data, in a file: loop device, ext4.
    pub volume: Option<VolumeSpec>,
    /// Folders of the machine of which it has its own, kept with its data.
    pub private: Vec<PathBuf>,
    /// Tiers of storage that folders of the target's processes are on, but for the one that its data is on anyway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierMount>,
}

impl Isolation {
    /// Whether it has a loop device that is limited for it alone.
    #[must_use]
    pub fn has_volume(&self) -> bool {
        self.volume.is_some() || self.tiers.iter().any(|tier| tier.device.is_some())
    }
}

/// A tier of storage inside a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierMount {
    /// Its name.
    pub name: String,
    /// Where it is inside.
    pub at: PathBuf,
    /// The loop device that is mounted there.
    pub device: Option<PathBuf>,
    /// For a file system in memory: its size, bytes. With neither, a folder of the machine is shown there.
    pub memory_bytes: Option<u64>,
    /// Folders on it, which are there whenever the host is: a crash leaves nothing of what is in memory.
    pub folders: Vec<TierFolder>,
}

/// A folder of a process on a tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierFolder {
    /// Its name.
    pub name: String,
    /// Whose it is; `None`: the runner's.
    pub user: Option<String>,
}

/// Something of the machine that is shown at another place inside a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the machine.
    pub from: PathBuf,
    /// Inside.
    pub to: PathBuf,
    /// Whether it can be written to.
    pub writable: bool,
}

/// A file system in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// The file, on the machine; made, sparse, by whoever sets the host up.
    pub file: PathBuf,
    /// The loop device it is bound to, already attached and registered: `/dev/loop3`.
    pub device: PathBuf,
    /// Where it is mounted inside.
    pub at: PathBuf,
}

/// What a host may use: its profile times `lab.speed`, resolved against this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// Its cores; `None`: as many as it has CPUs.
    pub cores: Option<u32>,
    /// What each can do, in cores of this machine; `None`: not limited.
    pub core_speed: Option<f64>,
    /// CPUs of this machine that it may run on; empty: all.
    pub cpus: Vec<u32>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Its link.
    pub link: Link,
    /// Its disk.
    pub disk: Disk,
    /// What its tiers of storage may do, those that have limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, Disk>,
}

/// How a host is wired, told once its links are there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wiring {
    /// Its interfaces.
    pub interfaces: Vec<InterfaceSpec>,
    /// Networks that are reached through another host: network, prefix length, that host's address.
    pub routes: Vec<(Ipv4Addr, u8, Ipv4Addr)>,
    /// Whether it passes packets on.
    pub forwards: bool,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceSpec {
    /// `eth0`, …
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Length of the network's prefix.
    pub prefix: u8,
}

/// A request; `number` comes back with the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumberedOrder {
    /// From 1, ascending.
    pub number: u64,
    /// What is to be done.
    #[serde(flatten)]
    pub order: Order,
}

/// What a runner does. Each order is answered by [`crate::RunnerMessage::Done`] or [`crate::RunnerMessage::Refused`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Order {
    /// Configures the interfaces: addresses, up, routes, the profile's link limits.
    Wire(Wiring),
    /// Starts a process in a process group of its own, in the host's groups. Its output comes back as [`crate::RunnerMessage::Wrote`], its
    /// end as [`crate::RunnerMessage::Ended`], both with this request's number. Answers [`crate::OrderReply::Started`].
    Start(ProgramSpec),
    /// Signals a process that `Start` with this number started, or its whole group.
    Signal {
        /// Number of the request that started it.
        process: u64,
        /// The signal's number.
        signal: i32,
        /// Also all that it started which has not left its group; then it may have ended itself.
        group: bool,
    },
    /// Signals every process of a program in the tree of a process that `Start` with this number started. Answers
    /// [`crate::OrderReply::Processes`]; refused if there is none.
    SignalProgram {
        /// Number of the request that started it.
        process: u64,
        /// Name of the program's file.
        program: String,
        /// The signal's number.
        signal: i32,
    },
    /// Runs a program to its end. Answers [`crate::OrderReply::Ran`].
    Run {
        /// What.
        program: ProgramSpec,
        /// Given to it on standard input.
        input: String,
        /// Killed after so long, seconds.
        within_s: f64,
    },
    /// Answers [`crate::OrderReply::Ports`]: so many different ones on which nothing listens.
    Ports {
        /// How many.
        count: usize,
    },
    /// Refused if nothing can listen on this port.
    CheckPort {
        /// Which.
        port: u16,
    },
    /// Makes an empty private folder of that name. Answers [`crate::OrderReply::Folder`].
    Folder {
        /// Its name.
        name: String,
    },
    /// Gives a folder, with what is in it, to a user of the host, and lets that user get there.
    Own {
        /// An absolute path.
        path: PathBuf,
        /// The user's name.
        user: String,
    },
    /// Removes it.
    RemoveFolder {
        /// Its name.
        name: String,
    },
    /// Reads the probes. Answers [`crate::OrderReply::Samples`]: the host's row first, then one for each running role; `at_s` and `host`
    /// are left for the asker to fill in. The first answer is empty: it is the base of the next.
    Sample,
    /// Injects a fault, under a key that no other has.
    Inject {
        /// By which it is healed.
        key: String,
        /// What.
        control: Injection,
    },
    /// Heals it; what other keys inject stays. Nothing happens if there is no such key.
    Heal {
        /// The key.
        key: String,
    },
    /// Measures the storage in the host's folder, for so long in all. Answers [`crate::OrderReply::Figures`].
    MeasureStorage {
        /// Seconds.
        for_s: f64,
        /// A tier of storage instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<String>,
    },
    /// What the host is and got. Answers [`crate::OrderReply::Figures`].
    Figures,
    /// Measures the machine for a profile: answers [`crate::OrderReply::Text`], a profile in TOML.
    MeasureMachine,
    /// Ends every process, heals everything, removes what it made, answers and ends.
    End,
}

/// A program to be started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// A role of the target, or what it is for; names its rows.
    pub role: String,
    /// The program, then its arguments.
    pub command: Vec<String>,
    /// More environment.
    pub environment: BTreeMap<String, String>,
    /// Where it runs.
    pub folder: Option<PathBuf>,
    /// The user that it runs as; `None`: the runner's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Of what a program that is run to its end writes, so much is kept; 8 MiB without it.
    pub keeps_bytes: Option<usize>,
    /// Programs in its tree of processes that have samples of their own.
    pub programs: Vec<String>,
}

/// A state that a fault puts a host into, as long as it is injected. Of two of one kind the later holds; cuts add up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum Injection {
    /// Its processes stand still and its network is silent. The runner goes on.
    Freeze,
    /// Packets from and to these are dropped without a word. `None`: from and to everybody.
    Cut {
        /// Dropped when they come from there.
        from: Option<Vec<Ipv4Addr>>,
        /// Dropped when they go there.
        to: Option<Vec<Ipv4Addr>>,
    },
    /// Its link is like this instead of what its profile says, toward these; `None`: toward everybody.
    Link {
        /// What it is like.
        link: Link,
        /// Toward whom.
        peers: Option<Vec<Ipv4Addr>>,
    },
    /// TCP packets from and to these ports, here or there, have so much of its link.
    Port {
        /// Their numbers.
        ports: Vec<u16>,
        /// Rate and delay of each.
        link: Link,
    },
    /// Its link is down: no carrier.
    LinkDown,
    /// Its link is down for so long, up for so long, again and again.
    LinkFlap {
        /// Seconds.
        down_s: f64,
        /// Seconds.
        up_s: f64,
    },
    /// Its cores do this much of what they did: 0.25 is a quarter.
    Cpu {
        /// Above 0, below 1.
        of_profile: f64,
    },
    /// Its memory is this instead.
    Memory {
        /// Bytes.
        bytes: u64,
    },
    /// Its disk is like this instead of what its profile says.
    Disk {
        /// What it is like.
        disk: Disk,
        /// The tier of storage that is meant; `None`: its data's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<String>,
    },
    /// The file system of its data is full but for so much.
    FullDisk {
        /// Bytes.
        leave_bytes: u64,
        /// The tier of storage that is meant; `None`: its data's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<String>,
    },
    /// Its wall clock is so far off.
    Clock {
        /// Seconds; negative is behind.
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
