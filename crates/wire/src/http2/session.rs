//! State of a connection of HTTP/2: its settings, windows and streams. Received frames become the
//! events of the engine.

use super::frames::{self, FrameHead, HEAD, code, flag, kind, setting};
use super::hpack::{BadBlock, HeaderBlock};
use super::streams::{StreamTable, Upload};
use super::{BodyEnd, Http2Memory, OpenBody, OverHttp2, StreamFault, StreamProgress, StreamProtocol};
use crate::cause::{AttemptCause, FrameDefect, Malformation};
use crate::session::{Answer, Encoded, OpenRequests, Opening, SessionEvent};
use crate::values::OperationValues;
use crate::values::allowed::NotSendable;

/// Received bytes after which the target may send as many again: half of the largest window.
const WINDOW_STEP: u32 = 1 << 30;
/// Maximum number of frames in a row that bring no request forward.
const IDLE_FRAMES: u32 = 10_000;
/// Longest accepted header block, bytes.
const BLOCK_LIMIT: usize = 64 * 1024;

/// State of a connection.
#[derive(Debug, Default)]
pub struct Http2Session<S> {
    streams: StreamTable<S>,
    peer: PeerSettings,
    /// Number of bytes that the target takes now on the connection.
    window: i64,
    /// Number of received bytes since the last WINDOW_UPDATE for the connection.
    received: u32,
    /// Rest of the DATA frame that is being received.
    data: OpenData,
    /// Stream whose answer is complete although the target has not ended it; 0 if there is none.
    /// The next event reports the answer's end.
    complete: u32,
    /// Header block whose CONTINUATION frames are being received.
    block: Option<PartialBlock>,
    /// Place of the stream that was just answered.
    answered: Option<usize>,
    /// Whether the target takes no more streams.
    is_gone: bool,
    /// Number of streams with a rest of their body to send.
    uploads: u32,
    /// Whether a window has grown since the rests of bodies were last sent.
    may_upload: bool,
    /// Number of frames since the last one that brought a request forward.
    idle_frames: u32,
}

/// Settings of the target.
#[derive(Debug)]
struct PeerSettings {
    max_streams: u32,
    first_window: u32,
    longest_frame: usize,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self { max_streams: u32::MAX, first_window: frames::FIRST_WINDOW, longest_frame: frames::LONGEST }
    }
}

/// Rest of a DATA frame. The stream is 0 if there is none.
#[derive(Debug, Clone, Copy, Default)]
struct OpenData {
    stream: u32,
    left: usize,
    padding: usize,
    ends: bool,
    /// Reason why the answer is not accepted. The answer fails at the end of the frame, wherever
    /// its bytes were cut.
    fault: Option<AttemptCause>,
    /// Whether the answer is complete. It ends at the end of the frame, too.
    is_done: bool,
}

/// A header block that is not complete.
#[derive(Debug)]
struct PartialBlock {
    stream: u32,
    ends: bool,
    bytes: Vec<u8>,
}

/// Progress in the input. `used` bytes were consumed.
enum FrameStep {
    /// The next frame is not complete.
    More,
    /// No request is affected.
    Control {
        used: usize,
    },
    /// The answer to a request went on.
    Part {
        used: usize,
        request: u32,
        messages: u32,
    },
    Event(SessionEvent),
}

type FrameResult = Result<FrameStep, AttemptCause>;

fn defect(defect: FrameDefect) -> AttemptCause {
    AttemptCause::Malformed(Malformation::Frames(defect))
}

impl From<BadBlock> for AttemptCause {
    fn from(_: BadBlock) -> Self {
        defect(FrameDefect::HeaderBlock)
    }
}

