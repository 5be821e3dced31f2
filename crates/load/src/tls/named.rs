//! A verifier that trusts whom a file vouches for, and also a server whose own certificate stands in that file although it is marked as an
//! authority's, as `openssl req -x509` marks every certificate that it signs itself. The name in it and its dates count as ever.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Trusts whom a file names.
#[derive(Debug)]
pub struct Named {
    /// Judges by the certificates as authorities.
    pub authorities: Arc<WebPkiServerVerifier>,
    /// The certificates themselves.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Named {
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
            // The dates have been looked at by then, and the name has not.
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

/// Whether all that speaks against a certificate is that it is an authority's: rustls has no kind of its own for that.
fn is_an_authoritys(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    format!("{:?}", other.0).contains("CaUsedAsEndEntity")
}
