//! What a runner says: its answers, its refusals, and what its processes do; and how that is read
//! from a machine that may be broken or hostile: within a budget of bytes, of elements and of
//! numbers that can be, and with text that can be shown. This is the one place where it is looked
//! at.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use record::events::HostFigures;
use record::rows::{ProgramSample, Sample};
use serde::{Deserialize, Serialize};

use crate::plain_text;

/// Of a line that a runner says; what is longer is no message.
pub const LINE_BYTES: usize = 1 << 20;
/// Of what a program printed in one message, so that it is a line whatever it consists of: of a control character six are made.
pub const PIECE_BYTES: usize = 128 << 10;
/// Values and names in a message. A sampled role has some thirty.
const ELEMENTS: usize = 1 << 16;
/// Roles of a host that are sampled, and the host.
const ROWS: usize = 1 << 10;
/// Ports that are asked for at once.
const PORTS: usize = 1 << 10;
/// What a user is told of a host when it is ready.
const NOTICES: usize = 20;
/// Of a reason, and of what the system said.
const REASON_CHARACTERS: usize = 4000;
/// Of a name.
const NAME_CHARACTERS: usize = 200;
/// Of a measured profile.
const TEXT_BYTES: usize = 64 << 10;
/// Linux gives no higher number to a process.
const LAST_PID: u32 = 1 << 22;
/// Exit codes and signals end there.
const LAST_END: i32 = 255;
/// The longest path that Linux takes.
const PATH_BYTES: usize = 4096;
/// More than any figure is; whole numbers are exact up to there.
const MOST: f64 = 9_007_199_254_740_992.0;

/// What a runner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum RunnerMessage {
    /// First line: it is there, and its folders are made.
    Ready {
        /// Its version.
        version: String,
        /// Its pid as the machine counts; 0 in a host that has namespaces of its own, whose shim the lab started itself.
        pid: u32,
        /// Where the host's private folders are.
        folder: PathBuf,
        /// What a user should know, such as a controller that is missing.
        notices: Vec<String>,
    },
    /// The host could not be made. Last line.
    Failed {
        /// Why, in words.
        reason: String,
    },
    /// The order was carried out.
    Done {
        /// Its request.
        number: u64,
        /// What came of it.
        answer: OrderReply,
    },
    /// The order was not carried out; nothing of it was.
    Refused {
        /// Its request.
        number: u64,
        /// Why.
        why: OrderRefusal,
    },
    /// A process wrote to standard output or error.
    Wrote {
        /// Number of the request that started it.
        process: u64,
        /// What; bytes that are not UTF-8 are replaced.
        text: String,
    },
    /// Piece of what a program that is run to its end printed; more, or the answer, follows.
    Printed {
        /// Number of the request that runs it.
        number: u64,
        /// Whether it was to standard error.
        to_errors: bool,
        /// What.
        text: String,
    },
    /// A process ended; all that it wrote has been said. What it started may go on.
    Ended {
        /// Number of the request that started it.
        process: u64,
        /// Its exit code, or the signal that ended it, negative.
        how: i32,
    },
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum OrderReply {
    /// Nothing to say.
    Nothing,
    /// Of `Start`.
    Started {
        /// Its pid inside the host.
        pid: u32,
    },
    /// Of `Run`.
    Ran {
        /// Its exit code, or the signal that ended it, negative.
        how: i32,
        /// Standard output; over the wire only what no [`RunnerMessage::Printed`] has brought.
        output: String,
        /// Standard error, likewise.
        errors: String,
    },
    /// Of `Ports`.
    Ports {
        /// The numbers.
        ports: Vec<u16>,
    },
    /// Of `Folder`.
    Folder {
        /// Where it is.
        path: PathBuf,
    },
    /// Of `Sample`.
    Samples {
        /// The rows.
        rows: Vec<Sample>,
        /// Of programs that the target names.
        #[serde(default)]
        programs: Vec<ProgramSample>,
    },
    /// Of `SignalProgram`.
    Processes {
        /// Their pids inside the host.
        pids: Vec<u32>,
    },
    /// Of `Figures` and `MeasureStorage`.
    Figures {
        /// What is known.
        figures: Box<HostFigures>,
    },
    /// Of `MeasureMachine`.
    Text {
        /// The text.
        text: String,
    },
}

