//! The table of protocols: complete, and sorted by name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{KINDS, kind};
use crate::Protocol;

#[test]
fn every_protocol_has_its_kind() {
    for protocol in [Protocol::Http, Protocol::Vsns] {
        assert_eq!(kind(protocol).protocol, protocol);
    }
    assert_eq!(KINDS.len(), 2);
}
