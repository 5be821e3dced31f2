//! Failures of calls: gRPC's status codes, and etcd's texts about reasons that differ in what they
//! say of the effect.

use crate::cause::Refusal;
use crate::protocols::grpc::status::CallStatus;

/// Failures. A call with one of gRPC's codes has the index of the code here. `changed` is a
/// comparison of `update` that did not hold.
///
/// A failure is harmless if the member checks its reason before it proposes the change to the
/// cluster, or if the change is refused when it is applied, as for a missing lease. A member
/// without a leader, or whose leader changes, may still have handed the change over. `no_space` is
/// not harmless: the change that reaches the quota takes effect and fails.
pub const REFUSALS: &[Refusal] = &[
    Refusal { name: "ok", harmless: false },
    Refusal { name: "cancelled", harmless: false },
    Refusal { name: "unknown", harmless: false },
    Refusal { name: "invalid_argument", harmless: true },
    Refusal { name: "deadline_exceeded", harmless: false },
    Refusal { name: "not_found", harmless: false },
    Refusal { name: "already_exists", harmless: false },
    Refusal { name: "permission_denied", harmless: true },
    Refusal { name: "resource_exhausted", harmless: false },
    Refusal { name: "failed_precondition", harmless: false },
    Refusal { name: "aborted", harmless: false },
    Refusal { name: "out_of_range", harmless: true },
    Refusal { name: "unimplemented", harmless: true },
    Refusal { name: "internal", harmless: false },
    Refusal { name: "unavailable", harmless: false },
    Refusal { name: "data_loss", harmless: false },
    Refusal { name: "unauthenticated", harmless: true },
    Refusal { name: "no_leader", harmless: false },
    Refusal { name: "leader_changed", harmless: false },
    Refusal { name: "timed_out", harmless: false },
    Refusal { name: "too_many_requests", harmless: true },
    Refusal { name: "no_space", harmless: false },
    Refusal { name: "compacted", harmless: true },
    Refusal { name: "lease_not_found", harmless: true },
    Refusal { name: "changed", harmless: true },
    Refusal { name: "watch_cancelled", harmless: true },
];

/// Beginnings of etcd's texts, with the names of their failures.
const TEXTS: [(&[u8], &str); 7] = [
    (b"etcdserver: no leader", "no_leader"),
    (b"etcdserver: leader changed", "leader_changed"),
    (b"etcdserver: request timed out", "timed_out"),
    (b"etcdserver: too many requests", "too_many_requests"),
    (b"etcdserver: mvcc: database space exceeded", "no_space"),
    (b"etcdserver: mvcc: required revision has been compacted", "compacted"),
    (b"etcdserver: requested lease not found", "lease_not_found"),
];

/// Returns the name of the failure with this number.
pub fn name(number: u8) -> &'static str {
    REFUSALS.get(usize::from(number)).map_or("unknown", |refusal| refusal.name)
}

/// Returns the number of the failure with this name.
pub fn number(name: &str) -> u8 {
    let place = REFUSALS.iter().position(|refusal| refusal.name == name);
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or(CallStatus::UNKNOWN.number())
}

/// Returns the number of the failure that a status and a text state.
pub fn failure(status: CallStatus, text: &[u8]) -> u8 {
    let known = TEXTS.iter().find(|(begin, _)| text.starts_with(begin));
    known.map_or(status.number(), |(_, name)| number(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_by_code_and_text() {
        for (code, text, name, harmless) in [
            (14, "etcdserver: request timed out, possibly due to previous leader failure", "timed_out", false),
            (14, "etcdserver: no leader", "no_leader", false),
            (14, "etcdserver: server stopped", "unavailable", false),
            (8, "etcdserver: too many requests", "too_many_requests", true),
            (8, "etcdserver: mvcc: database space exceeded", "no_space", false),
            (3, "etcdserver: key is not provided", "invalid_argument", true),
            (5, "etcdserver: requested lease not found", "lease_not_found", true),
            (16, "", "unauthenticated", true),
            (17, "", "unknown", false),
            (u64::MAX, "", "unknown", false),
        ] {
            let status = CallStatus::read(u64::to_string(&code).as_bytes());
            let number = failure(status, text.as_bytes());
            assert_eq!((super::name(number), REFUSALS[usize::from(number)].harmless), (name, harmless), "{text}");
        }
        for (_, name) in TEXTS {
            assert_eq!(super::name(number(name)), name);
        }
    }
}
