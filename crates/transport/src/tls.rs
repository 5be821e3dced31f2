//! TLS without sockets: trust settings, and sessions that encrypt and decrypt bytes.

use std::io::{self, Read as _, Write};
use std::path::Path;
use std::sync::Arc;

use experiment::plan;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use wire::cause::AttemptCause;
use wire::input_files::InputFiles;

/// Number of sessions that a thread keeps for resumption: more than the number of services.
const SESSIONS: usize = 256;

/// Message for a peer that closes the connection without having accepted an offered protocol
/// (ALPN).
pub const NO_PROTOCOL: &str = "the target closed the connection without an answer, and TLS agreed on no protocol \
                               (ALPN): the target may support only HTTP/2, for which the URL begins with h2://";

/// Trust settings of a TLS client.
#[derive(Debug, Clone, Default)]
pub struct TlsTrust {
    /// Settings of the experiment.
    pub tls: plan::Tls,
    /// Locations of the files named in the settings.
    pub files: InputFiles,
}

impl TlsTrust {
    /// Makes the configuration of sessions. The sessions offer `protocols` by ALPN (RFC 7301), if
    /// there are any.
    fn config(&self, protocols: &[&[u8]]) -> Result<ClientConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = if self.tls.insecure {
            let anybody = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(anybody)
        } else if let Some(ca) = &self.tls.ca {
            let named = Arc::new(self.named(ca, provider)?);
            builder.dangerous().with_custom_certificate_verifier(named)
        } else {
            builder.with_root_certificates(roots_of_this_machine()?)
        };
        let mut config = match &self.tls.cert {
            None => builder.with_no_client_auth(),
            Some(cert) => {
                let (chain, key) = self.identity(cert)?;
                let refused = |error: Error| format!("`{cert}` cannot be used with its key: {error}");
                builder.with_client_auth_cert(chain, key).map_err(refused)?
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }

    /// Reads the client's certificate chain and its private key.
    fn identity(&self, cert: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let path = self.files.path(cert);
        let wrong = |path: &Path, reason: String| format!("`{}`: {reason}", path.display());
        let chain = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| wrong(&path, error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(&path, "the file has no certificate".to_owned()));
        }
        let path = self.files.path(self.tls.key.as_deref().unwrap_or(cert));
        let key = PrivateKeyDer::from_pem_file(&path).map_err(|error| match error {
            pem::Error::NoItemsFound if self.tls.key.is_none() => {
                wrong(&path, "the file has no private key: set `tls.key` to the file with the key".to_owned())
            }
            pem::Error::NoItemsFound => wrong(&path, "the file has no private key, or the key is encrypted".to_owned()),
            error => wrong(&path, error.to_string()),
        })?;
        Ok((chain, key))
    }

    /// Reads the trusted certificates from a file.
    fn named(&self, ca: &str, provider: Arc<CryptoProvider>) -> Result<CustomRoots, String> {
        let mut roots = RootCertStore::empty();
        let mut known = Vec::new();
        let path = self.files.path(ca);
        let wrong = |reason: String| format!("`{}`: {reason}", path.display());
        let certificates = CertificateDer::pem_file_iter(&path).map_err(|error| wrong(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
            known.push(certificate);
        }
        if roots.is_empty() {
            return Err(wrong("the file has no certificate".to_owned()));
        }
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let authorities = authorities.map_err(|error| wrong(error.to_string()))?;
        Ok(CustomRoots { authorities, certificates: known })
    }

    fn name(&self, host: &str) -> Result<ServerName<'static>, String> {
        let name = self.tls.server_name.as_deref().unwrap_or(host);
        let refused = |_| format!("`{name}` cannot be in a certificate: expected a host name or an address");
        ServerName::try_from(name.to_owned()).map_err(refused)
    }
}

fn roots_of_this_machine() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // Unreadable certificates must not keep the others from being trusted.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "no system CA certificates found: install them (ca-certificates), or set `tls.ca` to a file".to_owned()
        );
    }
    Ok(roots)
}

