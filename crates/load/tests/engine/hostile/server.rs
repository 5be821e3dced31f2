//! A target that performs a list of actions on each connection. It stays simple, so that a case can
//! be read from its list.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use load::protocols;
use rustix::event::{Timespec, poll};
use rustix::net::sockopt::set_socket_linger;
use wire::testing::hostile::PeerAction;
use wire::testing::{ReceivedRequest, read_until};

use super::encryption::TargetStream;

/// Pause between two bytes of a [`PeerAction::Drip`].
const DRIP: Duration = Duration::from_millis(50);
/// Number of bytes per write of a [`PeerAction::Endless`].
const BLOCK: usize = 64 * 1024;

/// Reads a request.
type Reader = fn(&mut dyn Read) -> Option<ReceivedRequest>;
/// Unexpected errors on the target's connections.
type Troubles = Arc<Mutex<Vec<Error>>>;

/// A target on its own port. It ends with the test.
pub struct Hostile {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    troubles: Troubles,
    acceptor: Option<JoinHandle<()>>,
}

impl Hostile {
    /// Starts a target that performs these actions on each connection.
    pub fn start(protocol: &str, actions: &'static [PeerAction]) -> Self {
        let read = protocols::find(protocol).unwrap().tests.read_request;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let troubles = Troubles::default();
        let (has_ended, seen) = (Arc::clone(&ends), Arc::clone(&troubles));
        let acceptor = std::thread::Builder::new().spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if has_ended.load(Ordering::SeqCst) {
                    return;
                }
                // An error on a connection should mean that the other side has gone.
                let (ends, seen) = (Arc::clone(&has_ended), Arc::clone(&seen));
                let play = move || {
                    if let Err(trouble) = act(stream, read, actions, &ends) {
                        seen.lock().unwrap().push(trouble);
                    }
                };
                std::thread::Builder::new().spawn(play).unwrap();
            }
        });
        Self { address, ends, troubles, acceptor: Some(acceptor.unwrap()) }
    }

    /// Returns the unexpected errors on connections as text.
    pub fn troubles(&self) -> String {
        format!("{:?}", self.troubles.lock().unwrap())
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        self.acceptor.take().unwrap().join().unwrap();
    }
}

fn act(stream: TcpStream, read: Reader, actions: &[PeerAction], ends: &AtomicBool) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let mut stream = TargetStream::Clear(stream);
    let (mut place, mut id) = (0, 0);
    while let Some(action) = actions.get(place) {
        place += 1;
        match *action {
            PeerAction::Shake => stream.shake()?,
            PeerAction::BeginToShake => stream.begin_to_shake()?,
            PeerAction::Hear => id = read(&mut stream).ok_or(ErrorKind::UnexpectedEof)?.id,
            PeerAction::HearHead => drop(read_until(&mut stream, b"\r\n\r\n")),
            PeerAction::HearAnything => drop(stream.read(&mut [0; 4096])?),
            PeerAction::Say(bytes) => say(&mut stream, bytes)?,
            PeerAction::SayBare(bytes) => say(stream.socket(), bytes)?,
            PeerAction::Reply(make) => say(&mut stream, &make(id))?,
            PeerAction::Drip(bytes) => drip(&mut stream, bytes)?,
            PeerAction::Endless(bytes) => endless(&mut stream, bytes)?,
            PeerAction::EndlessBare(bytes) => endless(stream.socket(), bytes)?,
            PeerAction::EndlessKeys => stream.change_keys()?,
            PeerAction::Part => stream.part()?,
            PeerAction::Fin => stream.socket().shutdown(Shutdown::Write)?,
            PeerAction::Deaf => stream.socket().shutdown(Shutdown::Read)?,
            PeerAction::Wait => while stream.read(&mut [0; 4096])? > 0 {},
            PeerAction::Stay => stay(ends)?,
            PeerAction::Reset => {
                set_socket_linger(stream.socket(), Some(Duration::ZERO))?;
                return Ok(());
            }
            PeerAction::Again => place = 0,
        }
    }
    Ok(())
}

fn stay(ends: &AtomicBool) -> Result<(), Error> {
    while !ends.load(Ordering::SeqCst) {
        poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 }))?;
    }
    Ok(())
}

fn say(to: &mut impl Write, bytes: &[u8]) -> Result<(), Error> {
    to.write_all(bytes)?;
    to.flush()
}

fn endless(to: &mut impl Write, bytes: &[u8]) -> Result<(), Error> {
    let block = bytes.repeat(BLOCK.div_ceil(bytes.len()));
    loop {
        say(to, &block)?;
    }
}

fn drip(stream: &mut TargetStream, bytes: &[u8]) -> Result<(), Error> {
    stream.socket().set_read_timeout(Some(DRIP))?;
    let (_, said) = bytes.split_last().expect("something drips");
    let mut said = said.iter();
    loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return Err(Error::from(ErrorKind::UnexpectedEof)),
            Err(error) if ![ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {
                return Err(error);
            }
            Ok(_) | Err(_) => {}
        }
        if let Some(byte) = said.next() {
            say(stream, &[*byte])?;
        }
    }
}
