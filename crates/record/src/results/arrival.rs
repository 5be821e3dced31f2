//! Figures of answers while they arrive: first byte, and the messages of streams.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quantiles;

/// Times of answers while they arrive, of operations that record them. Each figure is left out if
/// it was not recorded. The first byte and the first message are those of the last attempt of `ok`
/// operations that ended in the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Arrival {
    /// Time from the send of the request to the first byte of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<Quantiles>,
    /// Time from the operation's intended start to the first byte of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_latency_us: Option<Quantiles>,
    /// Time from the send of the request to the first message of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_message_us: Option<Quantiles>,
    /// Time from the operation's intended start to the first message of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_message_latency_us: Option<Quantiles>,
    /// Time between two messages of a stream that arrived one after the other in the measured part,
    /// whatever the outcome of the operation. 0 between messages that arrived together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_us: Option<Quantiles>,
    /// Messages of streams over the whole load, whatever the outcome of their operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Messages per second over the measured part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_s: Option<f64>,
    /// Messages of the target that answered no operation, over the whole load. Only in a trial, and
    /// only of a protocol that has such messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed_messages: Option<u64>,
}
