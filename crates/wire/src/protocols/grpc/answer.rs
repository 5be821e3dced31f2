//! The answer to a call: headers, messages behind their lengths, and trailers.

use super::status::{CallDefect, CallStatus};
use crate::answer_budget::BudgetShare;
use crate::cause::{AttemptCause, Malformation};
use crate::http2::hpack::{HeaderBlock, HeaderName};
use crate::http2::{StreamAnswer, StreamFault};
use crate::protocols::http::content_coding::{BodyDecoder, ContentCodings};
use crate::values::encoding::decode_percent;

/// Length of the flag and the length before a message.
pub const FRAME: usize = 5;
/// Longest accepted message, bytes.
const MESSAGE_LIMIT: usize = 64 * 1024 * 1024;
/// Longest text of a status that is kept, bytes.
const TEXT_LIMIT: usize = 1024;
/// Largest spare buffer, and maximum number of them.
const SPARE_BYTES: usize = 1024 * 1024;
const SPARE: usize = 1024;

/// Properties of a call on which the reading of its answer depends.
#[derive(Debug, Clone, Copy)]
pub struct CallShape {
    pub takes_stream: bool,
    pub answers_stream: bool,
    /// Whether a step needs the last message.
    pub keeps_message: bool,
}

/// State of a thread.
pub struct GrpcMemory {
    names: AnswerNames,
    spare: Vec<Vec<u8>>,
    decoder: BodyDecoder,
    scratch: Vec<u8>,
}

impl Default for GrpcMemory {
    fn default() -> Self {
        Self {
            names: AnswerNames {
                content_type: HeaderName::new("content-type"),
                encoding: HeaderName::new("grpc-encoding"),
                status: HeaderName::new("grpc-status"),
                text: HeaderName::new("grpc-message"),
            },
            spare: Vec::new(),
            decoder: BodyDecoder::default(),
            scratch: Vec::new(),
        }
    }
}

/// Names of the headers and trailers that matter.
struct AnswerNames {
    content_type: HeaderName,
    encoding: HeaderName,
    status: HeaderName,
    text: HeaderName,
}

