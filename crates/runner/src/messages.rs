//! Messages from a runner: replies, refusals, and the output and ends of its processes. The
//! runner's machine may be broken or hostile, so reading limits bytes, values and numbers, and
//! makes text safe to print. No other file checks the messages.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Component, PathBuf};

use linux::ProcessGroup;
use record::events::HostFigures;
use record::rows::{ProgramSample, Sample};
use serde::{Deserialize, Serialize};

use crate::plain_text;

/// Maximum length of a line from a runner. A longer line is an error.
pub const LINE_BYTES: usize = 1 << 20;
/// Maximum bytes of program output in one message. JSON escapes a control character to six bytes,
/// so a full piece still fits into a line.
pub const PIECE_BYTES: usize = 128 << 10;
/// Maximum number of values and names in a message. A sampled role has about 30.
const ELEMENTS: usize = 1 << 16;
/// Maximum number of rows in a sample: the host and its sampled roles.
const ROWS: usize = 1 << 10;
/// Maximum number of ports in a reply.
const PORTS: usize = 1 << 10;
/// Maximum number of notices about a host.
const NOTICES: usize = 20;
/// Maximum length of a reason or of a system error.
const REASON_CHARACTERS: usize = 4000;
/// Maximum length of a name.
const NAME_CHARACTERS: usize = 200;
/// Maximum length of a measured profile.
const TEXT_BYTES: usize = 64 << 10;
/// Largest process id that Linux assigns.
const LAST_PID: u32 = 1 << 22;
/// Largest exit code or signal number.
const LAST_END: i32 = 255;
/// Longest path that Linux accepts.
const PATH_BYTES: usize = 4096;
/// Largest accepted value of a figure. Whole numbers are exact up to this value (2^53).
const MOST: f64 = 9_007_199_254_740_992.0;

/// A message from a runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum RunnerMessage {
    /// The runner has started and has made its folders. This is the first line.
    Ready {
        /// Version of the runner.
        version: String,
        /// Process id of the runner in the machine's numbering. 0 if the host has its own
        /// namespaces: the lab started that host's shim itself.
        pid: u32,
        /// Folder that holds the host's private folders.
        folder: PathBuf,
        /// Notices for the user, such as a missing controller.
        notices: Vec<String>,
    },
    /// The host could not be made. This is the last line.
    Failed {
        /// Reason.
        reason: String,
    },
    /// The order was carried out.
    Done {
        /// Sequence number of the order.
        number: u64,
        /// Result of the order.
        answer: OrderReply,
    },
    /// The order was refused and had no effect.
    Refused {
        /// Sequence number of the order.
        number: u64,
        /// Reason.
        why: OrderRefusal,
    },
    /// A process wrote to standard output or standard error.
    Wrote {
        /// Sequence number of the order that started the process.
        process: u64,
        text: String,
        /// Output after the text that is not UTF-8.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        bytes: Vec<u8>,
    },
    /// Part of the output of a program that an order runs to its end. More parts or the reply
    /// follow.
    Printed {
        /// Sequence number of the order that runs the program.
        number: u64,
        /// Whether the text is from standard error.
        to_errors: bool,
        /// Output.
        text: String,
    },
    /// A process ended, and all its output has been sent. Its children may continue.
    Ended {
        /// Sequence number of the order that started the process.
        process: u64,
        /// Exit code, or the negated signal number.
        how: i32,
    },
}

/// Result of an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum OrderReply {
    /// The order returns no data.
    Nothing,
    /// Reply to `Start`: the process leads this group, in the host's numbering.
    Started(ProcessGroup),
    /// Reply to `Run`.
    Ran {
        /// Exit code, or the negated signal number.
        how: i32,
        /// Standard output. In a message, only the rest that follows the [`RunnerMessage::Printed`]
        /// parts.
        output: String,
        /// Standard error, in parts like `output`.
        errors: String,
    },
    /// Reply to `Ports`.
    Ports { ports: Vec<u16> },
    /// Reply to `Folder`.
    Folder { path: PathBuf },
    /// Reply to `Sample`.
    Samples {
        /// The host's row, then the roles' rows.
        rows: Vec<Sample>,
        /// Rows of the programs that the target names.
        #[serde(default)]
        programs: Vec<ProgramSample>,
    },
    /// Reply to `SignalProgram`.
    Processes {
        /// Ids of the signalled processes inside the host.
        pids: Vec<u32>,
    },
    /// Reply to `Figures` and `MeasureStorage`.
    Figures { figures: Box<HostFigures> },
    /// Reply to `MeasureMachine`.
    Text {
        /// A profile in TOML.
        text: String,
    },
}

