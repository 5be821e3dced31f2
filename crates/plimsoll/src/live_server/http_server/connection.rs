//! A reader's connection: the request received so far, and a bounded queue of bytes to send. No
//! method blocks.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::sockopt::set_socket_send_buffer_size;

use super::update::{Update, event};

/// Maximum size of a request, bytes.
const HEAD: usize = 8 * 1024;
/// Maximum number of updates in the queue of a reader.
const QUEUE: usize = 16;
/// Send buffer of a reader's socket, bytes. The kernel doubles the value, and may grant less.
const SEND_BUFFER: usize = 64 * 1024;
/// Send buffer at the end of the run, bytes. It is large, so that the kernel can send the rest
/// after this process has ended.
const LAST_SEND_BUFFER: usize = 4 * 1024 * 1024;

/// Content type of a page.
pub const HTML: &str = "text/html; charset=utf-8";
/// Headers of every answer. They forbid caching, type guessing, framing, referrers, and loading
/// anything from another origin.
const HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
    Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
    connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\nConnection: close\r\n";

/// Returns an HTTP answer with head and body.
pub fn whole(status: &str, kind: &str, body: &[u8]) -> Arc<[u8]> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{HEADERS}\r\n");
    [head.as_bytes(), body].concat().into()
}

/// Returns an HTTP answer in plain text.
pub fn refused(status: &str, words: &str) -> Arc<[u8]> {
    whole(status, "text/plain; charset=utf-8", words.as_bytes())
}

/// Parts of a request that the server uses.
#[derive(Debug, Default, PartialEq)]
pub struct Asked {
    pub method: String,
    /// Path without the query.
    pub path: String,
    pub host: Option<String>,
    pub origin: Option<String>,
    /// Id of the last update that the reader received before it reconnected.
    pub last_id: Option<u64>,
    pub takes_gzip: bool,
}

impl Asked {
    fn of(head: &str) -> Self {
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let mut asked =
            Self { method, path: target.split('?').next().unwrap_or_default().to_owned(), ..Self::default() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "host" => asked.host = Some(value.to_owned()),
                "origin" => asked.origin = Some(value.to_owned()),
                "last-event-id" => asked.last_id = value.parse().ok(),
                "accept-encoding" => asked.takes_gzip = value.split(',').any(|one| one.trim() == "gzip"),
                _ => {}
            }
        }
        asked
    }
}

/// Stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Asking,
    /// The whole answer is queued. The connection closes when the queue is empty.
    Answered,
    Following {
        as_gzip: bool,
    },
    Closed,
}

