//! Answers: the messages and the status of a call, and the facts that a message states.

use std::sync::OnceLock;

use super::{EtcdVerb, statuses};
use crate::cause::AttemptCause;
use crate::http2::hpack::{BadBlock, HeaderBlock, HeaderName};
use crate::protobuf::{MalformedMessage, ProtobufFields, ProtobufValue};
use crate::values::encoding::decode_percent;

/// Length of gRPC's prefix of a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// Longest accepted message, bytes.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;
/// Longest kept text about a failure, bytes.
const TEXT_LIMIT: usize = 1024;

/// Names of the fields with the status and its text.
static NAMES: OnceLock<[HeaderName; 2]> = OnceLock::new();

/// The answer to a call.
#[derive(Debug, Default)]
pub struct EtcdAnswer {
    /// Messages with their prefixes. Those of a watch that were read are dropped when more arrive.
    bytes: Vec<u8>,
    /// Position after the last read message.
    read: usize,
    /// Position of the last read message, without its prefix.
    last: usize,
    /// Number of events that a watch has brought.
    pub events: u64,
    /// gRPC's status, when it has arrived.
    code: Option<u64>,
    /// Text about a failure.
    text: Vec<u8>,
    /// Name of the outcome, when the answer is complete.
    status: &'static str,
    /// Status of HTTP, if it is not 200.
    pub refused: Option<u16>,
}

impl EtcdAnswer {
    /// Takes memory for the messages.
    pub fn begin(&mut self, spare: &mut Vec<Vec<u8>>) {
        self.bytes = spare.pop().unwrap_or_default();
    }

    /// Empties the answer, and gives its memory back.
    pub fn rest(&mut self, spare: &mut Vec<Vec<u8>>) {
        let Self { mut bytes, mut text, .. } = std::mem::take(self);
        if bytes.capacity() > 0 {
            bytes.clear();
            spare.push(bytes);
        }
        text.clear();
        self.text = text;
    }

    /// Reads the status and its text, if the block has them.
    pub fn read_status(&mut self, mut block: HeaderBlock<'_>) -> Result<(), BadBlock> {
        let names = NAMES.get_or_init(|| ["grpc-status", "grpc-message"].map(HeaderName::new));
        while let Some(field) = block.next_field()? {
            if field.is(&names[0]) {
                // The text may come first. Until then, its memory is used.
                let has_text = !self.text.is_empty();
                let mut digits = if has_text { Vec::new() } else { std::mem::take(&mut self.text) };
                self.code = Some(field.value.number(&mut digits).unwrap_or(u64::MAX));
                if !has_text {
                    digits.clear();
                    self.text = digits;
                }
            } else if field.is(&names[1]) {
                field.value.write(&mut self.text)?;
                self.text.truncate(TEXT_LIMIT);
                decode_percent(&mut self.text);
            }
        }
        Ok(())
    }

    /// Appends bytes of messages.
    pub fn append(&mut self, data: &[u8]) -> Result<(), AttemptCause> {
        if self.read > 0 {
            self.bytes.drain(..self.read);
            (self.read, self.last) = (0, 0);
        }
        if self.bytes.len() + data.len() > MESSAGE_LIMIT {
            return Err(AttemptCause::TooLong);
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    /// Reads the next message, if it is complete.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, AttemptCause> {
        let rest = &self.bytes[self.read..];
        let Some([compressed, length @ ..]) = rest.first_chunk::<PREFIX>() else { return Ok(None) };
        if *compressed != 0 {
            // The request names no compression.
            return Err(AttemptCause::BadAnswer);
        }
        let length = u32::from_be_bytes(*length) as usize;
        if length > MESSAGE_LIMIT {
            return Err(AttemptCause::TooLong);
        }
        if rest.len() < PREFIX + length {
            return Ok(None);
        }
        self.last = self.read + PREFIX;
        self.read = self.last + length;
        Ok(self.message())
    }

    /// Returns the last message.
    pub fn message(&self) -> Option<&[u8]> {
        (self.last > 0).then(|| &self.bytes[self.last..self.read])
    }

    /// Returns the text about a failure.
    pub fn text(&self) -> Option<&[u8]> {
        (!self.text.is_empty()).then_some(&self.text)
    }

    /// Returns the name of the outcome.
    pub fn status(&self) -> &'static str {
        self.status
    }

    /// Returns the result of a complete answer.
    pub(super) fn judge(&mut self, verb: EtcdVerb, events: u64) -> AttemptCause {
        self.status = "bad_answer";
        self.read_outcome(verb, events).unwrap_or_else(|cause| cause)
    }

    fn read_outcome(&mut self, verb: EtcdVerb, events: u64) -> Result<AttemptCause, AttemptCause> {
        // A watch that has brought its events has no status yet.
        let is_watched = verb == EtcdVerb::Watch && self.message().is_some();
        match self.code {
            Some(0) => {}
            None if is_watched => {}
            None => return Err(AttemptCause::BadAnswer),
            Some(code) => return Ok(self.fail(statuses::failure(code, &self.text))),
        }
        if !is_watched && self.next_message()?.is_none() {
            return Err(AttemptCause::BadAnswer);
        }
        if self.read < self.bytes.len() && !is_watched {
            return Err(AttemptCause::BadAnswer);
        }
        let facts = AnswerFacts::read(verb, self.message().ok_or(AttemptCause::BadAnswer)?)?;
        let (is_found, is_done) = (facts.is_found, facts.is_done);
        match verb {
            EtcdVerb::Update if !is_done => Ok(self.fail(statuses::number("changed"))),
            EtcdVerb::LeaseKeepAlive if facts.ttl == 0 => Ok(self.fail(statuses::number("lease_not_found"))),
            EtcdVerb::Watch if self.events < events => Ok(self.fail(statuses::number("watch_cancelled"))),
            _ => {
                self.status = if verb == EtcdVerb::Get && !is_found { "not_found" } else { "ok" };
                Ok(AttemptCause::Ok)
            }
        }
    }

