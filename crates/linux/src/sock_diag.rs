//! Open sockets and their connections, from sock_diag(7). For the local domain `/proc/net/unix`
//! does not name the other end, and for TCP `/proc/net/tcp` also lists all recently ended
//! connections.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

/// A socket of the local domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixSocket {
    /// Inode number, as in `/proc/PID/fd`.
    pub inode: u64,
    /// Whether the socket waits for connections.
    pub is_listening: bool,
    /// Address: a path or an abstract name. An accepted socket has its listener's address. A client
    /// usually has none.
    pub name: Option<Vec<u8>>,
    /// Inode number of the socket at the other end.
    pub peer: Option<u64>,
}

/// A TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSocket {
    /// Local address. An IPv6 socket for an IPv4 address has the IPv4 address. The unspecified
    /// address stands for all addresses.
    pub address: SocketAddr,
    /// Address of the other end. `None` if the socket waits for connections.
    pub remote: Option<SocketAddr>,
    /// User that created the socket.
    pub uid: u32,
    /// Inode number, as in `/proc/PID/fd`. 0 if no process has the socket open.
    pub inode: u64,
}

impl TcpSocket {
    /// Returns the socket's name as it appears in `/proc/PID/fd`.
    pub fn link(&self) -> String {
        format!("socket:[{}]", self.inode)
    }
}

// Constants from linux/netlink.h, sock_diag.h, unix_diag.h, inet_diag.h and net/tcp_states.h.
const HEADER_BYTES: usize = 16;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const DUMP: u16 = 0x301;
const AF_UNIX: u8 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;
/// All states except `TCP_SYN_RECV`, `TCP_TIME_WAIT` and `TCP_CLOSE`, in which no process has a
/// socket.
const OPEN_STATES: u32 = 0xf36;
/// `UDIAG_SHOW_NAME | UDIAG_SHOW_PEER`
const NAME_AND_PEER: u32 = 5;
const ATTRIBUTE_NAME: u16 = 0;
const ATTRIBUTE_PEER: u16 = 2;
/// Size of `unix_diag_msg` in bytes.
const UNIX_MESSAGE_BYTES: usize = 16;

/// Returns the sockets of the local domain of this network namespace that are connected or wait for
/// connections.
pub fn unix_sockets() -> io::Result<Vec<UnixSocket>> {
    let mut request = vec![AF_UNIX, 0, 0, 0];
    request.extend((1_u32 << ESTABLISHED | 1 << LISTEN).to_ne_bytes());
    request.extend([0; 4]);
    request.extend(NAME_AND_PEER.to_ne_bytes());
    // No cookie.
    request.extend([0xff; 8]);
    dump(&request, unix_socket)
}

/// Returns the open TCP sockets of this network namespace, and connections that wait to be
/// accepted.
pub fn tcp_sockets() -> io::Result<Vec<TcpSocket>> {
    let mut sockets = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let mut request = vec![family, IPPROTO_TCP, 0, 0];
        request.extend(OPEN_STATES.to_ne_bytes());
        // Zeros select all ports, addresses and interfaces.
        request.extend([0; 48]);
        sockets.extend(dump(&request, tcp_socket)?);
    }
    Ok(sockets)
}

