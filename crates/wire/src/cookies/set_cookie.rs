//! The `Set-Cookie` header (RFC 6265, 5.2).

use super::date;

/// Longest name and value together, bytes. A longer cookie is ignored (RFC 6265, 6.1).
const LONGEST: usize = 4096;
/// Longest attribute value, bytes. A longer attribute is ignored.
const LONGEST_ATTRIBUTE: usize = 1024;

/// A `Set-Cookie` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetCookie<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// Path of the cookie; `None` for the default path.
    pub path: Option<&'a [u8]>,
    /// Domain of the hosts that get the cookie; `None` for the host alone.
    pub domain: Option<&'a [u8]>,
    /// Whether the cookie is sent over TLS only.
    pub is_secure: bool,
    /// Lifetime, seconds; takes precedence over `expires_s`.
    max_age_s: Option<i64>,
    /// End of its life, Unix time in seconds.
    expires_s: Option<i64>,
}

impl<'a> SetCookie<'a> {
    /// Parses the header's value. Returns `None` if the header must be ignored: it has no name or
    /// control characters, or is too long.
    #[must_use]
    pub fn parse(header: &'a [u8]) -> Option<Self> {
        if header.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return None;
        }
        let mut parts = header.split(|byte| *byte == b';');
        let (name, value) = split(parts.next()?);
        let value = value?;
        if name.is_empty() || name.len() + value.len() > LONGEST {
            return None;
        }
        let mut cookie =
            Self { name, value, path: None, domain: None, is_secure: false, max_age_s: None, expires_s: None };
        for part in parts {
            let (attribute, value) = split(part);
            cookie.note(attribute, value.unwrap_or_default());
        }
        Some(cookie)
    }

    /// Takes over an attribute. Of several with the same name, the last counts.
    fn note(&mut self, attribute: &[u8], value: &'a [u8]) {
        if value.len() > LONGEST_ATTRIBUTE {
            return;
        }
        if attribute.eq_ignore_ascii_case(b"path") {
            self.path = Some(value).filter(|path| path.starts_with(b"/"));
        } else if attribute.eq_ignore_ascii_case(b"domain") {
            let domain = value.strip_prefix(b".").unwrap_or(value);
            self.domain = Some(domain).filter(|domain| !domain.is_empty());
        } else if attribute.eq_ignore_ascii_case(b"secure") {
            self.is_secure = true;
        } else if attribute.eq_ignore_ascii_case(b"max-age") {
            self.max_age_s = seconds(value).or(self.max_age_s);
        } else if attribute.eq_ignore_ascii_case(b"expires") {
            self.expires_s = date::parse(value).or(self.expires_s);
        }
    }

    /// Returns the end of the cookie's life, as Unix time in seconds. A cookie without a time lives
    /// as long as its session.
    #[must_use]
    pub fn expires_s(&self, now_s: i64) -> i64 {
        match self.max_age_s {
            Some(age_s) => now_s.saturating_add(age_s),
            None => self.expires_s.unwrap_or(i64::MAX),
        }
    }
}

/// Splits `name=value`, both without surrounding blanks.
fn split(part: &[u8]) -> (&[u8], Option<&[u8]>) {
    match part.iter().position(|byte| *byte == b'=') {
        Some(equals) => (part[..equals].trim_ascii(), Some(part[equals + 1..].trim_ascii())),
        None => (part.trim_ascii(), None),
    }
}

/// Parses a `Max-Age`. A number that is too large is the largest one.
fn seconds(value: &[u8]) -> Option<i64> {
    let (sign, digits) = value.strip_prefix(b"-").map_or((1, value), |digits| (-1, digits));
    if digits.is_empty() {
        return None;
    }
    let add = |sum: i64, digit: &u8| {
        digit.is_ascii_digit().then(|| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')))
    };
    digits.iter().try_fold(0, add).map(|sum| sum * sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_value() {
        for (header, expected) in [
            ("sid=42", Some(("sid", "42"))),
            (" sid = 4 2 ; Path=/; sid=43", Some(("sid", "4 2"))),
            ("sid=", Some(("sid", ""))),
            ("sid=a=b==", Some(("sid", "a=b=="))),
            ("sid=\"x y\"", Some(("sid", "\"x y\""))),
            ("=42", None),
            ("sid", None),
            ("sid; Path=/a=b", None),
            ("", None),
            ("sid=4\r\nX: y", None),
            ("sid=4; Path=/\0", None),
            ("s\x7fd=4", None),
        ] {
            let parsed = SetCookie::parse(header.as_bytes());
            let expected = expected.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            assert_eq!(parsed.map(|cookie| (cookie.name, cookie.value)), expected, "{header}");
        }
        assert!(SetCookie::parse(format!("a={}", "x".repeat(LONGEST - 1)).as_bytes()).is_some());
        assert!(SetCookie::parse(format!("a={}", "x".repeat(LONGEST)).as_bytes()).is_none());
    }

    #[test]
    fn attributes() {
        let of = |attributes: &str| {
            let header = format!("a=1{attributes}");
            let cookie = SetCookie::parse(header.as_bytes()).unwrap();
            let path = cookie.path.map(|path| String::from_utf8_lossy(path).into_owned());
            (path, cookie.is_secure, cookie.expires_s(100))
        };
        assert_eq!(of(""), (None, false, i64::MAX));
        assert_eq!(of(";path=/x ;SECURE=1; Max-Age=5;;=;x"), (Some("/x".to_owned()), true, 105));
        assert_eq!(of("; Path=/x; Path=y"), (None, false, i64::MAX), "the last is the default path");
        assert_eq!(of("; Max-Age=5; Max-Age=x; Expires=x"), (None, false, 105));
        assert_eq!(of("; Max-Age=-99999999999999999999999").2, -i64::MAX + 100);
        assert_eq!(of(&format!("; Path=/{}", "x".repeat(LONGEST_ATTRIBUTE))).0, None);
    }
}
