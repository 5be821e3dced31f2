//! Messages between conductor and generator: one JSON text per line, over standard input and output
//! or any other stream.
//!
//! A generator sends nothing before its first order. It ends by the order `end` or at the end of
//! its input.

use std::collections::BTreeMap;
use std::path::PathBuf;

use experiment::plan::{Load, Tls};
use load::client::{CallError, ClientAnswer};
use load::{IntervalText, LoadPurpose, LoadSlice, Summary};
use serde::{Deserialize, Serialize};

/// Version of these messages. Both ends must have the same version.
pub const VERSION: u32 = 3;

/// Longest line of a generator, bytes: an interval with a hundred thousand audited operations.
pub const LONGEST_LINE: usize = 16 << 20;
/// Longest line that is not an interval, bytes.
const LONGEST_OTHER_LINE: usize = 1 << 20;

/// An order to a generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tells", rename_all = "snake_case")]
pub enum GeneratorOrder {
    /// Sets the generator's part of the load. The generator replies `ready` or `refused`. After a
    /// load has ended, another can be set up.
    Setup(Box<GeneratorSetup>),
    /// Sends a part of a file that loads and connections name later. The generator replies `stored`
    /// or `refused`.
    File {
        /// Name of the file as in the load or connection.
        name: String,
        /// Whether this is the first part.
        is_first: bool,
        /// Contents in base64.
        bytes: String,
    },
    /// Connects to a service without sending anything. The generator replies `reached`.
    Reach {
        /// Name of the protocol.
        protocol: String,
        /// Address of the service.
        service: String,
        /// Trusted certificates, if the service uses TLS.
        tls: Tls,
        /// Folder on the generator's machine with certificates that were not handed over.
        files: PathBuf,
    },
    /// Performs a single operation on the target, with or without a load. The generator replies
    /// `called`.
    Call(Box<GeneratorCall>),
    /// Asks for the generator's clock. The generator replies `pong` at once.
    Ping {
        /// Time of the conductor's clock, nanoseconds.
        t0_ns: u64,
    },
    /// Sets the start of the load, which is zero on the load's clock.
    Begin {
        /// Time on the generator's monotonic clock, nanoseconds.
        at_ns: u64,
    },
    /// Acknowledges all intervals up to and including this one.
    Ack {
        /// Sequence number of the interval.
        through: u64,
    },
    /// Starts no new operations. Open operations may continue for the load's drain time.
    Stop,
    /// Ends the load at once.
    Abort,
    /// Ends the generator.
    End,
}

/// A single operation of the target's protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorCall {
    /// Id of this call, which the reply repeats.
    pub number: u64,
    /// Name of the protocol.
    pub protocol: String,
    /// Address of the service.
    pub service: String,
    /// Trusted certificates, if the service uses TLS.
    pub tls: Tls,
    /// Folder on the generator's machine with certificates that were not handed over.
    pub files: PathBuf,
    /// Time limit for connecting, and for the answer, seconds each.
    pub within_s: f64,
    /// Name of the operation.
    pub operation: String,
    /// Values of the operation's parameters, by name.
    pub with: BTreeMap<String, String>,
}

/// A generator's part of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorSetup {
    /// Version of the messages.
    pub version: u32,
    /// Purpose of the load. A load that is not measured runs on one generator alone.
    pub purpose: LoadPurpose,
    /// Threads of a measured load that this generator runs.
    pub slice: LoadSlice,
    /// Name of the protocol.
    pub protocol: String,
    /// Addresses of the services of the whole load, in order.
    pub services: Vec<String>,
    /// Whole load. Agents and rates are totals over all generators.
    pub load: Load,
    /// Seed of all random choices of the whole load.
    pub seed: u64,
    /// Trusted certificates, if the services use TLS.
    pub tls: Tls,
    /// Folder on the generator's machine with files that were not handed over.
    pub files: PathBuf,
    /// Length of an outcome slot, seconds.
    pub slot_s: f64,
}

/// A message from a generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum GeneratorMessage {
    /// The part is set up, and the generator waits for `begin`.
    Ready {
        /// Version of the messages.
        version: u32,
        /// Number of cores that the generator may use.
        cores: usize,
    },
    /// The generator cannot carry out the order, or not at this time. It has sent nothing to the
    /// service.
    Refused {
        /// Reason and remedy.
        reason: String,
    },
    /// Reply to `file`.
    Stored,
    /// Reply to `reach`.
    Reached {
        /// Reason why the generator cannot connect. `None`: it can connect.
        refused: Option<String>,
    },
    /// Reply to `call`.
    Called {
        /// Id of the call, from its order.
        number: u64,
        /// Result of the operation.
        came: Result<ClientAnswer, CallError>,
    },
    /// Reply to `ping`, with times in nanoseconds.
    Pong {
        /// Time from the ping.
        t0_ns: u64,
        /// Generator's clock when it read the ping.
        t1_ns: u64,
        /// Generator's clock when it wrote this reply.
        t2_ns: u64,
    },
    /// Measurements of one second of one thread. Sent even if nothing happened in that second.
    Interval {
        /// Sequence number over all threads of this generator, from 1.
        number: u64,
        /// Measurements of the interval.
        of: Box<IntervalText>,
    },
    /// Final message of a load that ran to its end.
    Summary {
        /// Totals of the generator's part.
        came: Summary,
        /// Number of intervals sent.
        intervals: u64,
        /// CRC-32 of the intervals' lines, including line ends.
        crc: u32,
    },
    /// Final message of a load that failed.
    Failed {
        /// Reason.
        reason: String,
    },
}

impl GeneratorMessage {
    /// Parses a line. A hostile line uses at most a few times the memory of its text. The derived
    /// parser would first keep an interval as untyped values.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Head<'a> {
            says: &'a str,
        }
        #[derive(Deserialize)]
        struct Interval {
            number: u64,
            of: Box<IntervalText>,
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
    fn lines_are_parsed_within_their_length_limits() {
        let pong = GeneratorMessage::Pong { t0_ns: 1, t1_ns: 2, t2_ns: 3 };
        assert_eq!(GeneratorMessage::parse(&serde_json::to_vec(&pong).unwrap()), Some(pong));
        let failed = |length| format!(r#"{{"says":"failed","reason":"{}"}}"#, "x".repeat(length));
        assert!(GeneratorMessage::parse(failed(1000).as_bytes()).is_some());
        assert_eq!(GeneratorMessage::parse(failed(LONGEST_OTHER_LINE).as_bytes()), None);
        // An unknown field of an interval is skipped and not kept.
        let zeros = format!(r#"{{"says":"interval","number":0,"of":{{"a":[0{}]}}}}"#, ",0".repeat(1000));
        assert_eq!(GeneratorMessage::parse(zeros.as_bytes()), None);
        assert_eq!(GeneratorMessage::parse(&vec![b' '; LONGEST_LINE + 1]), None);
    }
}
