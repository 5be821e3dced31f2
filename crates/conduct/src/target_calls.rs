//! Single operations of the target's protocol: for readiness checks, the fault `call`, and the
//! read-back. This process performs them, or the first generator if generators run on other
//! machines, because this machine may be unable to reach the target.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fleet::calls::GeneratorCaller;
use lab::Caller;
use load::TlsTrust;
use load::client::{CallError, Client, ClientAnswer};

/// Time limit for connecting and for an answer. A lab with time dilation has longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Way to call the target.
#[derive(Clone)]
pub struct TargetCalls {
    /// Name of the protocol.
    pub protocol: String,
    /// Certificates to trust, if the protocol uses TLS.
    pub trust: TlsTrust,
    /// The generator that calls the target in place of this process, if there is one.
    pub elsewhere: Arc<Mutex<Option<GeneratorCaller>>>,
}

impl TargetCalls {
    /// Returns a connection to a service; nothing is sent yet. `within` limits the time for
    /// connecting and for an answer.
    #[must_use]
    pub fn to(&self, service: &str, within: Duration) -> ServiceConnection {
        ServiceConnection { calls: self.clone(), service: service.to_owned(), within, client: None }
    }
}

/// A connection to a service. The first operation opens it, and the next one after a failure
/// reopens it.
pub struct ServiceConnection {
    calls: TargetCalls,
    service: String,
    within: Duration,
    client: Option<Client>,
}

impl ServiceConnection {
    /// Performs an operation and waits for the answer.
    pub fn call(&mut self, operation: &str, with: &BTreeMap<String, String>) -> Result<ClientAnswer, CallError> {
        let answer = self.call_all(operation, std::slice::from_ref(with), &|| false).pop();
        answer.unwrap_or_else(|| Err(CallError::Invalid("no operation was given".to_owned())))
    }

    /// Performs an operation once for each set of arguments, and waits for the answers. A generator
    /// stops early if `given_up` returns true.
    pub fn call_all(
        &mut self,
        operation: &str,
        calls: &[BTreeMap<String, String>],
        given_up: &dyn Fn() -> bool,
    ) -> Vec<Result<ClientAnswer, CallError>> {
        let TargetCalls { protocol, trust, elsewhere } = &self.calls;
        let generator = elsewhere.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(generator) = generator {
            let call =
                |with| generator.call((protocol, &self.service), trust, self.within, (operation, with), given_up);
            return calls.iter().map(call).collect();
        }
        let client = match self.client.take() {
            Some(client) => Ok(client),
            None => load::client::connect_trusting(protocol, &self.service, trust, self.within),
        };
        match client {
            Ok(mut client) => {
                let answers = client.call_all(operation, calls);
                self.client = answers.iter().all(Result::is_ok).then_some(client);
                answers
            }
            Err(error) => vec![Err(error); calls.len()],
        }
    }
}

/// Caller of the target's protocol for the lab: readiness checks and the fault `call`.
pub struct ProtocolCaller {
    /// Way to call the target.
    pub calls: TargetCalls,
    /// Speed of the lab's hosts as a share of full speed. Time limits are divided by it.
    pub speed: f64,
}

impl ProtocolCaller {
    fn ask(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<ClientAnswer, CallError> {
        self.calls.to(service, self.patience()).call(operation, with)
    }

    fn patience(&self) -> Duration {
        PATIENCE.mul_f64(if self.speed > 0.0 { 1.0 / self.speed.min(1.0) } else { 1.0 })
    }
}

impl Caller for ProtocolCaller {
    fn call(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        accepted(&self.ask(service, operation, with).map_err(|error| error.to_string())?)
    }

    fn provoke(&self, service: &str, operation: &str, with: &BTreeMap<String, String>) -> Result<(), String> {
        match self.ask(service, operation, with) {
            // The operation was sent, and may have destroyed the process that would have answered.
            Err(CallError::Timeout(_) | CallError::Lost(_) | CallError::BadAnswer(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(answer) => accepted(&answer),
        }
    }

    fn get(&self, service: &str, path: &str) -> Result<(), String> {
        let with = BTreeMap::from([("path".to_owned(), path.to_owned())]);
        let client = load::client::connect_trusting("http", service, &self.calls.trust, self.patience());
        let asked = client.and_then(|mut client| client.call("get", &with));
        let answer = asked.map_err(|error| error.to_string())?;
        if answer.status.starts_with('2') { Ok(()) } else { Err(format!("status {}", answer.status)) }
    }
}

fn accepted(answer: &ClientAnswer) -> Result<(), String> {
    if answer.ok { Ok(()) } else { Err(format!("the answer was `{}`", answer.status)) }
}
