//! `plimsoll profile measure`: a profile of a real machine, on standard output.

use crate::cli;
use crate::exit::{Done, Failure};
use crate::output;

/// Measures this machine, or one that is reached over ssh.
pub fn run(arguments: &cli::Profile) -> Result<Done, Failure> {
    let cli::ProfileCommand::Measure { host } = &arguments.command;
    let text = match host {
        None => {
            output::say("measuring this machine; it takes about ten seconds, and nothing else should run");
            lab::runner::machine::measure()
                .map_err(|reason| Failure::Lab(lab::Error::Host { host: "this machine".to_owned(), reason }))?
        }
        Some(url) => over_ssh(url, |destination| {
            output::say(&format!(
                "measuring {destination}; it takes about ten seconds, and nothing else should run there"
            ));
            let plimsoll = std::env::current_exe()
                .map_err(|error| Failure::File { what: "cannot find this program".to_owned(), error })?;
            lab::hosts::measure(destination, &plimsoll).map_err(Failure::Lab)
        })?,
    };
    output::text(&text)?;
    Ok(Done::Well)
}

/// Has the machine at `ssh://user@address` measured by `ask`, which is given `user@address`, maybe with a port.
fn over_ssh(url: &str, ask: impl FnOnce(&str) -> Result<String, Failure>) -> Result<String, Failure> {
    match url.strip_prefix("ssh://").map(|address| address.trim_end_matches('/')) {
        Some(address) if !address.is_empty() && !address.starts_with('-') => ask(address),
        _ => Err(Failure::Bad {
            what: format!("`{url}` is no machine that can be measured"),
            remedy: "write ssh://user@address, or nothing for this machine".to_owned(),
        }),
    }
}
