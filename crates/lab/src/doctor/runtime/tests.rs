//! Tests of what is understood of the runtime's answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn an_answer_is_five_words() {
    let erlang = parse("25 25.2.3 2 262144 65536").unwrap();
    assert_eq!((erlang.release, erlang.version.as_str()), (25, "25.2.3"));
    assert_eq!((erlang.schedulers_online, erlang.processes, erlang.ports), (2, 262_144, 65_536));
    assert_eq!(parse("R16B03 R16B03 2 262144 65536").unwrap().release, 16);
    assert_eq!(parse("{\"init terminating\"}"), None);
    assert_eq!(parse(""), None);
}
