//! TLS servers with certificates that the test creates.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use experiment::plan::Tls;
use fixture::TestDir;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use wire::protocols::http::Http;
use wire::testing::TestedProtocol as _;

/// The server's side of a connection.
pub type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A certificate authority, with its own certificate in a file.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TestDir,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = TestDir::new();
        folder.write("ca.pem", params.self_signed(&key).unwrap().pem());
        Self { issuer: Issuer::new(params, key), folder }
    }

    /// Returns TLS settings that trust this authority.
    pub fn trusted(&self) -> Tls {
        Tls { ca: Some(self.folder.join("ca.pem").display().to_string()), ..Tls::default() }
    }

    /// Returns a server configuration with a certificate for these names.
    pub fn vouch(&self, names: &[&str], change: impl Fn(&mut CertificateParams)) -> ServerConfig {
        self.vouch_by(names, change, rustls::DEFAULT_VERSIONS)
    }

    /// Returns a server configuration with a self-signed certificate, as `openssl req -x509` makes
    /// them, and a file with it.
    pub fn of_itself(names: &[&str], change: impl Fn(&mut CertificateParams)) -> (ServerConfig, Self) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let authority = Self::new();
        authority.folder.write("ca.pem", certificate.pem());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        (config, authority)
    }

    /// Returns a server configuration that requests client certificates signed by `clients`.
    pub fn vouch_and_ask(
        &self,
        names: &[&str],
        clients: &Self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ServerConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(clients.folder.join("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap()
    }

    /// Returns a client's certificate and key in PEM.
    pub fn identity(&self) -> (String, String) {
        self.identity_of("client.example")
    }

    /// Returns a certificate for this name and its key, in PEM.
    pub fn identity_of(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    pub fn vouch_by(
        &self,
        names: &[&str],
        change: impl Fn(&mut CertificateParams),
        versions: &[&'static SupportedProtocolVersion],
    ) -> ServerConfig {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap()
    }
}

/// Makes a certificate expired.
pub fn expired(params: &mut CertificateParams) {
    params.not_after = date_time_ymd(2001, 1, 1);
}

/// A server on its own port. It ends with the test.
pub struct Secret {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
    /// Kind of each handshake.
    pub handshakes: Arc<Mutex<Vec<HandshakeKind>>>,
}

impl Secret {
    /// Passes each request, head and body, to `answer`, until `answer` returns false.
    pub fn serve(config: ServerConfig, answer: impl Fn(&mut Stream, &[u8]) -> bool + Send + Sync + 'static) -> Self {
        let handshakes: Arc<Mutex<Vec<HandshakeKind>>> = Arc::default();
        let (config, seen) = (Arc::new(config), Arc::clone(&handshakes));
        let serve = move |socket: TcpStream| {
            let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), socket);
            let mut is_first = true;
            while let Some(request) = read(&mut stream) {
                if std::mem::take(&mut is_first) {
                    seen.lock().unwrap().push(stream.conn.handshake_kind().unwrap());
                }
                if !answer(&mut stream, &request) {
                    return;
                }
            }
        };
        let (address, ends, acceptor) = listen(serve);
        Self { address, ends, acceptor: Some(acceptor), handshakes }
    }

    /// Passes each connection to `serve` before any byte is exchanged.
    pub fn raw(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let (address, ends, acceptor) = listen(serve);
        Self { address, ends, acceptor: Some(acceptor), handshakes: Arc::default() }
    }

    pub fn service(&self) -> String {
        format!("https://127.0.0.1:{}/", self.address.port())
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        self.acceptor.take().unwrap().join().unwrap();
    }
}

fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicBool>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let (has_ended, serve) = (Arc::clone(&ends), Arc::new(serve));
    let accept = move || {
        while let Ok((socket, _)) = listener.accept() {
            if has_ended.load(Ordering::SeqCst) {
                return;
            }
            socket.set_nodelay(true).unwrap();
            let serve = Arc::clone(&serve);
            std::thread::Builder::new().spawn(move || serve(socket)).unwrap();
        }
    };
    (address, ends, std::thread::Builder::new().spawn(accept).unwrap())
}

/// Reads a request, head and body.
fn read(stream: &mut Stream) -> Option<Vec<u8>> {
    Http::read_request(stream).map(|request| request.body)
}

/// Returns a handler that always sends this answer and keeps the connection.
pub fn always(answer: impl AsRef<[u8]> + Send + Sync + 'static) -> impl Fn(&mut Stream, &[u8]) -> bool {
    move |stream, _| stream.write_all(answer.as_ref()).and_then(|()| stream.flush()).is_ok()
}
