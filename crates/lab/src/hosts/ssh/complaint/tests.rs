//! Tests of complaints, with what OpenSSH and the dynamic linker write.
#![allow(clippy::unwrap_used)]

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
