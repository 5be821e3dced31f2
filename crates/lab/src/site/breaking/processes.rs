//! Faults of a site's processes: signalled, stopped where they stand, started again. It must not touch a host.

use std::time::{Duration, Instant};

use record::events::What;
use rustix::process::Signal;

use crate::Error;
use crate::site::{Observed, Site};

/// For a process that was killed to be gone before it is started again.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// A post that is to be started again.
#[derive(Debug)]
pub(super) struct Restart {
    pub(super) post: usize,
    /// Of the process that was asked to end.
    pid: u32,
    /// Then it is killed.
    give_up: Instant,
    /// Between its end and its start.
    wait: Duration,
    /// When it is started, once it has ended.
    due: Option<Instant>,
}

impl Site {
    /// Signals a post's process; a command with all that it started, for it is only the way to that. From now on its end is
    /// meant, if `ends`. An error if it does not run.
    pub(crate) fn signal(&mut self, index: usize, signal: Signal, ends: bool) -> Result<(), Error> {
        self.note_end(index);
        let post = self.posts.get_mut(index).ok_or_else(does_not_run)?;
        let process = post.process.as_mut().ok_or_else(does_not_run)?;
        if post.stops_group {
            process.signal_group(signal);
        } else {
            process.signal(signal);
        }
        post.end_expected |= ends;
        Ok(())
    }

    /// Remembers whom an occurrence of a fault hit, for its healing.
    pub(crate) fn remember_hit(&mut self, fault: &str, number: u32, posts: Vec<usize>) {
        self.broken.hit.insert((fault.to_owned(), number), posts);
    }

    pub(crate) fn take_hit(&mut self, fault: &str, number: u32) -> Vec<usize> {
        self.broken.hit.remove(&(fault.to_owned(), number)).unwrap_or_default()
    }

    /// Starts a post's process again, with the same ports and data, if it has ended. What is left of the one before is
    /// killed first: it may hold the port. A process whose end was meant gets a moment for it.
    pub(crate) fn start_again(&mut self, index: usize) -> Result<(), Error> {
        self.note_end(index);
        let Some(post) = self.posts.get_mut(index) else { return Ok(()) };
        if let (Some(process), true) = (&mut post.process, post.end_expected) {
            process.wait(END_PATIENCE);
        }
        self.note_end(index);
        let Some(post) = self.posts.get_mut(index) else { return Ok(()) };
        if post.process.is_some() {
            let lives_on = format!("`{}` did not end, so there is nothing to start again", post.start.role);
            return if post.end_expected { Err(Error::Fault(lives_on)) } else { Ok(()) };
        }
        if let Some(mut last) = post.last.take() {
            last.signal_group(Signal::KILL);
        }
        self.start_post(index)
    }

    /// Stops a post's process and all of its group where they stand. An error if it does not run.
    pub(crate) fn pause(&mut self, index: usize, key: &str) -> Result<(), Error> {
        self.note_end(index);
        let process = self.posts.get_mut(index).and_then(|post| post.process.as_mut()).ok_or_else(does_not_run)?;
        process.signal_group(Signal::STOP);
        self.broken.paused.push((key.to_owned(), index));
        Ok(())
    }

    /// Lets go on whom this occurrence holds, unless another holds it, too.
    pub(crate) fn unpause(&mut self, key: &str) {
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken.paused).into_iter().partition(|(holder, _)| holder == key);
        self.broken.paused = others;
        for (_, index) in own {
            if !self.broken.paused.iter().any(|(_, held)| *held == index) {
                self.go_on(index);
            }
        }
    }

    pub(super) fn go_on(&mut self, index: usize) {
        let Some(post) = self.posts.get_mut(index) else { return };
        // Of one that has ended, others of its group may still stand.
        for process in [&mut post.process, &mut post.last].into_iter().flatten() {
            process.signal_group(Signal::CONT);
        }
    }

    /// Asks a post's process to end; once it has, and `wait` later, it is started again. An error if it does not run.
    pub(crate) fn restart(&mut self, index: usize, wait: Duration) -> Result<(), Error> {
        let post = self.posts.get(index).ok_or_else(does_not_run)?;
        if self.broken.restarts.iter().any(|restart| restart.post == index) {
            return Err(Error::Fault("its process is being restarted already".to_owned()));
        }
        let pid = post.process.as_ref().map_or(0, |process| process.pid());
        let within = Duration::try_from_secs_f64(post.stop_within_s).unwrap_or_default();
        self.signal(index, post.stop_signal, true)?;
        let give_up = Instant::now() + within;
        self.broken.restarts.push(Restart { post: index, pid, give_up, wait, due: None });
        Ok(())
    }

    /// Looks after the processes that are to be started again: kills those that do not end, starts those that have.
    pub(in crate::site) fn go_on_restarting(&mut self) {
        let mut open = Vec::new();
        for mut restart in std::mem::take(&mut self.broken.restarts) {
            let now = Instant::now();
            let process = self.posts[restart.post].process.as_ref();
            let runs = process.is_some_and(|process| process.pid() == restart.pid);
            if runs && now >= restart.give_up {
                // Whoever has been asked and does not go is not asked again.
                self.posts[restart.post].process.iter_mut().for_each(|process| process.signal_group(Signal::KILL));
            }
            if !runs && restart.due.is_none() {
                restart.due = Some(now + restart.wait);
            }
            match restart.due {
                Some(due) if now >= due => {
                    if let Err(error) = self.start_again(restart.post) {
                        let role = &self.posts[restart.post].start.role;
                        let text = format!("`{role}` could not be started again: {error}");
                        self.observed.push_back(Observed { at: now, what: What::Notice { text } });
                    }
                }
                _ => open.push(restart),
            }
        }
        self.broken.restarts = open;
    }
}

fn does_not_run() -> Error {
    Error::Fault("its process does not run".to_owned())
}
