//! Targets that misbehave, as tables. `crates/load/tests/engine/hostile.rs` plays them.

/// A misbehaving target, and the results of attempts on it.
#[derive(Debug, Clone, Copy)]
pub struct HostileCase {
    pub name: &'static str,
    /// Service as in an experiment. `{address}` stands for the target's host and port. Empty if
    /// operations are programs.
    pub service: &'static str,
    pub call: &'static str,
    pub with: &'static [&'static str],
    /// Value of the answer that some agents keep. An answer with a kept value takes another code
    /// path than an answer without evaluation.
    pub keep: Option<&'static str>,
    pub actions: &'static [PeerAction],
    /// Results that must all occur.
    pub ends: &'static [&'static str],
    /// Further results that may occur, depending on timing.
    pub or: &'static [&'static str],
    /// Whether a result `answer: …` is the answer to a greeting. The client for single operations
    /// reports it as a failed connect.
    pub greets: bool,
    /// Whether agents keep cookies. Their cycle then has the operation twice.
    pub cookies: bool,
    /// Whether the answer is read as a stream of messages. Single operations do not read it so.
    pub streams: bool,
}

impl HostileCase {
    /// Returns a case without an operation.
    #[must_use]
    pub const fn new(name: &'static str, actions: &'static [PeerAction], ends: &'static [&'static str]) -> Self {
        let (service, call, with, keep) = ("{address}", "", [].as_slice(), None);
        Self { name, service, call, with, keep, actions, ends, or: &[], greets: false, cookies: false, streams: false }
    }

    /// Returns the case for another operation.
    #[must_use]
    pub const fn asked(self, call: &'static str, with: &'static [&'static str]) -> Self {
        Self { call, with, ..self }
    }

    /// Returns the case for agents that keep cookies.
    #[must_use]
    pub const fn with_cookies(self) -> Self {
        Self { cookies: true, ..self }
    }

    /// Returns the case for an answer that is read as a stream of messages.
    #[must_use]
    pub const fn as_stream(self) -> Self {
        Self { streams: true, ..self }
    }

    /// Returns the case with further results that may occur.
    #[must_use]
    pub const fn or(self, or: &'static [&'static str]) -> Self {
        Self { or, ..self }
    }
}

/// An action of a target on a connection. After the last action, the target closes the connection.
#[derive(Debug, Clone, Copy)]
pub enum PeerAction {
    /// Performs the TLS handshake. Later bytes are encrypted.
    Shake,
    /// Takes the client's first handshake message, and sends half of the target's first message.
    BeginToShake,
    /// Reads a whole request.
    Hear,
    /// Reads the header block of a request, and leaves its body unread.
    HearHead,
    /// Reads the bytes that arrive first, valid or not.
    HearAnything,
    /// Sends these bytes.
    Say(&'static [u8]),
    /// Sends these bytes unencrypted, within an encrypted connection.
    SayBare(&'static [u8]),
    /// Sends the bytes that the function returns for the id of the last request.
    Reply(fn(u32) -> Vec<u8>),
    /// Sends these bytes one by one, with a pause before each. The last byte is never sent, so that
    /// no client waits long enough.
    Drip(&'static [u8]),
    /// Sends these bytes again and again, until the other side stops reading.
    Endless(&'static [u8]),
    /// Sends these bytes again and again, unencrypted, within an encrypted connection.
    EndlessBare(&'static [u8]),
    /// Requests new keys again and again.
    EndlessKeys,
    /// Ends the session with a close notification.
    Part,
    /// Shuts down the sending side.
    Fin,
    /// Shuts down the receiving side.
    Deaf,
    /// Reads and discards bytes until the other side ends.
    Wait,
    /// Keeps the connection without reading, until the test ends.
    Stay,
    /// Resets the connection.
    Reset,
    /// Starts again from the first action.
    Again,
}
