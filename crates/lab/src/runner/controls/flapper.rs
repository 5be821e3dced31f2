//! A link that goes up and down again and again, on a thread of its own. It must not know why.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Hands;

/// Flaps until it is dropped, and leaves the link as it stands then.
pub(super) struct Flapper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Flapper {
    /// The link is down already.
    pub fn start(hands: Arc<dyn Hands>, down_s: f64, up_s: f64) -> io::Result<Self> {
        let time = |time_s: f64| Duration::try_from_secs_f64(time_s).unwrap_or_default();
        let (down, up) = (time(down_s), time(up_s));
        let (stop, stopped) = channel();
        let thread =
            std::thread::Builder::new().name("flapper".to_owned()).spawn(move || flap(&*hands, &stopped, down, up))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

fn flap(hands: &dyn Hands, stopped: &Receiver<()>, down: Duration, up: Duration) {
    // What is refused now may not be the next time, and nobody is there to tell.
    let waits = |time| matches!(stopped.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    while waits(down) {
        let _ = hands.carrier(true);
        if !waits(up) {
            return;
        }
        let _ = hands.carrier(false);
    }
}

impl Drop for Flapper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