impl<S: Default> Http2Session<S> {
    /// Begins a connection. Appends the preface, the settings, and the largest window.
    pub fn greet(&mut self, out: &mut Vec<u8>) -> Opening {
        self.window = i64::from(frames::FIRST_WINDOW);
        out.extend_from_slice(frames::PREFACE);
        let settings = [
            (setting::HEADER_TABLE_SIZE, 0),
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, frames::LARGEST_WINDOW),
            (setting::MAX_HEADER_LIST_SIZE, BLOCK_LIMIT as u32),
        ];
        let mut body = Vec::with_capacity(6 * settings.len());
        for (id, value) in settings {
            body.extend_from_slice(&id.to_be_bytes());
            body.extend_from_slice(&value.to_be_bytes());
        }
        frames::write(kind::SETTINGS, 0, 0, &body, out);
        frames::write_window(0, frames::LARGEST_WINDOW - frames::FIRST_WINDOW, out);
        Opening::Wait { used: 0 }
    }

    /// Waits for the target's settings, which limit the streams.
    pub fn greeted(&mut self, input: &[u8], out: &mut Vec<u8>) -> Opening {
        let seen = &input[..input.len().min(HEAD)];
        // The first frame of a server is SETTINGS (RFC 9113, 3.4), so its bytes are known.
        let is_settings = seen.iter().enumerate().all(|(at, byte)| match at {
            0 | 5..=8 => *byte == 0,
            3 => *byte == kind::SETTINGS,
            4 => byte & flag::ACK == 0,
            _ => true,
        });
        if !is_settings {
            return Opening::Refused(AttemptCause::NotHttp2);
        }
        let Some(head) = FrameHead::read(input) else { return Opening::Wait { used: 0 } };
        let Some(body) = input[HEAD..].get(..head.length) else { return Opening::Wait { used: 0 } };
        match self.settings(head, body, out) {
            Ok(()) => Opening::Open { used: HEAD + head.length },
            Err(_) => Opening::Refused(AttemptCause::NotHttp2),
        }
    }

    /// Returns the state of the stream that was just answered.
    pub fn answered(&self) -> Option<&S> {
        self.streams.at(self.answered?).map(|stream| &stream.state)
    }

    fn settings(&mut self, head: FrameHead, body: &[u8], out: &mut Vec<u8>) -> Result<(), AttemptCause> {
        if head.stream != 0 {
            return Err(defect(FrameDefect::Stream));
        }
        if head.has(flag::ACK) || !body.len().is_multiple_of(6) {
            return if body.is_empty() { Ok(()) } else { Err(defect(FrameDefect::Size)) };
        }
        let refused = Err(defect(FrameDefect::Setting));
        for entry in body.chunks_exact(6) {
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            match u16::from_be_bytes([entry[0], entry[1]]) {
                setting::ENABLE_PUSH if value != 0 => return refused,
                setting::MAX_CONCURRENT_STREAMS => self.peer.max_streams = value,
                setting::INITIAL_WINDOW_SIZE if value > frames::LARGEST_WINDOW => return refused,
                setting::INITIAL_WINDOW_SIZE => {
                    let more = i64::from(value) - i64::from(self.peer.first_window);
                    self.peer.first_window = value;
                    self.streams.all_mut().for_each(|stream| stream.window += more);
                    if self.streams.all_mut().any(|stream| stream.window > i64::from(frames::LARGEST_WINDOW)) {
                        return Err(defect(FrameDefect::Window));
                    }
                    self.may_upload = true;
                }
                setting::MAX_FRAME_SIZE if !(frames::LONGEST as u32..1 << 24).contains(&value) => return refused,
                setting::MAX_FRAME_SIZE => self.peer.longest_frame = value as usize,
                _ => {}
            }
        }
        frames::write(kind::SETTINGS, flag::ACK, 0, &[], out);
        Ok(())
    }

    /// Checks that a stream that is not open has been open before.
    fn check_known(&self, stream: u32) -> Result<(), AttemptCause> {
        if self.streams.was_open(stream) { Ok(()) } else { Err(defect(FrameDefect::Stream)) }
    }

    /// Counts received DATA bytes, and lets the target send as many again.
    #[inline]
    fn count_data(&mut self, stream: Option<usize>, count: usize, out: &mut Vec<u8>) {
        let count = count as u32;
        self.received += count;
        if self.received >= WINDOW_STEP {
            frames::write_window(0, std::mem::take(&mut self.received), out);
        }
        if let Some(place) = stream {
            let stream = self.streams.at_mut(place);
            stream.received += count;
            if stream.received >= WINDOW_STEP {
                frames::write_window(stream.id, std::mem::take(&mut stream.received), out);
            }
        }
    }

    /// Counts a frame that brings no request forward.
    fn count_idle(&mut self) -> Result<(), AttemptCause> {
        self.idle_frames += 1;
        if self.idle_frames > IDLE_FRAMES { Err(defect(FrameDefect::TooMany)) } else { Ok(()) }
    }
}

