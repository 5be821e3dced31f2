//! The opening of connections: what a protocol sends and expects before the first request.

use std::sync::Arc;

use rustix::fd::{AsFd, OwnedFd};
use wire::cause::AttemptCause;
use wire::protocols::{Greeting, Progress, Protocol};

use super::{ConnEvent, ConnectionSet, SocketState, SocketStream, write};
use crate::conn_id::ConnId;

/// The part of a protocol that opening a connection depends on.
#[derive(Debug, Clone)]
pub struct OpeningRules {
    pub(super) services: Arc<[ServiceOpening]>,
    pub(super) runs_programs: bool,
    pub(super) may_refuse_unasked: fn(u8) -> bool,
    greeted: fn(&Greeting, &[u8]) -> Progress,
}

/// The opening of connections to one service.
#[derive(Debug)]
pub(super) struct ServiceOpening {
    /// Address of the service, or the text for its programs.
    pub(super) authority: String,
    greeting: Option<Greeting>,
}

impl OpeningRules {
    /// Returns the rules of a protocol for these services.
    pub fn of<P: Protocol>(services: &[P]) -> Self {
        let opening = |service: &P| ServiceOpening {
            authority: service.authority().to_owned(),
            greeting: service.greeting().cloned(),
        };
        Self {
            services: services.iter().map(opening).collect(),
            runs_programs: P::RUNS_PROGRAMS,
            may_refuse_unasked: P::may_refuse_unasked,
            greeted: P::greeted,
        }
    }
}

impl ConnectionSet {
    pub(super) fn may_speak_first(&self, service: usize) -> bool {
        let greeting = self.opening.services[service].greeting.as_ref();
        greeting.is_some_and(|greeting| greeting.bytes.is_empty())
    }

    // The greeting is part of connecting. If it is refused or not answered in time, the operations
    // that wait could not connect and certainly had no effect. Sending the request together with
    // the greeting would save a round trip. But if the greeting is refused, the request would run
    // as another user or on other data.

    /// Sends the greeting on a connected socket.
    pub(super) fn greet(&mut self, conn: ConnId, socket: OwnedFd) -> Option<ConnEvent> {
        let connection = &mut self.list[conn.index()];
        let Some(greeting) = &self.opening.services[connection.service as usize].greeting else {
            return Some(self.opened(conn, SocketStream::Plain(socket)));
        };
        // A new socket always has space for so few bytes.
        if write(socket.as_fd(), &greeting.bytes).is_ok_and(|sent| sent == greeting.bytes.len()) {
            connection.state = SocketState::Greeting(socket);
            return None;
        }
        Some(ConnEvent::ConnectFailed(AttemptCause::ConnectFailed))
    }

    /// Handles bytes that answer the greeting.
    pub(super) fn greeted(&mut self, conn: ConnId, bytes: &[u8]) -> Option<ConnEvent> {
        let connection = &mut self.list[conn.index()];
        connection.pending.extend_from_slice(bytes);
        let greeting = self.opening.services[connection.service as usize].greeting.as_ref();
        let refused = match greeting.map(|greeting| (self.opening.greeted)(greeting, &connection.pending)) {
            Some(Progress::More { .. }) => return None,
            Some(Progress::Answer(answer))
                if answer.result == AttemptCause::Ok && answer.used == connection.pending.len() =>
            {
                return match std::mem::replace(&mut connection.state, SocketState::Down) {
                    SocketState::Greeting(socket) => Some(self.opened(conn, SocketStream::Plain(socket))),
                    _ => None,
                };
            }
            Some(Progress::Answer(answer)) if answer.result != AttemptCause::Ok => answer.result,
            _ => AttemptCause::ConnectFailed,
        };
        Some(ConnEvent::ConnectFailed(refused))
    }
}
