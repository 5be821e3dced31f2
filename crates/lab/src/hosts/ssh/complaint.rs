//! What ssh wrote when it failed, in words for the user, with the remedy where there is one. Pure. It must not guess: what it
//! does not know it quotes.

use super::destination::Destination;

/// Why ssh did not get there. `errors` is all that it wrote to standard error.
#[must_use]
pub fn unreached(errors: &str, destination: &Destination) -> String {
    let by_hand = destination.by_hand();
    let says = |text: &str| errors.contains(text);
    let what = if says("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        "its host key is not the one that is known here: it was set up anew, or somebody is in between; when you are sure, \
         remove the old one with `ssh-keygen -R`"
            .to_owned()
    } else if says("Host key verification failed") {
        format!(
            "its host key is not known here, and nobody is there to be asked: log in once by hand with `ssh {by_hand}`"
        )
    } else if says("Permission denied (") {
        format!(
            "it lets nobody in without a password: put your key there with `ssh-copy-id {by_hand}`, or into your agent"
        )
    } else {
        "cannot connect".to_owned()
    };
    format!("{what}; ssh says: {}; `ssh -v {by_hand}` shows more", last_line(errors))
}

/// Why this program does not run there. `errors` is what the attempt wrote.
#[must_use]
pub fn does_not_run(errors: &str) -> String {
    match errors.split('`').nth(1).and_then(|rest| rest.split('\'').next()).filter(|name| name.starts_with("GLIBC_")) {
        Some(version) => format!(
            "its C library is older than the one Plimsoll was built with ({version} is not there): build Plimsoll on the \
             oldest system of the lab"
        ),
        None => format!("Plimsoll was copied there but does not run: {}", last_line(errors)),
    }
}

/// The last line that says anything.
#[must_use]
pub fn last_line(errors: &str) -> &str {
    errors.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing")
}

#[cfg(test)]
mod tests;
