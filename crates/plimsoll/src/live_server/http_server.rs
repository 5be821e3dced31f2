//! The HTTP server of a run: one thread with a poll loop, for `/metrics` and for pages that
//! follow a run.
//!
//! The server follows the rules that let Pacemaker 1.1.9 scale to 16 nodes. An update is built once
//! for all readers. If nothing changed, nothing is sent. Each reader has a bounded queue. A reader
//! that falls behind is disconnected with a notice and starts again from the newest state.

mod connection;
mod update;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use connection::{Asked, Connection};
use update::{GZIP_HEAD, Update, event};

/// Maximum number of simultaneous connections at both addresses together.
const READERS: usize = 256;
/// Maximum number of connections accepted between two polls.
const ACCEPTED: usize = 64;
/// Pause in accepting connections after an error such as a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum time for which the end of a run waits for readers.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Time without progress of any reader after which the end of a run stops waiting for readers.
const IDLE: Duration = Duration::from_millis(20);

/// Returns the time limit for receiving a request, and for each pause of a reader that takes an
/// answer. The limit grows with the number of a lab's hosts, because updates do.
pub fn patience(hosts: usize) -> Duration {
    Duration::from_secs(2) + Duration::from_millis(10) * u32::try_from(hosts).unwrap_or(u32::MAX)
}

/// Function that returns the text for a scrape. It rebuilds the text only after a change.
pub type MetricsText = Box<dyn FnMut() -> Arc<[u8]> + Send>;

/// Endpoints of the server.
pub struct Doors {
    /// Address of `/metrics`, and the function that returns the text for a scrape.
    pub metrics: Option<(SocketAddr, MetricsText)>,
    /// Port of the page on the loopback address (0: any free port), and the page's empty shell.
    pub page: Option<(u16, String)>,
    /// Time limit of a reader, from [`patience`].
    pub patience: Duration,
}

/// Handle for publishing parts of the page. None of its methods blocks.
#[derive(Clone)]
pub struct Publisher(Arc<Mail>);

impl Publisher {
    /// Returns the number of readers that follow the page now.
    pub fn followers(&self) -> usize {
        self.0.followers.load(Ordering::Relaxed)
    }

    /// Sends the parts of the page that differ from the last ones sent.
    pub fn publish(&self, parts: impl IntoIterator<Item = (&'static str, String)>) {
        self.0.leave(|news| news.parts.extend(parts));
    }

    /// Sends the report to all followers, and then disconnects them.
    pub fn publish_report(&self, report: String) {
        self.0.leave(|news| news.report = Some(report));
    }
}

/// A running server. Dropping it ends the server within [`LAST_WORDS`], or after [`IDLE`] if no
/// reader takes anything.
pub struct HttpServer {
    mail: Arc<Mail>,
    thread: Option<JoinHandle<()>>,
    /// URL of the page, with its token.
    pub url: Option<String>,
    /// Address of `/metrics`.
    #[cfg(test)]
    metrics: Option<SocketAddr>,
}

/// Messages from other threads to the server's thread.
struct Mail {
    news: Mutex<News>,
    wake: OwnedFd,
    followers: AtomicUsize,
}

#[derive(Default)]
struct News {
    /// Parts of the page published since the server last took the news, by name.
    parts: BTreeMap<&'static str, String>,
    /// The finished report.
    report: Option<String>,
    is_over: bool,
}

impl Mail {
    fn leave(&self, write: impl FnOnce(&mut News)) {
        write(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner));
        // The eventfd's counter is full only after 2⁶⁴ − 2 unread messages.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl HttpServer {
    /// Listens at all endpoints, and starts the server's thread.
    ///
    /// # Errors
    /// If the server cannot listen at an address, or the thread cannot be started.
    pub fn begin(doors: Doors) -> io::Result<Self> {
        let Doors { metrics, page, patience } = doors;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mail = Arc::new(Mail { news: Mutex::default(), wake, followers: AtomicUsize::new(0) });
        let mut serving = Serving {
            mail: Arc::clone(&mail),
            doors: Vec::new(),
            connections: Vec::new(),
            whole: BTreeMap::new(),
            updates: 0,
            welcome: None,
            patience,
            deaf_until: None,
        };
        if let Some((address, text)) = metrics {
            serving.doors.push(Door::open(address, Behind::Metrics(text))?);
        }
        #[cfg(test)]
        let metrics = serving.doors.first().map(|door| door.listener.local_addr()).transpose()?;
        let mut url = None;
        if let Some((port, shell)) = page {
            let token = token()?;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let shell = connection::whole("200 OK", connection::HTML, shell.as_bytes());
            let door = Door::open(address, Behind::Page { token: token.clone(), shell })?;
            url = Some(format!("http://{}/{token}/", door.listener.local_addr()?));
            serving.doors.push(door);
        }
        let thread = thread::Builder::new().name("live-server".to_owned()).spawn(move || serving.serve())?;
        Ok(Self {
            mail,
            thread: Some(thread),
            url,
            #[cfg(test)]
            metrics,
        })
    }

