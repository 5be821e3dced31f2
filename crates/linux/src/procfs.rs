//! Processes as /proc shows them. A process that vanishes while it is looked at is one that is not there.

use std::fs;
use std::path::Path;

/// What `/proc/PID/stat` (or `/proc/PID/task/TID/stat`) says. Times are in clock ticks, 100 a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Process or thread.
    pub pid: u32,
    /// Name of the program, cut to 15 bytes by the kernel.
    pub name: String,
    /// `R`, `S`, `D`, `Z`, …
    pub state: char,
    /// Parent.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// Device number of its controlling terminal; 0: it has none.
    pub terminal: i32,
    /// In user mode.
    pub user_ticks: u64,
    /// In the kernel.
    pub system_ticks: u64,
    /// In user mode, of children that ended and were waited for, and theirs.
    pub children_user_ticks: u64,
    /// … in the kernel.
    pub children_system_ticks: u64,
    /// Threads.
    pub threads: u64,
    /// When it started, since boot.
    pub started_ticks: u64,
    /// Resident set, pages.
    pub resident_pages: u64,
    /// Waited for I/O, as delay accounting counts it: 0 where that is off; `None`: the kernel does not say.
    pub io_delay_ticks: Option<u64>,
}

impl Stat {
    /// Reads a line of `stat`. `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        // The name is in parentheses and may hold anything, also parentheses and spaces.
        let (pid, rest) = text.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            // 0 and -1 where the parent is outside of the pid namespace.
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

    /// Whether it has ended and only waits to be waited for.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// The process with this number, if there is one.
pub fn stat(pid: u32) -> Option<Stat> {
    stat_at(&Path::new("/proc").join(pid.to_string()))
}

/// The process or thread whose folder this is.
pub fn stat_at(folder: &Path) -> Option<Stat> {
    Stat::parse(&text(&folder.join("stat"))?)
}

/// Bytes of a program's name that the kernel keeps.
const NAME_BYTES: usize = 15;

/// Whether a process of `proc` runs the program of that file name: it is called so, as the kernel does with scripts too, or its file is.
pub fn runs_program(proc: &Path, process: &Stat, program: &str) -> bool {
    let file = || fs::read_link(proc.join(process.pid.to_string()).join("exe")).ok();
    is_called(&process.name, program) || file().is_some_and(|file| file.file_name() == Some(program.as_ref()))
}

/// Whether the kernel calls a program of that file name so.
pub fn is_called(name: &str, program: &str) -> bool {
    let kept = &program.as_bytes()[..program.len().min(NAME_BYTES)];
    !program.is_empty() && name.as_bytes() == kept
}

/// A file's text; what is not UTF-8 in it (a program may call itself anything) is replaced.
pub fn text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Numbers in the names of a folder: processes of `/proc`, threads of `/proc/PID/task`.
pub fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Every process that is not dead.
pub fn alive() -> Vec<Stat> {
    let stats = numbers(Path::new("/proc")).into_iter().filter_map(stat);
    stats.filter(|stat| !stat.is_dead()).collect()
}

/// Whether the environment with which this process was started has exactly this `NAME=value`. False also where we
/// may not look, and for a text that is no variable: the empty one would be in every environment.
pub fn was_started_with(pid: u32, variable: &str) -> bool {
    let is_variable = variable.split_once('=').is_some_and(|(name, value)| !name.is_empty() && !value.is_empty());
    is_variable
        && fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()))
}

/// What tells this boot from every other.
pub fn boot() -> String {
    text(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default().trim().to_owned()
}

/// The inode of the pid namespace in which the machine booted: `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`.
pub const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The inode of our pid namespace. `None` where /proc shows the processes of another one.
pub fn pid_namespace() -> Option<u64> {
    let shown: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
    if shown == std::process::id() { pid_namespace_of("self") } else { None }
}

/// The inode of our time namespace, in which the start times of processes count; `None` where the kernel has none.
pub fn time_namespace() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/time").ok()?;
    link.to_str()?.strip_prefix("time:[")?.strip_suffix(']')?.parse().ok()
}

/// Whether any process is in this pid namespace, which is not ours: seen from the first one, where all are seen. True also where there
/// are processes that we may not look at.
pub fn has_processes(pid_namespace: u64) -> bool {
    // The first process, which is often closed even to root, is in the first namespace.
    let others = numbers(Path::new("/proc")).into_iter().filter(|pid| *pid != 1);
    others.map(|pid| (pid, pid_namespace_of(&pid.to_string()))).any(|(pid, found)| match found {
        Some(found) => found == pid_namespace,
        // Gone meanwhile, or not ours to look at.
        None => stat(pid).is_some_and(|stat| !stat.is_dead()),
    })
}

fn pid_namespace_of(process: &str) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{process}/ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}
