//! The built-in target: a server that answers at once, late, or not at all, as configured.
//!
//! It exists to measure the bench, so it must cost less per request than any load generator. It has
//! one thread, edge-triggered epoll, one receive and one send per batch of requests, and answers
//! made in advance. It must not get features of a real server (files, routes, TLS), and it does not
//! depend on the bench that measures it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

mod connection;
mod connection_server;
mod options;
mod protocols;
mod server;

pub use options::{Options, ServedProtocol};
pub use server::{Errors, Listener, ServerBook, Stall};

/// Opens the port. Clients can connect from then on, and are answered once [`Listener::serve`]
/// runs.
///
/// # Errors
///
/// [`Error::Option`] for an impossible option, [`Error::PortTaken`], [`Error::Listen`].
pub fn bind(options: &Options) -> Result<Listener, Error> {
    Listener::bind(options)
}

/// Opens the port and answers until `stop` is true, which is noticed within 50 ms. Returns the
/// times of configured errors and stalls.
///
/// # Errors
///
/// Those of [`bind`] and of [`Listener::serve`].
pub fn serve(options: &Options, stop: &AtomicBool) -> Result<ServerBook, Error> {
    bind(options)?.serve(options, stop)
}

/// Reason why the server did not start or could not continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has an impossible value.
    #[error("echo: {name} must be {must_be}")]
    Option {
        /// Field of [`Options`].
        name: &'static str,
        /// Allowed values.
        must_be: &'static str,
    },
    /// Another program listens on the address.
    #[error("echo: {address} is already in use: another process listens there")]
    PortTaken {
        /// Requested address.
        address: SocketAddr,
    },
    /// The port cannot be opened for another reason.
    #[error("echo: cannot listen on {address}: {source}")]
    Listen {
        /// Requested address.
        address: SocketAddr,
        /// System error.
        source: io::Error,
    },
    /// A system call failed unexpectedly.
    #[error("echo: {call}: {source}")]
    System {
        /// Name of the system call.
        call: &'static str,
        /// System error.
        source: io::Error,
    },
}

impl Error {
    /// Makes the error for `map_err` on a system call.
    pub(crate) fn of(call: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |errno| Self::System { call, source: errno.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::{Error, Options, ServerBook, bind, serve};

    /// Sets the flag even if the test fails, so that the server's thread ends.
    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Runs `test` against a server with these options.
    pub(crate) fn with_server(options: &Options, test: impl FnOnce(SocketAddr)) -> ServerBook {
        let stop = AtomicBool::new(false);
        let listener = bind(options).unwrap();
        let address = listener.address();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| listener.serve(options, &stop));
            {
                let _stop = Stop(&stop);
                test(address);
            }
            server.join().unwrap().unwrap()
        })
    }

    /// Opens a connection with a timeout, so that a failing test does not hang.
    pub(crate) fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Reads exactly this many bytes.
    pub(crate) fn read(stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        stream.read_exact(&mut buffer).unwrap();
        buffer
    }

    /// Reads until the server closes.
    pub(crate) fn read_to_end(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_taken_port_is_a_clear_error() {
        let first = bind(&Options::default()).unwrap();
        let listen = first.address();
        let taken = Options { listen, ..Options::default() };
        for error in [bind(&taken).unwrap_err(), serve(&taken, &AtomicBool::new(true)).unwrap_err()] {
            assert!(matches!(error, Error::PortTaken { address } if address == listen));
            assert_eq!(error.to_string(), format!("echo: {listen} is already in use: another process listens there"));
        }
    }

    #[test]
    fn an_address_of_another_machine_is_an_error() {
        let listen = "192.0.2.1:0".parse().unwrap();
        let error = bind(&Options { listen, ..Options::default() }).unwrap_err();
        assert!(error.to_string().starts_with("echo: cannot listen on 192.0.2.1:0: "), "{error}");
    }

    #[test]
    fn invalid_options_are_refused() {
        let good = Options::default();
        let table = [
            (Options { delay_s: -1.0, ..good.clone() }, "delay_s"),
            (Options { delay_s: f64::NAN, ..good.clone() }, "delay_s"),
            (Options { delay_s: f64::INFINITY, ..good.clone() }, "delay_s"),
            (Options { stall_s: 1.0, ..good.clone() }, "stall_s"),
            (Options { stall_s: 2.0, stall_every_s: 1.0, ..good.clone() }, "stall_s"),
            (Options { errors_for_s: 1.0, errors_every_s: 0.5, ..good.clone() }, "errors_for_s"),
            (Options { errors_every_s: 1e300, ..good.clone() }, "errors_every_s"),
            (Options { work: u64::MAX, ..good.clone() }, "work"),
            (Options { error_status: 200, ..good.clone() }, "error_status"),
            (Options { error_status: 600, ..good.clone() }, "error_status"),
            (Options { body_bytes: (16 << 20) + 1, ..good.clone() }, "body_bytes"),
            (Options { head_limit_bytes: 0, ..good.clone() }, "each limit"),
            (Options { frame_limit_bytes: 1 << 40, ..good.clone() }, "each limit"),
        ];
        for (options, wrong) in table {
            let error = bind(&options).unwrap_err();
            assert!(matches!(error, Error::Option { name, .. } if name == wrong), "{wrong}: {error}");
        }
        let edge = Options { stall_s: 1.0, stall_every_s: 1.0, body_bytes: 16 << 20, error_status: 599, ..good };
        bind(&edge).unwrap();
    }

    #[test]
    fn stopping_closes_every_connection_and_the_port() {
        let mut kept = None;
        with_server(&Options::default(), |address| kept = Some((address, connect(address))));
        let (address, mut stream) = kept.unwrap();
        // Closed or reset: no more data in either case.
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
        assert!(TcpStream::connect(address).is_err());
    }
}