    /// Returns a handle for publishing parts of the page.
    pub fn publisher(&self) -> Publisher {
        Publisher(Arc::clone(&self.mail))
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.mail.leave(|news| news.is_over = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns 128 random bits as hexadecimal digits.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A listening address with its endpoint.
struct Door {
    listener: TcpListener,
    address: SocketAddr,
    behind: Behind,
}

enum Behind {
    Metrics(MetricsText),
    Page { token: String, shell: Arc<[u8]> },
}

impl Door {
    fn open(address: SocketAddr, behind: Behind) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, address, behind })
    }
}

/// State of the server's thread.
struct Serving {
    mail: Arc<Mail>,
    doors: Vec<Door>,
    connections: Vec<Connection>,
    /// All parts of the page by name, as last sent.
    whole: BTreeMap<&'static str, String>,
    /// Number of updates so far, which is also the last update's id.
    updates: u64,
    /// Update with all parts, built once for all new readers until the next update.
    welcome: Option<Update>,
    patience: Duration,
    /// Time until which no connections are accepted, after an error.
    deaf_until: Option<Instant>,
}

impl Serving {
    fn serve(mut self) {
        while !self.take_mail() {
            // Poll can fail only because of a signal, so the loop continues.
            let Ok(ready) = self.wait() else { continue };
            let (doors, connections) = ready.split_at(self.doors.len());
            for (index, ready) in connections.iter().enumerate() {
                self.step(index, *ready);
            }
            self.connections.retain(Connection::is_open);
            for (index, _) in doors.iter().enumerate().filter(|(_, ready)| !ready.is_empty()) {
                self.accept(index);
            }
            let followers = self.connections.iter().filter(|one| one.follows()).count();
            self.mail.followers.store(followers, Ordering::Relaxed);
        }
        self.leave();
    }

    /// Waits for mail, a reader or the next deadline. Returns the events of each listener, then of
    /// each connection.
    fn wait(&mut self) -> rustix::io::Result<Vec<PollFlags>> {
        let now = Instant::now();
        self.deaf_until = self.deaf_until.filter(|until| *until > now);
        let listening = if self.deaf_until.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = vec![PollFd::new(&self.mail.wake, PollFlags::IN)];
        polled.extend(self.doors.iter().map(|door| PollFd::new(&door.listener, listening)));
        polled.extend(self.connections.iter().map(|one| PollFd::from_borrowed_fd(one.as_fd(), one.awaits())));
        let deadline = self.connections.iter().filter_map(Connection::deadline).chain(self.deaf_until).min();
        // A millisecond is added, so that the deadline has passed when the poll returns.
        let left = deadline.map(|at| at.saturating_duration_since(now) + Duration::from_millis(1));
        poll(&mut polled, left.and_then(|left| Timespec::try_from(left).ok()).as_ref())?;
        Ok(polled[1..].iter().map(PollFd::revents).collect())
    }

