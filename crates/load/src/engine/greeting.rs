//! The first words on a connection, where its protocol has some: said when it is open, and answered before the first request. It must
//! not know what they mean.
//!
//! They belong to connecting: whoever waits on a connection whose greeting is not answered in time, or refused, could not connect, and the operation certainly
//! had no effect. Sending the request along would spare a round trip, and carry it out as somebody else or on other data where the
//! greeting is refused.

use rustix::fd::{AsFd, OwnedFd};

use super::connection::{Link, Stream};
use super::link::write;
use super::worker::Worker;
use crate::protocols::{Cause, Progress, Protocol};

impl<P: Protocol> Worker<P> {
    /// The connection's socket is connected.
    pub(super) fn greet(&mut self, number: usize, socket: OwnedFd, now: u64) {
        let connection = &mut self.connections[number];
        let Some(greeting) = self.script.services[connection.service as usize].greeting() else {
            self.opened(number, Stream::Plain(socket), now);
            return;
        };
        // A fresh socket takes so little at once.
        if write(socket.as_fd(), &greeting.bytes).is_ok_and(|sent| sent == greeting.bytes.len()) {
            connection.link = Link::Greeting(socket);
        } else {
            self.connect_failed(number, Cause::ConnectFailed, now);
        }
    }

    /// Bytes came in answer to the greeting.
    pub(super) fn greeted(&mut self, number: usize, bytes: &[u8], now: u64) {
        let connection = &mut self.connections[number];
        let mut input = std::mem::take(&mut connection.input);
        input.extend_from_slice(bytes);
        let greeting = self.script.services[connection.service as usize].greeting();
        let progress = greeting.map(|greeting| P::greeted(greeting, &input));
        let refused = match progress {
            Some(Progress::More { .. }) => {
                connection.input = input;
                return;
            }
            Some(Progress::Answer(answer)) if answer.result == Cause::Ok && answer.used == input.len() => {
                if let Link::Greeting(socket) = std::mem::replace(&mut connection.link, Link::Down) {
                    self.opened(number, Stream::Plain(socket), now);
                }
                return;
            }
            Some(Progress::Answer(answer)) if answer.result.is_harmless(P::REFUSALS) => answer.result,
            _ => Cause::ConnectFailed,
        };
        self.connect_failed(number, refused, now);
    }
}
