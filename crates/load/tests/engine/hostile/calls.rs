//! Single operations of the client against the same targets: each ends, at the latest by its
//! timeout, with the right result.

use std::time::Duration;

use experiment::plan::Tls;
use load::TlsTrust;
use load::client::{self, CallError};

use super::{HostileTarget, PATIENCE_S, each, in_time};
use crate::setting::pairs;

/// Converts the result of an attempt to the client's result. The client has fewer kinds of errors.
fn in_a_call(word: &str) -> &str {
    match word {
        "connection closed" | "connection reset" | "connection broken" | "tls: broken" => "lost",
        "connect failed" | "connect timeout" => "not connected",
        word if word.starts_with("tls: ") || word.starts_with("connect: ") => "not connected",
        word => word,
    }
}

impl HostileTarget {
    fn call(self, timeout_s: f64) -> String {
        let target = self.start();
        let timeout = Duration::from_secs_f64(timeout_s);
        let trust = TlsTrust { tls: Tls { insecure: true, ..Tls::default() }, ..TlsTrust::default() };
        let called = client::connect_trusting(self.protocol.info.name, &self.service(&target), &trust, timeout)
            .and_then(|mut client| client.call(self.case.call, &pairs(self.case.with)));
        match called {
            Ok(answer) if answer.ok => "ok".to_owned(),
            Ok(answer) if answer.status.parse::<u16>().is_ok() => format!("status {}", answer.status),
            Ok(answer) => format!("answer: {}", answer.status),
            Err(CallError::Connect { .. }) => "not connected".to_owned(),
            Err(CallError::Timeout(_)) => "timeout".to_owned(),
            Err(CallError::Lost(_)) => "lost".to_owned(),
            Err(CallError::BadAnswer(why)) => why,
            Err(CallError::Invalid(reason)) => panic!("{}: {reason}", self.case.name),
        }
    }

    fn may_call_end_in(self, word: &str) -> bool {
        self.case.ends.iter().chain(self.case.or).any(|expected| {
            let is_refused = self.case.greets && expected.starts_with("answer: ");
            in_a_call(expected) == word || (is_refused && word == "not connected")
        })
    }

    fn check_call(self) {
        // Single operations are not programs.
        if self.case.service.is_empty() || self.case.streams {
            return;
        }
        // If no answer comes, connecting may have taken longer.
        let is_found = self.timeouts_s().iter().any(|timeout_s| {
            let timeout_s = *timeout_s;
            self.may_call_end_in(&in_time(self.case.name, move || self.call(timeout_s)))
        });
        assert!(is_found, "{}: `{}`", self.case.name, self.call(PATIENCE_S));
    }
}

#[test]
fn each_call_ends() {
    each(false, HostileTarget::check_call);
    each(true, HostileTarget::check_call);
}
