//! HTTP/1.1 with a body that is always the same. It must not care which resource is asked for: every method and path
//! gets the same answer.

mod answers;
mod head;

#[cfg(test)]
mod tests;

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
