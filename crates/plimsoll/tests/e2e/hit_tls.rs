//! `plimsoll hit` on an https URL: the options for trust, and the messages after failed handshakes.
//! The load engine's tests cover TLS itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::hit::echo;
use crate::sandbox::{Played, Sandbox, number};

/// The single name in the server's certificate, next to its address.
const NAME: &str = "shop.example";

/// Server that answers every request by TLS. It ends with the test.
struct Sealed {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
    /// Certificate of the authority that signed the server's certificate, PEM.
    ca: String,
}

impl Sealed {
    /// Starts a server whose certificate has these names.
    fn serve(names: &[&str]) -> Self {
        let (config, ca) = signed_config(names);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (ends, config) = (Arc::new(AtomicBool::new(false)), Arc::new(config));
        let has_ended = Arc::clone(&ends);
        let accept = move || {
            while let Ok((socket, _)) = listener.accept() {
                if has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let session = ServerConnection::new(Arc::clone(&config)).unwrap();
                // The thread ends with its client.
                spawn(move || answer(StreamOwned::new(session, socket)));
            }
        };
        Self { address, ends, acceptor: Some(spawn(accept)), ca }
    }

    fn url(&self) -> String {
        format!("https://{}/", self.address)
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        self.acceptor.take().unwrap().join().unwrap();
    }
}

fn spawn(serve: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new().name("sealed".to_owned()).spawn(serve).unwrap()
}

/// A certificate for a server, its key, and the certificate of the authority that signed it.
pub struct SignedNames {
    pub certificate: rcgen::Certificate,
    pub key: KeyPair,
    /// PEM.
    pub ca: String,
}

/// Signs a certificate for these names.
pub fn signed(names: &[&str]) -> SignedNames {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let ca = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    SignedNames { certificate, key, ca }
}

/// Returns a server's configuration, and the certificate of its authority.
fn signed_config(names: &[&str]) -> (ServerConfig, String) {
    let SignedNames { certificate, key, ca } = signed(names);
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    (config, ca)
}

/// Answers requests without a body, one after the other.
fn answer(stream: StreamOwned<ServerConnection, TcpStream>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).is_ok_and(|length| length > 0) {
        let is_end = line == "\r\n";
        line.clear();
        if is_end && stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_err() {
            return;
        }
    }
}

fn hit(sandbox: &Sandbox, url: &str, more: &[&str]) -> Played {
    sandbox.play(&[&["hit", url, "-c", "2", "-t", "1s", "--accept"], more].concat()).exits(0)
}

/// Returns the numbers of `ok` and `failed` requests.
fn ok_and_failed(results: &Value) -> (f64, f64) {
    (number(results, "/trials/0/outcomes/ok"), number(results, "/trials/0/outcomes/failed"))
}

/// Checks that the advice names options and no keys of a file.
fn says_what_to_do(played: &Played, words: &[&str]) {
    // The text may be wrapped anywhere.
    let said = played.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in words {
        assert!(said.contains(words), "no `{words}` in:\n{}", played.stdout);
    }
    assert!(!said.contains("tls.") && !said.contains("limit of connections"), "{}", played.stdout);
}

#[test]
fn cacert_and_insecure_accept_the_server() {
    let sandbox = Sandbox::new();
    let server = Sealed::serve(&["127.0.0.1"]);
    let ca = sandbox.file("ca.pem", &server.ca);
    let options = ["--cacert", &ca, "--expect", "body=hello", "--json"];
    let (ok, failed) = ok_and_failed(&hit(&sandbox, &server.url(), &options).json());
    assert!(ok > 0.0 && failed == 0.0, "{ok} ok, {failed} failed");
    let (ok, failed) =
        ok_and_failed(&hit(&sandbox, &server.url(), &["--insecure", "--no-keep-alive", "--json"]).json());
    assert!(ok > 0.0 && failed == 0.0, "{ok} ok, {failed} failed");
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn server_name_overrides_the_urls_host() {
    let sandbox = Sandbox::new();
    let server = Sealed::serve(&[NAME]);
    let ca = sandbox.file("ca.pem", &server.ca);
    let named = ["--cacert", &ca, "--server-name", NAME, "--json"];
    let (ok, failed) = ok_and_failed(&hit(&sandbox, &server.url(), &named).json());
    assert!(ok > 0.0 && failed == 0.0, "{ok} ok, {failed} failed");
    let unnamed = hit(&sandbox, &server.url(), &["--cacert", &ca]);
    says_what_to_do(&unnamed, &["tls: bad certificate", "`--server-name`"]);
    unnamed.says(&["it is for shop.example, not for 127.0.0.1"]);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}

#[test]
fn failed_handshakes_are_reported_with_a_remedy() {
    let sandbox = Sandbox::new();
    let server = Sealed::serve(&["127.0.0.1"]);
    let stranger = sandbox.file("ca.pem", &Sealed::serve(&[NAME]).ca);
    let refused = hit(&sandbox, &server.url(), &["--cacert", &stranger]);
    let words =
        ["tls: bad certificate", "TLS handshakes failed", "`--cacert`", "`--insecure`", "-k disables the check"];
    says_what_to_do(&refused, &words);
    refused.says(&["it is not signed by the trusted CA"]);
    let unsealed = hit(&sandbox, &server.url().replace("https:", "http:"), &[]);
    says_what_to_do(&unsealed, &["https://…", "if the server speaks TLS at this port"]);
    let line = ["hit", &server.url().replace("https:", "http:"), "--debug"];
    sandbox.play(&line).exits(4).says(&["write https://"]);
    sandbox.play(&["hit", &server.url(), "--debug"]).exits(4).says(&["its issuer is unknown", "--cacert", "-k"]);
    let (_clear, url) = echo(&sandbox, &[]);
    let unspoken = hit(&sandbox, &url.replace("http:", "https:"), &["-k"]);
    says_what_to_do(&unspoken, &["tls: handshake failed", "it speaks no TLS", "at this port", "http://…"]);
}

#[test]
fn missing_system_certificates_are_reported() {
    let mut sandbox = Sandbox::new();
    let server = Sealed::serve(&["127.0.0.1"]);
    let nobody = sandbox.file("nobody.pem", "");
    sandbox.within("SSL_CERT_FILE=\"$0\" SSL_CERT_DIR=\"$0.none\" exec \"$@\"", Path::new(&nobody));
    let played = sandbox.play(&["hit", &server.url(), "-t", "1s"]).exits(2);
    let played = played.says(&["no system CA certificates found", "`--cacert`"]);
    assert!(!played.stderr.contains("tls.ca"), "{}", played.stderr);
    assert_eq!(sandbox.leftovers(), [""; 0]);
}
