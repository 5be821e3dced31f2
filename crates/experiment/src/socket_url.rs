//! URLs of services that listen on a Unix socket: `http+unix://%2Frun%2Fapp.sock/path`, a form that
//! other clients use too.

/// Scheme of the URLs.
pub const SCHEME: &str = "http+unix";

/// Length of the longest path that fits into a socket address, bytes (unix(7), `sun_path`).
const LONGEST: usize = 107;

/// Returns the path of the socket in a URL; `None` if the URL has another scheme.
///
/// # Errors
/// The reason why the path is invalid.
pub fn socket_of(url: &str) -> Option<Result<String, &'static str>> {
    let rest = url.strip_prefix(SCHEME)?.strip_prefix("://")?;
    Some(path_of(rest.split(['/', '?', '#']).next().unwrap_or_default()))
}

fn path_of(host: &str) -> Result<String, &'static str> {
    let path = decoded(host).ok_or("after a % come two hexadecimal digits")?;
    match path.as_str() {
        path if !path.starts_with('/') => Err("in it a socket has a whole path, its slashes written %2F"),
        path if path.len() > LONGEST => Err("the path of a socket has at most 107 bytes"),
        path if path.contains('\0') => Err("the path of a socket has no zero byte"),
        _ => Ok(path),
    }
}

fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// Returns the URL of the socket at this path.
#[must_use]
pub fn url_of(path: &str) -> String {
    format!("{SCHEME}://{}", text::percent_encoded(path, text::is_unreserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_conversion_to_urls() {
        for path in ["/run/app.sock", "/tmp/a b/%2F:{x}", "/srv/größe"] {
            let url = url_of(path);
            assert!(url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'{'), "{url}");
            assert_eq!(socket_of(&format!("{url}/items?x=1")), Some(Ok(path.to_owned())), "{url}");
        }
        assert_eq!(url_of("/run/app.sock"), "http+unix://%2Frun%2Fapp.sock");
    }

    #[test]
    fn invalid_sockets_are_reported() {
        assert_eq!(socket_of("http://localhost/"), None);
        let told = |host: &str| socket_of(&format!("{SCHEME}://{host}/x")).unwrap().unwrap_err();
        assert!(told("app.sock").contains("whole path"));
        assert!(told("").contains("whole path"));
        assert!(told("%2Frun%2").contains("two hexadecimal digits"));
        assert!(told("%2Frun%+1").contains("two hexadecimal digits"));
        assert!(told("%2Frun%00").contains("zero byte"));
        assert!(told(&format!("%2F{}", "x".repeat(107))).contains("107 bytes"));
    }
}
