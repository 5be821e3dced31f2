//! Single operations of the client against the same targets: each ends, at the latest by its
//! timeout, with the right result.

use std::time::Duration;

use experiment::plan::Tls;
use load::TlsTrust;
use load::client::{self, CallError};

use super::server::Hostile;
use super::{
    Case, Dialect, PATIENCE_S, bodies, connections, each, frames, greetings, heads, in_time, lines, replies, sealed,
};
use crate::setting::pairs;

/// Converts the result of an attempt to the client's result. The client has fewer kinds of errors.
fn in_a_call(word: &str) -> &str {
    match word {
        "connection closed" | "connection reset" | "connection broken" | "tls: broken" => "lost",
        "connect failed" | "connect timeout" => "not connected",
        word if word.starts_with("tls: ") => "not connected",
        word => word,
    }
}

impl Case {
    fn call(&self, timeout_s: f64) -> String {
        let target = Hostile::start(self.dialect, self.actions);
        let timeout = Duration::from_secs_f64(timeout_s);
        let trust = TlsTrust { tls: Tls { insecure: true, ..Tls::default() }, ..TlsTrust::default() };
        let service = self.dialect.service(&target.address());
        let called = client::connect_trusting(self.dialect.protocol(), &service, &trust, timeout)
            .and_then(|mut client| client.call(self.call, &pairs(self.with)));
        match called {
            Ok(answer) if answer.ok => "ok".to_owned(),
            Ok(answer) if matches!(self.dialect, Dialect::Http | Dialect::Https) => format!("status {}", answer.status),
            Ok(answer) => format!("answer: {}", answer.status),
            Err(CallError::Connect { .. }) => "not connected".to_owned(),
            Err(CallError::Timeout(_)) => "timeout".to_owned(),
            Err(CallError::Lost(_)) => "lost".to_owned(),
            Err(CallError::BadAnswer(why)) => why,
            Err(CallError::Invalid(reason)) => panic!("{}: {reason}", self.name),
        }
    }

    pub(super) fn check_call(&'static self) {
        // For an attempt, a refused greeting is an answer. For the client, it is a failed connect.
        let is_refused = |expected: &str| self.dialect == Dialect::Greeted && expected.starts_with("answer: ");
        let fits = |expected: &str, word: &str| {
            in_a_call(expected) == word || (is_refused(expected) && word == "not connected")
        };
        let is_fine = |word: &String| self.ends.iter().chain(self.or).any(|expected| fits(expected, word));
        let call = |timeout_s: &f64| {
            let timeout_s = *timeout_s;
            in_time(self.name, move || self.call(timeout_s))
        };
        // If no answer comes, connecting may have taken longer.
        let words: Vec<String> = self.timeouts_s().iter().map(call).skip_while(|word| !is_fine(word)).take(1).collect();
        assert!(!words.is_empty(), "{}: `{}`", self.name, self.call(PATIENCE_S));
    }
}

#[test]
fn each_call_ends() {
    let clear = [heads::CASES, bodies::CASES, connections::CASES, frames::CASES, replies::CASES, lines::CASES];
    for cases in clear.into_iter().chain([greetings::CASES, sealed::CASES]) {
        each(cases, false, Case::check_call);
        each(cases, true, Case::check_call);
    }
}
