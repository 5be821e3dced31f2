//! Cookies of a session (RFC 6265): the headers that set them, and the jar that holds them between
//! two operations. If a session has only one host, the host's name is empty, and `Domain` has no
//! effect.

use std::ops::Range;

mod date;
mod set_cookie;

pub use set_cookie::SetCookie;

/// Maximum number of cookies in a jar, as RFC 6265, 6.1, asks of a client.
const COOKIES: usize = 50;
/// Maximum length of all names, values and paths of a jar, bytes.
const JAR_BYTES: usize = 64 * 1024;

/// The cookies of a session.
#[derive(Debug, Clone, Default)]
pub struct CookieJar {
    /// Name, value, path and domain of each cookie.
    text: Vec<u8>,
    /// Cookies in the order in which they are sent: those with longer paths first, then those that
    /// were set earlier first.
    cookies: Vec<JarEntry>,
    /// Number of cookies that were added so far.
    added: u64,
}

/// A cookie in a jar. Its text begins at `at`, with name, value, path and domain one after the
/// other.
#[derive(Debug, Clone, Copy)]
struct JarEntry {
    at: usize,
    name: usize,
    value: usize,
    path: usize,
    domain: usize,
    /// End of its life, Unix time in seconds.
    expires_s: i64,
    is_secure: bool,
    /// Whether only the host in `domain` gets the cookie, and not the hosts below it.
    is_host_only: bool,
    /// Value of `added` when the cookie was first set.
    number: u64,
}

/// The cookies that a request sends.
#[derive(Debug, Clone, Copy)]
pub struct RequestCookies<'a> {
    pub jar: &'a CookieJar,
    /// Current Unix time, seconds.
    pub now_s: i64,
}

