//! The kernel's ring for the bytes of connections (io_uring): many receives and sends at a system
//! call, and the buffers that it receives into.
//!
//! After J. Axboe, "Efficient IO with io_uring" (2019). A socket is received from by one request for good, into whichever of the
//! ring's buffers is free. A send never waits: it is carried out within the call that hands it over, so that its bytes need not live
//! longer, says nothing if all was taken, and otherwise how much was. What the kernel has to do for a completion is done when the
//! thread asks for completions, and not whenever one comes.
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

/// Requests that are handed over at once.
const ENTRIES: u32 = 512;
/// Least and most completions that there is room for. Beyond, the kernel keeps them at a cost.
const COMPLETIONS: (u32, u32) = (1024, 32_768);
/// Of a number that says which socket of a connection something is about.
const GENERATION_BITS: u32 = 30;

/// What a completion is about: a connection's number, and which of its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingToken {
    /// Number of the connection.
    pub number: u32,
    generation: u32,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// Bytes came, so many, to be taken from that place.
    Bytes {
        /// On which socket.
        token: RingToken,
        /// Where they are.
        place: u16,
        /// How many they are.
        length: usize,
        /// Whether the receiving ended with them.
        is_last: bool,
    },
    /// There was no room for what came: the receiving ended.
    Starved(RingToken),
    /// The peer has ended its side.
    Ended(RingToken),
    /// The socket is broken.
    Broken(RingToken, Errno),
    /// The socket took only so many bytes of what was sent.
    Unsent {
        /// Which socket.
        token: RingToken,
        /// How many.
        taken: usize,
    },
    /// Nothing can be sent on the socket any more. Whoever receives may hear of an end in order.
    Mute(RingToken, Errno),
}

impl Completion {
    /// What it is about.
    pub fn token(&self) -> RingToken {
        match self {
            Self::Bytes { token, .. } | Self::Unsent { token, .. } => *token,
            Self::Starved(token) | Self::Ended(token) | Self::Broken(token, _) | Self::Mute(token, _) => *token,
        }
    }
}

/// So many arrivals are waited for, if they come soon: to be woken for each would cost more than to receive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakePolicy {
    /// How many.
    pub arrivals: usize,
    /// How soon. Afterwards one is enough.
    pub within_us: u32,
}

impl WakePolicy {
    /// Whatever comes is told at once.
    pub const NONE: Self = Self { arrivals: 1, within_us: 0 };
}

/// A send that is to be handed over, or was and has not completed yet.
#[derive(Debug, Clone, Copy)]
struct PendingSend {
    token: RingToken,
    socket: types::Fd,
    from: usize,
    to: usize,
}

/// A ring. It belongs to the thread that opened it.
pub struct Ring {
    // Before the buffers: they must outlive it.
    ring: IoUring,
    buffers: Buffers,
    sends: Vec<PendingSend>,
    /// Of `sends`, how many were handed over.
    handed: usize,
    /// The bytes of `sends`.
    outgoing: Vec<u8>,
    /// Whether all that was handed over has said what there was to say.
    is_settled: bool,
    watched: types::Fd,
    /// Whether the watched descriptor may have something.
    is_watched_ready: bool,
}

#[derive(Clone, Copy)]
enum CompletionKind {
    Receive = 0,
    Send = 1,
    Watch = 2,
}

impl RingToken {
    /// The connection of that number, with the socket of that generation.
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
    /// A ring for so many connections, which also tells when the watched descriptor can be read.
    ///
    /// # Errors
    /// If the kernel does not permit or know it.
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

    /// From now on, what comes on the socket is told.
    ///
    /// # Errors
    /// If the kernel takes no request.
    pub fn receive(&mut self, token: RingToken, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = types::Fd(socket.as_raw_fd());
        let request = opcode::RecvMulti::new(socket, GROUP).build().user_data(token.data(CompletionKind::Receive));
        self.push(&request)
    }

    /// The bytes go out when requests are handed over next. Until then there must be no other send on that socket.
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

    /// What the socket did not take of the bytes that were sent last on it.
    pub fn unsent(&self, token: RingToken, taken: usize) -> &[u8] {
        let sending = self.sends.iter().rfind(|sending| sending.token == token);
        sending.and_then(|sending| self.outgoing.get(sending.from + taken..sending.to)).unwrap_or_default()
    }

    /// Whether the watched descriptor may have something.
    pub fn is_watched_ready(&self) -> bool {
        self.is_watched_ready
    }

    /// The watched descriptor had nothing more.
    pub fn watched_was_emptied(&mut self) {
        self.is_watched_ready = false;
    }

