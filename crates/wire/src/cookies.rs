//! Cookies that answers set (RFC 6265).

/// A `Set-Cookie` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetCookie<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> SetCookie<'a> {
    /// Parses the header's value (RFC 6265, 5.2). Returns `None` if the header must be ignored.
    #[must_use]
    pub fn parse(header: &'a [u8]) -> Option<Self> {
        let pair = header.split(|byte| *byte == b';').next().unwrap_or_default();
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        (!name.is_empty()).then_some(Self { name, value })
    }
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
        ] {
            let parsed = SetCookie::parse(header.as_bytes());
            let expected = expected.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            assert_eq!(parsed.map(|cookie| (cookie.name, cookie.value)), expected, "{header}");
        }
    }
}