impl CookieJar {
    /// Forgets all cookies. Keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.cookies.clear();
    }

    /// Whether there are no cookies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// Returns the size of the jar's memory, bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.text.capacity() + self.cookies.capacity() * size_of::<JarEntry>()
    }

    /// Stores a cookie, or deletes it if it has expired. `host` is the host of the request, in
    /// lower case. `target` is the path of the request with its query, which gives a cookie without
    /// a path its path. If the jar is full, the oldest cookie makes room.
    pub fn set(&mut self, cookie: &SetCookie<'_>, host: &[u8], target: &[u8], now_s: i64) {
        let Some((domain, is_host_only)) = domain_of(cookie, host) else { return };
        let path = cookie.path.unwrap_or_else(|| default_path(path_of(target)));
        let length = cookie.name.len() + cookie.value.len() + path.len() + domain.len();
        let expires_s = cookie.expires_s(now_s);
        let is_same = |entry: &JarEntry| {
            let name = &self.text[entry.at..][..entry.name];
            *name == *cookie.name && self.path(entry) == path && self.domain(entry).eq_ignore_ascii_case(domain)
        };
        let old = self.cookies.iter().position(is_same);
        let number = old.map(|place| self.remove(place).number);
        if expires_s <= now_s || length > JAR_BYTES {
            return;
        }
        if self.cookies.len() >= COOKIES || self.text.len() + length > JAR_BYTES {
            self.make_room(length, now_s);
        }
        let number = number.unwrap_or(self.added);
        self.added += 1;
        let place = self
            .cookies
            .partition_point(|entry| entry.path > path.len() || entry.path == path.len() && entry.number < number);
        let at = self.text.len();
        for part in [cookie.name, cookie.value, path, domain] {
            self.text.extend_from_slice(part);
        }
        let (name, value) = (cookie.name.len(), cookie.value.len());
        let (path, domain, is_secure) = (path.len(), domain.len(), cookie.is_secure);
        let entry = JarEntry { at, name, value, path, domain, expires_s, is_secure, is_host_only, number };
        self.cookies.insert(place, entry);
    }

    /// Appends the cookies for a request to `host` as `a=1; b=2`, preceded by `begin` if there is
    /// any. `target` is the range of `out` that holds the path of the request with its query.
    /// Returns whether there is any.
    pub fn write(
        &self,
        (host, is_secure): (&[u8], bool),
        target: Range<usize>,
        now_s: i64,
        begin: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let mut is_first = true;
        for entry in &self.cookies {
            if entry.expires_s <= now_s || entry.is_secure && !is_secure || !self.is_for(entry, host) {
                continue;
            }
            if !path_matches(path_of(&out[target.clone()]), self.path(entry)) {
                continue;
            }
            out.extend_from_slice(if is_first { begin } else { b"; " });
            is_first = false;
            let (name, rest) = self.text[entry.at..].split_at(entry.name);
            for part in [name, b"=", &rest[..entry.value]] {
                out.extend_from_slice(part);
            }
        }
        !is_first
    }

    /// Whether a request to `host` may send the cookie.
    fn is_for(&self, entry: &JarEntry, host: &[u8]) -> bool {
        let domain = self.domain(entry);
        if entry.is_host_only { domain == host } else { domain_matches(host, domain) }
    }

    fn domain(&self, entry: &JarEntry) -> &[u8] {
        &self.text[entry.at + entry.name + entry.value + entry.path..][..entry.domain]
    }

    fn path(&self, entry: &JarEntry) -> &[u8] {
        &self.text[entry.at + entry.name + entry.value..][..entry.path]
    }

    /// Removes expired cookies, and then the oldest, until a cookie with `length` bytes of text
    /// fits.
    fn make_room(&mut self, length: usize, now_s: i64) {
        while let Some(place) = self.cookies.iter().position(|entry| entry.expires_s <= now_s) {
            self.remove(place);
        }
        while self.cookies.len() >= COOKIES || self.text.len() + length > JAR_BYTES {
            let oldest = self.cookies.iter().enumerate().min_by_key(|(_, entry)| entry.number);
            let Some((place, _)) = oldest else { return };
            self.remove(place);
        }
    }

    fn remove(&mut self, place: usize) -> JarEntry {
        let removed = self.cookies.remove(place);
        let length = removed.name + removed.value + removed.path + removed.domain;
        self.text.drain(removed.at..removed.at + length);
        for entry in self.cookies.iter_mut().filter(|entry| entry.at > removed.at) {
            entry.at -= length;
        }
        removed
    }
}

/// Returns the domain of a cookie that an answer of `host` sets, and whether only this host gets
/// the cookie. Returns `None` if the host must not set the cookie (RFC 6265, 5.3). A domain without
/// a dot, such as `com`, is no domain of several hosts.
fn domain_of<'a>(cookie: &SetCookie<'a>, host: &'a [u8]) -> Option<(&'a [u8], bool)> {
    match cookie.domain.filter(|_| !host.is_empty()) {
        None => Some((host, true)),
        Some(domain) if domain.eq_ignore_ascii_case(host) => Some((domain, false)),
        Some(domain) => (domain.contains(&b'.') && domain_matches(host, domain)).then_some((domain, false)),
    }
}

/// Whether `host` is the domain or a host below the domain (RFC 6265, 5.1.3). An address has no
/// hosts below it.
fn domain_matches(host: &[u8], domain: &[u8]) -> bool {
    if host.eq_ignore_ascii_case(domain) {
        return true;
    }
    let Some(begin) = host.len().checked_sub(domain.len()).filter(|begin| *begin > 0) else { return false };
    let is_below = host[begin - 1] == b'.' && host[begin..].eq_ignore_ascii_case(domain);
    is_below && !is_address(host)
}

/// Whether the host is an IP address, and not a name. The last part of a name is not a number.
fn is_address(host: &[u8]) -> bool {
    let last = host.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    host.contains(&b':') || last.iter().all(u8::is_ascii_digit)
}

