//! What an agent and the attendant that runs its programs say to each other: an order, and what came of it. Lengths are four bytes,
//! most significant first. It must not do either.

/// Bytes of a length.
const LENGTH: usize = 4;
/// Bytes of what came of it before the outputs: how, code, cut, length of the standard output.
const HEAD: usize = 1 + 4 + 1 + LENGTH;

/// A program to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order<'a> {
    /// The program and its arguments.
    pub words: Vec<&'a [u8]>,
    /// What it is to read.
    pub stdin: Option<&'a [u8]>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// How it ended.
    pub how: How,
    /// Whether there was more output than is kept.
    pub is_cut: bool,
    /// Its standard output.
    pub stdout: &'a [u8],
    /// Its standard error, or why it was not started.
    pub stderr: &'a [u8],
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It did not begin.
    NotStarted,
}

/// Appends a length and what `write` puts behind it.
pub fn measured(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let hole = out.len();
    out.extend_from_slice(&[0; LENGTH]);
    write(out);
    let length = u32::try_from(out.len() - hole - LENGTH).unwrap_or(u32::MAX);
    out[hole..][..LENGTH].copy_from_slice(&length.to_be_bytes());
}

/// Takes what stands behind a length off the bytes; `None` if they are too few.
pub fn take_measured<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    let (taken, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *bytes = rest;
    Some(taken)
}

impl<'a> Order<'a> {
    /// Reads what stands in an order's frame: how many words, the words, and what is to be read, if that is said.
    pub fn read(mut frame: &'a [u8]) -> Option<Self> {
        let (count, rest) = frame.split_first_chunk::<LENGTH>()?;
        frame = rest;
        let count = u32::from_be_bytes(*count);
        let words = (0..count).map_while(|_| take_measured(&mut frame)).collect::<Vec<_>>();
        if words.len() != count as usize {
            return None;
        }
        let stdin = if frame.is_empty() { None } else { Some(take_measured(&mut frame)?) };
        frame.is_empty().then_some(Self { words, stdin })
    }
}

impl<'a> Outcome<'a> {
    /// Appends its frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (kind, code) = match self.how {
            How::Exited(code) => (0, code),
            How::Signalled(signal) => (1, signal),
            How::NotStarted => (2, 0),
        };
        measured(out, |out| {
            out.push(kind);
            out.extend_from_slice(&code.to_be_bytes());
            out.push(u8::from(self.is_cut));
            measured(out, |out| out.extend_from_slice(self.stdout));
            out.extend_from_slice(self.stderr);
        });
    }

    /// Reads what stands in a frame.
    pub fn read(frame: &'a [u8]) -> Option<Self> {
        let (head, _) = frame.split_first_chunk::<HEAD>()?;
        let [kind, a, b, c, d, cut, ..] = *head;
        let code = i32::from_be_bytes([a, b, c, d]);
        let how = match kind {
            0 => How::Exited(code),
            1 => How::Signalled(code),
            2 => How::NotStarted,
            _ => return None,
        };
        let mut outputs = &frame[HEAD - LENGTH..];
        let stdout = take_measured(&mut outputs)?;
        Some(Self { how, is_cut: cut == 1, stdout, stderr: outputs })
    }
}
