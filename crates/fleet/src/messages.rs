//! What a generator is told and what it says: a line of JSON each, over standard input and output or whatever else carries lines.
//!
//! A generator says nothing until it is spoken to, and ends when it is told to or when its input does.

use std::collections::BTreeMap;
use std::path::PathBuf;

use experiment::plan::{Load, Tls};
use load::client::{CallError, ClientAnswer};
use load::{LoadPurpose, LoadSlice, Summary, WireInterval};
use serde::{Deserialize, Serialize};

/// Version of these messages. Both ends have to have the same.
pub const VERSION: u32 = 3;

/// The longest line of a generator, bytes: an interval with a hundred thousand audited operations.
pub const LONGEST_LINE: usize = 16 << 20;
/// The longest line that is no interval, bytes.
const LONGEST_OTHER_LINE: usize = 1 << 20;

/// What a generator is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tells", rename_all = "snake_case")]
pub enum GeneratorOrder {
    /// What its part of the load is. It answers `ready` or `refused`. A generator that has played one may be told another.
    Setup(Box<GeneratorSetup>),
    /// Contents of a file that loads and connections name from now on, in parts. It answers `stored`, or `refused`.
    File {
        /// Its name, as it stands there.
        name: String,
        /// Whether these are its first bytes.
        is_first: bool,
        /// The bytes, in base64.
        bytes: String,
    },
    /// It connects to a service, sends nothing, and answers `reached`.
    Reach {
        /// Name of the protocol.
        protocol: String,
        /// Where.
        service: String,
        /// Whom to trust, where it is spoken to by TLS.
        tls: Tls,
        /// The folder, on the generator's machine, of certificates that were not handed over.
        files: PathBuf,
    },
    /// It calls the target, beside the load or without one, and answers `called`.
    Call(Box<GeneratorCall>),
    /// It answers `pong` at once.
    Ping {
        /// The asker's clock.
        t0_ns: u64,
    },
    /// Zero of the load's clock.
    Begin {
        /// On the generator's own monotonic clock, nanoseconds.
        at_ns: u64,
    },
    /// All intervals up to and with this one have come.
    Ack {
        /// Number of the interval.
        through: u64,
    },
    /// No new operations; open ones are given the load's drain.
    Stop,
    /// The load ends now.
    Abort,
    /// The generator ends.
    End,
}

/// A single call of the target's protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorCall {
    /// Which of all that it is told.
    pub number: u64,
    /// Name of the protocol.
    pub protocol: String,
    /// Where.
    pub service: String,
    /// Whom to trust, where it is spoken to by TLS.
    pub tls: Tls,
    /// The folder, on the generator's machine, of certificates that were not handed over.
    pub files: PathBuf,
    /// How long a connection and an answer may take, seconds.
    pub within_s: f64,
    /// The operation.
    pub operation: String,
    /// Its values.
    pub with: BTreeMap<String, String>,
}

/// A generator's part of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorSetup {
    /// Version of the messages.
    pub version: u32,
    /// What it is for: one that is no measurement is played by one generator alone.
    pub purpose: LoadPurpose,
    /// The threads of the load that it plays, where it is measured.
    pub slice: LoadSlice,
    /// Name of the protocol.
    pub protocol: String,
    /// Where: those of the whole load, in their order.
    pub services: Vec<String>,
    /// The whole load: agents and rates are those of all generators together.
    pub load: Load,
    /// Every random choice of the whole load follows from it.
    pub seed: u64,
    /// Whom to trust, where the services are spoken to by TLS.
    pub tls: Tls,
    /// The folder, on the generator's machine, of files that were not handed over.
    pub files: PathBuf,
    /// Length of an outcome slot, seconds.
    pub slot_s: f64,
}

/// What a generator says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum GeneratorMessage {
    /// It can play its part, and waits for `begin`.
    Ready {
        /// Version of the messages.
        version: u32,
        /// Cores that it may use.
        cores: usize,
    },
    /// It cannot, or not what it was told when it was told; nothing was sent to the service.
    Refused {
        /// Why, with the remedy.
        reason: String,
    },
    /// The answer to `file`.
    Stored,
    /// The answer to `reach`.
    Reached {
        /// Why it cannot connect; `None`: it can.
        refused: Option<String>,
    },
    /// The answer to `call`.
    Called {
        /// The call's number.
        number: u64,
        /// What came of it.
        came: Result<ClientAnswer, CallError>,
    },
    /// The answer to `ping`, times in nanoseconds.
    Pong {
        /// As it came.
        t0_ns: u64,
        /// The generator's clock when the ping was read, …
        t1_ns: u64,
        /// … and when this was written.
        t2_ns: u64,
    },
    /// A second of one of its threads, also where nothing happened in it.
    Interval {
        /// Number over all of this generator's threads, from 1.
        number: u64,
        /// What was counted.
        of: Box<WireInterval>,
    },
    /// The last word on a load that was played to its end: what came to less is not whole.
    Summary {
        /// What its part came to.
        came: Summary,
        /// Intervals that it handed over.
        intervals: u64,
        /// CRC-32 of their lines, line ends included.
        crc: u32,
    },
    /// The last word on a load that ended badly.
    Failed {
        /// Why.
        reason: String,
    },
}

impl GeneratorMessage {
    /// Reads a line. What a stranger sent takes a few times the memory of its text at most: the derived reader would keep an interval as
    /// untyped values first.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Head<'a> {
            says: &'a str,
        }
        #[derive(Deserialize)]
        struct Interval {
            number: u64,
            of: Box<WireInterval>,
        }
        if line.len() > LONGEST_LINE {
            return None;
        }
        match serde_json::from_slice::<Head<'_>>(line).ok()?.says {
            "interval" => {
                let Interval { number, of } = serde_json::from_slice(line).ok()?;
                Some(Self::Interval { number, of })
            }
            _ if line.len() > LONGEST_OTHER_LINE => None,
            _ => serde_json::from_slice(line).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_by_its_kind_and_within_its_length() {
        let pong = GeneratorMessage::Pong { t0_ns: 1, t1_ns: 2, t2_ns: 3 };
        assert_eq!(GeneratorMessage::parse(&serde_json::to_vec(&pong).unwrap()), Some(pong));
        let failed = |length| format!(r#"{{"says":"failed","reason":"{}"}}"#, "x".repeat(length));
        assert!(GeneratorMessage::parse(failed(1000).as_bytes()).is_some());
        assert_eq!(GeneratorMessage::parse(failed(LONGEST_OTHER_LINE).as_bytes()), None);
        // Another field than an interval has is skipped and not kept.
        let zeros = format!(r#"{{"says":"interval","number":0,"of":{{"a":[0{}]}}}}"#, ",0".repeat(1000));
        assert_eq!(GeneratorMessage::parse(zeros.as_bytes()), None);
        assert_eq!(GeneratorMessage::parse(&vec![b' '; LONGEST_LINE + 1]), None);
    }
}
