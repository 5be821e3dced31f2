//! Clients for single operations, for a protocol given by name.

use std::time::Duration;

use experiment::example::DescribedCall;
pub use transport::client::{CallError, Client, ClientAnswer, ExchangedBytes};

use crate::TlsTrust;
use crate::protocols::ProtocolKind;

/// Connects to `service`. `timeout` limits the connect and each operation. TLS uses the
/// certificates that this machine trusts.
///
/// # Errors
/// Returns an error if the protocol does not exist or the connection fails.
pub fn connect(protocol: &str, service: &str, timeout: Duration) -> Result<Client, CallError> {
    connect_trusting(protocol, service, &TlsTrust::default(), timeout)
}

/// Connects to `service` with the given trust settings for TLS. `timeout` limits the connect and
/// each operation.
///
/// # Errors
/// Returns an error if the protocol does not exist or the connection fails.
pub fn connect_trusting(
    protocol: &str,
    service: &str,
    trust: &TlsTrust,
    timeout: Duration,
) -> Result<Client, CallError> {
    (kind(protocol)?.connect)(service, trust, timeout)
}

/// Returns the calls of a service, each with an example of its messages. They are described by the
/// files `proto` or, without files, by the service. `timeout` limits the connect and each question.
///
/// # Errors
/// Returns an error if the protocol does not exist, a file cannot be read, or the service does not
/// describe its calls.
pub fn described_calls(
    protocol: &str,
    service: &str,
    trust: &TlsTrust,
    proto: &[String],
    timeout: Duration,
) -> Result<Vec<DescribedCall>, CallError> {
    (kind(protocol)?.described_calls)(service, trust, proto, timeout)
}

fn kind(protocol: &str) -> Result<&'static ProtocolKind, CallError> {
    let kind = crate::protocols::find(protocol);
    kind.ok_or_else(|| CallError::Invalid(format!("there is no protocol `{protocol}`")))
}