/// Connection of a reader.
pub struct Connection {
    stream: TcpStream,
    /// Index of the endpoint that accepted the connection.
    pub door: usize,
    stage: Stage,
    head: Vec<u8>,
    queue: VecDeque<Arc<[u8]>>,
    /// Number of bytes of the queue's first element that were sent.
    sent: usize,
    /// Time limit for the whole request, or for the next progress of an answer.
    deadline: Option<Instant>,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection {
    /// Returns the connection of a reader. The reader must send its request within `patience`.
    pub fn of(stream: TcpStream, door: usize, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // A fixed buffer bounds the memory for each reader that does not read. By default the
        // buffer would grow to some megabytes.
        set_socket_send_buffer_size(&stream, SEND_BUFFER)?;
        let deadline = Some(Instant::now() + patience);
        Ok(Self { stream, door, stage: Stage::Asking, head: Vec::new(), queue: VecDeque::new(), sent: 0, deadline })
    }

    pub fn is_open(&self) -> bool {
        self.stage != Stage::Closed
    }

    /// Whether the request is still incomplete.
    pub fn is_asking(&self) -> bool {
        self.stage == Stage::Asking
    }

    /// Whether the reader gets updates.
    pub fn follows(&self) -> bool {
        matches!(self.stage, Stage::Following { .. })
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the number of queued bytes that were not sent.
    pub fn left(&self) -> usize {
        self.queue.iter().map(|bytes| bytes.len()).sum::<usize>() - self.sent
    }

    /// Returns the events that a poll must wait for.
    pub fn awaits(&self) -> PollFlags {
        let writes = if self.queue.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        match self.stage {
            Stage::Asking => PollFlags::IN,
            Stage::Following { .. } => PollFlags::IN | writes,
            Stage::Answered | Stage::Closed => writes,
        }
    }

    /// Reads and writes as far as the socket is ready, and closes at the deadline. Returns the
    /// request when it is complete.
    pub fn step(&mut self, ready: PollFlags, patience: Duration) -> Option<Asked> {
        let asked = if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) { self.read() } else { None };
        if ready.contains(PollFlags::OUT) {
            self.write(patience);
        }
        if self.deadline.is_some_and(|at| at <= Instant::now()) {
            match self.stage {
                Stage::Following { .. } if !self.queue.is_empty() => self.fall_behind(patience),
                _ => self.stage = Stage::Closed,
            }
        }
        asked
    }

    fn read(&mut self) -> Option<Asked> {
        let mut part = [0; 1024];
        match (self.stream.read(&mut part), self.stage) {
            (Ok(read), Stage::Asking) if read > 0 && self.head.len() + read <= HEAD => {
                self.head.extend_from_slice(&part[..read]);
                let is_whole = self.head.windows(4).any(|end| end == b"\r\n\r\n");
                is_whole.then(|| Asked::of(&String::from_utf8_lossy(&std::mem::take(&mut self.head))))
            }
            (Err(error), _) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => None,
            // The stream ended, the request is too long, or more bytes follow the request.
            _ => {
                self.stage = Stage::Closed;
                None
            }
        }
    }

    fn write(&mut self, patience: Duration) {
        while let Some(first) = self.queue.front() {
            match self.stream.write(&first[self.sent..]) {
                Ok(written) => {
                    self.sent += written;
                    self.deadline = Some(Instant::now() + patience);
                    if self.sent == first.len() {
                        self.queue.pop_front();
                        self.sent = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.stage = Stage::Closed;
                    return;
                }
            }
        }
        self.deadline = None;
        if self.stage == Stage::Answered {
            let _ = self.stream.shutdown(Shutdown::Write);
            self.stage = Stage::Closed;
        }
    }

    /// Queues an answer, after which the connection closes.
    pub fn answer(&mut self, bytes: Arc<[u8]>, patience: Duration) {
        self.stage = Stage::Answered;
        self.deadline = Some(Instant::now() + patience);
        self.queue.push_back(bytes);
    }

    /// Queues the head of a stream of events, after which the reader gets updates.
    pub fn follow(&mut self, as_gzip: bool, patience: Duration) {
        let encoding = if as_gzip { "Content-Encoding: gzip\r\n" } else { "" };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{encoding}{HEADERS}\r\n");
        self.answer(head.into_bytes().into(), patience);
        self.stage = Stage::Following { as_gzip };
    }

    /// Queues bytes unchanged.
    pub fn queue(&mut self, bytes: Arc<[u8]>) {
        self.queue.push_back(bytes);
    }

    /// Queues an update. Disconnects a reader whose queue is full.
    pub fn queue_update(&mut self, update: &Update, patience: Duration) {
        let Stage::Following { as_gzip } = self.stage else { return };
        if self.queue.len() >= QUEUE {
            return self.fall_behind(patience);
        }
        if self.queue.is_empty() {
            self.deadline = Some(Instant::now() + patience);
        }
        self.queue.push_back(update.bytes(as_gzip));
    }

    /// Drops the queued updates of which no byte was sent, and ends the stream with a notice.
    fn fall_behind(&mut self, patience: Duration) {
        let Stage::Following { as_gzip } = self.stage else { return };
        self.queue.truncate(usize::from(self.sent > 0));
        let notice = event(None, "behind", &"this reader took updates too slowly");
        self.answer(notice.bytes(as_gzip), patience);
    }

    /// Closes the connection when the queue is empty.
    pub fn end_after_queue(&mut self) {
        self.stage = Stage::Answered;
    }

    /// Enlarges the send buffer, so that the kernel can send the rest after this process has ended.
    pub fn widen(&mut self) {
        let _ = set_socket_send_buffer_size(&self.stream, LAST_SEND_BUFFER);
    }
}
