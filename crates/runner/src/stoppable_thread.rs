//! A background thread that runs until its handle is dropped.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Handle of the thread. Dropping it stops the thread and waits for its end.
#[derive(Debug)]
pub struct StoppableThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StoppableThread {
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

/// Signal that stops the thread.
#[derive(Debug)]
pub struct StopSignal(Receiver<()>);

impl StopSignal {
    /// Waits for `time`. Returns false at once if the thread must stop.
    #[must_use]
    pub fn waits(&self, time: Duration) -> bool {
        self.0.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }
}