    /// Copies what came, which is then gone from there; how much that was.
    pub fn take(&mut self, place: u16, length: usize, into: &mut [u8]) -> usize {
        let bytes = self.buffers.bytes(place, length);
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        self.buffers.give_back(place);
        length
    }

    /// Hands requests over without waiting for anything.
    ///
    /// # Errors
    /// If the kernel does not take them.
    pub fn hand_over(&mut self) -> io::Result<()> {
        self.push_sends()?;
        self.enter_until_taken()
    }

    /// Hands requests over and waits until something has happened, at most so long; tells what. A kernel before 6.12 gathers nothing.
    ///
    /// # Errors
    /// If the kernel does not take the requests, or refuses to wait.
    pub fn wait(&mut self, left_ns: u64, gathering: WakePolicy, arrivals: &mut Vec<Completion>) -> io::Result<()> {
        self.push_sends()?;
        let most = types::Timespec::new().sec(left_ns / 1_000_000_000).nsec((left_ns % 1_000_000_000) as u32);
        let args = types::SubmitArgs::new().timespec(&most);
        // The kernel would gather beyond the time that is left.
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
        // SAFETY: what these requests point to is the buffers, and bytes that are not touched until the kernel has taken them.
        while unsafe { self.ring.submission().push(request) }.is_err() {
            self.enter_until_taken()?;
        }
        Ok(())
    }

    /// The bytes lie still from here until the kernel has taken the requests.
    fn push_sends(&mut self) -> io::Result<()> {
        if self.handed == self.sends.len() {
            return Ok(());
        }
        // To take a part only is then a failure, and told.
        let flags = (SendFlags::NOSIGNAL | SendFlags::DONTWAIT).bits() | RecvFlags::WAITALL.bits();
        for place in self.handed..self.sends.len() {
            let PendingSend { token, socket, from, to } = self.sends[place];
            let bytes = &self.outgoing[from..to];
            // A request is at most as long as its protocol's limits, far below 4 GiB.
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

    /// A call may be interrupted before it has taken anything.
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

/// Whether a call merely waited in vain, or was interrupted.
fn is_nothing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::TIME | Errno::INTR))
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Nothing may be received into the buffers when they go. A kernel that cannot do that does it when the ring is closed.
        let _ = self.ring.submitter().register_sync_cancel(None, types::CancelBuilder::any());
        let _ = self.ring.submitter().unregister_buf_ring(GROUP);
    }
}

/// Number of the group that they are, in their ring.
const GROUP: u16 = 0;
/// Bytes of each. A short answer touches the first page only, and a long one comes in pieces.
const SIZE: usize = 16 * 1024;
/// From one to the next: some cache lines more, so that the beginnings of all, which every answer touches, do not fall into the same few
/// sets of the processor's caches.
const STRIDE: usize = SIZE + 5 * 64;
/// Fewest and most buffers; between, as many as connections. So a target that floods few connections does not keep the thread long, and
/// those of many connections are soon used again, while the cache still has them.
const COUNT: (usize, usize) = (64, 128);

/// Buffers, and the entries by which the kernel knows those that are free.
pub struct Buffers {
    /// Entries first, then the buffers themselves.
    memory: *mut u8,
    count: u16,
    /// Buffers that the kernel was given so far, modulo 2^16.
    tail: u16,
    /// Whose bytes may be looked at, a bit each.
    taken: Vec<bool>,
}

// SAFETY: nothing else knows the memory but the kernel.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Buffers for so many connections, all of them free.
    pub fn new(connections: usize) -> io::Result<Self> {
        let (fewest, most) = COUNT;
        let count = connections.clamp(fewest, most).next_power_of_two();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: memory of our own, wherever there is room.
        let memory = unsafe { mmap_anonymous(null_mut(), bytes_of(count), access, MapFlags::PRIVATE)? };
        let mut buffers = Self { memory: memory.cast(), count: count as u16, tail: 0, taken: vec![true; count] };
        for buffer in 0..buffers.count {
            buffers.give_back(buffer);
        }
        Ok(buffers)
    }

    /// Where the entries are.
    pub fn address(&self) -> u64 {
        self.memory as u64
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// The kernel has written into the buffer, and will not again until it is given back.
    pub fn taken(&mut self, buffer: u16) {
        if let Some(taken) = self.taken.get_mut(usize::from(buffer)) {
            *taken = true;
        }
    }

    /// The first so many bytes of a buffer that the kernel has written into.
    pub fn bytes(&self, buffer: u16, length: usize) -> &[u8] {
        if self.taken.get(usize::from(buffer)) != Some(&true) {
            return &[];
        }
        // SAFETY: within the mapping, initialised (mapped memory is zero at first), and the kernel's again only after `give_back`, which
        // needs the buffers for itself.
        unsafe { std::slice::from_raw_parts(self.start_of(buffer), length.min(SIZE)) }
    }

    /// The kernel may write into the buffer again.
    pub fn give_back(&mut self, buffer: u16) {
        match self.taken.get_mut(usize::from(buffer)) {
            Some(taken) if *taken => *taken = false,
            _ => return,
        }
        let entries: *mut BufRingEntry = self.memory.cast();
        let place = usize::from(self.tail & (self.count - 1));
        let start = self.start_of(buffer) as u64;
        // SAFETY: within the mapping. The kernel looks at an entry only once the tail, which is stored after it, is beyond it; an entry's
        // own fields do not overlap with the tail.
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
        // SAFETY: mapped by `new`, and nobody has an address in it any more.
        let _ = unsafe { munmap(self.memory.cast(), bytes_of(usize::from(self.count))) };
    }
}