/// Reason why an order was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum OrderRefusal {
    /// The program does not exist.
    NoProgram { program: String },
    /// The user does not exist.
    NoUser { user: String },
    /// A process already listens on the port.
    PortTaken { port: u16 },
    /// The kernel, the machine or the user's rights do not allow the order.
    Cannot {
        /// Failed action, cause and remedy, in words: `lossy_link needs netem or nft, and …`.
        reason: String,
    },
    /// A system call failed.
    System {
        /// Action that failed.
        doing: String,
        /// System error message.
        error: String,
    },
}

/// Reads lines from a peer that may never end a line.
#[derive(Debug)]
pub struct HostLines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> HostLines<R> {
    pub fn of(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, reader), line: Vec::new() }
    }

    /// Returns the next whole line, with its end, or `None` at the end of the stream.
    ///
    /// # Errors
    /// A line longer than [`LINE_BYTES`].
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, String> {
        self.line.clear();
        let read = self.reader.by_ref().take(LINE_BYTES as u64).read_until(b'\n', &mut self.line);
        if self.line.ends_with(b"\n") {
            return Ok(Some(&self.line));
        }
        if self.line.len() >= LINE_BYTES {
            return Err(format!("a line is longer than {} MiB", LINE_BYTES >> 20));
        }
        // The stream ended within a line: ignore that line.
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err("reading was interrupted".to_owned()),
            _ => Ok(None),
        }
    }
}

impl RunnerMessage {
    /// Reads a message. Builds values only after the message is known to be small. Text in the
    /// result is safe to print, except the output of processes.
    ///
    /// # Errors
    /// The line is not a message, or contains impossible values.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        if elements(line) > ELEMENTS {
            return Err(format!("a message has more than {ELEMENTS} values"));
        }
        let parsed = serde_json::from_slice(line).map_err(|_| "not a message".to_owned())?;
        Self::checked(parsed)
    }

    fn checked(self) -> Result<Self, String> {
        Ok(match self {
            Self::Ready { version, pid, folder, notices } => {
                if pid > LAST_PID {
                    return Err(format!("{pid} is not a process id"));
                }
                let (version, folder) = (plain_text::beginning(&version, NAME_CHARACTERS), path(folder)?);
                Self::Ready { version, pid, folder, notices: some(notices) }
            }
            Self::Failed { reason } => Self::Failed { reason: plain_text::beginning(&reason, REASON_CHARACTERS) },
            Self::Done { number, answer } => Self::Done { number, answer: answer.checked()? },
            Self::Refused { number, why } => Self::Refused { number, why: why.shown() },
            Self::Ended { process, how } => Self::Ended { process, how: end(how)? },
            // A target's output is kept unchanged in its log. Code that quotes it makes it safe to
            // print.
            Self::Wrote { .. } | Self::Printed { .. } => self,
        })
    }
}

impl OrderReply {
    fn checked(self) -> Result<Self, String> {
        Ok(match self {
            Self::Started(ProcessGroup { pid, .. }) if pid == 0 || pid > LAST_PID => {
                return Err(format!("{pid} is not a process id"));
            }
            Self::Ran { how, output, errors } => Self::Ran { how: end(how)?, output, errors },
            Self::Ports { ports } => {
                if ports.len() > PORTS || ports.contains(&0) {
                    return Err(format!(
                        "invalid list of ports: {} numbers; expected at most {PORTS}, all above 0",
                        ports.len()
                    ));
                }
                Self::Ports { ports }
            }
            Self::Folder { path: folder } => Self::Folder { path: path(folder)? },
            Self::Samples { rows, programs } => {
                if rows.len().max(programs.len()) > ROWS {
                    return Err(format!(
                        "{} roles or programs are too many: expected at most {ROWS}",
                        rows.len().max(programs.len())
                    ));
                }
                let programs = programs.into_iter().map(believable_program).collect();
                Self::Samples { rows: rows.into_iter().map(believable).collect(), programs }
            }
            Self::Processes { pids } if pids.iter().any(|pid| *pid == 0 || *pid > LAST_PID) => {
                return Err("invalid process ids".to_owned());
            }
            Self::Figures { figures } => Self::Figures { figures: Box::new(believable_figures(*figures)) },
            Self::Text { text } if text.len() > TEXT_BYTES => return Err("a text is too long".to_owned()),
            Self::Text { text } => Self::Text { text: plain_text::lines(&text) },
            Self::Nothing | Self::Started(_) | Self::Processes { .. } => self,
        })
    }
}

