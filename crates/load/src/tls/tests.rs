//! Whom to trust, and what a session makes of bytes that are none of a session's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

fn insecure() -> Peers {
    let trust = Trust { tls: plan::Tls { insecure: true, ..plan::Tls::default() }, files: PathBuf::new() };
    Peers::of(&trust, &[b"http/1.1"], &[None, Some("127.0.0.1"), Some("example.org")]).unwrap().unwrap()
}

/// The first words of a session.
fn hello(session: &mut Session) -> Vec<u8> {
    let mut said = Vec::new();
    while session.wants_write() {
        session.write_to(&mut said).unwrap();
    }
    said
}

/// Takes all of the bytes, or says why not.
fn take(session: &mut Session, mut bytes: &[u8]) -> Result<(), Cause> {
    let mut clear = [0; 64];
    while !bytes.is_empty() {
        session.take(&mut bytes)?;
        while session.read(&mut clear).is_some_and(|count| count > 0) {}
    }
    Ok(())
}

#[test]
fn each_service_is_asked_by_its_name() {
    let peers = insecure().for_a_thread();
    assert!(peers.session(0).is_none(), "in the clear");
    assert!(peers.session(3).is_none());
    let mut session = peers.session(2).unwrap().unwrap();
    assert!(session.is_shaking() && session.wants_write());
    let said = hello(&mut session);
    assert_eq!(said[0], 22, "a handshake record");
    let has = |word: &[u8]| said.windows(word.len()).any(|window| window == word);
    assert!(has(b"example.org") && has(b"http/1.1"));
    // An address is not sent as a name (RFC 6066, 3).
    let said = hello(&mut peers.session(1).unwrap().unwrap());
    assert!(!said.windows(9).any(|window| window == b"127.0.0.1"));
}

#[test]
fn nobody_is_asked_for_certificates_where_nothing_is_encrypted() {
    let trust =
        Trust { tls: plan::Tls { ca: Some("no-such-file.pem".into()), ..plan::Tls::default() }, ..Trust::default() };
    assert!(Peers::of(&trust, &[], &[None, None]).unwrap().is_none());
    let error = Peers::of(&trust, &[], &[Some("host")]).unwrap_err();
    assert!(error.contains("no-such-file.pem"), "{error}");
}

#[test]
fn files_and_names_that_make_no_sense() {
    let file = std::env::temp_dir().join(format!("plimsoll-tls-{}.pem", std::process::id()));
    let tls = plan::Tls { ca: Some(file.display().to_string()), ..plan::Tls::default() };
    let trust = Trust { tls, files: PathBuf::new() };
    for text in ["", "nothing\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&file, text).unwrap();
        let error = Peers::of(&trust, &[], &[Some("host")]).unwrap_err();
        assert!(error.contains("plimsoll-tls-"), "{error}");
    }
    std::fs::remove_file(&file).unwrap();
    let tls = plan::Tls { insecure: true, server_name: Some("a b".into()), ca: None };
    let error = Peers::of(&Trust { tls, files: PathBuf::new() }, &[], &[Some("host")]).unwrap_err();
    assert!(error.contains("`a b`"), "{error}");
}

#[test]
fn what_is_no_tls_is_refused() {
    let peers = insecure();
    for bytes in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.2\r\n", &[0; 100], &[0xff; 20_000]] {
        let mut session = peers.session(1).unwrap().unwrap();
        hello(&mut session);
        assert_eq!(take(&mut session, bytes), Err(Cause::TlsHandshake));
    }
    // An alert: handshake_failure (40).
    let mut session = peers.session(1).unwrap().unwrap();
    hello(&mut session);
    assert_eq!(take(&mut session, &[21, 3, 3, 0, 2, 2, 40]), Err(Cause::TlsRefused));
}

proptest! {
    #[test]
    fn garbage_never_panics_nor_opens_a_session(kind in 20_u8..25, bytes in prop::collection::vec(any::<u8>(), 0..400), framed: bool) {
        let mut session = insecure().session(1).unwrap().unwrap();
        hello(&mut session);
        let mut input = Vec::new();
        if framed {
            input.extend_from_slice(&[kind, 3, 3]);
            input.extend_from_slice(&u16::try_from(bytes.len()).unwrap().to_be_bytes());
        }
        input.extend_from_slice(&bytes);
        // Half a record may be the beginning of something.
        let _ = take(&mut session, &input);
        prop_assert!(session.is_shaking());
    }
}