/// Ends the connection. Names the reason to the target, unless the target has ended it.
#[cold]
fn refuse(cause: AttemptCause, out: &mut Vec<u8>) -> SessionEvent {
    let code = match cause {
        AttemptCause::GoneAway(_) => return SessionEvent::Bad(cause),
        AttemptCause::Malformed(Malformation::Frames(defect)) => match defect {
            FrameDefect::Size => code::FRAME_SIZE_ERROR,
            FrameDefect::Window => code::FLOW_CONTROL_ERROR,
            FrameDefect::HeaderBlock => code::COMPRESSION_ERROR,
            FrameDefect::TooMany => code::ENHANCE_YOUR_CALM,
            _ => code::PROTOCOL_ERROR,
        },
        _ => code::PROTOCOL_ERROR,
    };
    frames::write_goaway(code, out);
    SessionEvent::Bad(cause)
}

/// Returns the body of a frame with a fixed length.
fn exactly<const N: usize>(body: &[u8]) -> Result<[u8; N], AttemptCause> {
    body.try_into().map_err(|_| defect(FrameDefect::Size))
}

/// Returns the body of a frame without its padding. `extra` bytes before the body are skipped.
fn unpadded(head: FrameHead, body: &[u8], extra: usize) -> Result<&[u8], AttemptCause> {
    let (padding, body) = match body.split_first() {
        Some((padding, rest)) if head.has(flag::PADDED) => (usize::from(*padding), rest),
        None if head.has(flag::PADDED) => return Err(defect(FrameDefect::Size)),
        _ => (0, body),
    };
    let end = body.len().checked_sub(padding).ok_or_else(|| defect(FrameDefect::Padding))?;
    body.get(extra..end).ok_or_else(|| defect(FrameDefect::Padding))
}

// Requests.

impl<S: Default> Http2Session<S> {
    /// Appends a request, if the target takes another stream.
    pub fn encode<P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        request: &P::Request,
        id: u32,
        values: &OperationValues<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Encoded, NotSendable> {
        if self.streams.open() >= self.peer.max_streams || self.is_gone {
            return Ok(Encoded::NotNow);
        }
        let Some((place, stream_id)) = self.streams.next(&mut memory.tables) else { return Ok(Encoded::NotNow) };
        let stream = self.streams.at_mut(place);
        let Http2Memory { body, of_protocol, uploads, .. } = memory;
        body.clear();
        let begin = out.len();
        let end = P::encode_body(request, &mut stream.state, of_protocol, values, body).and_then(|end| {
            out.extend_from_slice(&[0; HEAD]);
            P::encode_headers(request, body.len(), values, out).map(|()| end)
        });
        let end = end.inspect_err(|_| P::rest(&mut stream.state, of_protocol))?;
        let is_bare = body.is_empty() && end == BodyEnd::Ended;
        finish_headers(stream_id, is_bare, begin, self.peer.longest_frame, out);
        (stream.request, stream.window) = (id, i64::from(self.peer.first_window));
        (stream.received, stream.has_head) = (0, false);
        self.streams.occupy(place);
        if !is_bare {
            let mut upload = uploads.pop().unwrap_or_default();
            std::mem::swap(&mut upload.bytes, body);
            upload.ends = end == BodyEnd::Ended;
            let stream = self.streams.at_mut(place);
            if send_body(&mut upload, stream_id, &mut stream.window, &mut self.window, self.peer.longest_frame, out) {
                // The next body uses the memory of this one.
                std::mem::swap(&mut upload.bytes, body);
                upload.clear();
                uploads.push(upload);
            } else {
                stream.upload = Some(upload);
                self.uploads += 1;
            }
        }
        Ok(Encoded::Done)
    }

    /// Appends the rests of bodies that the target takes now.
    pub fn send_rest<P: StreamProtocol<Stream = S>>(&mut self, memory: &mut Http2Memory<P>, out: &mut Vec<u8>) {
        if self.uploads == 0 || !std::mem::take(&mut self.may_upload) {
            return;
        }
        let before = out.len();
        for stream in self.streams.all_mut() {
            let Some(mut upload) = stream.upload.take() else { continue };
            let longest = self.peer.longest_frame;
            if send_body(&mut upload, stream.id, &mut stream.window, &mut self.window, longest, out) {
                self.uploads -= 1;
                recycle(upload, &mut memory.uploads);
            } else {
                stream.upload = Some(upload);
            }
        }
        if out.len() > before {
            self.idle_frames = 0;
        }
    }

