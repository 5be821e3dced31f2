//! Taking a target down: in good order or at once, and then making sure that nothing of it is left. It must not stop at
//! the first thing that resists.

use std::time::Duration;

use rustix::process::Signal;

use super::Site;
use crate::Error;

/// Between SIGKILL and the end of a process.
const PATIENCE: Duration = Duration::from_secs(5);

/// How.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Each process is asked first and given its time.
    InOrder,
    /// SIGKILL.
    AtOnce,
}

impl Site {
    /// Ends everything, in the reverse order of the start. Doing it twice is harmless.
    pub(super) fn take_down(&mut self, manner: Manner) -> Result<(), Error> {
        // What stands still does not hear that it is to end.
        self.mend();
        for index in (0..self.posts.len()).rev() {
            self.note_end(index);
            self.end_post(index, manner);
            self.note_end(index);
        }
        // What left its process group, or was started by something that did, still carries the mark.
        let (_, left) = if self.posts.is_empty() { Default::default() } else { self.ledger.marks().end(false) };
        for index in 0..self.posts.len() {
            self.note_end(index);
        }
        self.remove_folders();
        self.watch();
        if left.is_empty() { Ok(()) } else { Err(Error::Left { pids: left.iter().map(|stat| stat.pid).collect() }) }
    }

    fn end_post(&mut self, index: usize, manner: Manner) {
        let Some(post) = self.posts.get_mut(index) else { return };
        post.end_expected = true;
        let (signal, stops_group) = (post.stop_signal, post.stops_group);
        let within = Duration::try_from_secs_f64(post.stop_within_s).unwrap_or_default();
        if let Some(process) = &mut post.process {
            if manner == Manner::InOrder {
                if stops_group {
                    process.signal_group(signal);
                } else {
                    process.signal(signal);
                }
                process.wait(within);
            }
            process.signal_group(Signal::KILL);
            process.wait(PATIENCE);
        }
        if let Some(last) = &mut post.last {
            last.signal_group(Signal::KILL);
        }
    }

    fn remove_folders(&mut self) {
        for post in &mut self.posts {
            if let Some(name) = post.folder.take() {
                self.hosts[post.host].remove_folder(&name);
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What cannot be ended here stays in the registry's entry.
        let _ = self.take_down(Manner::AtOnce);
    }
}