/// Why an order was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum OrderRefusal {
    /// There is no such program.
    NoProgram {
        /// Its name.
        program: String,
    },
    /// There is no such user.
    NoUser {
        /// Its name.
        user: String,
    },
    /// Something listens on that port.
    PortTaken {
        /// Which.
        port: u16,
    },
    /// This kernel, machine or user cannot do that.
    Cannot {
        /// What, why, and what would help, in words: `lossy_link needs netem or nft, and …`.
        reason: String,
    },
    /// The system refused.
    System {
        /// What was being done.
        doing: String,
        /// What it said.
        error: String,
    },
}

/// Lines of somebody who may never end one.
#[derive(Debug)]
pub struct HostLines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> HostLines<R> {
    /// What comes from there.
    pub fn of(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(64 << 10, reader), line: Vec::new() }
    }

    /// The next whole line, with its end; `None` if there is none any more.
    ///
    /// # Errors
    /// In words, if it is longer than [`LINE_BYTES`].
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, String> {
        self.line.clear();
        let read = self.reader.by_ref().take(LINE_BYTES as u64).read_until(b'\n', &mut self.line);
        if self.line.ends_with(b"\n") {
            return Ok(Some(&self.line));
        }
        if self.line.len() >= LINE_BYTES {
            return Err(format!("it says a line of more than {} MiB", LINE_BYTES >> 20));
        }
        // A line that was cut off is none.
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err("reading was interrupted".to_owned()),
            _ => Ok(None),
        }
    }
}

impl RunnerMessage {
    /// Reads a message. Nothing is made of it before it is known to be small; what is made of it can be shown.
    ///
    /// # Errors
    /// In words: it is no message, or says what cannot be.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        if elements(line) > ELEMENTS {
            return Err(format!("it has more than {ELEMENTS} values"));
        }
        let said = serde_json::from_slice(line).map_err(|_| "it is no message".to_owned())?;
        Self::checked(said)
    }

    fn checked(self) -> Result<Self, String> {
        Ok(match self {
            Self::Ready { version, pid, folder, notices } => {
                if pid > LAST_PID {
                    return Err(format!("{pid} is no pid"));
                }
                let (version, folder) = (plain_text::beginning(&version, NAME_CHARACTERS), path(folder)?);
                Self::Ready { version, pid, folder, notices: some(notices) }
            }
            Self::Failed { reason } => Self::Failed { reason: plain_text::beginning(&reason, REASON_CHARACTERS) },
            Self::Done { number, answer } => Self::Done { number, answer: answer.checked()? },
            Self::Refused { number, why } => Self::Refused { number, why: why.shown() },
            Self::Ended { process, how } => Self::Ended { process, how: end(how)? },
            // What a process of the target writes is kept as it is, in its log; whoever quotes it makes it plain.
            Self::Wrote { .. } | Self::Printed { .. } => self,
        })
    }
}

impl OrderReply {
    fn checked(self) -> Result<Self, String> {
        Ok(match self {
            Self::Started { pid } if pid == 0 || pid > LAST_PID => return Err(format!("{pid} is no pid")),
            Self::Ran { how, output, errors } => Self::Ran { how: end(how)?, output, errors },
            Self::Ports { ports } => {
                if ports.len() > PORTS || ports.contains(&0) {
                    return Err(format!("these are no ports: {} numbers, all above 0", ports.len()));
                }
                Self::Ports { ports }
            }
            Self::Folder { path: folder } => Self::Folder { path: path(folder)? },
            Self::Samples { rows, programs } => {
                if rows.len().max(programs.len()) > ROWS {
                    return Err(format!("no host has {} roles or programs", rows.len().max(programs.len())));
                }
                let programs = programs.into_iter().map(believable_program).collect();
                Self::Samples { rows: rows.into_iter().map(believable).collect(), programs }
            }
            Self::Processes { pids } if pids.iter().any(|pid| *pid == 0 || *pid > LAST_PID) => {
                return Err("these are no pids".to_owned());
            }
            Self::Figures { figures } => Self::Figures { figures: Box::new(believable_figures(*figures)) },
            Self::Text { text } if text.len() > TEXT_BYTES => return Err("its text is too long".to_owned()),
            Self::Text { text } => Self::Text { text: plain_text::lines(&text) },
            Self::Nothing | Self::Started { .. } | Self::Processes { .. } => self,
        })
    }
}

impl OrderRefusal {
    fn shown(self) -> Self {
        let shown = |text: String| plain_text::beginning(&text, REASON_CHARACTERS);
        match self {
            Self::NoProgram { program } => Self::NoProgram { program: shown(program) },
            Self::NoUser { user } => Self::NoUser { user: shown(user) },
            Self::PortTaken { .. } => self,
            Self::Cannot { reason } => Self::Cannot { reason: shown(reason) },
            Self::System { doing, error } => Self::System { doing: shown(doing), error: shown(error) },
        }
    }
}

