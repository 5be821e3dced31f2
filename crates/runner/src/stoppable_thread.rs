//! A thread that works beside the orders until whoever holds it lets go.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The thread. Dropped, it is told to stop and waited for.
#[derive(Debug)]
pub struct StoppableThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StoppableThread {
    /// Starts it.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(name: &str, work: impl FnOnce(&StopSignal) + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name(name.to_owned()).spawn(move || work(&StopSignal(stopped)))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for StoppableThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What tells the thread to stop.
#[derive(Debug)]
pub struct StopSignal(Receiver<()>);

impl StopSignal {
    /// Waits so long. False: the thread is to stop, at once.
    #[must_use]
    pub fn waits(&self, time: Duration) -> bool {
        self.0.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }
}
