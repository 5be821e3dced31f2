//! A target that does on each connection what a list of deeds says. It must not be clever: a case is read as its list.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use super::Speech;
use super::wire::Wire;
use crate::server::{read_frame, read_http, read_line, read_words};

/// Between two bytes of a [`Deed::Drip`].
const DRIP: Duration = Duration::from_millis(50);
/// Bytes that are sent at once of a [`Deed::Endless`].
const BLOCK: usize = 64 * 1024;

/// Something that a target does on a connection. After the last deed it closes.
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// The two sides agree on keys; what is said from then on is sealed.
    Shake,
    /// Takes the first word of that, and says half of the target's.
    BeginToShake,
    /// Takes a whole request.
    Hear,
    /// Takes the header block of a request, and leaves its body where it is.
    HearHead,
    /// Takes whatever comes at once.
    HearAnything,
    /// Sends these bytes.
    Say(&'static [u8]),
    /// Sends these bytes as they are, where others are sealed.
    SayBare(&'static [u8]),
    /// Sends what is made for the number of the last request.
    Reply(fn(u32) -> Vec<u8>),
    /// Sends these bytes one by one, with a pause before each; the last of them never, so that however patient the other side is, it
    /// is in vain.
    Drip(&'static [u8]),
    /// Sends these bytes again and again, until nobody takes them.
    Endless(&'static [u8]),
    /// The same, as they are, where others are sealed.
    EndlessBare(&'static [u8]),
    /// Asks for new keys, again and again.
    EndlessKeys,
    /// Ends the session, and says so.
    Part,
    /// Ends its sending side.
    Fin,
    /// Ends its receiving side.
    Deaf,
    /// Takes whatever comes, until the other side ends.
    Wait,
    /// Takes nothing, until the test ends.
    Stay,
    /// Resets the connection.
    Reset,
    /// From the first deed again.
    Again,
}

/// How its connections ended, where that was not as it wished.
type Troubles = Arc<Mutex<Vec<Error>>>;

/// A target on a port of its own; it ends with the test.
pub struct Hostile {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    troubles: Troubles,
    acceptor: Option<JoinHandle<()>>,
}

impl Hostile {
    /// Does these deeds on each connection.
    pub fn start(speech: Speech, deeds: &'static [Deed]) -> Self {
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
                // What goes wrong on a connection should be that the other side has gone.
                let (ends, seen) = (Arc::clone(&has_ended), Arc::clone(&seen));
                let play = move || {
                    if let Err(trouble) = act(stream, speech, deeds, &ends) {
                        seen.lock().unwrap().push(trouble);
                    }
                };
                std::thread::Builder::new().spawn(play).unwrap();
            }
        });
        Self { address, ends, troubles, acceptor: Some(acceptor.unwrap()) }
    }

    /// How its connections ended, where that was not as it wished.
    pub fn troubles(&self) -> String {
        format!("{:?}", self.troubles.lock().unwrap())
    }

    /// Where it listens.
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

fn act(stream: TcpStream, speech: Speech, deeds: &[Deed], ends: &AtomicBool) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let mut wire = Wire::Clear(stream);
    let (mut place, mut id) = (0, 0);
    while let Some(deed) = deeds.get(place) {
        place += 1;
        match *deed {
            Deed::Shake => wire.shake()?,
            Deed::BeginToShake => wire.begin_to_shake()?,
            Deed::Hear => id = hear(&mut wire, speech)?,
            Deed::HearHead => hear_head(&mut wire)?,
            Deed::HearAnything => drop(wire.read(&mut [0; 4096])?),
            Deed::Say(bytes) => say(&mut wire, bytes)?,
            Deed::SayBare(bytes) => say(wire.socket(), bytes)?,
            Deed::Reply(make) => say(&mut wire, &make(id))?,
            Deed::Drip(bytes) => drip(&mut wire, bytes)?,
            Deed::Endless(bytes) => endless(&mut wire, bytes)?,
            Deed::EndlessBare(bytes) => endless(wire.socket(), bytes)?,
            Deed::EndlessKeys => wire.change_keys()?,
            Deed::Part => wire.part()?,
            Deed::Fin => wire.socket().shutdown(Shutdown::Write)?,
            Deed::Deaf => wire.socket().shutdown(Shutdown::Read)?,
            Deed::Wait => while wire.read(&mut [0; 4096])? > 0 {},
            Deed::Stay => stay(ends)?,
            Deed::Reset => {
                set_socket_linger(wire.socket(), Some(Duration::ZERO))?;
                return Ok(());
            }
            Deed::Again => place = 0,
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

/// Takes a request; its number, where it has one.
fn hear(wire: &mut Wire, speech: Speech) -> Result<u32, Error> {
    let request = match speech {
        Speech::Http | Speech::Https => read_http(wire),
        Speech::Vsns => read_frame(wire),
        Speech::Redis | Speech::Greeted => read_words(wire),
        Speech::Lines | Speech::Banner => read_line(wire),
    };
    request.map(|(id, ..)| id).ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))
}

fn hear_head(wire: &mut Wire) -> Result<(), Error> {
    let mut heard = Vec::new();
    let mut byte = [0];
    while !heard.ends_with(b"\r\n\r\n") {
        wire.read_exact(&mut byte)?;
        heard.push(byte[0]);
    }
    Ok(())
}

fn drip(wire: &mut Wire, bytes: &[u8]) -> Result<(), Error> {
    wire.socket().set_read_timeout(Some(DRIP))?;
    let (_, said) = bytes.split_last().expect("something drips");
    let mut said = said.iter();
    loop {
        match wire.read(&mut [0; 4096]) {
            Ok(0) => return Err(Error::from(ErrorKind::UnexpectedEof)),
            Err(error) if ![ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => {
                return Err(error);
            }
            Ok(_) | Err(_) => {}
        }
        if let Some(byte) = said.next() {
            say(wire, &[*byte])?;
        }
    }
}
