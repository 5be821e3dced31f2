//! Transfers of connections by the kernel's io_uring: many receives and sends in one system call,
//! and the buffers for receiving.
//!
//! After J. Axboe, "Efficient IO with io_uring" (2019). A single multishot request receives all
//! bytes of a socket, into any free buffer of the ring. A send never waits. The kernel executes it
//! during the system call that submits it, so its bytes need not be kept longer. A send completes
//! silently if the socket takes all bytes; otherwise the completion has the number of bytes taken.
//! The kernel does its work for completions only when the thread asks for completions.
#![expect(unsafe_code, reason = "the kernel reads and writes memory by address; the second home of unsafe code")]

use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{self, BufRingEntry};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::net::{RecvFlags, SendFlags};

/// Size of the submission queue: maximum number of requests in one batch.
const ENTRIES: u32 = 512;
/// Smallest and largest size of the completion queue. The kernel stores further completions, but at
/// a cost.
const COMPLETIONS: (u32, u32) = (1024, 32_768);
/// Width of a socket's generation in the user data of a request, bits.
const GENERATION_BITS: u32 = 30;

/// Subject of a completion: a connection and one of its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingToken {
    pub number: u32,
    generation: u32,
}

/// A completed event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// Bytes were received into a buffer.
    Bytes {
        token: RingToken,
        /// Index of the buffer.
        place: u16,
        /// Number of bytes.
        length: usize,
        /// Whether the receive request has ended.
        is_last: bool,
    },
    /// No buffer was free. The receive request has ended.
    Starved(RingToken),
    /// The peer has closed its side.
    Ended(RingToken),
    /// The socket failed.
    Broken(RingToken, Errno),
    /// The socket took only a part of the sent bytes.
    Unsent {
        token: RingToken,
        /// Number of bytes taken.
        taken: usize,
    },
    /// The socket takes no more bytes. A receive may still report an orderly end.
    Mute(RingToken, Errno),
}

impl Completion {
    /// Returns the subject of the completion.
    pub fn token(&self) -> RingToken {
        match self {
            Self::Bytes { token, .. } | Self::Unsent { token, .. } => *token,
            Self::Starved(token) | Self::Ended(token) | Self::Broken(token, _) | Self::Mute(token, _) => *token,
        }
    }
}

/// Number of completions to wait for, if they arrive soon. Waking the thread for each completion
/// would cost more than handling it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakePolicy {
    /// Number of completions.
    pub arrivals: usize,
    /// Time limit, microseconds. After it, one completion is enough.
    pub within_us: u32,
}

impl WakePolicy {
    /// Wakes for every completion.
    pub const NONE: Self = Self { arrivals: 1, within_us: 0 };
}

/// A send that has not completed yet, submitted or not.
#[derive(Debug, Clone, Copy)]
struct PendingSend {
    token: RingToken,
    socket: types::Fd,
    from: usize,
    to: usize,
}

/// An io_uring instance. It belongs to the thread that opened it.
pub struct Ring {
    // Dropped before the buffers, because the kernel uses them until the ring is dropped.
    ring: IoUring,
    buffers: Buffers,
    sends: Vec<PendingSend>,
    /// Number of `sends` that were submitted.
    handed: usize,
    /// Bytes of `sends`.
    outgoing: Vec<u8>,
    /// Whether all completions of the submitted sends have been read.
    is_settled: bool,
    watched: types::Fd,
    /// Whether the watched descriptor may be readable.
    is_watched_ready: bool,
}

#[derive(Clone, Copy)]
enum CompletionKind {
    Receive = 0,
    Send = 1,
    Watch = 2,
}

impl RingToken {
    /// Makes a token for connection `number` with the socket `generation`.
    pub fn new(number: u32, generation: u32) -> Self {
        Self { number, generation: generation & ((1 << GENERATION_BITS) - 1) }
    }

    fn data(self, kind: CompletionKind) -> u64 {
        (kind as u64) << 62 | u64::from(self.generation) << 32 | u64::from(self.number)
    }

    fn of(data: u64) -> Self {
        Self::new((data & u64::from(u32::MAX)) as u32, (data >> 32) as u32)
    }
}

