//! HTTP/1.1 with a body that is always the same. It must not care which resource is asked for: every method and path
//! gets the same answer.

mod answers;
mod head;

use answers::{Answers, Connection, Wish};
use head::Heads;

use super::{Codec, Step, Then};
use crate::{Options, Protocol};

/// The server's side of HTTP.
#[derive(Debug)]
pub(crate) struct Http {
    heads: Heads,
    answers: Answers,
}

/// A request whose body has not come whole.
#[derive(Debug)]
pub(crate) struct Unfinished {
    left_bytes: u64,
    wish: Wish,
}

impl Codec for Http {
    const PROTOCOL: Protocol = Protocol::Http;

    type Memory = Option<Unfinished>;

    fn new(options: &Options) -> Self {
        Self { heads: Heads::new(options.head_limit_bytes), answers: Answers::new(options) }
    }

    fn advance(&mut self, memory: &mut Self::Memory, input: &[u8], failing: bool, answers: &mut Vec<u8>) -> Step {
        if let Some(request) = memory {
            let (taken, left_bytes) = take(request.left_bytes, input.len());
            request.left_bytes = left_bytes;
            if left_bytes > 0 {
                return Step::new(taken, Then::Wait);
            }
            let wish = request.wish;
            *memory = None;
            return self.answer(taken, wish, failing, answers);
        }
        let head = match self.heads.read(input) {
            Ok(Some(head)) => head,
            Ok(None) => return Step::new(0, Then::Wait),
            Err((status, why)) => {
                answers.extend_from_slice(&answers::refusal(status, why));
                return Step::new(input.len(), Then::Refuse);
            }
        };
        let (taken, left_bytes) = take(head.body_bytes, input.len() - head.bytes);
        let consumed = head.bytes + taken;
        if left_bytes == 0 {
            return self.answer(consumed, head.wish, failing, answers);
        }
        *memory = Some(Unfinished { left_bytes, wish: head.wish });
        if head.invite && taken == 0 {
            answers.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            return Step::new(consumed, Then::Invite);
        }
        Step::new(consumed, Then::Wait)
    }
}

impl Http {
    fn answer(&self, consumed: usize, wish: Wish, failing: bool, answers: &mut Vec<u8>) -> Step {
        answers.extend_from_slice(self.answers.get(wish, failing));
        let then = if wish.connection == Connection::Closed { Then::Close } else { Then::Next };
        Step::new(consumed, then)
    }
}

/// Of a body with `left_bytes` to come and `there` bytes at hand: how many of these are its own, and how many are then left.
fn take(left_bytes: u64, there: usize) -> (usize, u64) {
    let taken = usize::try_from(left_bytes).map_or(there, |left| left.min(there));
    (taken, left_bytes - taken as u64)
}

#[cfg(test)]
mod tests {
    use super::Http;
    use crate::Options;
    use crate::protocols::{Codec, Step, Then};

    fn http() -> Http {
        Http::new(&Options::default())
    }