/// In whole pages and more.
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

    /// A ring and an epoll instance that it watches.
    fn ring() -> Option<(Ring, rustix::fd::OwnedFd)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        Ring::open(1, epoll.as_fd()).ok().map(|ring| (ring, epoll))
    }

    /// What happens next.
    fn next(ring: &mut Ring) -> Vec<Completion> {
        let mut arrivals = Vec::new();
        ring.wait(SECOND_NS, WakePolicy::NONE, &mut arrivals).unwrap();
        arrivals
    }

    /// All bytes until something else happens, or a second without anything.
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
    fn bytes_go_out_and_come_in() {
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
    fn what_a_full_socket_does_not_take_is_told() {
        let Some((mut ring, _epoll)) = ring() else { return };
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let token = RingToken::new(1, 1 << 29);
        let long: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        ring.send(token, ours.as_fd(), &long);
        let [Completion::Unsent { token: of, taken }] = next(&mut ring)[..] else { panic!("all of it was taken") };
        assert_eq!(of, token);
        assert!(taken > 0 && taken < long.len());
        assert!(ring.unsent(token, taken) == &long[taken..]);
        let mut came = vec![0; taken];
        theirs.read_exact(&mut came).unwrap();
        assert!(came == long[..taken]);
        // Nothing goes out by itself later, and the next send stands alone.
        theirs.set_nonblocking(true).unwrap();
        assert!(theirs.read(&mut came).is_err());
        ring.send(token, ours.as_fd(), b"next");
        ring.hand_over().unwrap();
        let count = theirs.read(&mut came).unwrap();
        assert_eq!(&came[..count], b"next");
    }

    #[test]
    fn a_closed_socket_is_mute_and_ended() {
        let Some((mut ring, _epoll)) = ring() else { return };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let token = RingToken::new(2, 0);
        ring.receive(token, ours.as_fd()).unwrap();
        drop(theirs);
        ring.send(token, ours.as_fd(), b"hello");
        let mut told = next(&mut ring);
        while told.len() < 2 {
            let more = next(&mut ring);
            assert!(!more.is_empty(), "{told:?}");
            told.extend(more);
        }
        assert!(
            told.contains(&Completion::Mute(token, Errno::PIPE)) && told.contains(&Completion::Ended(token)),
            "{told:?}"
        );
    }

    #[test]
    fn what_comes_soon_is_gathered_and_what_does_not_is_not_waited_for() {
        let Some((mut ring, _epoll)) = ring() else { return };
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (number, (ours, _)) in pairs.iter().enumerate() {
            ring.receive(RingToken::new(number as u32, 0), ours.as_fd()).unwrap();
        }
        for (here, wanted, within_us) in [(3, 3, 400_000), (2, 3, 1_000), (1, 3, 0), (3, 1, 1_000)] {
            for (_, theirs) in &pairs[..here] {
                (&*theirs).write_all(b"x").unwrap();
            }
            let mut came = 0;
            while came < here {
                let mut arrivals = Vec::new();
                ring.wait(SECOND_NS, WakePolicy { arrivals: wanted, within_us }, &mut arrivals).unwrap();
                assert!(!arrivals.is_empty(), "{came} of {here}");
                came += arrivals.len();
                for arrival in arrivals {
                    let Completion::Bytes { place, length, .. } = arrival else { panic!("{arrival:?}") };
                    ring.take(place, length, &mut [0]);
                }
            }
            assert_eq!(came, here);
        }
    }

    #[test]
    fn the_watched_is_told_of() {
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
