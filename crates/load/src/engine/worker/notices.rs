//! Notices that a generator thread gives once.

use transport::conn_id::ConnId;
use wire::cause::AttemptCause;
use wire::excerpt;
use wire::session::SessionProtocol;

use super::{NO_PROTOCOL, Worker};

impl<P: SessionProtocol> Worker<P> {
    pub(super) fn notice_unsolicited(&mut self) {
        if !std::mem::replace(&mut self.noticed.unsolicited, true) {
            let text = "the target sent unsolicited bytes; the connections that carried them were closed";
            self.stats.notices.push(text.to_owned());
        }
    }

    pub(super) fn notice_surplus(&mut self) {
        if !std::mem::replace(&mut self.noticed.unsolicited, true) {
            let text = "the target sent more than one answer to a request; these connections were closed";
            self.stats.notices.push(text.to_owned());
        }
    }

    pub(super) fn notice_resend(&mut self) {
        if !std::mem::replace(&mut self.noticed.resend, true) {
            let text = "the target closed connections with requests in flight; these requests were sent again on the \
                        next connection";
            self.stats.notices.push(text.to_owned());
        }
    }

    pub(super) fn notice_certificate(&mut self, conn: ConnId) {
        if !self.noticed.certificate
            && let Some(why) = self.connections.certificate_error(conn)
        {
            self.noticed.certificate = true;
            self.stats.notices.push(format!("TLS: the target's certificate is not accepted: {why}"));
        }
    }

    /// Adds a notice with the text of the first refusal that has a text.
    pub(super) fn notice_refusal(&mut self, by: &str, said: &str) {
        if !said.is_empty() && !std::mem::replace(&mut self.noticed.refusal, true) {
            self.stats.notices.push(format!("{by} refused connections with the message `{said}`"));
        }
    }

    /// Adds a notice with the first answer to the opening of a connection that is invalid in the
    /// protocol.
    pub(super) fn notice_opening(&mut self, cause: AttemptCause, answer: &[u8]) {
        if !std::mem::replace(&mut self.noticed.refusal, true) {
            let (why, shown) = (cause.text(P::REFUSALS), excerpt::reason_line(answer));
            self.stats
                .notices
                .push(format!("the target's answers to the opening of connections are invalid ({why}): `{shown}`"));
        }
    }

    /// Adds a notice for a peer that selected no protocol, although HTTP/1.1 was offered, and
    /// closed the connection after the first request. Such a peer may support only HTTP/2.
    pub(super) fn notice_protocol(&mut self, conn: ConnId, cause: AttemptCause) {
        let hung_up = matches!(cause, AttemptCause::Reset | AttemptCause::Closed);
        if hung_up
            && !self.pipelines[conn].is_proven
            && !self.noticed.protocol
            && self.connections.has_no_protocol(conn)
        {
            self.noticed.protocol = true;
            self.stats.notices.push(NO_PROTOCOL.to_owned());
        }
    }

    /// Adds a notice on ports or file descriptors that this machine lacks.
    pub(super) fn notice_resources(&mut self, cause: AttemptCause) {
        let text = match cause {
            AttemptCause::NoPort if !self.script.keep_alive => {
                "no free local port is left: without `keep_alive` each operation uses a port, and may hold it for a \
                 minute; set net.ipv4.tcp_tw_reuse to 1, or widen net.ipv4.ip_local_port_range"
            }
            AttemptCause::NoPort => "no free local port is left: widen net.ipv4.ip_local_port_range",
            AttemptCause::NoFile => "no file descriptor is left for a connection: raise `ulimit -n`",
            _ => return,
        };
        if !std::mem::replace(&mut self.noticed.resources, true) {
            self.stats.notices.push(text.to_owned());
        }
    }
}
