//! A program that runs: its input written, its outputs read, its end awaited, and its group killed then and whenever nobody wants to know
//! any more. It must not know what it is for.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionbio, read, write};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::protocols::command::frames::How;

/// Bytes of an output that are kept.
const OUTPUT_LIMIT: usize = 1024 * 1024;
/// Bytes that are read at once.
const BUFFER: usize = 64 * 1024;
/// Most reads of an output before others get their turn. A pipe holds less than comes of so many, so what a program that has ended
/// left in one is read to its end.
const READS: usize = 64;

/// A program that runs.
pub struct Running {
    child: Child,
    group: Pid,
    /// Readable when it has ended.
    handle: OwnedFd,
    input: Option<Input>,
    outputs: [Output; 2],
    buffer: Vec<u8>,
    /// Whether its group was killed.
    is_over: bool,
}

/// What it still has to read.
struct Input {
    pipe: OwnedFd,
    bytes: Vec<u8>,
    at: usize,
}

/// What it has written.
#[derive(Default)]
pub struct Output {
    pipe: Option<OwnedFd>,
    /// The beginning.
    pub kept: Vec<u8>,
    /// Whether there was more.
    pub is_cut: bool,
}

impl Running {
    /// Takes charge of a program that has just been started, in a process group of its own.
    pub fn of(mut child: Child, stdin: Option<&[u8]>) -> io::Result<Self> {
        let group = Pid::from_child(&child);
        let handle = pidfd_open(group, PidfdFlags::empty());
        let pipe = child.stdin.take().map(OwnedFd::from);
        let input = pipe.zip(stdin).map(|(pipe, bytes)| Input { pipe, bytes: bytes.to_vec(), at: 0 });
        let outputs = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        let handle = match handle {
            Ok(handle) => handle,
            Err(errno) => {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = child.wait();
                return Err(errno.into());
            }
        };
        let outputs = outputs.map(|pipe| Output { pipe, ..Output::default() });
        let running = Self { child, group, handle, input, outputs, buffer: vec![0; BUFFER], is_over: false };
        let pipes = running.outputs.iter().filter_map(|output| output.pipe.as_ref());
        for pipe in pipes.chain(running.input.as_ref().map(|input| &input.pipe)) {
            ioctl_fionbio(pipe, true)?;
        }
        Ok(running)
    }

    /// Waits for the program's end, or for that of its agent, which is an error.
    pub fn attend_to(&mut self, agent: &UnixStream) -> io::Result<How> {
        loop {
            let [has_hung_up, has_ended, reads, out, err] = self.await_anything(agent)?;
            if has_hung_up {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            if reads {
                self.feed();
            }
            for (output, is_ready) in self.outputs.iter_mut().zip([out, err]) {
                if is_ready || has_ended {
                    output.take(&mut self.buffer);
                }
            }
            if has_ended {
                return self.end();
            }
        }
    }

    /// Standard output and standard error.
    pub fn outputs(&self) -> &[Output; 2] {
        &self.outputs
    }

    /// Whether there is news: of the agent, of the program's end, of its input, of its two outputs.
    fn await_anything(&self, agent: &UnixStream) -> io::Result<[bool; 5]> {
        let [out, err] = self.outputs.each_ref().map(|output| output.pipe.as_ref().map(AsFd::as_fd));
        let input = self.input.as_ref().map(|input| input.pipe.as_fd());
        let sources: [(Option<BorrowedFd<'_>>, PollFlags); 5] = [
            (Some(agent.as_fd()), PollFlags::IN),
            (Some(self.handle.as_fd()), PollFlags::IN),
            (input, PollFlags::OUT),
            (out, PollFlags::IN),
            (err, PollFlags::IN),
        ];
        let present = sources.into_iter().filter_map(|(source, flags)| Some((source?, flags)));
        let mut asked: Vec<PollFd<'_>> =
            present.map(|(source, flags)| PollFd::from_borrowed_fd(source, flags)).collect();
        match poll(&mut asked, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut answers = asked.iter().map(|answer| !answer.revents().is_empty());
        Ok(sources.map(|(source, _)| source.is_some() && answers.next().unwrap_or(false)))
    }

    /// Writes on. One that reads no further has had enough.
    fn feed(&mut self) {
        let Some(input) = &mut self.input else { return };
        match write(&input.pipe, &input.bytes[input.at..]) {
            Ok(written) => input.at += written,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => input.at = input.bytes.len(),
        }
        if input.at == input.bytes.len() {
            self.input = None;
        }
    }

    /// It has ended, or has to. What it started goes with it: the group's number is not given away while its first process has not been
    /// waited for.
    fn end(&mut self) -> io::Result<How> {
        self.is_over = true;
        let _ = kill_process_group(self.group, Signal::KILL);
        let status = self.child.wait()?;
        Ok(status.code().map_or_else(|| How::Signalled(status.signal().unwrap_or(0)), How::Exited))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            // There is nobody to tell.
            let _ = self.end();
        }
    }
}

impl Output {
    /// Reads what is there.
    fn take(&mut self, buffer: &mut [u8]) {
        for _ in 0..READS {
            let Some(pipe) = &self.pipe else { return };
            match read(pipe, &mut *buffer) {
                Ok(count @ 1..) => {
                    let room = OUTPUT_LIMIT - self.kept.len();
                    self.is_cut |= count > room;
                    self.kept.extend_from_slice(&buffer[..count.min(room)]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(0) | Err(_) => self.pipe = None,
            }
        }
    }
}