    fn fail(&mut self, number: u8) -> AttemptCause {
        self.status = statuses::name(number);
        AttemptCause::Answer(number)
    }
}

/// Facts that the message of an answer states. Numbers that are not stated are 0.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AnswerFacts<'a> {
    /// Revision of the store.
    pub revision: u64,
    /// Value of the first key, or after the last event of a watch.
    pub value: Option<&'a [u8]>,
    /// Revision that changed the key last.
    pub version: Option<u64>,
    /// Whether the key exists.
    pub is_found: bool,
    /// Whether the comparison of a transaction held.
    pub is_done: bool,
    /// Number of keys or events.
    pub count: u64,
    /// Id of a lease.
    pub id: u64,
    /// Seconds until a lease expires.
    pub ttl: u64,
    /// Whether the member has ended a watch.
    pub is_cancelled: bool,
}

impl<'a> AnswerFacts<'a> {
    /// Reads the message of an answer.
    pub(super) fn read(verb: EtcdVerb, message: &'a [u8]) -> Result<Self, AttemptCause> {
        let mut facts = Self::default();
        facts.take(verb, message).map_err(|_| AttemptCause::BadAnswer)?;
        let is_changed = match verb {
            EtcdVerb::Put => true,
            EtcdVerb::Delete => facts.count > 0,
            EtcdVerb::Cas | EtcdVerb::Update => facts.is_done,
            _ => false,
        };
        if is_changed {
            facts.version = Some(facts.revision);
        }
        Ok(facts)
    }

    fn take(&mut self, verb: EtcdVerb, message: &'a [u8]) -> Result<(), MalformedMessage> {
        use ProtobufValue::{Bytes, Varint};
        for field in ProtobufFields::of(message) {
            match (verb, field?) {
                (_, (1, Bytes(header))) => self.header(header)?,
                (EtcdVerb::Get | EtcdVerb::Range, (2, Bytes(pair))) => self.pair(pair)?,
                (EtcdVerb::Get | EtcdVerb::Range, (4, Varint(count))) | (EtcdVerb::Delete, (2, Varint(count))) => {
                    self.count = count
                }
                (EtcdVerb::Cas | EtcdVerb::Update, (2, Varint(held))) => self.is_done = held != 0,
                (EtcdVerb::Cas | EtcdVerb::Update, (3, Bytes(answer))) => self.branch(answer)?,
                (EtcdVerb::LeaseGrant | EtcdVerb::LeaseKeepAlive, (2, Varint(id))) => self.id = id,
                (EtcdVerb::LeaseGrant | EtcdVerb::LeaseKeepAlive, (3, Varint(ttl))) => self.ttl = ttl,
                (EtcdVerb::Watch, (4, Varint(cancelled))) => self.is_cancelled = cancelled != 0,
                (EtcdVerb::Watch, (11, Bytes(event))) => self.event(event)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn header(&mut self, header: &'a [u8]) -> Result<(), MalformedMessage> {
        for field in ProtobufFields::of(header) {
            if let (3, ProtobufValue::Varint(revision)) = field? {
                self.revision = revision;
            }
        }
        Ok(())
    }

    /// Reads a key with its value. Of several, the first counts.
    fn pair(&mut self, pair: &'a [u8]) -> Result<(), MalformedMessage> {
        if self.is_found {
            return Ok(());
        }
        // An empty value is left out.
        (self.is_found, self.value) = (true, Some(&[][..]));
        for field in ProtobufFields::of(pair) {
            match field? {
                (3, ProtobufValue::Varint(revision)) => self.version = Some(revision),
                (5, ProtobufValue::Bytes(value)) => self.value = Some(value),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the answer to a request of a transaction: that of a read has the key, if it exists.
    fn branch(&mut self, answer: &'a [u8]) -> Result<(), MalformedMessage> {
        for field in ProtobufFields::of(answer) {
            let (1, ProtobufValue::Bytes(range)) = field? else { continue };
            for field in ProtobufFields::of(range) {
                if let (2, ProtobufValue::Bytes(pair)) = field? {
                    self.pair(pair)?;
                }
            }
        }
        Ok(())
    }

    /// Reads an event of a watch. The last one counts.
    fn event(&mut self, event: &'a [u8]) -> Result<(), MalformedMessage> {
        self.count += 1;
        (self.is_found, self.value) = (false, None);
        let mut is_removal = false;
        for field in ProtobufFields::of(event) {
            match field? {
                (1, ProtobufValue::Varint(kind)) => is_removal = kind != 0,
                (2, ProtobufValue::Bytes(pair)) => self.pair(pair)?,
                _ => {}
            }
        }
        if is_removal {
            (self.is_found, self.value) = (false, None);
        }
        Ok(())
    }
}