/// TLS configurations for the services of a load.
#[derive(Debug, Clone)]
pub struct TlsPeers {
    /// Configurations that services share.
    configs: Vec<Arc<ClientConfig>>,
    /// Configuration and name of each service, or `None` for a service without TLS.
    services: Vec<Option<(usize, ServerName<'static>)>>,
}

impl TlsPeers {
    /// Makes the configurations for services with these hosts, each with its trust settings. `None`
    /// marks a service without TLS. Returns `None` if no service uses TLS.
    ///
    /// # Errors
    /// Returns a message if a certificate file cannot be read or a name is not valid.
    pub fn of(hosts: &[(&TlsTrust, Option<&str>)], protocols: &[&[u8]]) -> Result<Option<Self>, String> {
        let mut configs: Vec<(&TlsTrust, Arc<ClientConfig>)> = Vec::new();
        let mut services = Vec::new();
        for (trust, host) in hosts {
            let Some(host) = host else {
                services.push(None);
                continue;
            };
            let place = match configs.iter().position(|(known, _)| known.tls == trust.tls) {
                Some(place) => place,
                None => {
                    configs.push((trust, Arc::new(trust.config(protocols)?)));
                    configs.len() - 1
                }
            };
            services.push(Some((place, trust.name(host)?)));
        }
        let configs: Vec<_> = configs.into_iter().map(|(_, config)| config).collect();
        Ok((!configs.is_empty()).then_some(Self { configs, services }))
    }

    /// Returns a copy for one thread, with separate session caches: threads share no locks.
    pub fn for_a_thread(&self) -> Self {
        let own = |config: &Arc<ClientConfig>| {
            let mut config = ClientConfig::clone(config);
            config.resumption = Resumption::in_memory_sessions(SESSIONS);
            Arc::new(config)
        };
        Self { configs: self.configs.iter().map(own).collect(), services: self.services.clone() }
    }

    /// Makes a new session with a service. `None` for a service without TLS.
    pub fn session(&self, service: usize) -> Option<Result<TlsSession, AttemptCause>> {
        let (config, name) = self.services.get(service)?.clone()?;
        Some(TlsSession::new(Arc::clone(self.configs.get(config)?), name))
    }
}

/// A TLS session with a peer.
#[derive(Debug)]
pub struct TlsSession {
    connection: ClientConnection,
    /// The error because of which the peer's certificate was refused.
    refused: Option<Error>,
    /// Whether the client offers protocols (ALPN).
    offers: bool,
    /// Whether the peer has sent data after the handshake.
    is_answered: bool,
}

impl TlsSession {
    fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, AttemptCause> {
        let offers = !config.alpn_protocols.is_empty();
        let mut session = ClientConnection::new(config, name).map_err(|_| AttemptCause::TlsHandshake)?;
        // No limit: a request of any length is in memory anyway.
        session.set_buffer_limit(None);
        Ok(Self { connection: session, refused: None, offers, is_answered: false })
    }

    /// Whether the handshake is not complete.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Processes some of the received bytes. The caller must [read](Self::read) the plaintext
    /// before the next call.
    pub fn take(&mut self, sealed: &mut &[u8]) -> Result<(), AttemptCause> {
        let is_handshaking = self.connection.is_handshaking();
        let before = sealed.len();
        let took = self.connection.read_tls(sealed);
        if took.is_err() || sealed.len() == before {
            return Err(if is_handshaking { AttemptCause::TlsHandshake } else { AttemptCause::TlsBroken });
        }
        self.connection.process_new_packets().map(drop).map_err(|error| {
            let cause = cause(&error, is_handshaking, self.is_answered);
            self.refused = Some(error).filter(|_| cause == AttemptCause::TlsCertificate);
            cause
        })
    }

    /// Returns the reason why the peer's certificate was refused, or `None` if it was not refused.
    pub fn refused(&self) -> Option<String> {
        self.refused.as_ref().map(why_refused)
    }

    /// Reads decrypted bytes. Returns 0 if the peer has ended the session, and `None` if nothing
    /// can be read now.
    pub fn read(&mut self, clear: &mut [u8]) -> Option<usize> {
        let count = self.connection.reader().read(clear).ok()?;
        self.is_answered = true;
        Some(count)
    }

    /// Whether the peer accepted no protocol (ALPN), although some were offered.
    pub fn has_no_protocol(&self) -> bool {
        self.offers && !self.connection.is_handshaking() && self.connection.alpn_protocol().is_none()
    }

    /// Encrypts bytes, which [`Self::write_to`] then sends.
    pub fn write_plaintext(&mut self, clear: &[u8]) -> Result<(), AttemptCause> {
        self.connection.writer().write_all(clear).map_err(|_| AttemptCause::TlsBroken)
    }

