//! A URL as people write it, taken apart into what an experiment's `url` and `path` are. It must not look anything up.

use super::asked::Wrong;

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Scheme, host and port: `http://localhost:8080`.
    pub service: String,
    /// Path and query, at least `/`.
    pub path: String,
}

/// What nobody names is spoken in this.
const USUAL: &str = "http";

/// The URL as it may be shown.
fn without_login(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    url[start..end].rfind('@').map_or_else(|| url.to_owned(), |at| format!("{}…{}", &url[..start], &url[start + at..]))
}

/// Takes a URL apart whose scheme is one of these, the usual one if it has none; a fragment is the client's and is left out.
///
/// # Errors
/// What is wrong with it.
pub fn place(url: &str, schemes: &[&str]) -> Result<Place, Wrong> {
    let bad = |why: &str, remedy: &str| Wrong::new(format!("{}: {why}", without_login(url)), remedy);
    const FORM: &str = "write a URL such as http://localhost:8080/path";
    if url.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return Err(bad("there are blanks in this URL", "write %20 for a blank"));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or((USUAL, url));
    let scheme = scheme.to_ascii_lowercase();
    if !schemes.contains(&scheme.as_str()) {
        let known: Vec<String> = schemes.iter().map(|known| format!("{known}://")).collect();
        let remedy = format!("this takes {}; for others `plimsoll new URL` writes a file", known.join(" and "));
        return Err(bad("no URL of a web server", &remedy));
    }
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(bad("a user is not taken from a URL", "send it: -H 'Authorization: Basic …'"));
    }
    // An IPv6 address has colons of its own, inside brackets.
    let (host, port) = match authority.rfind(']') {
        Some(end) => (&authority[..=end], authority[end + 1..].strip_prefix(':')),
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(bad("this URL names no host", FORM));
    }
    if let Some(port) = port
        && !port.parse::<u16>().is_ok_and(|port| port > 0)
    {
        return Err(bad(&format!("`{port}` is not a port"), "the port is a number from 1 to 65535"));
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let slash = if rest.starts_with('/') { "" } else { "/" };
    Ok(Place { service: format!("{scheme}://{authority}"), path: format!("{slash}{rest}") })
}
