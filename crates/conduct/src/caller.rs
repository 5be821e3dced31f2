//! Speaks the target's protocol on behalf of the lab, which does not know it: readiness checks and the fault `call`.
//! It must not measure.

use std::collections::BTreeMap;
use std::time::Duration;

use lab::Caller;
use load::Trust;
use load::client::{Answer, CallError, Client};

/// How long a connection and an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Speaks the target's protocol for the lab: readiness checks and the fault `call`.
pub struct ProtocolCaller {
    /// Name of the protocol.
    pub protocol: String,
    /// Whom to trust, where it is spoken to by TLS.
    pub trust: Trust,
    /// Time dilation of the lab: on slow hosts an answer takes longer.
    pub speed: f64,
}

impl ProtocolCaller {
    fn ask(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<Answer, CallError> {
        self.connect(&self.protocol, service)?.call(operation, with)
    }

    fn connect(&self, protocol: &str, service: &str) -> Result<Client, CallError> {
        let slowdown = if self.speed > 0.0 { 1.0 / self.speed.min(1.0) } else { 1.0 };
        Client::connect_trusting(protocol, service, &self.trust, PATIENCE.mul_f64(slowdown))
    }
}

impl Caller for ProtocolCaller {
    fn call(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        accepted(&self.ask(service, operation, with).map_err(|error| error.to_string())?)
    }

    fn provoke(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        match self.ask(service, operation, with) {
            // It was sent, and what would have answered may be what it destroyed.
            Err(CallError::Timeout(_) | CallError::Lost(_) | CallError::BadAnswer) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(answer) => accepted(&answer),
        }
    }

    fn get(&self, service: &str, path: &str) -> Result<(), String> {
        let with = BTreeMap::from([("path".to_owned(), path.to_owned())]);
        let asked = self.connect("http", service).and_then(|mut client| client.call("get", &with));
        let answer = asked.map_err(|error| error.to_string())?;
        if answer.status.starts_with('2') { Ok(()) } else { Err(format!("status {}", answer.status)) }
    }
}

fn accepted(answer: &Answer) -> Result<(), String> {
    if answer.ok { Ok(()) } else { Err(format!("answered `{}`", answer.status)) }
}