    /// Cancels a request, and resets its stream.
    pub fn cancel<P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        request: u32,
        out: &mut Vec<u8>,
    ) {
        if let Some(place) = self.streams.position(|stream| stream.request == request) {
            frames::write_reset(self.streams.at_mut(place).id, code::CANCEL, out);
            self.close(memory, place);
        }
    }

    /// Closes a stream, and gives its memory back.
    #[inline]
    fn close<P: StreamProtocol<Stream = S>>(&mut self, memory: &mut Http2Memory<P>, place: usize) {
        let stream = self.streams.at_mut(place);
        P::rest(&mut stream.state, &mut memory.of_protocol);
        if let Some(upload) = stream.upload.take() {
            self.uploads -= 1;
            recycle(upload, &mut memory.uploads);
        }
        self.streams.free(place);
    }

    /// Ends the use of the answer.
    #[inline]
    pub fn finish<P: StreamProtocol<Stream = S>>(&mut self, memory: &mut Http2Memory<P>) {
        if let Some(place) = self.answered.take() {
            self.close(memory, place);
        }
    }

    /// Resets the state of a connection that is gone.
    pub fn reset<P: StreamProtocol<Stream = S>>(&mut self, memory: &mut Http2Memory<P>) {
        while let Some(place) = self.streams.position(|_| true) {
            self.close(memory, place);
        }
        self.streams.reset(&mut memory.tables);
        *self = Self::default();
    }
}

/// Keeps the memory of an upload.
fn recycle(mut upload: Upload, uploads: &mut Vec<Upload>) {
    const KEPT: usize = 64 * 1024;
    upload.clear();
    upload.bytes.shrink_to(KEPT);
    uploads.push(upload);
}

/// Sets the head of a header block that was appended from `begin` on, behind a gap for the head.
#[inline]
fn finish_headers(stream: u32, is_bare: bool, begin: usize, longest: usize, out: &mut Vec<u8>) {
    let length = out.len() - begin - HEAD;
    let ends = if is_bare { flag::END_STREAM } else { 0 };
    if length > longest {
        continue_headers(stream, ends, begin, longest, out);
        return;
    }
    let head = FrameHead { length, kind: kind::HEADERS, flags: flag::END_HEADERS | ends, stream };
    out[begin..begin + HEAD].copy_from_slice(&head.bytes());
}

/// Splits a long header block into frames.
#[cold]
fn continue_headers(stream: u32, ends: u8, begin: usize, longest: usize, out: &mut Vec<u8>) {
    let block = out.split_off(begin + HEAD);
    out.truncate(begin);
    let count = block.len().div_ceil(longest);
    for (index, piece) in block.chunks(longest).enumerate() {
        let is_last = if index + 1 == count { flag::END_HEADERS } else { 0 };
        match index {
            0 => frames::write(kind::HEADERS, ends | is_last, stream, piece, out),
            _ => frames::write(kind::CONTINUATION, is_last, stream, piece, out),
        }
    }
}

/// Appends as much of a body as the windows allow. Returns whether the body is sent completely.
fn send_body(
    upload: &mut Upload,
    stream: u32,
    window: &mut i64,
    connection: &mut i64,
    longest: usize,
    out: &mut Vec<u8>,
) -> bool {
    loop {
        let rest = &upload.bytes[upload.sent..];
        let length = rest.len().min(longest).min(usize::try_from((*window).min(*connection)).unwrap_or(0));
        let ends = upload.ends && length == rest.len();
        if length == 0 && !ends {
            return false;
        }
        frames::write(kind::DATA, if ends { flag::END_STREAM } else { 0 }, stream, &rest[..length], out);
        upload.sent += length;
        *window -= length as i64;
        *connection -= length as i64;
        if ends {
            return true;
        }
    }
}

// Answers.