/// Returns the path of a request's target, without its query. A target may be a whole URL.
fn path_of(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(target.len());
    let path = &target[..end];
    if path.starts_with(b"/") {
        return path;
    }
    let host = memchr::memmem::find(path, b"://").map_or(path.len(), |scheme| scheme + 3);
    let slash = path[host..].iter().position(|byte| *byte == b'/');
    slash.map_or(b"/", |slash| &path[host + slash..])
}

/// Returns the path of a cookie that a request to `path` has set without a path (RFC 6265, 5.1.4).
fn default_path(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(last) => &path[..last],
    }
}

/// Whether a request to `path` sends a cookie with the path `cookie` (RFC 6265, 5.1.4).
fn path_matches(path: &[u8], cookie: &[u8]) -> bool {
    path.strip_prefix(cookie).is_some_and(|rest| rest.is_empty() || cookie.ends_with(b"/") || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_700_000_000;

    /// Returns a jar after answers to requests for these targets.
    fn jar(headers: &[(&str, &str)]) -> CookieJar {
        let mut jar = CookieJar::default();
        headers.iter().for_each(|(target, header)| set(&mut jar, target, header));
        jar
    }

    fn set(jar: &mut CookieJar, target: &str, header: &str) {
        if let Some(cookie) = SetCookie::parse(header.as_bytes()) {
            jar.set(&cookie, b"", target.as_bytes(), NOW_S);
        }
    }

    fn sent_at(jar: &CookieJar, target: &str, now_s: i64) -> String {
        let mut out = target.as_bytes().to_vec();
        let is_any = jar.write((b"", false), 0..target.len(), now_s, b"", &mut out);
        assert_eq!(is_any, out.len() > target.len());
        String::from_utf8(out.split_off(target.len())).unwrap()
    }

    fn sent(jar: &CookieJar, target: &str) -> String {
        sent_at(jar, target, NOW_S)
    }

    #[test]
    fn all_cookies_are_sent_longer_paths_first() {
        let mut jar = jar(&[
            ("/", "a=1"),
            ("/", "b=2; Path=/x"),
            ("/", "c=3; Path=/x/y"),
            ("/", "d=4; Path=/x"),
            ("/", "e=5; Path=/z"),
        ]);
        assert_eq!(sent(&jar, "/x/y/z?e=5"), "c=3; b=2; d=4; a=1");
        // A new value keeps the place.
        set(&mut jar, "/", "b=22; path=/x; SECURE; HttpOnly");
        set(&mut jar, "/", "b=222; path=/x");
        assert_eq!(sent(&jar, "/x/y"), "c=3; b=222; d=4; a=1");
        set(&mut jar, "/", "d=; path=/x");
        assert_eq!(sent(&jar, "/x"), "b=222; d=; a=1");
        assert_eq!(sent(&jar, "/"), "a=1");
    }

    #[test]
    fn paths() {
        for (target, header, sent_to, is_sent) in [
            ("/", "a=1", "/any/where", true),
            ("/app/login?next=/x/y", "a=1", "/app/items", true),
            ("/app/login", "a=1", "/app", true),
            ("/app/login", "a=1", "/", false),
            ("/app/login", "a=1", "/application", false),
            ("/app/", "a=1", "/app/x", true),
            ("/app/login", "a=1; Path=/", "/", true),
            ("/app/login", "a=1; Path=other", "/app/x", true),
            ("/app/login", "a=1; Path=", "/app/x", true),
            ("/app/login", "a=1; Path=other", "/", false),
            ("/app/login", "a=1; Path=/other/", "/other", false),
            ("/app/login", "a=1; Path=/other/", "/other/x", true),
            ("/app/login", "a=1; Path=/x; Path=/y", "/y/z", true),
            ("/app/login", "a=1; Path=/x; Path=/y", "/x", false),
            ("http://host:80/app/login", "a=1", "/app/x", true),
            ("http://host", "a=1", "http://host/app?x", true),
            ("/app/login", "a=1", "http://host/other", false),
            ("/app/login", "a=1; Domain=elsewhere.example", "/app/x", true),
        ] {
            let jar = jar(&[(target, header)]);
            assert_eq!(sent(&jar, sent_to), if is_sent { "a=1" } else { "" }, "{target} {header} {sent_to}");
        }
    }

    #[test]
    fn cookies_end_at_their_time() {
        let past = "Expires=Thu, 01 Jan 1970 00:00:00 GMT";
        for (header, lasts_s) in [
            ("a=1", i64::MAX),
            ("a=1; Max-Age=10", 10),
            ("a=1; max-age=010; Expires=Thu, 01 Jan 1970 00:00:00 GMT", 10),
            ("a=1; Max-Age=99999999999999999999999", i64::MAX),
            ("a=1; Max-Age=x", i64::MAX),
            ("a=1; Max-Age=1x", i64::MAX),
            ("a=1; Max-Age=", i64::MAX),
            ("a=1; Max-Age=-", i64::MAX),
            ("a=1; Expires=never", i64::MAX),
            ("a=1; Expires=Tue, 14 Nov 2023 22:13:40 GMT", 20),
            ("a=1; Max-Age=0", 0),
            ("a=1; Max-Age=-5", 0),
            (&format!("a=1; {past}"), 0),
            (&format!("a=1; {past}; Max-Age=10"), 10),
        ] {
            let jar = jar(&[("/", "a=0"), ("/", header)]);
            for (after_s, is_sent) in [(0, lasts_s > 0), (lasts_s / 2, lasts_s > 0), (lasts_s, false)] {
                if lasts_s == i64::MAX && after_s == lasts_s {
                    continue;
                }
                let expected = if is_sent { "a=1" } else { "" };
                assert_eq!(sent_at(&jar, "/", NOW_S.saturating_add(after_s).min(i64::MAX - 1)), expected, "{header}");
            }
        }
    }

    #[test]
    fn only_the_same_name_and_path_is_replaced_or_deleted() {
        let mut jar = jar(&[("/", "a=1; Path=/x"), ("/", "A=2"), ("/", "a=3")]);
        assert_eq!(sent(&jar, "/x"), "a=1; A=2; a=3");
        set(&mut jar, "/", "a=; Max-Age=0");
        assert_eq!(sent(&jar, "/x"), "a=1; A=2");
        set(&mut jar, "/", "a=; Max-Age=0; Path=/x");
        assert_eq!((sent(&jar, "/x"), jar.text.len()), ("A=2".to_owned(), 3));
    }

    #[test]
    fn secure_cookies_need_tls() {
        let jar = jar(&[("/", "a=1; Secure"), ("/", "b=2")]);
        let mut out = b"/ ".to_vec();
        assert!(jar.write((b"", true), 0..1, NOW_S, b"Cookie: ", &mut out));
        assert_eq!((out.as_slice(), sent(&jar, "/").as_str()), (&b"/ Cookie: a=1; b=2"[..], "b=2"));
    }

    #[test]
    fn cookies_belong_to_their_host() {
        let (www, cdn, other) = ("www.example.org", "cdn.example.org", "127.0.0.1");
        for (host, header, sent_to) in [
            (www, "a=1", &[www][..]),
            (www, "a=1; Domain=example.org", &[www, cdn]),
            (www, "a=1; Domain=.Example.ORG", &[www, cdn]),
            (www, "a=1; Domain=www.example.org", &[www]),
            (www, "a=1; Domain=", &[www]),
            (www, "a=1; Domain=cdn.example.org", &[]),
            (www, "a=1; Domain=org", &[]),
            (www, "a=1; Domain=ample.org", &[]),
            (other, "a=1", &[other]),
            (other, "a=1; Domain=127.0.0.1", &[other]),
            (other, "a=1; Domain=0.0.1", &[]),
            ("localhost", "a=1; Domain=localhost", &["localhost"]),
        ] {
            let mut jar = CookieJar::default();
            jar.set(&SetCookie::parse(header.as_bytes()).unwrap(), host.as_bytes(), b"/", NOW_S);
            for to in [www, cdn, other, "localhost", "example.com", "xexample.org"] {
                let mut out = b"/".to_vec();
                let is_sent = jar.write((to.as_bytes(), false), 0..1, NOW_S, b"", &mut out);
                assert_eq!(is_sent, sent_to.contains(&to), "{host} {header} {to}");
            }
        }
    }

    #[test]
    fn equal_names_of_two_hosts_are_two_cookies() {
        let mut jar = CookieJar::default();
        for (host, header) in [("a.x.org", "s=1"), ("b.x.org", "s=2"), ("a.x.org", "s=3"), ("b.x.org", "s=; Max-Age=0")]
        {
            jar.set(&SetCookie::parse(header.as_bytes()).unwrap(), host.as_bytes(), b"/", NOW_S);
        }
        let sent = |host: &str| {
            let mut out = b"/".to_vec();
            jar.write((host.as_bytes(), false), 0..1, NOW_S, b"", &mut out);
            String::from_utf8(out.split_off(1)).unwrap()
        };
        assert_eq!((sent("a.x.org"), sent("b.x.org")), ("s=3".to_owned(), String::new()));
    }

    #[test]
    fn a_jar_has_a_limit_and_drops_the_oldest() {
        let mut jar = CookieJar::default();
        (0..1000).for_each(|number| set(&mut jar, "/", &format!("c{number}={number}")));
        assert_eq!((jar.cookies.len(), sent(&jar, "/").starts_with("c950=950; c951=951;")), (COOKIES, true));
        (0..1000).for_each(|number| set(&mut jar, "/", &format!("d{number}={}", "x".repeat(4000))));
        let names: usize = jar.cookies.iter().map(|entry| entry.name + entry.value + entry.path).sum();
        assert!(jar.cookies.len() == 16 && jar.text.len() == names && names <= JAR_BYTES, "{names}");
        set(&mut jar, "/", &format!("e={}", "x".repeat(JAR_BYTES)));
        assert_eq!(jar.cookies.len(), 16, "a cookie that does not fit at all");
        set(&mut jar, "/", "f=1; Max-Age=1");
        let cookie = SetCookie::parse(b"g=1").unwrap();
        (0..40).for_each(|number| set(&mut jar, "/", &format!("h{number}=")));
        jar.set(&cookie, b"", b"/", NOW_S + 5);
        assert!(!sent(&jar, "/").contains("f=1"), "an expired cookie goes first");
        jar.clear();
        assert_eq!((jar.is_empty(), sent(&jar, "/"), jar.capacity() > 0), (true, String::new(), true));
    }

    #[test]
    fn any_sequence_of_headers_leaves_a_jar_in_order() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut jar = CookieJar::default();
        let mut model: Vec<(u8, u8, u32)> = Vec::new();
        for turn in 0..20_000_u32 {
            let (name, path) = (random.u8(b'a'..=b'e'), random.u8(b'p'..=b's'));
            let (header, name) = (format!("{}={turn}; Path=/{}", name as char, path as char), name);
            let place = model.iter().position(|(n, p, _)| (*n, *p) == (name, path));
            if random.u8(..4) == 0 {
                set(&mut jar, "/", &format!("{header}; Max-Age=0"));
                place.map(|place| model.remove(place));
            } else {
                set(&mut jar, "/", &header);
                match place {
                    Some(place) => model[place].2 = turn,
                    None => model.push((name, path, turn)),
                }
            }
            let of_path = |of: u8| model.iter().filter(move |(_, path, _)| *path == of);
            let expected: Vec<String> =
                of_path(path).map(|(name, _, value)| format!("{}={value}", *name as char)).collect();
            assert_eq!(sent(&jar, &format!("/{}/x", path as char)), expected.join("; "));
        }
    }
}
