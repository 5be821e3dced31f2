//! Processes as /proc shows them. A process that ends while it is read counts as missing.

use std::fs;
use std::path::Path;

/// Contents of `/proc/PID/stat` or `/proc/PID/task/TID/stat`. Times are in clock ticks, 100 a
/// second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Process or thread id.
    pub pid: u32,
    /// Name of the program, cut to 15 bytes by the kernel.
    pub name: String,
    /// State: `R`, `S`, `D`, `Z`, …
    pub state: char,
    /// Parent process id.
    pub parent: u32,
    /// Process group id.
    pub group: u32,
    /// Device number of the controlling terminal, or 0.
    pub terminal: i32,
    /// CPU time in user mode.
    pub user_ticks: u64,
    /// CPU time in the kernel.
    pub system_ticks: u64,
    /// CPU time in user mode of children that ended and were waited for, including their children.
    pub children_user_ticks: u64,
    /// CPU time in the kernel of the same children.
    pub children_system_ticks: u64,
    /// Number of threads.
    pub threads: u64,
    /// Start time since boot.
    pub started_ticks: u64,
    /// Resident set size, pages.
    pub resident_pages: u64,
    /// Time spent waiting for I/O, from delay accounting. 0 if delay accounting is off. `None` if
    /// the kernel does not report it.
    pub io_delay_ticks: Option<u64>,
}

impl Stat {
    /// Parses a line of `stat`. Returns `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        // The name is in parentheses and may contain parentheses and spaces.
        let (pid, rest) = text.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            // The kernel reports 0 or -1 if the group is unknown or outside the pid namespace.
            group: fields.get(2)?.parse().unwrap_or(0),
            terminal: fields.get(4)?.parse().unwrap_or(0),
            user_ticks: number(11)?,
            system_ticks: number(12)?,
            children_user_ticks: number(13)?,
            children_system_ticks: number(14)?,
            threads: number(17)?,
            started_ticks: number(19)?,
            resident_pages: number(21)?,
            io_delay_ticks: number(39),
        })
    }

    /// Whether the process has ended and has not been waited for.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Reads the process with this id, if there is one.
pub fn stat(pid: u32) -> Option<Stat> {
    stat_at(&Path::new("/proc").join(pid.to_string()))
}

/// Reads the process or thread whose folder in /proc is `folder`.
pub fn stat_at(folder: &Path) -> Option<Stat> {
    Stat::parse(&text(&folder.join("stat"))?)
}

/// Number of bytes of a program's name that the kernel keeps.
const NAME_BYTES: usize = 15;

/// Whether a process of `proc` runs the program with this file name. Compares the program's file
/// name with the kernel's name, which also covers scripts, and with the executed file's name.
pub fn runs_program(proc: &Path, process: &Stat, program: &str) -> bool {
    is_called(&process.name, program)
        || fs::read_link(proc.join(process.pid.to_string()).join("exe"))
            .is_ok_and(|file| file.file_name() == Some(program.as_ref()))
}

/// Whether the kernel's name for a program matches this file name.
pub fn is_called(name: &str, program: &str) -> bool {
    let kept = &program.as_bytes()[..program.len().min(NAME_BYTES)];
    !program.is_empty() && name.as_bytes() == kept
}

/// Returns a file's text. Replaces bytes that are not UTF-8, because a program may choose any name.
pub fn text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Returns the numbers among the names in a folder: processes of `/proc`, threads of
/// `/proc/PID/task`.
pub fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns every process that is not dead.
pub fn alive() -> Vec<Stat> {
    let stats = numbers(Path::new("/proc")).into_iter().filter_map(stat);
    stats.filter(|stat| !stat.is_dead()).collect()
}

/// Whether the initial environment of this process contains exactly this `NAME=value`. False if it
/// cannot be read, or if `variable` is not a variable: an empty text would match every environment.
pub fn was_started_with(pid: u32, variable: &str) -> bool {
    let is_variable = variable.split_once('=').is_some_and(|(name, value)| !name.is_empty() && !value.is_empty());
    is_variable
        && fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()))
}

/// Returns the id of the current boot.
pub fn boot() -> String {
    text(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default().trim().to_owned()
}

/// Inode of the machine's first pid namespace: `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
pub const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Returns the inode of this process's pid namespace, or `None` if /proc shows another namespace.
pub fn pid_namespace() -> Option<u64> {
    let shown: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
    if shown == std::process::id() { pid_namespace_of("self") } else { None }
}

/// Returns the inode of this process's time namespace, to which process start times refer. `None`
/// if the kernel has none.
pub fn time_namespace() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/time").ok()?;
    link.to_str()?.strip_prefix("time:[")?.strip_suffix(']')?.parse().ok()
}

/// Whether any process is in the pid namespace with this inode. Must run in the first namespace,
/// which shows all processes. Also true if some process cannot be read.
pub fn has_processes(pid_namespace: u64) -> bool {
    // The first process, which is often unreadable even to root, is in the first namespace.
    let others = numbers(Path::new("/proc")).into_iter().filter(|pid| *pid != 1);
    others.map(|pid| (pid, pid_namespace_of(&pid.to_string()))).any(|(pid, found)| match found {
        Some(found) => found == pid_namespace,
        // The process has ended meanwhile or cannot be read.
        None => stat(pid).is_some_and(|stat| !stat.is_dead()),
    })
}

fn pid_namespace_of(process: &str) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{process}/ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}
