//! Answers: the call of gRPC, its outcome, and the facts that a message states.

use super::{EtcdVerb, statuses};
use crate::cause::AttemptCause;
use crate::http2::StreamAnswer;
use crate::protobuf::{MalformedMessage, ProtobufFields, ProtobufValue};
use crate::protocols::grpc::answer::{CallAnswer, CallShape, GrpcMemory};
use crate::protocols::grpc::status::CallStatus;

/// The answer to a call.
#[derive(Debug, Default)]
pub struct EtcdAnswer {
    pub call: CallAnswer,
    /// Number of events that a watch has brought.
    pub events: u64,
    /// Whether the answer ended with a message, and has no status of gRPC.
    ends_early: bool,
    /// Name of the outcome, when the answer is complete.
    status: Option<&'static str>,
}

impl EtcdAnswer {
    /// Takes bytes of messages. Returns whether the answer is complete: a watch that is cancelled
    /// or has brought its events.
    pub(super) fn data(
        &mut self,
        verb: EtcdVerb,
        events: u64,
        memory: &mut GrpcMemory,
        mut data: &[u8],
    ) -> Result<bool, AttemptCause> {
        while self.call.next_message(shape(verb), memory, &mut data).map_err(defect)? {
            if verb == EtcdVerb::Watch
                && let Some(message) = self.call.message()
            {
                let AnswerFacts { count, is_cancelled, .. } = AnswerFacts::read(verb, message)?;
                self.events += count;
                self.ends_early = is_cancelled || self.events >= events;
            }
            if self.ends_early {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends the answer.
    pub(super) fn end(&mut self, verb: EtcdVerb, events: u64, memory: &mut GrpcMemory) -> StreamAnswer {
        let call = match self.ends_early {
            true => StreamAnswer { result: AttemptCause::Ok, is_costly: false },
            false => self.call.end(shape(verb), memory),
        };
        let result = match self.call.sent_status().filter(|status| *status != CallStatus::OK) {
            Some(status) => self.fail(statuses::failure(status, &self.call.text)),
            None if call.result == AttemptCause::Ok => self.judge(verb, events).unwrap_or_else(|cause| cause),
            None => defect(call.result),
        };
        StreamAnswer { result, ..call }
    }

    /// Returns the result of a call that has succeeded.
    fn judge(&mut self, verb: EtcdVerb, events: u64) -> Result<AttemptCause, AttemptCause> {
        let facts = AnswerFacts::read(verb, self.call.message().ok_or(AttemptCause::BadAnswer)?)?;
        let (is_found, is_done) = (facts.is_found, facts.is_done);
        match verb {
            EtcdVerb::Update if !is_done => Ok(self.fail(statuses::number("changed"))),
            EtcdVerb::LeaseKeepAlive if facts.ttl == 0 => Ok(self.fail(statuses::number("lease_not_found"))),
            EtcdVerb::Watch if self.events < events => Ok(self.fail(statuses::number("watch_cancelled"))),
            _ => {
                self.status = Some(if verb == EtcdVerb::Get && !is_found { "not_found" } else { "ok" });
                Ok(AttemptCause::Ok)
            }
        }
    }

    fn fail(&mut self, number: u8) -> AttemptCause {
        self.status = Some(statuses::name(number));
        AttemptCause::Answer(number)
    }

    /// Returns the name of the outcome.
    pub fn status(&self) -> &'static str {
        self.status.unwrap_or("bad_answer")
    }

    /// Empties the answer, and gives its memory back.
    pub fn rest(&mut self, memory: &mut GrpcMemory) {
        std::mem::take(self).call.rest(memory);
    }
}

/// Returns the properties of a call. All results follow from messages.
fn shape(verb: EtcdVerb) -> CallShape {
    CallShape { takes_stream: false, answers_stream: verb == EtcdVerb::Watch, keeps_message: true }
}

/// Returns the cause of an answer that breaks a rule of gRPC, which has no number among the
/// failures of etcd.
fn defect(cause: AttemptCause) -> AttemptCause {
    if matches!(cause, AttemptCause::Answer(_)) { AttemptCause::BadAnswer } else { cause }
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
