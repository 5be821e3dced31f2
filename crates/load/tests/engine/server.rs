//! Test servers whose answers the test decides.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use wire::protocols::http::Http;
use wire::protocols::lines::Lines;
use wire::protocols::redis::Redis;
use wire::protocols::vsns::Vsns;
pub use wire::protocols::vsns::testing::frame;
use wire::testing::{ReceivedRequest, TestedProtocol as _};

/// A server on its own port. It ends with the test.
pub struct Server {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
    /// Connections accepted so far.
    pub connections: Arc<AtomicUsize>,
    /// Source addresses of the connections.
    pub peers: Arc<Mutex<Vec<IpAddr>>>,
}

/// Map from space and key to value.
type Names = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;
/// Reads a request from a connection.
type Reader = fn(&mut dyn Read) -> Option<ReceivedRequest>;

/// A request as the server sees it.
pub struct Request {
    /// Number of the connection, from 1.
    pub connection: usize,
    /// Number of the request on its connection, from 1.
    pub number: usize,
    /// The frame's request id; 0 for HTTP.
    pub id: u32,
    /// The frame's opcode; 0 for HTTP.
    pub opcode: u8,
    /// Bytes after the opcode. For HTTP, the whole request.
    pub body: Vec<u8>,
}

/// Action of the server in response to a request.
pub enum Reply {
    /// A frame with this status and body.
    Frame(u8, Vec<u8>),
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Sends these bytes, and then closes the connection.
    Last(Vec<u8>),
    /// Sends nothing.
    Silence,
    /// Closes the connection.
    Close,
}

impl Server {
    /// Starts a server for frames of the name service.
    pub fn frames(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Vsns::read_request, handler)
    }

    /// Starts a server for HTTP requests whose bodies have a given length.
    pub fn http(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Http::read_request, handler)
    }

    /// Starts a server for Redis commands. The body holds the words, separated by blanks.
    pub fn redis(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(Redis::read_request, handler)
    }

    /// Starts a server for lines, which first sends `banner`. The body is the line without its end.
    pub fn lines(banner: &'static str, handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(banner, Lines::read_request, handler)
    }

    /// Starts a name service that keeps names. `oops` closes the connection.
    pub fn names() -> Self {
        let names: Mutex<Names> = Mutex::default();
        Self::frames(move |request| {
            let mut names = names.lock().unwrap();
            let (space, rest) = text(&request.body);
            let key = |rest: &[u8]| text(rest).0.to_vec();
            match request.opcode {
                1 => {
                    let (key, value) = text(rest);
                    names.insert((space.to_vec(), key.to_vec()), value[4..].to_vec());
                    Reply::Frame(0, Vec::new())
                }
                2 => match names.get(&(space.to_vec(), key(rest))) {
                    Some(value) => Reply::Frame(0, value.clone()),
                    None => Reply::Frame(1, Vec::new()),
                },
                3 => {
                    let removed = names.remove(&(space.to_vec(), key(rest))).is_some();
                    Reply::Frame(0, vec![u8::from(removed)])
                }
                8 => Reply::Frame(0, Vec::new()),
                _ => Reply::Close,
            }
        })
    }

    fn start(read: Reader, handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with("", read, handler)
    }

    fn start_with(
        banner: &'static str,
        read: Reader,
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (ends, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (has_ended, counted) = (Arc::clone(&ends), Arc::clone(&connections));
        let (handler, peers) = (Arc::new(handler), Arc::<Mutex<Vec<IpAddr>>>::default());
        let seen = Arc::clone(&peers);
        let acceptor = std::thread::Builder::new().spawn(move || {
            while let Ok((mut stream, peer)) = listener.accept() {
                if has_ended.load(Ordering::SeqCst) {
                    return;
                }
                seen.lock().unwrap().push(peer.ip());
                drop(stream.write_all(banner.as_bytes()));
                let connection = counted.fetch_add(1, Ordering::SeqCst) + 1;
                let handler = Arc::clone(&handler);
                std::thread::Builder::new().spawn(move || serve(stream, connection, read, &*handler)).unwrap();
            }
        });
        Self { address, ends, acceptor: Some(acceptor.unwrap()), connections, peers }
    }

    pub fn service(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        self.acceptor.take().unwrap().join().unwrap();
    }
}

/// Returns an address without a listener.
pub fn nobody() -> String {
    fixture::refusing_address().to_string()
}

/// Splits off a text with a length of two bytes. Returns the text and the rest.
pub fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes {
        [high, low, rest @ ..] => rest.split_at(usize::from(u16::from_be_bytes([*high, *low]))),
        _ => (b"", b""),
    }
}

fn serve(mut stream: TcpStream, connection: usize, read: Reader, handler: &dyn Fn(&Request) -> Reply) {
    stream.set_nodelay(true).unwrap();
    let mut number = 0;
    while let Some(ReceivedRequest { id, opcode, body }) = read(&mut stream) {
        number += 1;
        let answer = match handler(&Request { connection, number, id, opcode, body }) {
            Reply::Frame(status, body) => frame(id, status, &body),
            Reply::Bytes(bytes) => bytes,
            Reply::Last(bytes) => {
                drop(stream.write_all(&bytes));
                return;
            }
            Reply::Silence => continue,
            Reply::Close => return,
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}
