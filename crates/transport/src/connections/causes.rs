//! Causes of failed connects and of broken connections, from system errors.

use rustix::io::Errno;
use wire::cause::AttemptCause;

/// Returns the cause for an error of a connect.
pub(super) fn connect_cause(errno: Errno) -> AttemptCause {
    match errno {
        Errno::CONNREFUSED => AttemptCause::ConnectRefused,
        Errno::TIMEDOUT => AttemptCause::ConnectTimeout,
        Errno::NETUNREACH | Errno::HOSTUNREACH => AttemptCause::ConnectUnreachable,
        Errno::ADDRNOTAVAIL => AttemptCause::NoPort,
        Errno::MFILE | Errno::NFILE => AttemptCause::NoFile,
        _ => AttemptCause::ConnectFailed,
    }
}

/// Returns the cause for an error on an open connection.
pub(super) fn broken_cause(errno: Errno) -> AttemptCause {
    match errno {
        Errno::CONNRESET => AttemptCause::Reset,
        Errno::PIPE => AttemptCause::Closed,
        _ => AttemptCause::Broken,
    }
}