impl Ring {
    /// Opens a ring for `connections` connections. The ring also watches a descriptor for
    /// readability.
    ///
    /// # Errors
    /// Returns an error if the kernel does not support io_uring or does not permit it.
    pub fn open(connections: usize, watched: BorrowedFd<'_>) -> io::Result<Self> {
        let (fewest, most) = COMPLETIONS;
        let completions = u32::try_from(connections * 2).unwrap_or(most).clamp(fewest, most);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(completions.next_power_of_two())
            .dontfork()
            .build(ENTRIES)?;
        let buffers = Buffers::new(connections)?;
        // SAFETY: the entries stay mapped until the buffers are dropped, which is after the ring.
        unsafe { ring.submitter().register_buf_ring_with_flags(buffers.address(), buffers.count(), GROUP, 0)? };
        let watched = types::Fd(watched.as_raw_fd());
        let mut ring = Self {
            ring,
            buffers,
            sends: Vec::new(),
            handed: 0,
            outgoing: Vec::new(),
            is_settled: false,
            watched,
            is_watched_ready: false,
        };
        ring.watch()?;
        Ok(ring)
    }

    /// Starts receiving from the socket.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the request.
    pub fn receive(&mut self, token: RingToken, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = types::Fd(socket.as_raw_fd());
        let request = opcode::RecvMulti::new(socket, GROUP).build().user_data(token.data(CompletionKind::Receive));
        self.push(&request)
    }

    /// Queues bytes for the next submission. Before that submission, no other bytes may be sent on
    /// this socket.
    pub fn send(&mut self, token: RingToken, socket: BorrowedFd<'_>, bytes: &[u8]) {
        if std::mem::take(&mut self.is_settled) {
            self.sends.clear();
            self.outgoing.clear();
            self.handed = 0;
        }
        let from = self.outgoing.len();
        self.outgoing.extend_from_slice(bytes);
        let socket = types::Fd(socket.as_raw_fd());
        self.sends.push(PendingSend { token, socket, from, to: self.outgoing.len() });
    }

    /// Returns the bytes that the socket did not take from its last send.
    pub fn unsent(&self, token: RingToken, taken: usize) -> &[u8] {
        let sending = self.sends.iter().rfind(|sending| sending.token == token);
        sending.and_then(|sending| self.outgoing.get(sending.from + taken..sending.to)).unwrap_or_default()
    }

    /// Whether the watched descriptor may be readable.
    pub fn is_watched_ready(&self) -> bool {
        self.is_watched_ready
    }

    /// Records that the watched descriptor has been read empty.
    pub fn watched_was_emptied(&mut self) {
        self.is_watched_ready = false;
    }

    /// Copies received bytes and frees their buffer. Returns the number of bytes copied.
    pub fn take(&mut self, place: u16, length: usize, into: &mut [u8]) -> usize {
        let bytes = self.buffers.bytes(place, length);
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        self.buffers.give_back(place);
        length
    }

    /// Submits all requests without waiting.
    pub fn hand_over(&mut self) -> io::Result<()> {
        self.push_sends()?;
        self.enter_until_taken()
    }

    /// Submits all requests and waits for completions, at most `left_ns`. Kernels before 6.12 wake
    /// at the first completion.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the requests or the wait.
    pub fn wait(&mut self, left_ns: u64, gathering: WakePolicy, arrivals: &mut Vec<Completion>) -> io::Result<()> {
        self.push_sends()?;
        let most = types::Timespec::new().sec(left_ns / 1_000_000_000).nsec((left_ns % 1_000_000_000) as u32);
        let args = types::SubmitArgs::new().timespec(&most);
        // Without this check, the kernel could wait for more completions beyond the time left.
        let is_time = left_ns > 2 * 1_000 * u64::from(gathering.within_us);
        let waited = if gathering.arrivals > 1 && is_time && self.ring.params().is_feature_min_timeout() {
            self.ring.submitter().submit_with_args(gathering.arrivals, &args.min_wait_usec(gathering.within_us))
        } else {
            self.ring.submitter().submit_with_args(1, &args)
        };
        match waited {
            Ok(_) => {}
            Err(error) if is_nothing(&error) => {}
            Err(error) => return Err(error),
        }
        self.enter_until_taken()?;
        self.collect(arrivals)?;
        Ok(())
    }

