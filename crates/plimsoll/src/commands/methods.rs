//! `plimsoll new grpc://…`: an experiment with a step for each method that a server or `.proto`
//! files describe.

use std::time::Duration;

use experiment::example::{DescribedCall, Example};
use load::TlsTrust;

use super::hit;
use crate::cli;
use crate::exit::Failure;

/// Time limit of each question to the server.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the server of a URL describes its methods.
pub fn are_described(url: &str) -> bool {
    hit::is_grpc(url)
}

/// Returns the example for a URL, whose path may name a service or a method.
pub fn example(url: &str, proto: &[String], tls: &cli::TlsWords) -> Result<Example, Failure> {
    let tls = hit::tls_of(url, tls)?;
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let url = format!("{}://{authority}", scheme.to_ascii_lowercase());
    let failure = |what: String, remedy: &str| Failure::Bad { what, remedy: remedy.to_owned() };
    let trust = TlsTrust { tls: tls.settings(), ..TlsTrust::default() };
    let calls = load::client::described_calls("grpc", &url, &trust, proto, TIMEOUT).map_err(|error| {
        failure(
            hit::words_in_options(&error.to_string()),
            "give the port of a gRPC server with server reflection, or its files with --proto FILE, for which nothing is \
             asked; grpcs:// if the server uses TLS, and --cacert FILE if its certificate authority is a private one",
        )
    })?;
    let wanted = path.trim_matches('/');
    let all: Vec<&str> = calls.iter().filter_map(method).collect();
    let known = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    let named = |call: &DescribedCall| {
        let method = method(call).unwrap_or_default();
        wanted.is_empty() || method == wanted || method.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'))
    };
    let calls: Vec<DescribedCall> = calls.iter().filter(|call| named(call)).cloned().collect();
    if calls.is_empty() {
        return Err(failure(format!("{url}: there is no method `{wanted}`"), &format!("the methods are: {known}")));
    }
    Ok(Example::Calls { url, tls: tls.text(), proto: proto.to_vec(), calls })
}

/// Returns the complete name of a call's method.
fn method(call: &DescribedCall) -> Option<&str> {
    call.arguments.iter().find(|(name, _)| *name == "method").map(|(_, method)| method.as_str())
}
