//! The answers of the HTTP server, made once. It must not look at requests.

use crate::Options;

/// The body is this, repeated and cut to its length.
const BODY: &[u8] = b"Hello, world!\n";

/// What is said about the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    /// Nothing: it stays open, as is usual in HTTP/1.1.
    Kept,
    /// It stays open, which an HTTP/1.0 client has to be told.
    KeptAndSaid,
    /// It is closed.
    Closed,
}

/// Which answer a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    /// Without its body: the answer to HEAD.
    pub head_only: bool,
    /// What happens to the connection.
    pub connection: Connection,
}

/// All answers to proper requests.
#[derive(Debug)]
pub(super) struct Answers {
    made: [Vec<u8>; 12],
}

impl Answers {
    pub fn new(options: &Options) -> Self {
        let body: Vec<u8> = BODY.iter().copied().cycle().take(options.body_bytes).collect();
        let mut made: [Vec<u8>; 12] = Default::default();
        for failing in [false, true] {
            let (status, body) =
                if failing { (options.error_status, &b"told to fail\n"[..]) } else { (200, &body[..]) };
            for head_only in [false, true] {
                for connection in [Connection::Kept, Connection::KeptAndSaid, Connection::Closed] {
                    let wish = Wish { head_only, connection };
                    made[place(wish, failing)] = message(status, body, wish);
                }
            }
        }
        Self { made }
    }

    /// The answer, complete.
    pub fn get(&self, wish: Wish, failing: bool) -> &[u8] {
        &self.made[place(wish, failing)]
    }
}

/// The answer to what is refused; the connection is closed behind it.
pub(super) fn refusal(status: u16, why: &str) -> Vec<u8> {
    message(status, format!("{why}\n").as_bytes(), Wish { head_only: false, connection: Connection::Closed })
}

fn place(wish: Wish, failing: bool) -> usize {
    let connection = match wish.connection {
        Connection::Kept => 0,
        Connection::KeptAndSaid => 1,
        Connection::Closed => 2,
    };
    6 * usize::from(failing) + 3 * usize::from(wish.head_only) + connection
}

fn message(status: u16, body: &[u8], wish: Wish) -> Vec<u8> {
    let connection = match wish.connection {
        Connection::Kept => "",
        Connection::KeptAndSaid => "Connection: keep-alive\r\n",
        Connection::Closed => "Connection: close\r\n",
    };
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n{connection}\r\n",
        reason(status),
        body.len()
    );
    let mut message = head.into_bytes();
    if !wish.head_only {
        message.extend_from_slice(body);
    }
    message
}

/// The phrase of RFC 9110 for what is likely to be asked for.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        411 => "Length Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Told To Fail",
    }
}
