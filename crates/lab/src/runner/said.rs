//! What a runner says: its answers, its refusals, and what its processes do. It must not know what was asked.

use std::path::PathBuf;

use record::events::HostFigures;
use record::rows::Sample;
use serde::{Deserialize, Serialize};

/// What a runner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum Said {
    /// First line: it is there, and its folders are made.
    Ready {
        /// Its version.
        version: String,
        /// Its pid as the machine counts; 0 in a host that has namespaces of its own, whose keeper the lab started itself.
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
        answer: Answer,
    },
    /// The order was not carried out; nothing of it was.
    Refused {
        /// Its request.
        number: u64,
        /// Why.
        why: Refusal,
    },
    /// A process wrote to standard output or error.
    Wrote {
        /// Number of the request that started it.
        process: u64,
        /// What; bytes that are not UTF-8 are replaced.
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
pub enum Answer {
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
        /// Standard output.
        output: String,
        /// Standard error.
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
pub enum Refusal {
    /// There is no such program.
    NoProgram {
        /// Its name.
        program: String,
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