    fn collect(&mut self, arrivals: &mut Vec<Completion>) -> io::Result<()> {
        let mut is_watch_over = false;
        for completion in self.ring.completion() {
            let data = completion.user_data();
            let token = RingToken::of(data);
            let goes_on = cqueue::more(completion.flags());
            let result =
                usize::try_from(completion.result()).map_err(|_| Errno::from_raw_os_error(-completion.result()));
            if data >> 62 == CompletionKind::Watch as u64 {
                self.is_watched_ready = true;
                is_watch_over = !goes_on;
                continue;
            }
            if let Some(buffer) = cqueue::buffer_select(completion.flags()) {
                self.buffers.taken(buffer);
            }
            arrivals.push(if data >> 62 == CompletionKind::Send as u64 {
                match result {
                    Ok(taken) => Completion::Unsent { token, taken },
                    Err(Errno::AGAIN | Errno::INTR) => Completion::Unsent { token, taken: 0 },
                    Err(errno) => Completion::Mute(token, errno),
                }
            } else {
                match (result, cqueue::buffer_select(completion.flags())) {
                    (Ok(length), Some(place)) if length > 0 => {
                        Completion::Bytes { token, place, length, is_last: !goes_on }
                    }
                    (Ok(_), Some(buffer)) => {
                        self.buffers.give_back(buffer);
                        Completion::Ended(token)
                    }
                    (Ok(_), None) => Completion::Ended(token),
                    (Err(Errno::NOBUFS | Errno::AGAIN | Errno::INTR), _) => Completion::Starved(token),
                    (Err(errno), _) => Completion::Broken(token, errno),
                }
            });
        }
        self.is_settled = true;
        if is_watch_over { self.watch() } else { Ok(()) }
    }

    fn watch(&mut self) -> io::Result<()> {
        let request = opcode::PollAdd::new(self.watched, u32::from(rustix::event::PollFlags::IN.bits())).multi(true);
        self.push(&request.build().user_data(RingToken::new(0, 0).data(CompletionKind::Watch)))
    }

    fn push(&mut self, request: &squeue::Entry) -> io::Result<()> {
        // SAFETY: requests point to the buffers, and to bytes that do not change until the kernel
        // has taken the request.
        while unsafe { self.ring.submission().push(request) }.is_err() {
            self.enter_until_taken()?;
        }
        Ok(())
    }

    /// Pushes the queued sends. Their bytes must not move until the kernel has taken the requests.
    fn push_sends(&mut self) -> io::Result<()> {
        if self.handed == self.sends.len() {
            return Ok(());
        }
        // With this flag, a partial send counts as a failure and is reported.
        let flags = (SendFlags::NOSIGNAL | SendFlags::DONTWAIT).bits() | RecvFlags::WAITALL.bits();
        for place in self.handed..self.sends.len() {
            let PendingSend { token, socket, from, to } = self.sends[place];
            let bytes = &self.outgoing[from..to];
            // Requests stay within the limits of their protocols, far below 4 GiB.
            let request = opcode::Send::new(socket, bytes.as_ptr(), bytes.len() as u32)
                .flags(flags.cast_signed())
                .build()
                .flags(squeue::Flags::SKIP_SUCCESS)
                .user_data(token.data(CompletionKind::Send));
            self.push(&request)?;
        }
        self.handed = self.sends.len();
        Ok(())
    }

    /// Repeats the system call until all requests are taken. A signal may interrupt the call before
    /// the kernel has taken any request.
    fn enter_until_taken(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if is_nothing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether the system call only timed out or was interrupted.
fn is_nothing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::TIME | Errno::INTR))
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Cancels all requests, so that the kernel writes nothing into the buffers after they are
        // freed. A kernel without this operation cancels when the ring is closed.
        let _ = self.ring.submitter().register_sync_cancel(None, types::CancelBuilder::any());
        let _ = self.ring.submitter().unregister_buf_ring(GROUP);
    }
}

/// Id of the ring's group of receive buffers.
const GROUP: u16 = 0;
/// Size of a receive buffer, bytes. A short answer touches only the first page; a long answer
/// arrives in pieces.
const SIZE: usize = 16 * 1024;
/// Distance between buffers. It exceeds the size by a few cache lines, so that the starts of all
/// buffers, which every answer touches, do not fall into the same few sets of the processor's
/// caches.
const STRIDE: usize = SIZE + 5 * 64;
/// Fewest and most buffers. Between these limits, each connection has a buffer. The upper limit
/// bounds the work per wake-up if a target floods a few connections. With many connections, the
/// limit causes buffers to be reused while they are still in the cache.
const COUNT: (usize, usize) = (64, 128);

/// Receive buffers, and the entries that list the free buffers for the kernel.
pub struct Buffers {
    /// The entries, followed by the buffers.
    memory: *mut u8,
    count: u16,
    /// Number of buffers given to the kernel so far, modulo 2^16.
    tail: u16,
    /// Whether the program owns each buffer and may read its bytes.
    taken: Vec<bool>,
}

