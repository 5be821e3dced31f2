//! Taking a target down, and its hosts with it: in good order or at once, and then making sure
//! that nothing of it is left.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Site, told};
use crate::Error;
use crate::hosts::{Host, at_once};

/// Between SIGKILL and the end of a process.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often it is looked whether the user wants an end at once.
const GLANCE: Duration = Duration::from_millis(50);

/// How.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Each process is asked first and given its time.
    InOrder,
    /// SIGKILL.
    AtOnce,
}

impl Site {
    /// Ends everything, in the reverse order of the start, and lets go of the hosts. Doing it twice is harmless.
    pub(super) fn take_down(&mut self, manner: Manner) -> Result<(), Error> {
        self.note_hosts();
        // What stands still does not hear that it is to end.
        self.mend();
        match manner {
            Manner::InOrder => {
                for role in self.roles().into_iter().rev() {
                    self.ask_to_end(role.clone());
                    self.end_posts(role);
                }
            }
            Manner::AtOnce => self.end_posts(0..self.posts.len()),
        }
        let had_posts = !self.posts.is_empty();
        for index in 0..self.hosts.len() {
            self.host_down(index, true);
        }
        self.watch();
        self.let_go();
        // What left its process group, or was started by something that did, still carries the mark.
        let (_, left) = if had_posts { self.ledger.marks().end(false) } else { Default::default() };
        if left.is_empty() { Ok(()) } else { Err(Error::Left { pids: left.iter().map(|stat| stat.pid).collect() }) }
    }

    /// The posts of each role, in the order of the start.
    pub(super) fn roles(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let by_role = self.posts.chunk_by(|one, next| one.start.role == next.start.role);
        by_role
            .map(|posts| {
                start += posts.len();
                start - posts.len()..start
            })
            .collect()
    }

    /// Gives all of them the stop signal, and then each its time.
    fn ask_to_end(&mut self, posts: Range<usize>) {
        let asked = Instant::now();
        for index in posts.clone() {
            self.note_end(index);
            let Some(post) = self.posts.get_mut(index) else { return };
            post.end_expected = true;
            if let Some(process) = &mut post.process {
                if post.stops_group {
                    process.signal_group(post.stop_signal);
                } else {
                    process.signal(post.stop_signal);
                }
            }
        }
        for index in posts {
            let Some(post) = self.posts.get_mut(index) else { return };
            let within = Duration::try_from_secs_f64(post.stop_within_s).unwrap_or_default();
            if let Some(process) = &mut post.process {
                // Whoever has lost patience meanwhile is not waited for.
                while !self.at_once.load(Ordering::SeqCst)
                    && asked.elapsed() < within
                    && process.wait(within.saturating_sub(asked.elapsed()).min(GLANCE)).is_none()
                {}
            }
            self.note_end(index);
        }
    }

    /// Kills what is left of all of them.
    fn end_posts(&mut self, posts: Range<usize>) {
        for index in posts.clone() {
            self.note_end(index);
            let Some(post) = self.posts.get_mut(index) else { return };
            post.end_expected = true;
            for process in post.process.iter_mut().chain(&mut post.last) {
                process.signal_group(Signal::KILL);
            }
        }
        for index in posts.rev() {
            if let Some(process) = self.posts.get_mut(index).and_then(|post| post.process.as_mut()) {
                process.wait(PATIENCE);
            }
            self.note_end(index);
        }
    }

    /// A virtual host that is let go of ends all that is in it.
    fn let_go(&mut self) {
        let mut folders: Vec<Vec<String>> = self.hosts.iter().map(|_| Vec::new()).collect();
        for mut post in self.posts.drain(..) {
            // With the process goes whoever reads what it wrote last.
            (post.process, post.last) = (None, None);
            let host = self.hosts.get(post.host).map(|host| host.name()).unwrap_or_default();
            let heard = post.start.ears.take().into_iter().chain(post.start.ears.take_left_out());
            self.observed.extend(heard.map(|heard| told(heard, host, &post.start.role)));
            if let (Some(folders), Some(name)) = (folders.get_mut(post.host), post.folder) {
                folders.push(name);
            }
        }
        self.presence.clear();
        let hosts = std::mem::take(&mut self.hosts).into_iter().zip(folders).collect();
        drop(at_once(hosts, |(host, folders): (Box<dyn Host>, Vec<String>)| {
            folders.iter().for_each(|name| host.remove_folder(name));
            Ok(())
        }));
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // What cannot be ended here stays in the registry's entry.
        let _ = self.take_down(Manner::AtOnce);
    }
}