/// Returns the kernel's list for a request.
fn dump<T>(request: &[u8], read: fn(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    let length = u32::try_from(HEADER_BYTES + request.len()).unwrap_or_default();
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(DUMP.to_ne_bytes());
    // Sequence and sender are 0.
    message.extend([0; 8]);
    message.extend(request);
    send(&kernel, &message, SendFlags::empty())?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let (length, _) = recv(&kernel, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || !read_messages(&buffer[..length], &mut |message| found.extend(read(message)))? {
            return Ok(found);
        }
    }
}

/// Visits each message in a part of the reply. Returns false after the last part.
fn read_messages(mut bytes: &[u8], visit: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let Some(message) = bytes.get(HEADER_BYTES..length as usize) else { return Ok(false) };
        match kind {
            DONE => return Ok(false),
            ERROR => {
                let code = u32_at(message, 0).unwrap_or_default().cast_signed();
                return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
            }
            _ => visit(message),
        }
        bytes = bytes.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// Reads `unix_diag_msg` and its attributes.
fn unix_socket(message: &[u8]) -> Option<UnixSocket> {
    let is_listening = *message.get(2)? == LISTEN;
    let mut socket = UnixSocket { inode: u32_at(message, 4)?.into(), is_listening, name: None, peer: None };
    let mut attributes = message.get(UNIX_MESSAGE_BYTES..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let Some(value) = attributes.get(4..length.into()) else { break };
        match kind {
            ATTRIBUTE_NAME => socket.name = Some(value.to_vec()).filter(|name| !name.is_empty()),
            ATTRIBUTE_PEER => socket.peer = u32_at(value, 0).map(u64::from),
            _ => {}
        }
        attributes = attributes.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
}

/// Reads `inet_diag_msg`.
fn tcp_socket(message: &[u8]) -> Option<TcpSocket> {
    let [local, remote] = [(4, 8), (6, 24)].map(|(port, ip)| {
        let ip: IpAddr = match *message.first()? {
            AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(message.get(ip..ip + 4)?).ok()?).into(),
            _ => IpAddr::from(<[u8; 16]>::try_from(message.get(ip..ip + 16)?).ok()?).to_canonical(),
        };
        // Ports and addresses are in network byte order.
        let port = u16::from_be_bytes(message.get(port..port + 2)?.try_into().ok()?);
        Some(SocketAddr::new(ip, port))
    });
    let remote = if *message.get(1)? == LISTEN { None } else { Some(remote?) };
    let (uid, inode) = (u32_at(message, 64)?, u32_at(message, 68)?.into());
    Some(TcpSocket { address: local?, remote, uid, inode })
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(place..place + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    bytes.get(place..place + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::{UnixListener, UnixStream};

    use fixture::TestDir;

    use super::*;

    fn inode(socket: &impl AsFd) -> u64 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_fd().as_raw_fd())).unwrap();
        link.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn unix_sockets_name_their_peer_and_listener() {
        let scratch = TestDir::new();
        let path = scratch.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let all = unix_sockets().unwrap();
        let of = |inode: u64| all.iter().find(|socket| socket.inode == inode).unwrap();
        assert!(of(inode(&listener)).is_listening && !of(inode(&client)).is_listening);
        assert_eq!(of(inode(&client)).peer, Some(inode(&accepted)));
        assert_eq!(of(inode(&accepted)).peer, Some(inode(&client)));
        assert_eq!(of(inode(&accepted)).name, of(inode(&listener)).name);
        assert!(of(inode(&accepted)).name.is_some() && of(inode(&client)).name.is_none());
    }

    #[test]
    fn tcp_sockets_are_listed_with_both_addresses() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                eprintln!("NOT TESTED: {address} is no address here");
                continue;
            };
            let port = listener.local_addr().unwrap().port();
            let client =
                TcpStream::connect(("127.0.0.1", port)).or_else(|_| TcpStream::connect(("::1", port))).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            let all = tcp_sockets().unwrap();
            let of = |inode: u64| all.iter().find(|socket| socket.inode == inode).unwrap();
            assert_eq!(
                (of(inode(&listener)).address, of(inode(&listener)).remote),
                (listener.local_addr().unwrap(), None)
            );
            let (from, to) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            assert_eq!((of(inode(&client)).address, of(inode(&client)).remote), (from, Some(to)));
            assert_eq!((of(inode(&accepted)).address, of(inode(&accepted)).remote), (to, Some(from)));
            assert_eq!(of(inode(&client)).uid, rustix::process::getuid().as_raw());
        }
    }

    #[test]
    fn truncated_answers_and_errors_end_the_reading() {
        let mut visit = |message: &[u8]| panic!("{message:?}");
        assert!(!read_messages(&[200, 0, 0, 0, 20, 0, 0, 0], &mut visit).unwrap());
        let refusal = [&20_u32.to_ne_bytes()[..], &ERROR.to_ne_bytes(), &[0; 10], &(-2_i32).to_ne_bytes()].concat();
        assert_eq!(read_messages(&refusal, &mut visit).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!((tcp_socket(&[AF_INET, LISTEN, 0]), unix_socket(&[1])), (None, None));
    }
}