    /// One step on a fresh connection.
    fn advance(http: &mut Http, input: &str) -> (Step, String) {
        let mut answers = Vec::new();
        let step = http.advance(&mut None, input.as_bytes(), false, &mut answers);
        (step, String::from_utf8(answers).unwrap())
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n";

    #[test]
    fn a_request_whose_headers_are_known_is_treated_like_the_first_one() {
        let mut http = http();
        for _ in 0..3 {
            let (step, answer) = advance(&mut http, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2");
            assert_eq!(step, Step::new(27, Then::Next));
            assert_eq!(answer, format!("{OK}\r\nHello, world!\n"));
            let (step, answer) = advance(&mut http, "HEAD /other HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(step, Step::new(33, Then::Next));
            assert_eq!(answer, format!("{OK}\r\n"));
        }
    }

    #[test]
    fn known_headers_do_not_hide_different_ones() {
        let mut http = http();
        let post = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        let get = "GET / HTTP/1.1\r\n\r\n";
        let closing = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
        for _ in 0..2 {
            assert_eq!(advance(&mut http, post).0, Step::new(post.len(), Then::Next));
            assert_eq!(advance(&mut http, get).0, Step::new(get.len(), Then::Next));
            assert_eq!(advance(&mut http, closing).0, Step::new(closing.len(), Then::Close));
            let old = closing.replace("1.1", "1.0");
            assert_eq!(advance(&mut http, &old).0, Step::new(old.len(), Then::Close));
            assert_eq!(advance(&mut http, &get.replace("1.1", "1.0")).0.then, Then::Close);
        }
    }

    #[test]
    fn a_head_is_waited_for() {
        let whole = "POST /a?b=c HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
        let mut http = http();
        for known in [false, true] {
            for end in 1..whole.len() {
                assert_eq!(advance(&mut http, &whole[..end]).0, Step::new(0, Then::Wait), "{end}, {known}");
            }
            assert_eq!(advance(&mut http, whole).0, Step::new(whole.len(), Then::Next));
        }
    }

    #[test]
    fn a_body_is_discarded_as_it_comes() {
        let mut http = http();
        let (mut memory, mut answers) = (None, Vec::new());
        let mut step = |input: &[u8]| http.advance(&mut memory, input, false, &mut answers);
        assert_eq!(step(b"PUT / HTTP/1.1\r\nContent-Length: 10\r\n\r\n123"), Step::new(41, Then::Wait));
        assert_eq!(step(b"456"), Step::new(3, Then::Wait));
        assert_eq!(step(b"7890GET "), Step::new(4, Then::Next));
        assert_eq!(step(b"GET "), Step::new(0, Then::Wait));
    }

    #[test]
    fn the_connection_header_is_honoured() {
        let said = |request: &str| advance(&mut http(), request).1;
        assert!(said("GET / HTTP/1.1\r\nConnection: foo, CLOSE\r\n\r\n").contains("\r\nConnection: close\r\n"));
        assert!(said("GET / HTTP/1.0\r\n\r\n").contains("\r\nConnection: close\r\n"));
        assert!(said("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").contains("\r\nConnection: keep-alive\r\n"));
        assert!(!said("GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").contains("Connection"));
    }

    #[test]
    fn who_waits_for_an_invitation_gets_one() {
        let mut http = http();
        let head = "PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(
            advance(&mut http, head),
            (Step::new(head.len(), Then::Invite), "HTTP/1.1 100 Continue\r\n\r\n".into())
        );
        // Who has sent the body already needs none.
        assert_eq!(advance(&mut http, &format!("{head}ab")).0.then, Then::Next);
        assert_eq!(advance(&mut http, &format!("{head}a")), (Step::new(head.len() + 1, Then::Wait), String::new()));
    }

    #[test]
    fn what_is_not_served_is_refused_with_its_status() {
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
        let endless = format!("GET /{}", "a".repeat(65 << 10));
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(65 << 10));
        let table = [
            ("\0\x01\x02\r\n\r\n", 400),
            ("nonsense\r\n\r\n", 400),
            ("GET / HTTP/3.0\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
            (&many, 431),
            (&endless, 431),
            (&long, 431),
        ];
        for (input, status) in table {
            let shown = &input[..input.len().min(70)];
            let (step, answer) = advance(&mut http(), input);
            assert_eq!(step, Step::new(input.len(), Then::Refuse), "{shown}");
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {answer}");
            assert!(answer.contains("\r\nConnection: close\r\n"), "{shown}: {answer}");
        }
    }

    #[test]
    fn body_and_error_are_as_asked() {
        let options = Options { body_bytes: 30, error_status: 429, ..Options::default() };
        let mut http = Http::new(&options);
        let (_, answer) = advance(&mut http, "GET / HTTP/1.1\r\n\r\n");
        assert!(answer.ends_with("Content-Length: 30\r\n\r\nHello, world!\nHello, world!\nHe"), "{answer}");
        let mut answers = Vec::new();
        http.advance(&mut None, b"GET / HTTP/1.1\r\n\r\n", true, &mut answers);
        let answer = String::from_utf8(answers).unwrap();
        assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{answer}");
        assert!(answer.ends_with("Content-Length: 13\r\n\r\ntold to fail\n"), "{answer}");
    }
}