impl<S: Default> Http2Session<S> {
    /// Reads received bytes up to the next event.
    #[inline]
    pub fn receive<'a, P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        open: &impl OpenRequests<'a, OverHttp2<P>>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> SessionEvent {
        if self.streams.is_used_up() && !std::mem::replace(&mut self.is_gone, true) {
            return SessionEvent::Drain { used: 0 };
        }
        // Part of an answer that has arrived in this input.
        let mut part = None;
        let mut used = 0;
        loop {
            match self.step(memory, open, input, used, out) {
                Ok(FrameStep::More) => {
                    return part.map_or(SessionEvent::More { used }, |id| SessionEvent::Part { id, used, messages: 0 });
                }
                Ok(FrameStep::Control { used: to }) => {
                    used = to;
                    if let Err(cause) = self.count_idle() {
                        return refuse(cause, out);
                    }
                }
                Ok(FrameStep::Part { used: to, request, messages }) => {
                    (used, self.idle_frames) = (to, 0);
                    if messages > 0 || !self.is_next_of(&input[used..], request) {
                        return SessionEvent::Part { id: request, used, messages };
                    }
                    part = Some(request);
                }
                Ok(FrameStep::Event(event)) => {
                    self.idle_frames = 0;
                    return event;
                }
                Err(cause) => return refuse(cause, out),
            }
        }
    }

    /// Whether the next bytes belong to the stream of this request, too.
    #[inline]
    fn is_next_of(&self, rest: &[u8], request: u32) -> bool {
        let next = FrameHead::read(rest).and_then(|head| self.streams.at(self.streams.find(head.stream)?));
        next.is_some_and(|stream| stream.request == request)
    }