    /// Ends the session and notifies the peer.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    /// Whether encrypted bytes are waiting to be sent.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends as many encrypted bytes as `out` takes at once.
    pub fn write_to(&mut self, out: &mut dyn Write) -> io::Result<usize> {
        self.connection.write_tls(out)
    }
}

/// Describes why a certificate was refused, with a remedy.
fn why_refused(error: &Error) -> String {
    use CertificateError as C;
    let days = |from: &UnixTime, to: &UnixTime| to.as_secs().saturating_sub(from.as_secs()) / 86_400;
    match error {
        Error::InvalidCertificate(C::Expired) => "it has expired".to_owned(),
        Error::InvalidCertificate(C::ExpiredContext { time, not_after }) => {
            format!("it expired {} days ago", days(not_after, time))
        }
        Error::InvalidCertificate(C::NotValidYet) => "it is not valid yet; is this machine's clock right?".to_owned(),
        Error::InvalidCertificate(C::NotValidYetContext { time, not_before }) => {
            format!("it will be valid in {} days; is this machine's clock right?", days(time, not_before))
        }
        Error::InvalidCertificate(C::UnknownIssuer) => {
            "its issuer is unknown: it is self-signed, or signed by a CA that is not trusted here, or the server \
             does not send the intermediate certificates; trust its CA with `tls.ca`, or switch the check off with \
             `tls.insecure`"
                .to_owned()
        }
        Error::InvalidCertificate(C::BadSignature) => {
            "it is not signed by the trusted CA, but by another CA of the same name".to_owned()
        }
        Error::InvalidCertificate(C::NotValidForName) => "it is for another name".to_owned(),
        Error::InvalidCertificate(C::NotValidForNameContext { expected, presented }) => {
            let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
            let names = if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") };
            format!("it is for {names}, not for {}", expected.to_str())
        }
        error if is_an_authoritys(error) => {
            "it is a CA certificate (CA:TRUE) that is used as the server's: set `tls.ca` to that certificate, or \
             switch the check off with `tls.insecure`"
                .to_owned()
        }
        error => error.to_string(),
    }
}

/// Returns `example.org` for `DnsName("example.org")`.
fn bare(name: &str) -> &str {
    let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inside.trim_matches('"')
}

/// Returns the attempt's cause for a TLS error. During the handshake, no request was sent. If the
/// server refuses the client's certificate, it has read no request: in TLS 1.3 the refusal may
/// arrive after the client's first request (RFC 8446, 4.4.2.4).
fn cause(error: &Error, is_handshaking: bool, is_answered: bool) -> AttemptCause {
    match error {
        Error::InvalidCertificate(_) => AttemptCause::TlsCertificate,
        Error::AlertReceived(alert) if is_handshaking => AttemptCause::TlsAlert((*alert).into()),
        Error::AlertReceived(alert) if !is_answered && OF_CERTIFICATES.contains(&(*alert).into()) => {
            AttemptCause::TlsAlert((*alert).into())
        }
        _ if !is_handshaking => AttemptCause::TlsBroken,
        _ => AttemptCause::TlsHandshake,
    }
}

/// Alerts about a wrong or missing client certificate (RFC 8446, 6.2).
const OF_CERTIFICATES: [u8; 8] = [42, 43, 44, 45, 46, 48, 51, 116];

/// A verifier that accepts every certificate.
#[derive(Debug)]
pub struct AnyCertificate(pub Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A verifier that trusts the certificates of a file.
#[derive(Debug)]
pub struct CustomRoots {
    /// Verifies with the certificates as CAs.
    pub authorities: Arc<WebPkiServerVerifier>,
    /// The certificates of the file.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for CustomRoots {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match judged {
            // At this point the dates have been verified, but not the name.
            Err(error) if is_an_authoritys(&error) && self.certificates.iter().any(|known| known == end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Whether the only objection to a certificate is that it is a CA certificate. rustls has no public
/// error variant for this objection.
fn is_an_authoritys(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    format!("{:?}", other.0).contains("CaUsedAsEndEntity")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn insecure() -> TlsPeers {
        let trust =
            TlsTrust { tls: plan::Tls { insecure: true, ..plan::Tls::default() }, files: InputFiles::default() };
        TlsPeers::of(&[(&trust, None), (&trust, Some("127.0.0.1")), (&trust, Some("example.org"))], &[b"http/1.1"])
            .unwrap()
            .unwrap()
    }

    /// Returns the first bytes that a session sends.
    fn hello(session: &mut TlsSession) -> Vec<u8> {
        let mut said = Vec::new();
        while session.wants_write() {
            session.write_to(&mut said).unwrap();
        }
        said
    }

    /// Processes all of the bytes.
    fn take(session: &mut TlsSession, mut bytes: &[u8]) -> Result<(), AttemptCause> {
        let mut clear = [0; 64];
        while !bytes.is_empty() {
            session.take(&mut bytes)?;
            while session.read(&mut clear).is_some_and(|count| count > 0) {}
        }
        Ok(())
    }

    #[test]
    fn each_handshake_names_its_service() {
        let peers = insecure().for_a_thread();
        assert!(peers.session(0).is_none(), "in the clear");
        assert!(peers.session(3).is_none());
        let mut session = peers.session(2).unwrap().unwrap();
        assert!(session.is_handshaking() && session.wants_write());
        let said = hello(&mut session);
        assert_eq!(said[0], 22, "a handshake record");
        let has = |word: &[u8]| said.windows(word.len()).any(|window| window == word);
        assert!(has(b"example.org") && has(b"http/1.1"));
        // An address is not sent as a name (RFC 6066, 3).
        let said = hello(&mut peers.session(1).unwrap().unwrap());
        assert!(!said.windows(9).any(|window| window == b"127.0.0.1"));
    }

    #[test]
    fn certificate_files_are_read_only_for_tls_services() {
        let trust = TlsTrust {
            tls: plan::Tls { ca: Some("no-such-file.pem".into()), ..plan::Tls::default() },
            ..TlsTrust::default()
        };
        assert!(TlsPeers::of(&[(&trust, None), (&trust, None)], &[]).unwrap().is_none());
        let error = TlsPeers::of(&[(&trust, Some("host"))], &[]).unwrap_err();
        assert!(error.contains("no-such-file.pem"), "{error}");
    }

    #[test]
    fn invalid_certificate_files_and_names_are_refused() {
        let folder = fixture::TestDir::new();
        let file = folder.join("ca.pem");
        let tls = plan::Tls { ca: Some(file.display().to_string()), ..plan::Tls::default() };
        let trust = TlsTrust { tls, files: InputFiles::default() };
        for text in ["", "nothing\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&file, text).unwrap();
            let error = TlsPeers::of(&[(&trust, Some("host"))], &[]).unwrap_err();
            assert!(error.contains("ca.pem"), "{error}");
        }
        let tls = plan::Tls { insecure: true, server_name: Some("a b".into()), ..plan::Tls::default() };
        let error = TlsPeers::of(&[(&TlsTrust { tls, files: InputFiles::default() }, Some("host"))], &[]).unwrap_err();
        assert!(error.contains("`a b`"), "{error}");
    }

    #[test]
    fn certificate_errors_state_the_reason() {
        use CertificateError as C;
        let at = |days: u64| UnixTime::since_unix_epoch(std::time::Duration::from_secs(days * 86_400));
        let name = ServerName::try_from("shop.example").unwrap();
        for (why, words) in [
            (C::ExpiredContext { time: at(40), not_after: at(10) }, "expired 30 days ago"),
            (C::NotValidYetContext { time: at(1), not_before: at(3) }, "valid in 2 days"),
            (C::UnknownIssuer, "self-signed"),
            (
                C::NotValidForNameContext { expected: name, presented: vec!["DnsName(\"a.example\")".into()] },
                "it is for a.example, not for shop.example",
            ),
            (C::BadSignature, "another CA"),
            (C::Revoked, "Revoked"),
        ] {
            let reason = why_refused(&Error::InvalidCertificate(why));
            assert!(reason.contains(words), "{reason}");
        }
    }

    #[test]
    fn certificate_alerts_before_any_answer_refuse_the_handshake() {
        let told = |alert: u8, is_handshaking, is_answered| {
            cause(&Error::AlertReceived(alert.into()), is_handshaking, is_answered).text(&[])
        };
        assert_eq!(told(116, false, false), "tls: refused by the target: certificate required");
        assert_eq!(told(40, true, false), "tls: refused by the target: handshake failure");
        assert_eq!(told(116, false, true), "tls: broken", "after an answer nobody knows what it is about");
        assert_eq!(told(80, false, false), "tls: broken", "the request may have been read");
    }

    #[test]
    fn peers_that_do_not_speak_tls_are_refused() {
        let peers = insecure();
        for bytes in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-OpenSSH_9.2\r\n", &[0; 100], &[0xff; 20_000]]
        {
            let mut session = peers.session(1).unwrap().unwrap();
            hello(&mut session);
            assert_eq!(take(&mut session, bytes), Err(AttemptCause::TlsHandshake));
        }
        // An alert: handshake_failure (40).
        let mut session = peers.session(1).unwrap().unwrap();
        hello(&mut session);
        assert_eq!(take(&mut session, &[21, 3, 3, 0, 2, 2, 40]), Err(AttemptCause::TlsAlert(40)));
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
            // Half a record may be the beginning of a valid one.
            let _ = take(&mut session, &input);
            prop_assert!(session.is_handshaking());
        }
    }
}
