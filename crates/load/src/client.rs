//! Clients for single operations, for a protocol given by name.

use std::time::Duration;

pub use transport::client::{CallError, Client, ClientAnswer, ExchangedBytes};

use crate::TlsTrust;

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
    let kind = crate::protocols::find(protocol)
        .ok_or_else(|| CallError::Invalid(format!("there is no protocol `{protocol}`")))?;
    (kind.connect)(service, trust, timeout)
}
