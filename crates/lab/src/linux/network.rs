//! Verbs over the network namespace that the calling thread is in, by the programs `ip`, `tc` and `nft`: what they are told
//! is text, made by pure functions. It must not know which host of a lab it is in.

pub mod drops;
pub mod link;

use std::borrow::Cow;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use super::procfs;

/// Whose the rules and queues are that a run makes: in a network that others use as well they carry its name, so that its end
/// takes off its own and nobody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    name: Cow<'static, str>,
}

/// In a network of one's own there is nobody else.
pub static ALONE: Ownership = Ownership { name: Cow::Borrowed("plimsoll") };

impl Ownership {
    /// By a name that no other has on the machine, of letters, digits and `-`.
    pub fn of(name: &str) -> Self {
        Self { name: Cow::Owned(name.to_owned()) }
    }

    /// Major number of the queue at the root of an interface, in the hexadecimal digits that `tc` shows; not one that the kernel
    /// gives by itself.
    pub fn root_handle(&self) -> String {
        if *self == ALONE {
            return "9e83".to_owned();
        }
        format!("{:x}", 0x1000 + crc32fast::hash(self.name.as_bytes()) % 0x7000)
    }

    /// Table of the cuts.
    pub fn cuts_table(&self) -> &str {
        &self.name
    }

    /// Table of an interface's losses.
    pub fn losses_table(&self, interface: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        format!("{}.{}", self.name, interface.chars().map(plain).collect::<String>())
    }

    /// The device that what arrives at an interface is sent through.
    pub fn arriving(&self, interface: &str) -> String {
        let whose = if *self == ALONE { String::new() } else { format!("{}-", self.root_handle()) };
        // The kernel takes 15 bytes.
        format!("ifb-{whose}{interface}").chars().take(15).collect()
    }

    /// Whether the queues at an interface are ours: `says` is what `tc qdisc show` says of it.
    pub fn has_shaped(&self, says: &str) -> bool {
        let root = format!(" {}: root", self.root_handle());
        *self == ALONE || says.lines().any(|line| line.starts_with("qdisc htb") && line.contains(&root))
    }

    /// Tables of other runs by which packets of an interface are lost: `says` is what `nft list tables` says.
    pub fn others_losses(&self, interface: &str, says: &str) -> Option<String> {
        let ours = self.losses_table(interface);
        let end = ours.strip_prefix(self.name.as_ref()).unwrap_or_default().to_owned();
        let mut tables = says.lines().filter_map(|line| line.split_whitespace().nth(2));
        tables.find(|name| name.starts_with("plimsoll") && name.ends_with(&end) && *name != ours).map(str::to_owned)
    }
}

/// Why something could not be done to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// There is no such program on this machine.
    NoProgram(String),
    /// The kernel has no such part: in words.
    NoKernel(String),
    /// The system refused.
    System {
        /// What was being done.
        doing: String,
        /// What it said.
        error: String,
    },
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoProgram(program) => write!(f, "there is no `{program}` on this machine"),
            Self::NoKernel(what) => write!(f, "not on this kernel: {what}"),
            Self::System { doing, error } => write!(f, "cannot {doing}: {error}"),
        }
    }
}

/// Has `ip` carry out a command a line, up to the first that fails.
pub fn ip(batch: &str) -> Result<(), Trouble> {
    run("ip", &["-batch", "-"], batch, "set up interfaces").map(drop)
}

/// Has `tc` carry out a command a line, up to the first that fails.
pub fn tc(batch: &str) -> Result<(), Trouble> {
    run("tc", &["-batch", "-"], batch, "limit a link").map(drop)
}

/// Has `nft` carry out all or nothing.
pub fn nft(rules: &str) -> Result<(), Trouble> {
    run("nft", &["-f", "-"], rules, "filter packets").map(drop)
}

/// The interfaces of this namespace but the loopback, in the kernel's order.
pub fn interfaces() -> Vec<String> {
    // Of this thread, not of the process: a thread may be in another namespace.
    let text = procfs::text(Path::new("/proc/thread-self/net/dev")).unwrap_or_default();
    let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).filter(|name| name != "lo" && !name.starts_with("ifb-")).collect()
}

/// What `tc` says.
pub fn tc_says(arguments: &[&str]) -> Result<String, Trouble> {
    run("tc", arguments, "", "ask for queues")
}

/// What `nft` says.
pub fn nft_says(arguments: &[&str]) -> Result<String, Trouble> {
    run("nft", arguments, "", "ask for packet filters")
}

/// Whether this namespace passes packets on.
pub fn forward(on: bool) -> Result<(), Trouble> {
    let text = if on { "1" } else { "0" };
    std::fs::write("/proc/sys/net/ipv4/ip_forward", text)
        .map_err(|error| Trouble::System { doing: "set ip_forward".to_owned(), error: error.to_string() })
}

/// What `ip` says.
pub fn ip_says(arguments: &[&str]) -> Result<String, Trouble> {
    run("ip", arguments, "", "ask for interfaces")
}

/// From now on no interface of this namespace gets an address of version 6 by itself: nobody would use it, and the kernel
/// would announce it. Where there is no version 6 it gets none anyway.
pub fn only_given_addresses() {
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "1");
}

fn run(program: &str, arguments: &[&str], input: &str, doing: &str) -> Result<String, Trouble> {
    let refused = |error: io::Error| Trouble::System { doing: doing.to_owned(), error: error.to_string() };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Trouble::NoProgram(program.to_owned())),
        Err(error) => return Err(refused(error)),
    };
    if let Some(mut pipe) = child.stdin.take() {
        // It says itself, on standard error, why it stopped reading.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(refused)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(understood(doing, input, &String::from_utf8_lossy(&output.stderr)))
}

/// What these programs say, in fewer words: the first complaint, and the line of `input` that it is about.
pub fn understood(doing: &str, input: &str, said: &str) -> Trouble {
    let complaint = said.lines().find(|line| !line.trim().is_empty() && !line.starts_with("Command failed"));
    let number = said.lines().find_map(|line| line.strip_prefix("Command failed -:")?.parse::<usize>().ok());
    let line = number.and_then(|number| input.lines().nth(number.checked_sub(1)?)).unwrap_or_default();
    let complaint = complaint.unwrap_or("it did not say why").trim_start_matches("Error: ").trim();
    let is_unknown = ["kind is unknown", "Unknown device type", "not supported"].iter().any(|text| said.contains(text));
    if is_unknown && let Some(part) = part_of(line) {
        return Trouble::NoKernel(format!("{part} is missing"));
    }
    let about = if line.is_empty() { String::new() } else { format!(" (at `{line}`)") };
    Trouble::System { doing: doing.to_owned(), error: format!("{complaint}{about}") }
}

/// The part of the kernel that a line of `ip` or `tc` asks for.
fn part_of(line: &str) -> Option<&'static str> {
    ["netem", "tbf", "htb", "mirred", "ifb", "ingress", "u32", "veth", "bridge"]
        .into_iter()
        .find(|part| line.split(' ').any(|word| word == *part))
}

#[cfg(test)]
mod tests;