    /// Takes the news from other threads, and sends an update with the parts that changed. Returns
    /// whether the run is over.
    fn take_mail(&mut self) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.mail.wake, &mut count);
        let news = std::mem::take(&mut *self.mail.news.lock().unwrap_or_else(PoisonError::into_inner));
        let changed: BTreeMap<_, _> =
            news.parts.into_iter().filter(|(name, part)| self.whole.get(name) != Some(part)).collect();
        if !changed.is_empty() {
            self.updates += 1;
            self.welcome = None;
            self.send(&event(Some(self.updates), "parts", &changed));
            self.whole.extend(changed);
        }
        if let Some(report) = news.report {
            self.send(&event(None, "report", &report));
            for one in self.connections.iter_mut().filter(|one| one.follows()) {
                one.end_after_queue();
            }
        }
        news.is_over
    }

    /// Queues an update for all followers.
    fn send(&mut self, update: &Update) {
        let patience = self.patience;
        for one in self.connections.iter_mut().filter(|one| one.follows()) {
            one.queue_update(update, patience);
        }
    }

    fn step(&mut self, index: usize, ready: PollFlags) {
        let one = &mut self.connections[index];
        let asked = one.step(ready, self.patience);
        if let Some(asked) = asked {
            self.answer(index, &asked);
            // The socket can usually take the answer now, so that no further poll is needed.
            self.connections[index].step(PollFlags::OUT, self.patience);
        }
    }

    fn accept(&mut self, door: usize) {
        for _ in 0..ACCEPTED {
            let accepted = match self.doors[door].listener.accept() {
                Ok((stream, _)) => Connection::of(stream, door, self.patience),
                Err(error) => Err(error),
            };
            match accepted {
                Ok(mut one) => {
                    if self.connections.len() >= READERS && !self.make_room() {
                        one.answer(connection::refused("503 Service Unavailable", "too many readers\n"), self.patience);
                        one.step(PollFlags::OUT, self.patience);
                        continue;
                    }
                    self.connections.push(one);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.deaf_until = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }

    /// Closes the oldest connection whose request is incomplete. Returns whether there is such a
    /// connection.
    fn make_room(&mut self) -> bool {
        let slow = self.connections.iter().position(Connection::is_asking);
        slow.map(|slow| self.connections.remove(slow)).is_some()
    }

    /// Answers a request at the connection's endpoint.
    fn answer(&mut self, index: usize, asked: &Asked) {
        let one = &mut self.connections[index];
        let door = &mut self.doors[one.door];
        if asked.method != "GET" {
            return one.answer(connection::refused("405 Method Not Allowed", "only GET is allowed\n"), self.patience);
        }
        let answer = match &mut door.behind {
            Behind::Metrics(_) if asked.host.as_ref().is_some_and(|host| !is_meant(host, door.address)) => {
                connection::refused("403 Forbidden", "this is not the host that --serve-metrics names\n")
            }
            Behind::Metrics(text) if asked.path == "/metrics" => {
                connection::whole("200 OK", "text/plain; version=0.0.4; charset=utf-8", &text())
            }
            Behind::Metrics(_) => connection::refused("404 Not Found", "GET /metrics\n"),
            Behind::Page { .. } if !is_own(asked, door.address) => {
                connection::refused("403 Forbidden", "this page is only for a browser on this machine\n")
            }
            Behind::Page { token, shell } => match within(&asked.path, token) {
                Some("/") => Arc::clone(shell),
                Some("/events") => return self.welcome(index, asked),
                _ => connection::refused("404 Not Found", "use the URL that plimsoll prints\n"),
            },
        };
        one.answer(answer, self.patience);
    }

    /// Makes a reader a follower. The reader gets all parts, unless it already has the last update.
    /// The reader then gets every new update.
    fn welcome(&mut self, index: usize, asked: &Asked) {
        let (whole, updates) = (&self.whole, self.updates);
        let welcome = self.welcome.get_or_insert_with(|| event(Some(updates), "parts", whole));
        let one = &mut self.connections[index];
        one.follow(asked.takes_gzip, self.patience);
        if asked.takes_gzip {
            one.queue(Arc::from(GZIP_HEAD));
        }
        if updates > 0 && asked.last_id != Some(updates) {
            one.queue_update(welcome, self.patience);
        }
    }

    /// Sends readers the rest of their queues, until no reader takes any bytes for [`IDLE`], for at
    /// most [`LAST_WORDS`].
    fn leave(mut self) {
        self.doors.clear();
        let until = Instant::now() + LAST_WORDS;
        self.connections.retain(|one| !one.is_asking());
        self.connections.iter_mut().for_each(Connection::widen);
        while Instant::now() < until {
            self.connections.iter_mut().for_each(|one| drop(one.step(PollFlags::OUT, self.patience)));
            self.connections.retain(|one| one.is_open() && one.left() > 0);
            if self.connections.is_empty() {
                return;
            }
            let mut polled: Vec<PollFd<'_>> =
                self.connections.iter().map(|one| PollFd::from_borrowed_fd(one.as_fd(), PollFlags::OUT)).collect();
            if poll(&mut polled, Timespec::try_from(IDLE).ok().as_ref()).unwrap_or(0) == 0 {
                return;
            }
        }
    }
}

/// Returns the rest of a path after `/TOKEN`, or `None` if the path does not begin with `/TOKEN`.
/// The comparison takes equally long for all wrong tokens.
fn within<'a>(path: &'a str, token: &str) -> Option<&'a str> {
    let (start, rest) = path.as_bytes().split_at_checked(token.len() + 1)?;
    let differs = start.iter().zip(std::iter::once(&b'/').chain(token.as_bytes()));
    let differs = differs.fold(0, |sum, (one, other)| std::hint::black_box(sum | (one ^ other)));
    std::str::from_utf8(rest).ok().filter(|_| differs == 0)
}

/// Whether a request for the page names this machine as its host, and does not come from a page of
/// another origin.
fn is_own(asked: &Asked, address: SocketAddr) -> bool {
    let Some(host) = asked.host.as_deref().filter(|host| is_meant(host, address)) else { return false };
    asked.origin.as_deref().is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

/// Whether a request with this `Host` may be answered at this address. A malicious web page's host
/// name can resolve to the browser's machine (DNS rebinding), so at a loopback address only names
/// of this machine are accepted. At any other address all names are.
fn is_meant(host: &str, address: SocketAddr) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name);
    let is_own = match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback() || ip == address.ip(),
        Err(_) => format!(".{}", name.to_ascii_lowercase()).ends_with(".localhost"),
    };
    is_own || !address.ip().is_loopback()
}

#[cfg(test)]
mod tests;