impl OrderRefusal {
    fn shown(self) -> Self {
        let mut shown = self;
        let texts = match &mut shown {
            Self::PortTaken { .. } => vec![],
            Self::NoProgram { program: text } | Self::NoUser { user: text } | Self::Cannot { reason: text } => {
                vec![text]
            }
            Self::System { doing, error } => vec![doing, error],
        };
        for text in texts {
            *text = plain_text::beginning(text, REASON_CHARACTERS);
        }
        shown
    }
}

/// Returns an upper bound of the number of values in a JSON text. Characters within strings do not
/// count.
fn elements(line: &[u8]) -> usize {
    let (mut count, mut in_text, mut is_escaped) = (1, false, false);
    for byte in line {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b',' | b':' | b'[' | b'{' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

/// Returns the first notices, and a line with the number of notices left out.
fn some(notices: Vec<String>) -> Vec<String> {
    let more = notices.len().saturating_sub(NOTICES);
    let some = notices.iter().take(NOTICES).map(|notice| plain_text::beginning(notice, plain_text::LINE_CHARACTERS));
    some.chain((more > 0).then(|| format!("… {more} more notices, not kept"))).collect()
}

/// Checks a path. The path is used only on the host.
fn path(path: PathBuf) -> Result<PathBuf, String> {
    let text = path.to_str().filter(|text| text.len() <= PATH_BYTES && plain_text::line(text) == *text);
    let is_path =
        path.is_absolute() && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    // A host without a folder sends an empty path.
    if text.is_some_and(|text| text.is_empty() || is_path) {
        return Ok(path);
    }
    Err(format!("{} is not an absolute path", plain_text::beginning(&path.to_string_lossy(), NAME_CHARACTERS)))
}

fn end(how: i32) -> Result<i32, String> {
    if (-LAST_END..=LAST_END).contains(&how) { Ok(how) } else { Err(format!("{how} is not an exit status")) }
}

/// Drops an impossible figure, as if it had not been measured.
fn figure(figure: Option<f64>) -> Option<f64> {
    figure.filter(|figure| (0.0..=MOST).contains(figure))
}

fn whole(figure: Option<u64>) -> Option<u64> {
    figure.filter(|figure| *figure as f64 <= MOST)
}

fn believable(row: Sample) -> Sample {
    Sample {
        // The receiver fills in the time and the host.
        at_s: 0.0,
        host: String::new(),
        process: plain_text::beginning(&row.process, NAME_CHARACTERS),
        cpu_user_pct: figure(row.cpu_user_pct),
        cpu_system_pct: figure(row.cpu_system_pct),
        cpu_iowait_pct: figure(row.cpu_iowait_pct),
        cpu_steal_pct: figure(row.cpu_steal_pct),
        cpu_strangers_pct: figure(row.cpu_strangers_pct),
        cpu_throttled_pct: figure(row.cpu_throttled_pct),
        run_delay_pct: figure(row.run_delay_pct),
        busiest_thread_pct: figure(row.busiest_thread_pct),
        load1: figure(row.load1),
        load5: figure(row.load5),
        load15: figure(row.load15),
        io_wait_threads: whole(row.io_wait_threads),
        io_delay_pct: figure(row.io_delay_pct),
        memory_used_bytes: whole(row.memory_used_bytes),
        memory_available_bytes: whole(row.memory_available_bytes),
        rss_bytes: whole(row.rss_bytes),
        oom_kills: whole(row.oom_kills),
        disk_read_bytes: whole(row.disk_read_bytes),
        disk_write_bytes: whole(row.disk_write_bytes),
        net_rx_bytes: whole(row.net_rx_bytes),
        net_tx_bytes: whole(row.net_tx_bytes),
        psi_cpu_some_pct: figure(row.psi_cpu_some_pct),
        psi_io_some_pct: figure(row.psi_io_some_pct),
        psi_memory_some_pct: figure(row.psi_memory_some_pct),
        threads: whole(row.threads),
        fds: whole(row.fds),
        processes_replaced: whole(row.processes_replaced),
        calendar_ahead_s: None,
    }
}

fn believable_program(row: ProgramSample) -> ProgramSample {
    ProgramSample {
        // The receiver fills in the time and the host.
        at_s: 0.0,
        host: String::new(),
        process: plain_text::beginning(&row.process, NAME_CHARACTERS),
        program: plain_text::beginning(&row.program, NAME_CHARACTERS),
        processes: whole(row.processes),
        cpu_user_pct: figure(row.cpu_user_pct),
        cpu_system_pct: figure(row.cpu_system_pct),
        rss_bytes: whole(row.rss_bytes),
        pss_bytes: whole(row.pss_bytes),
        threads: whole(row.threads),
        processes_replaced: whole(row.processes_replaced),
    }
}

fn believable_figures(figures: HostFigures) -> HostFigures {
    let name = |text: Option<String>| text.map(|text| plain_text::beginning(&text, NAME_CHARACTERS));
    HostFigures {
        address: name(figures.address),
        cores: figures.cores.filter(|cores| (1..=ELEMENTS).contains(&(*cores as usize))),
        core_speed: figure(figures.core_speed),
        quota_period_s: figure(figures.quota_period_s),
        cpus: name(figures.cpus),
        memory_bytes: whole(figures.memory_bytes),
        link_bits_per_s: figure(figures.link_bits_per_s),
        storage_read_per_s: figure(figures.storage_read_per_s),
        storage_write_per_s: figure(figures.storage_write_per_s),
        storage_sync_us: figure(figures.storage_sync_us),
        storage_unmeasured: figures.storage_unmeasured.map(|why| plain_text::beginning(&why, REASON_CHARACTERS)),
        // The lab knows the tiers from its own setup.
        tiers: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(line: &str) -> Result<RunnerMessage, String> {
        RunnerMessage::read(line.as_bytes())
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut lines = HostLines::of(io::repeat(b'x'));
        assert_eq!(lines.next_line().unwrap_err(), "a line is longer than 1 MiB");
        assert!(lines.line.capacity() <= 4 * LINE_BYTES, "{}", lines.line.capacity());
        let mut lines = HostLines::of(&b"one\ntwo"[..]);
        assert_eq!(lines.next_line().unwrap(), Some(&b"one\n"[..]));
        assert_eq!(lines.next_line().unwrap(), None);
    }

    #[test]
    fn too_many_values_are_refused_before_parsing() {
        let many =
            format!(r#"{{"said":"done","number":1,"answer":{{"is":"ports","ports":[{}0]}}}}"#, "0,".repeat(ELEMENTS));
        assert_eq!(read(&many).unwrap_err(), "a message has more than 65536 values");
        let text = format!(r#"{{"said":"wrote","process":1,"text":"{}"}}"#, ",[{\\\"".repeat(ELEMENTS));
        assert!(read(&text).is_ok());
    }

    #[test]
    fn impossible_numbers_and_paths_are_refused() {
        for lie in [
            r#"{"said":"done","number":1,"answer":{"is":"started","pid":0,"started_ticks":1}}"#,
            r#"{"said":"done","number":1,"answer":{"is":"started","pid":4194305,"started_ticks":1}}"#,
            r#"{"said":"done","number":1,"answer":{"is":"started","pid":-1,"started_ticks":1}}"#,
            r#"{"said":"done","number":1,"answer":{"is":"ports","ports":[0]}}"#,
            r#"{"said":"done","number":1,"answer":{"is":"ran","how":-2147483648,"output":"","errors":""}}"#,
            r#"{"said":"ended","process":1,"how":-2147483648}"#,
            r#"{"said":"done","number":1,"answer":{"is":"folder","path":"data"}}"#,
            r#"{"said":"done","number":1,"answer":{"is":"folder","path":"/a/../../etc"}}"#,
            r#"{"said":"done","number":1,"answer":{"is":"samples","rows":[{"cpu_user_pct":1e999}]}}"#,
        ] {
            assert!(read(lie).is_err(), "{lie}");
        }
    }

    #[test]
    fn impossible_figures_are_dropped() {
        let line = r#"{"said":"done","number":1,"answer":{"is":"samples","rows":[
            {"at_s":-7,"host":"other","process":"a\u001b[2J","cpu_user_pct":-3,"load1":1e300,"rss_bytes":18446744073709551615,"threads":3}]}}"#;
        let RunnerMessage::Done { answer: OrderReply::Samples { rows, .. }, .. } = read(line).unwrap() else {
            unreachable!()
        };
        let expected = Sample { process: "a\\u{1b}[2J".to_owned(), threads: Some(3), ..Sample::default() };
        assert_eq!(rows, [expected]);
    }

    #[test]
    fn notices_are_limited_and_escaped() {
        let notices: Vec<String> = (0..100).map(|number| format!("\u{1b}]0;{number}\u{7}")).collect();
        let ready = RunnerMessage::Ready { version: "1".to_owned(), pid: 7, folder: "/x".into(), notices };
        let Ok(RunnerMessage::Ready { notices, .. }) = RunnerMessage::read(&serde_json::to_vec(&ready).unwrap()) else {
            unreachable!()
        };
        assert_eq!((notices.len(), notices[0].as_str()), (21, "\\u{1b}]0;0\\u{7}"));
        assert_eq!(notices[20], "… 80 more notices, not kept");
    }
}
