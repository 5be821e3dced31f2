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
mod tests {
    use super::*;

    fn words(errors: &str) -> String {
        unreached(errors, &Destination::read("pi@pi1:2222").unwrap())
    }

    #[test]
    fn each_cause_has_its_remedy() {
        let changed = "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\nHost key verification failed.\r\n";
        assert!(words(changed).contains("ssh-keygen -R"));
        let unknown = words("Host key verification failed.\r\n");
        assert!(unknown.contains("not known here") && unknown.contains("`ssh -p 2222 pi@pi1`"), "{unknown}");
        assert!(words("pi@pi1: Permission denied (publickey).\r\n").contains("ssh-copy-id"));
    }

    #[test]
    fn what_it_does_not_know_it_quotes() {
        let refused = words("banner\r\nssh: connect to host pi1 port 2222: Connection refused\r\n\r\n");
        assert!(refused.contains("cannot connect; ssh says: ssh: connect to host pi1 port 2222: Connection refused;"));
        assert!(refused.contains("`ssh -v -p 2222 pi@pi1`"), "{refused}");
        assert!(words("").contains("ssh says: nothing"));
    }

    #[test]
    fn an_old_c_library_is_named() {
        let old = "/x/plimsoll: /lib/libc.so.6: version `GLIBC_2.39' not found (required by /x/plimsoll)\n";
        assert!(does_not_run(old).contains("(GLIBC_2.39 is not there)"));
        assert!(does_not_run("sh: 1: /x/plimsoll: not found\n").ends_with("sh: 1: /x/plimsoll: not found"));
        assert!(does_not_run("sh: `x' is odd\n").ends_with("sh: `x' is odd"));
    }
}