/// How many values a text in JSON can have at most: those within texts do not count.
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

/// As many notices as are read, and how many more there were.
fn some(notices: Vec<String>) -> Vec<String> {
    let more = notices.len().saturating_sub(NOTICES);
    let some = notices.iter().take(NOTICES).map(|notice| plain_text::beginning(notice, plain_text::LINE_CHARACTERS));
    some.chain((more > 0).then(|| format!("… {more} more notices, not kept"))).collect()
}

/// A path on the host, which is used only there.
fn path(path: PathBuf) -> Result<PathBuf, String> {
    let is_inner = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    let text = path.to_str().filter(|text| text.len() <= PATH_BYTES && plain_text::line(text) == *text);
    let is_path = |path: &Path| path.is_absolute() && path.components().all(is_inner);
    // A host without a folder of its own names none.
    if text.is_some_and(|text| text.is_empty() || is_path(&path)) {
        return Ok(path);
    }
    Err(format!("{} is no whole path", plain_text::beginning(&path.to_string_lossy(), NAME_CHARACTERS)))
}

fn end(how: i32) -> Result<i32, String> {
    if (-LAST_END..=LAST_END).contains(&how) { Ok(how) } else { Err(format!("no program ends with {how}")) }
}

/// A figure that cannot be was not measured.
fn figure(figure: Option<f64>) -> Option<f64> {
    figure.filter(|figure| (0.0..=MOST).contains(figure))
}

fn whole(figure: Option<u64>) -> Option<u64> {
    figure.filter(|figure| *figure as f64 <= MOST)
}

fn believable(row: Sample) -> Sample {
    Sample {
        // Both are known here.
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
        // Both are known here.
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
        // The lab knows what it asked for.
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
    fn a_line_that_does_not_end_is_not_gathered() {
        let mut lines = HostLines::of(io::repeat(b'x'));
        assert_eq!(lines.next_line().unwrap_err(), "it says a line of more than 1 MiB");
        assert!(lines.line.capacity() <= 4 * LINE_BYTES, "{}", lines.line.capacity());
        let mut lines = HostLines::of(&b"one\ntwo"[..]);
        assert_eq!(lines.next_line().unwrap(), Some(&b"one\n"[..]));
        assert_eq!(lines.next_line().unwrap(), None);
    }

    #[test]
    fn values_are_counted_before_anything_is_made_of_them() {
        let many =
            format!(r#"{{"said":"done","number":1,"answer":{{"is":"ports","ports":[{}0]}}}}"#, "0,".repeat(ELEMENTS));
        assert_eq!(read(&many).unwrap_err(), "it has more than 65536 values");
        let text = format!(r#"{{"said":"wrote","process":1,"text":"{}"}}"#, ",[{\\\"".repeat(ELEMENTS));
        assert!(read(&text).is_ok());
    }

    #[test]
    fn numbers_that_cannot_be_are_no_message() {
        for lie in [
            r#"{"said":"done","number":1,"answer":{"is":"started","pid":0}}"#,
            r#"{"said":"done","number":1,"answer":{"is":"started","pid":4194305}}"#,
            r#"{"said":"done","number":1,"answer":{"is":"started","pid":-1}}"#,
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
    fn figures_that_cannot_be_were_not_measured() {
        let line = r#"{"said":"done","number":1,"answer":{"is":"samples","rows":[
            {"at_s":-7,"host":"other","process":"a\u001b[2J","cpu_user_pct":-3,"load1":1e300,"rss_bytes":18446744073709551615,"threads":3}]}}"#;
        let RunnerMessage::Done { answer: OrderReply::Samples { rows, .. }, .. } = read(line).unwrap() else {
            unreachable!()
        };
        let expected = Sample { process: "a\\u{1b}[2J".to_owned(), threads: Some(3), ..Sample::default() };
        assert_eq!(rows, [expected]);
    }

    #[test]
    fn of_notices_some_are_kept_and_all_can_be_shown() {
        let notices: Vec<String> = (0..100).map(|number| format!("\u{1b}]0;{number}\u{7}")).collect();
        let ready = RunnerMessage::Ready { version: "1".to_owned(), pid: 7, folder: "/x".into(), notices };
        let Ok(RunnerMessage::Ready { notices, .. }) = RunnerMessage::read(&serde_json::to_vec(&ready).unwrap()) else {
            unreachable!()
        };
        assert_eq!((notices.len(), notices[0].as_str()), (21, "\\u{1b}]0;0\\u{7}"));
        assert_eq!(notices[20], "… 80 more notices, not kept");
    }
}
