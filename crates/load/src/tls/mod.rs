//! TLS without a socket: whom to trust, and sessions that turn what is said into what is sent, and what comes into what was meant. It
//! must not read or write a socket, nor decide what follows a failure.

use std::io::{self, Read as _, Write};
use std::path::PathBuf;
use std::sync::Arc;

use experiment::plan;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::protocols::Cause;

mod anybody;
mod named;

/// Sessions that a thread remembers, to resume them: more than the services it goes to.
const SESSIONS: usize = 256;

/// Whom a client trusts at the other end of a TLS connection.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// What the experiment says.
    pub tls: plan::Tls,
    /// The folder that its paths are relative to.
    pub files: PathBuf,
}

impl Trust {
    /// What sessions are made by; they are spoken to in one of the `protocols` (ALPN, RFC 7301), if any are given.
    fn config(&self, protocols: &[&[u8]]) -> Result<ClientConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = if self.tls.insecure {
            let anybody = Arc::new(anybody::Anybody(provider));
            builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth()
        } else if let Some(ca) = &self.tls.ca {
            let named = Arc::new(self.named(ca, provider)?);
            builder.dangerous().with_custom_certificate_verifier(named).with_no_client_auth()
        } else {
            builder.with_root_certificates(roots_of_this_machine()?).with_no_client_auth()
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }

    /// Whom a file vouches for.
    fn named(&self, ca: &str, provider: Arc<CryptoProvider>) -> Result<named::Named, String> {
        let mut roots = RootCertStore::empty();
        let mut known = Vec::new();
        let path = self.files.join(ca);
        let wrong = |reason: String| format!("`{}`: {reason}", path.display());
        let certificates = CertificateDer::pem_file_iter(&path).map_err(|error| wrong(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
            known.push(certificate);
        }
        if roots.is_empty() {
            return Err(wrong("there is no certificate in it".to_owned()));
        }
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let authorities = authorities.map_err(|error| wrong(error.to_string()))?;
        Ok(named::Named { authorities, certificates: known })
    }

    fn name(&self, host: &str) -> Result<ServerName<'static>, String> {
        let name = self.tls.server_name.as_deref().unwrap_or(host);
        let refused = |_| format!("`{name}` is neither a name nor an address that a certificate can be made out to");
        ServerName::try_from(name.to_owned()).map_err(refused)
    }
}

fn roots_of_this_machine() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // What else is in there that cannot be read must not keep the others from being trusted.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "this machine trusts nobody: install its CA certificates (ca-certificates), or name a file with `tls.ca`"
                .to_owned(),
        );
    }
    Ok(roots)
}

/// The services of a load that are spoken to by TLS.
#[derive(Debug, Clone)]
pub struct Peers {
    config: Arc<ClientConfig>,
    /// Of each service; `None` where it is spoken to in the clear.
    names: Vec<Option<ServerName<'static>>>,
}

impl Peers {
    /// Of the services with these hosts, where each that is spoken to by TLS has one. None where no service is.
    ///
    /// # Errors
    /// In words, if a file of certificates cannot be read, or a name makes no sense.
    pub fn of(trust: &Trust, protocols: &[&[u8]], hosts: &[Option<&str>]) -> Result<Option<Self>, String> {
        if hosts.iter().all(Option::is_none) {
            return Ok(None);
        }
        let config = Arc::new(trust.config(protocols)?);
        let names = hosts.iter().map(|host| host.map(|host| trust.name(host)).transpose());
        Ok(Some(Self { config, names: names.collect::<Result<_, _>>()? }))
    }

    /// The same for one thread, which remembers its sessions by itself: threads share no locks.
    pub fn for_a_thread(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Self { config: Arc::new(config), names: self.names.clone() }
    }

    /// A new session with a service; `None` where it is spoken to in the clear.
    pub fn session(&self, service: usize) -> Option<Result<Session, Cause>> {
        let name = self.names.get(service)?.clone()?;
        Some(Session::new(Arc::clone(&self.config), name))
    }
}

/// A session, from its first word to its last.
#[derive(Debug)]
pub struct Session {
    connection: ClientConnection,
    /// Why the peer's certificate was refused.
    refused: Option<rustls::Error>,
}

impl Session {
    fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Cause> {
        let mut session = ClientConnection::new(config, name).map_err(|_| Cause::TlsHandshake)?;
        // A request is taken whole, however long it is: it is in memory anyway.
        session.set_buffer_limit(None);
        Ok(Self { connection: session, refused: None })
    }

    /// Whether the two have not agreed yet.
    pub fn is_shaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Takes some of the bytes that came. What they mean is to be [read](Self::read) before more are taken.
    pub fn take(&mut self, sealed: &mut &[u8]) -> Result<(), Cause> {
        let is_shaking = self.connection.is_handshaking();
        let before = sealed.len();
        let took = self.connection.read_tls(sealed);
        if took.is_err() || sealed.len() == before {
            return Err(if is_shaking { Cause::TlsHandshake } else { Cause::TlsBroken });
        }
        self.connection.process_new_packets().map(drop).map_err(|error| {
            let cause = cause(&error, is_shaking);
            self.refused = Some(error).filter(|_| cause == Cause::TlsCertificate);
            cause
        })
    }

    /// Why the peer's certificate was refused, in words, where it was.
    pub fn refused(&self) -> Option<String> {
        self.refused.as_ref().map(ToString::to_string)
    }

    /// Some of what the bytes that came mean; 0 if the peer has ended the session, and `None` if there is nothing (more) to read now.
    pub fn read(&mut self, clear: &mut [u8]) -> Option<usize> {
        self.connection.reader().read(clear).ok()
    }

    /// Says something; it is sent by [`Self::write_to`].
    pub fn say(&mut self, clear: &[u8]) -> Result<(), Cause> {
        self.connection.writer().write_all(clear).map_err(|_| Cause::TlsBroken)
    }

    /// Ends the session; this is said, too.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    /// Whether there is something to be sent.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends as much as is taken at once.
    pub fn write_to(&mut self, out: &mut dyn Write) -> io::Result<usize> {
        self.connection.write_tls(out)
    }
}

/// What an error is to an attempt. As long as the two have not agreed, no request was sent.
fn cause(error: &rustls::Error, is_shaking: bool) -> Cause {
    match error {
        rustls::Error::InvalidCertificate(_) => Cause::TlsCertificate,
        _ if !is_shaking => Cause::TlsBroken,
        rustls::Error::AlertReceived(_) => Cause::TlsRefused,
        _ => Cause::TlsHandshake,
    }
}

#[cfg(test)]
mod tests;
