//! What an abandoned run may have left on other machines. Its guards there have removed it, unless one was killed itself. It
//! must not touch a folder that does not carry the run's name.

use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::client::{Client, Part, never};
use super::destination::Destination;
use super::guard::no_ssh;
use super::{complaint, scripts};

/// For connecting; nobody waits long for what is hardly ever there.
const CONNECT_TIMEOUT_S: u32 = 5;
/// For all of it.
const WITHIN: Duration = Duration::from_secs(30);

/// A folder on another machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Where, as the experiment has it.
    pub destination: String,
    /// The beginning of the folder's name.
    pub folder: String,
}

/// Removes it. What was removed, a line each; in words if the machine was not reached.
///
/// # Errors
/// In words.
pub fn remove(left: &Leftover, run: &str) -> Result<Vec<String>, String> {
    // A damaged entry must not remove anything else.
    let is_ours = left.folder.strip_prefix(&scripts::folder_name(run, "")).is_some_and(|host| !host.is_empty());
    if !is_ours || !scripts::is_plain(&format!("/{}", left.folder)) {
        return Ok(Vec::new());
    }
    let why = |reason: String| format!("{} was not looked at for {}.*: {reason}", left.destination, left.folder);
    let destination = Destination::read(&left.destination).map_err(why)?;
    let client = Client::new(destination, &std::env::temp_dir(), "none").with_connect_timeout(CONNECT_TIMEOUT_S);
    let script = scripts::clean(run, &left.folder);
    let outcome =
        client.run(Part::Alone, &script, Stdio::null(), WITHIN, &never).map_err(|error| why(no_ssh(&error)))?;
    if !outcome.is_ok() {
        return Err(why(complaint::unreached(&outcome.errors, client.destination())));
    }
    let removed = outcome.output.lines().filter_map(|line| line.strip_prefix(scripts::OURS)?.strip_prefix("removed "));
    Ok(removed.map(|folder| format!("folder {folder} on {}", left.destination)).collect())
}