// SAFETY: only the kernel also accesses the memory.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Allocates buffers for `connections` connections, all of them free.
    pub fn new(connections: usize) -> io::Result<Self> {
        let (fewest, most) = COUNT;
        let count = connections.clamp(fewest, most).next_power_of_two();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe { mmap_anonymous(null_mut(), bytes_of(count), access, MapFlags::PRIVATE)? };
        let mut buffers = Self { memory: memory.cast(), count: count as u16, tail: 0, taken: vec![true; count] };
        for buffer in 0..buffers.count {
            buffers.give_back(buffer);
        }
        Ok(buffers)
    }

    /// Returns the address of the entries.
    pub fn address(&self) -> u64 {
        self.memory as u64
    }

    pub fn count(&self) -> u16 {
        self.count
    }

    /// Records that the kernel has written into the buffer. The kernel does not write again until
    /// the buffer is given back.
    pub fn taken(&mut self, buffer: u16) {
        if let Some(taken) = self.taken.get_mut(usize::from(buffer)) {
            *taken = true;
        }
    }

    /// Returns the first `length` bytes of a buffer that the kernel has written into.
    pub fn bytes(&self, buffer: u16, length: usize) -> &[u8] {
        if self.taken.get(usize::from(buffer)) != Some(&true) {
            return &[];
        }
        // SAFETY: within the mapping, and initialised (mapped memory is zero at first). The kernel
        // gets the buffer back only by `give_back`, which borrows the buffers mutably.
        unsafe { std::slice::from_raw_parts(self.start_of(buffer), length.min(SIZE)) }
    }

    /// Gives the buffer back to the kernel.
    pub fn give_back(&mut self, buffer: u16) {
        match self.taken.get_mut(usize::from(buffer)) {
            Some(taken) if *taken => *taken = false,
            _ => return,
        }
        let entries: *mut BufRingEntry = self.memory.cast();
        let place = usize::from(self.tail & (self.count - 1));
        let start = self.start_of(buffer) as u64;
        // SAFETY: within the mapping. The kernel reads an entry only after the tail has passed it,
        // and the tail is stored after the entry. The fields set here do not overlap with the tail.
        unsafe {
            let entry = &mut *entries.add(place);
            entry.set_addr(start);
            entry.set_len(SIZE as u32);
            entry.set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            (*BufRingEntry::tail(entries).cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }

    fn start_of(&self, buffer: u16) -> *mut u8 {
        let offset = entries_bytes(usize::from(self.count)) + usize::from(buffer % self.count) * STRIDE;
        self.memory.wrapping_add(offset)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no pointer into the mapping is left.
        let _ = unsafe { munmap(self.memory.cast(), bytes_of(usize::from(self.count))) };
    }
}

/// Size of the entries, rounded up to a whole number of buffers.
fn entries_bytes(count: usize) -> usize {
    (count * size_of::<BufRingEntry>()).next_multiple_of(SIZE)
}

fn bytes_of(count: usize) -> usize {
    entries_bytes(count) + count * STRIDE
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use rustix::event::epoll;
    use rustix::fd::AsFd;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Makes a ring and an epoll instance that it watches.
    fn ring() -> Option<(Ring, rustix::fd::OwnedFd)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        Ring::open(1, epoll.as_fd()).ok().map(|ring| (ring, epoll))
    }

    /// Returns the next completions.
    fn next(ring: &mut Ring) -> Vec<Completion> {
        let mut arrivals = Vec::new();
        ring.wait(SECOND_NS, WakePolicy::NONE, &mut arrivals).unwrap();
        arrivals
    }

    /// Receives all bytes until another event, or until a second without any event.
    fn drain(ring: &mut Ring, socket: &UnixStream) -> (Vec<u8>, Option<Completion>) {
        let (mut bytes, mut into) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            let arrivals = next(ring);
            if arrivals.is_empty() {
                return (bytes, None);
            }
            for arrival in arrivals {
                match arrival {
                    Completion::Bytes { token, place, length, is_last } => {
                        let length = ring.take(place, length, &mut into);
                        bytes.extend_from_slice(&into[..length]);
                        if is_last {
                            ring.receive(token, socket.as_fd()).unwrap();
                        }
                    }
                    Completion::Starved(token) => ring.receive(token, socket.as_fd()).unwrap(),
                    other => return (bytes, Some(other)),
                }
            }
        }
    }

    #[test]
    fn bytes_are_sent_and_received() {
        let Some((mut ring, _epoll)) = ring() else { return };
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let token = RingToken::new(7, 3);
        ring.receive(token, ours.as_fd()).unwrap();
        for round in 0..100 {
            ring.send(token, ours.as_fd(), format!("question {round}").as_bytes());
            ring.hand_over().unwrap();
            let mut asked = [0; 64];
            let count = theirs.read(&mut asked).unwrap();
            assert_eq!(&asked[..count], format!("question {round}").as_bytes());
            theirs.write_all(format!("answer {round}").as_bytes()).unwrap();
            let [Completion::Bytes { token: of, place, length, .. }] = next(&mut ring)[..] else { panic!("no bytes") };
            let mut answer = [0; 64];
            let length = ring.take(place, length, &mut answer);
            assert_eq!((of, &answer[..length]), (token, format!("answer {round}").as_bytes()));
        }
        drop(theirs);
        assert_eq!(next(&mut ring), [Completion::Ended(token)]);
    }

    #[test]
    fn a_flood_is_received_whole_and_in_order() {
        let Some((mut ring, _epoll)) = ring() else { return };
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let flood: Vec<u8> = (0..4_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let sent = flood.clone();
        let writer = std::thread::Builder::new().spawn(move || theirs.write_all(&sent)).unwrap();
        let token = RingToken::new(0, 0);
        ring.receive(token, ours.as_fd()).unwrap();
        let (bytes, end) = drain(&mut ring, &ours);
        assert!(bytes == flood, "{} of {} bytes", bytes.len(), flood.len());
        assert_eq!(end, Some(Completion::Ended(token)));
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn unsent_bytes_of_a_full_socket_are_reported() {
        let Some((mut ring, _epoll)) = ring() else { return };
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let token = RingToken::new(1, 1 << 29);
        let long: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        ring.send(token, ours.as_fd(), &long);
        let [Completion::Unsent { token: of, taken }] = next(&mut ring)[..] else { panic!("all of it was taken") };
        assert_eq!(of, token);
        assert!(taken > 0 && taken < long.len());
        assert!(ring.unsent(token, taken) == &long[taken..]);
        let mut received = vec![0; taken];
        theirs.read_exact(&mut received).unwrap();
        assert!(received == long[..taken]);
        // The rest is not sent later, and the next send is independent.
        theirs.set_nonblocking(true).unwrap();
        assert!(theirs.read(&mut received).is_err());
        ring.send(token, ours.as_fd(), b"next");
        ring.hand_over().unwrap();
        let count = theirs.read(&mut received).unwrap();
        assert_eq!(&received[..count], b"next");
    }

    #[test]
    fn a_closed_peer_ends_sending_and_receiving() {
        let Some((mut ring, _epoll)) = ring() else { return };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let token = RingToken::new(2, 0);
        ring.receive(token, ours.as_fd()).unwrap();
        drop(theirs);
        ring.send(token, ours.as_fd(), b"hello");
        let mut events = next(&mut ring);
        while events.len() < 2 {
            let more = next(&mut ring);
            assert!(!more.is_empty(), "{events:?}");
            events.extend(more);
        }
        assert!(
            events.contains(&Completion::Mute(token, Errno::PIPE)) && events.contains(&Completion::Ended(token)),
            "{events:?}"
        );
    }

    #[test]
    fn waiting_gathers_arrivals_only_within_its_time_limit() {
        let Some((mut ring, _epoll)) = ring() else { return };
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (number, (ours, _)) in pairs.iter().enumerate() {
            ring.receive(RingToken::new(number as u32, 0), ours.as_fd()).unwrap();
        }
        for (here, wanted, within_us) in [(3, 3, 400_000), (2, 3, 1_000), (1, 3, 0), (3, 1, 1_000)] {
            for (_, theirs) in &pairs[..here] {
                (&*theirs).write_all(b"x").unwrap();
            }
            let mut received = 0;
            while received < here {
                let mut arrivals = Vec::new();
                ring.wait(SECOND_NS, WakePolicy { arrivals: wanted, within_us }, &mut arrivals).unwrap();
                assert!(!arrivals.is_empty(), "{received} of {here}");
                received += arrivals.len();
                for arrival in arrivals {
                    let Completion::Bytes { place, length, .. } = arrival else { panic!("{arrival:?}") };
                    ring.take(place, length, &mut [0]);
                }
            }
            assert_eq!(received, here);
        }
    }

    #[test]
    fn events_of_the_watched_epoll_are_reported() {
        let Some((mut ring, epoll)) = ring() else { return };
        let mut arrivals = Vec::new();
        ring.wait(0, WakePolicy::NONE, &mut arrivals).unwrap();
        assert!(arrivals.is_empty() && !ring.is_watched_ready());
        for _ in 0..3 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, &ours, epoll::EventData::new_u64(1), flags).unwrap();
            theirs.write_all(b"x").unwrap();
            ring.wait(SECOND_NS, WakePolicy::NONE, &mut arrivals).unwrap();
            assert!(arrivals.is_empty() && ring.is_watched_ready());
            let mut events: Vec<epoll::Event> = Vec::with_capacity(4);
            epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&Default::default())).unwrap();
            assert_eq!(events.len(), 1);
            ring.watched_was_emptied();
        }
    }
}
