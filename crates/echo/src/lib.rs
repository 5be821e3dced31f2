//! The built-in target: a server that answers at once, late, or not at all, as told.
//!
//! It exists to measure the bench, so it must cost less per request than any load generator: one thread, edge-triggered
//! epoll, one receive and one send for a batch of requests, answers made in advance. It must not grow features of a
//! real server (files, routes, TLS), and it knows nothing of the bench that measures it.

mod connection;
mod desk;
mod error;
mod listener;
mod monotonic;
mod options;
mod protocols;
mod schedule;
mod server;
mod slots;
mod workers;

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;

pub use error::Error;
pub use listener::Listener;
pub use options::{Options, Protocol};
pub use server::Errors;

/// Opens the port; clients may connect from now on and are answered once [`Listener::serve`] runs.
///
/// # Errors
///
/// [`Error::Option`] for an impossible option, [`Error::PortTaken`], [`Error::Listen`].
pub fn bind(options: &Options) -> Result<Listener, Error> {
    Listener::bind(options)
}

/// Opens the port and answers until `stop` is true, which is noticed within 50 ms. Says when it answered with errors, as it was
/// told to.
///
/// # Errors
///
/// Those of [`bind`] and of [`Listener::serve`].
pub fn serve(options: &Options, stop: &AtomicBool) -> Result<Vec<Errors>, Error> {
    bind(options)?.serve(options, stop)
}