impl GrpcMemory {
    /// Returns the size of all spare buffers.
    #[cfg(test)]
    pub fn spare_bytes(&self) -> usize {
        self.spare.iter().map(Vec::capacity).sum()
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        if (1..=SPARE_BYTES).contains(&buffer.capacity()) && self.spare.len() < SPARE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

/// State of an answer.
#[derive(Debug, Default)]
pub struct CallAnswer {
    http_status: u16,
    is_grpc: bool,
    codings: ContentCodings,
    status: Option<CallStatus>,
    has_two_statuses: bool,
    /// Number of complete messages.
    pub messages: u32,
    /// The flag and the length of the next message, as far as they have come.
    frame: [u8; FRAME],
    framed: usize,
    /// Number of bytes that the current message lacks.
    left: usize,
    /// Whether the last message that has begun is compressed.
    is_compressed: bool,
    /// The last message, if a step needs it.
    message: Vec<u8>,
    held: BudgetShare,
    /// Text of the status.
    pub text: Vec<u8>,
    /// Status of the call, once the answer has ended.
    outcome: Option<CallStatus>,
}

impl CallAnswer {
    /// Takes a header block or trailers.
    #[inline]
    pub fn fields(&mut self, memory: &mut GrpcMemory, mut block: HeaderBlock<'_>) -> Result<(), StreamFault> {
        while let Some(field) = block.next_field()? {
            let scratch = &mut memory.scratch;
            scratch.clear();
            if field.is(&memory.names.status) {
                field.value.write(scratch)?;
                self.has_two_statuses |= self.status.is_some();
                self.status = Some(CallStatus::read(scratch));
            } else if field.is(&memory.names.content_type) {
                field.value.write(scratch)?;
                self.is_grpc = is_grpc(scratch);
            } else if field.is(&memory.names.encoding) {
                field.value.write(scratch)?;
                self.codings = ContentCodings::default();
                self.codings.note(scratch);
            } else if field.is(&memory.names.text) {
                let mut text = memory.buffer();
                field.value.write(&mut text)?;
                decode_percent(&mut text);
                text.truncate(TEXT_LIMIT);
                let before = std::mem::replace(&mut self.text, text);
                memory.recycle(before);
            }
        }
        Ok(())
    }

    /// Takes the header block of an answer.
    #[inline]
    pub fn head(&mut self, memory: &mut GrpcMemory, status: u16, block: HeaderBlock<'_>) -> Result<(), StreamFault> {
        self.http_status = status;
        self.fields(memory, block)
    }

    /// Takes bytes of the messages. Returns the number of messages that are complete now.
    #[inline]
    pub fn data(&mut self, call: CallShape, memory: &mut GrpcMemory, mut data: &[u8]) -> Result<u32, AttemptCause> {
        let before = self.messages;
        while self.next_message(call, memory, &mut data)? {}
        Ok(self.messages - before)
    }

    /// Takes bytes up to the end of a message, and leaves the others. Returns whether the message
    /// is complete.
    #[inline]
    pub fn next_message(
        &mut self,
        call: CallShape,
        memory: &mut GrpcMemory,
        data: &mut &[u8],
    ) -> Result<bool, AttemptCause> {
        if self.http_status != 200 || !self.is_grpc {
            // The page of a proxy. Its status is the result.
            return Ok(false);
        }
        if self.left == 0 {
            let (here, rest) = data.split_at(data.len().min(FRAME - self.framed));
            self.frame[self.framed..self.framed + here.len()].copy_from_slice(here);
            self.framed += here.len();
            *data = rest;
            if self.framed < FRAME {
                return Ok(false);
            }
            self.begin_message(call, memory)?;
        }
        let (here, rest) = data.split_at(data.len().min(self.left));
        if call.keeps_message {
            if !self.held.grow_to(self.message.len() + here.len()) {
                return Err(AttemptCause::TooLarge);
            }
            self.message.extend_from_slice(here);
        }
        self.left -= here.len();
        *data = rest;
        self.messages += u32::from(self.left == 0);
        Ok(self.left == 0)
    }

    /// Begins the message whose flag and length have come.
    fn begin_message(&mut self, call: CallShape, memory: &mut GrpcMemory) -> Result<(), AttemptCause> {
        let [flag, length @ ..] = self.frame;
        self.framed = 0;
        self.is_compressed = flag == 1;
        self.left = u32::from_be_bytes(length) as usize;
        if flag > 1 || (self.is_compressed && !self.codings.is_any()) {
            return Err(CallDefect::BadFrame.cause());
        }
        if self.left > MESSAGE_LIMIT {
            return Err(AttemptCause::TooLong);
        }
        if self.messages > 0 && !call.answers_stream {
            return Err(CallDefect::SecondMessage.cause());
        }
        if call.keeps_message {
            self.message.clear();
            if self.message.capacity() == 0 {
                self.message = memory.buffer();
            }
        }
        Ok(())
    }

    /// Ends the answer.
    #[inline]
    pub fn end(&mut self, call: CallShape, memory: &mut GrpcMemory) -> StreamAnswer {
        let mut result = self.result(call);
        let is_costly = result == AttemptCause::Ok && self.is_compressed && call.keeps_message && self.messages > 0;
        if is_costly {
            result = self.decode(memory);
        }
        // An answer without a status has the one that stands for its HTTP status or its defect.
        self.outcome = Some(match (self.status, result) {
            (_, AttemptCause::Ok) => CallStatus::OK,
            (_, AttemptCause::Status(http)) => CallStatus::of_http(http),
            (Some(CallStatus::OK), _) => CallStatus::INTERNAL,
            (status, _) => status.unwrap_or(CallStatus::UNKNOWN),
        });
        StreamAnswer { result, is_costly }
    }

    fn result(&self, call: CallShape) -> AttemptCause {
        let Some(status) = self.status else {
            return match self.defect() {
                _ if self.http_status != 200 => AttemptCause::Status(self.http_status),
                Some(defect) => defect.cause(),
                None => CallDefect::NoStatus.cause(),
            };
        };
        if status != CallStatus::OK {
            return status.cause(call.takes_stream);
        }
        match self.defect() {
            Some(defect) => defect.cause(),
            None if self.messages == 0 && !call.answers_stream => CallDefect::NoMessage.cause(),
            None => AttemptCause::Ok,
        }
    }

    fn defect(&self) -> Option<CallDefect> {
        match () {
            () if self.has_two_statuses => Some(CallDefect::SecondStatus),
            () if !self.is_grpc => Some(CallDefect::NotGrpc),
            () if self.left > 0 || self.framed > 0 => Some(CallDefect::CutMessage),
            () => None,
        }
    }

    /// Decompresses the last message.
    #[cold]
    fn decode(&mut self, memory: &mut GrpcMemory) -> AttemptCause {
        let mut decoded = memory.buffer();
        let beside = self.message.len();
        let result = memory.decoder.decode(self.codings, &self.message, &mut decoded, &mut self.held, beside);
        let coded = std::mem::replace(&mut self.message, decoded);
        memory.recycle(coded);
        match result {
            Ok(()) => AttemptCause::Ok,
            Err(AttemptCause::Malformed(Malformation::UnknownCoding)) => CallDefect::UnknownEncoding.cause(),
            Err(cause) => cause,
        }
    }

    /// Returns the last message if a step needs it, unless it is cut off.
    pub fn message(&self) -> Option<&[u8]> {
        (self.messages > 0 && self.left == 0).then_some(&self.message)
    }

    /// Returns the HTTP status, if it is not 200.
    pub fn refused(&self) -> Option<u16> {
        // 0 is an answer that has not begun.
        Some(self.http_status).filter(|status| !matches!(status, 0 | 200))
    }

    /// Returns the status that the target has sent, if it has.
    pub fn sent_status(&self) -> Option<CallStatus> {
        self.status
    }

    /// Returns the status of the call. An answer that broke off has none of its own.
    pub fn call_status(&self) -> CallStatus {
        self.outcome.unwrap_or(CallStatus::INTERNAL)
    }

    /// Gives the answer's memory back.
    #[inline]
    pub fn rest(&mut self, memory: &mut GrpcMemory) {
        let Self { message, text, .. } = std::mem::take(self);
        memory.recycle(message);
        memory.recycle(text);
    }
}

/// Whether a content type is `application/grpc`, possibly with the format of the messages.
fn is_grpc(content_type: &[u8]) -> bool {
    content_type
        .strip_prefix(b"application/grpc")
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}