    /// Handles the frame at `from`.
    #[inline]
    fn step<'a, P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        open: &impl OpenRequests<'a, OverHttp2<P>>,
        input: &[u8],
        from: usize,
        out: &mut Vec<u8>,
    ) -> FrameResult {
        if self.complete != 0 {
            return match self.streams.find(std::mem::take(&mut self.complete)) {
                Some(place) => self.end(memory, open, place, from, true, out),
                None => Ok(FrameStep::Control { used: from }),
            };
        }
        if self.data.stream != 0 {
            return self.take_data(memory, open, input, from, out);
        }
        let Some(head) = FrameHead::read(&input[from..]) else { return Ok(FrameStep::More) };
        let body = &input[from + HEAD..];
        if head.length > frames::LONGEST {
            return Err(defect(FrameDefect::Size));
        }
        if let Some(block) = &self.block
            && (head.kind != kind::CONTINUATION || head.stream != block.stream)
        {
            return Err(defect(FrameDefect::Continuation));
        }
        if head.kind == kind::DATA {
            return self.begin_data(head, body, from);
        }
        let Some(body) = body.get(..head.length) else { return Ok(FrameStep::More) };
        let used = from + HEAD + head.length;
        match head.kind {
            kind::HEADERS => self.take_headers(memory, open, head, body, used, out),
            kind::CONTINUATION => self.take_continuation(memory, open, head, body, used, out),
            kind::RST_STREAM => self.take_reset(memory, head, body, used),
            kind::WINDOW_UPDATE => self.take_window(head, body, used, out),
            kind::GOAWAY => self.take_goaway(memory, head, body, (from, used)),
            _ => self.take_control(head, body, out).map(|()| FrameStep::Control { used }),
        }
    }

    fn take_control(&mut self, head: FrameHead, body: &[u8], out: &mut Vec<u8>) -> Result<(), AttemptCause> {
        match head.kind {
            kind::SETTINGS => self.settings(head, body, out),
            kind::PING => {
                let opaque = exactly::<8>(body)?;
                if head.stream != 0 {
                    return Err(defect(FrameDefect::Stream));
                }
                if !head.has(flag::ACK) {
                    frames::write(kind::PING, flag::ACK, 0, &opaque, out);
                }
                Ok(())
            }
            kind::PRIORITY if head.stream == 0 => Err(defect(FrameDefect::Stream)),
            kind::PRIORITY => exactly::<5>(body).map(|_| ()),
            kind::PUSH_PROMISE => Err(defect(FrameDefect::Push)),
            // Frames of other kinds are ignored (RFC 9113, 5.5).
            _ => Ok(()),
        }
    }

    /// Begins a DATA frame, whose bytes are handed on as they arrive.
    #[inline]
    fn begin_data(&mut self, head: FrameHead, body: &[u8], from: usize) -> FrameResult {
        if self.streams.find(head.stream).is_none() {
            self.check_known(head.stream)?;
        }
        let (mut left, mut padding, mut used) = (head.length, 0, from + HEAD);
        if head.has(flag::PADDED) {
            left = left.checked_sub(1).ok_or_else(|| defect(FrameDefect::Size))?;
            let Some(length) = body.first() else { return Ok(FrameStep::More) };
            (padding, used) = (usize::from(*length), used + 1);
            left = left.checked_sub(padding).ok_or_else(|| defect(FrameDefect::Padding))?;
            self.received += 1;
        }
        let ends = head.has(flag::END_STREAM);
        self.data = OpenData { stream: head.stream, left, padding, ends, ..OpenData::default() };
        Ok(FrameStep::Control { used })
    }

    /// Takes bytes of a DATA frame.
    fn take_data<'a, P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        open: &impl OpenRequests<'a, OverHttp2<P>>,
        input: &[u8],
        from: usize,
        out: &mut Vec<u8>,
    ) -> FrameResult {
        let OpenData { stream, left, padding, ends, fault, is_done } = self.data;
        let rest = &input[from..];
        let (data, rest) = rest.split_at(left.min(rest.len()));
        let skipped = if data.len() == left { padding.min(rest.len()) } else { 0 };
        let used = from + data.len() + skipped;
        let is_complete = data.len() == left && skipped == padding;
        if data.is_empty() && skipped == 0 && !is_complete {
            return Ok(FrameStep::More);
        }
        self.data = match is_complete {
            true => OpenData::default(),
            false => OpenData { left: left - data.len(), padding: padding - skipped, ..self.data },
        };
        let place = self.streams.find(stream);
        self.count_data(place, data.len() + skipped, out);
        let Some(place) = place else { return Ok(FrameStep::Control { used }) };
        let found = self.streams.at_mut(place);
        let request = found.request;
        let Some(asked) = open.get(request) else { return self.forget(memory, place, used, out) };
        if !found.has_head && is_complete {
            let cause = defect(FrameDefect::HeaderFields);
            return Ok(self.break_off(place, cause, (used, code::PROTOCOL_ERROR), out));
        }
        if let Some(cause) = fault.filter(|_| is_complete) {
            return Ok(self.break_off(place, cause, (used, code::CANCEL), out));
        }
        if !found.has_head || fault.is_some() {
            return Ok(FrameStep::Control { used });
        }
        let ends = is_complete && ends;
        if is_done {
            let progress = if is_complete { StreamProgress::Done } else { StreamProgress::More };
            return self.advance(memory, open, place, progress, (used, ends), out);
        }
        if data.is_empty() {
            return match ends {
                true => self.end(memory, open, place, used, false, out),
                false => Ok(FrameStep::Control { used }),
            };
        }
        let had_upload = found.upload.is_some();
        let mut body = OpenBody { upload: &mut found.upload, spare: &mut memory.uploads };
        let taken = P::data(asked.request, &mut found.state, &mut memory.of_protocol, data, &mut body);
        if found.upload.is_some() {
            self.uploads += u32::from(!had_upload);
            self.may_upload = true;
        }
        match taken {
            Ok(StreamProgress::Done) if !is_complete => {
                self.data.is_done = true;
                Ok(FrameStep::Part { used, request, messages: 0 })
            }
            Ok(progress) => self.advance(memory, open, place, progress, (used, ends), out),
            Err(StreamFault::Stream(cause)) if !is_complete => {
                self.data.fault = Some(cause);
                Ok(FrameStep::Control { used })
            }
            Err(fault) => self.fault(place, fault, used, out),
        }
    }

    #[inline]
    fn take_headers<'a, P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        open: &impl OpenRequests<'a, OverHttp2<P>>,
        head: FrameHead,
        body: &[u8],
        used: usize,
        out: &mut Vec<u8>,
    ) -> FrameResult {
        const PRIORITY: usize = 5;
        let body = match head.has(flag::PADDED | flag::PRIORITY) {
            true => unpadded(head, body, if head.has(flag::PRIORITY) { PRIORITY } else { 0 })?,
            false => body,
        };
        let ends = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.take_block(memory, open, (head.stream, ends), body, used, out);
        }
        let mut bytes = memory.blocks.pop().unwrap_or_default();
        bytes.extend_from_slice(body);
        self.block = Some(PartialBlock { stream: head.stream, ends, bytes });
        Ok(FrameStep::Control { used })
    }

    fn take_continuation<'a, P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        open: &impl OpenRequests<'a, OverHttp2<P>>,
        head: FrameHead,
        body: &[u8],
        used: usize,
        out: &mut Vec<u8>,
    ) -> FrameResult {
        let Some(mut block) = self.block.take() else { return Err(defect(FrameDefect::Continuation)) };
        block.bytes.extend_from_slice(body);
        if block.bytes.len() > BLOCK_LIMIT {
            return Err(AttemptCause::Malformed(Malformation::LongHead));
        }
        if !head.has(flag::END_HEADERS) {
            self.block = Some(block);
            return Ok(FrameStep::Control { used });
        }
        let PartialBlock { stream, ends, mut bytes } = block;
        let step = self.take_block(memory, open, (stream, ends), &bytes, used, out);
        bytes.clear();
        memory.blocks.push(bytes);
        step
    }

    /// Takes a complete header block.
    #[inline]
    fn take_block<'a, P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        open: &impl OpenRequests<'a, OverHttp2<P>>,
        (stream, ends): (u32, bool),
        bytes: &[u8],
        used: usize,
        out: &mut Vec<u8>,
    ) -> FrameResult {
        let Some(place) = self.streams.find(stream) else {
            return self.check_known(stream).map(|()| FrameStep::Control { used });
        };
        let found = self.streams.at_mut(place);
        let request = found.request;
        let Some(asked) = open.get(request) else { return self.forget(memory, place, used, out) };
        let mut block = HeaderBlock::new(bytes);
        let bad = defect(FrameDefect::HeaderFields);
        let (state, of_protocol) = (&mut found.state, &mut memory.of_protocol);
        let taken = if found.has_head {
            if !ends {
                return Ok(self.break_off(place, bad, (used, code::PROTOCOL_ERROR), out));
            }
            P::trailers(asked.request, state, of_protocol, block)
        } else {
            match block.status(&mut memory.body)? {
                // An interim answer. 101 does not exist in HTTP/2 (RFC 9113, 8.6).
                Some(100 | 102..200) if !ends => return Ok(FrameStep::Control { used }),
                Some(status @ 200..) => {
                    found.has_head = true;
                    P::headers(asked.request, state, of_protocol, status, block)
                }
                _ => return Ok(self.break_off(place, bad, (used, code::PROTOCOL_ERROR), out)),
            }
        };
        match taken {
            Ok(progress) => self.advance(memory, open, place, progress, (used, ends), out),
            Err(fault) => self.fault(place, fault, used, out),
        }
    }

    /// Goes on after the protocol has taken a part of an answer. `ends` is whether the target has
    /// ended the stream with it.
    #[inline]
    fn advance<'a, P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        open: &impl OpenRequests<'a, OverHttp2<P>>,
        place: usize,
        progress: StreamProgress,
        (used, ends): (usize, bool),
        out: &mut Vec<u8>,
    ) -> FrameResult {
        let (stream, request) = (self.streams.at_mut(place).id, self.streams.at_mut(place).request);
        match progress {
            StreamProgress::More if !ends => Ok(FrameStep::Part { used, request, messages: 0 }),
            StreamProgress::More | StreamProgress::Done => self.end(memory, open, place, used, !ends, out),
            StreamProgress::Messages(messages) | StreamProgress::LastMessages(messages) => {
                if ends {
                    // The end is the next event.
                    self.data = OpenData { stream, ends, ..OpenData::default() };
                } else if matches!(progress, StreamProgress::LastMessages(_)) {
                    self.complete = stream;
                }
                Ok(FrameStep::Part { used, request, messages })
            }
        }
    }

    /// Ends an answer. If the target has not ended the stream, or still waits for the rest of the
    /// request's body, the stream is reset.
    #[inline]
    fn end<'a, P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        open: &impl OpenRequests<'a, OverHttp2<P>>,
        place: usize,
        used: usize,
        is_early: bool,
        out: &mut Vec<u8>,
    ) -> FrameResult {
        let stream = self.streams.at_mut(place);
        let request = stream.request;
        let Some(asked) = open.get(request) else { return self.forget(memory, place, used, out) };
        if is_early || stream.upload.is_some() {
            let code = if is_early { code::CANCEL } else { code::NO_ERROR };
            frames::write_reset(stream.id, code, out);
        }
        self.answered = Some(place);
        let ended = P::end(asked.request, &mut stream.state, &mut memory.of_protocol);
        let answer = Answer { used, result: ended.result, reusable: true, is_costly: ended.is_costly };
        Ok(FrameStep::Event(SessionEvent::Answer { id: request, answer }))
    }

    /// Handles an answer that the protocol refuses.
    fn fault(&mut self, place: usize, fault: StreamFault, used: usize, out: &mut Vec<u8>) -> FrameResult {
        match fault {
            StreamFault::Stream(cause) => Ok(self.break_off(place, cause, (used, code::CANCEL), out)),
            StreamFault::Connection(cause) => Err(cause),
        }
    }

    /// Fails an answer, and resets its stream.
    fn break_off(
        &mut self,
        place: usize,
        cause: AttemptCause,
        (used, code): (usize, u32),
        out: &mut Vec<u8>,
    ) -> FrameStep {
        frames::write_reset(self.streams.at_mut(place).id, code, out);
        self.fail(place, cause, used)
    }

    fn fail(&mut self, place: usize, result: AttemptCause, used: usize) -> FrameStep {
        self.answered = Some(place);
        let answer = Answer { used, result, reusable: true, is_costly: false };
        FrameStep::Event(SessionEvent::Answer { id: self.streams.at_mut(place).request, answer })
    }

    /// Resets a stream whose request is not open any more.
    #[cold]
    fn forget<P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        place: usize,
        used: usize,
        out: &mut Vec<u8>,
    ) -> FrameResult {
        frames::write_reset(self.streams.at_mut(place).id, code::CANCEL, out);
        self.close(memory, place);
        Ok(FrameStep::Control { used })
    }

    fn take_reset<P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        head: FrameHead,
        body: &[u8],
        used: usize,
    ) -> FrameResult {
        let code = exactly::<4>(body).map(u32::from_be_bytes)?;
        let Some(place) = self.streams.find(head.stream) else {
            return self.check_known(head.stream).map(|()| FrameStep::Control { used });
        };
        if code == code::REFUSED_STREAM {
            let id = self.streams.at_mut(place).request;
            self.close(memory, place);
            return Ok(FrameStep::Event(SessionEvent::Untouched { id, used }));
        }
        Ok(self.fail(place, AttemptCause::StreamReset(u8::try_from(code).unwrap_or(u8::MAX)), used))
    }

    /// Takes a WINDOW_UPDATE frame. A stream whose window is wrong fails, and the others go on (RFC
    /// 9113, 6.9).
    fn take_window(&mut self, head: FrameHead, body: &[u8], used: usize, out: &mut Vec<u8>) -> FrameResult {
        let more = exactly::<4>(body).map(u32::from_be_bytes)? & frames::LARGEST_WINDOW;
        let place = self.streams.find(head.stream);
        let window = match (head.stream, place) {
            (0, _) => &mut self.window,
            (_, Some(place)) => &mut self.streams.at_mut(place).window,
            _ => return self.check_known(head.stream).map(|()| FrameStep::Control { used }),
        };
        *window += i64::from(more);
        let is_wrong = more == 0 || *window > i64::from(frames::LARGEST_WINDOW);
        let code = if more == 0 { code::PROTOCOL_ERROR } else { code::FLOW_CONTROL_ERROR };
        match place {
            Some(place) if is_wrong => Ok(self.break_off(place, defect(FrameDefect::Window), (used, code), out)),
            None if is_wrong => Err(defect(FrameDefect::Window)),
            _ => {
                self.may_upload = true;
                Ok(FrameStep::Control { used })
            }
        }
    }

    /// Takes a GOAWAY frame. The streams above the last one that the target has begun come first;
    /// the frame stays in the input meanwhile.
    fn take_goaway<P: StreamProtocol<Stream = S>>(
        &mut self,
        memory: &mut Http2Memory<P>,
        head: FrameHead,
        body: &[u8],
        (from, used): (usize, usize),
    ) -> FrameResult {
        let (Some(last), Some(code)) = (frames::number(body), body.get(4..).and_then(frames::number)) else {
            return Err(defect(FrameDefect::Size));
        };
        if head.stream != 0 {
            return Err(defect(FrameDefect::Stream));
        }
        let last = last & frames::LARGEST_WINDOW;
        // A request that is sent again must not open another stream here.
        self.is_gone = true;
        if let Some(place) = self.streams.position(|stream| stream.id > last) {
            let id = self.streams.at_mut(place).request;
            self.close(memory, place);
            return Ok(FrameStep::Event(SessionEvent::Untouched { id, used: from }));
        }
        if code != code::NO_ERROR {
            return Err(AttemptCause::GoneAway(u8::try_from(code).unwrap_or(u8::MAX)));
        }
        Ok(FrameStep::Event(SessionEvent::Drain { used }))
    }
}
