//! Filters of a placeholder's value: `{name|url}`, `{text|sha256|base64}`.

use std::fmt;

use super::parsing::{Word, parse_placeholder, value_text};
use super::{TemplateError, TemplatePart};

/// A filter of a placeholder's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// `|raw`: no encoding.
    Raw,
    /// `|url`: percent-encoding (RFC 3986).
    Url,
    /// `|form`: encoding of a form field.
    Form,
    /// `|json`: escapes of a JSON string.
    Json,
    /// `|base64`: base64 (RFC 4648, 4).
    Base64,
    /// `|md5`: the MD5 digest (RFC 1321), in hexadecimal digits.
    Md5,
    /// `|sha1`: the SHA-1 digest (FIPS 180-4), in hexadecimal digits.
    Sha1,
    /// `|sha256`: the SHA-256 digest (FIPS 180-4), in hexadecimal digits.
    Sha256,
    /// `|hmac_sha256:KEY`: the HMAC with SHA-256 (RFC 2104), in hexadecimal digits. The key is a
    /// placeholder without braces.
    HmacSha256(Box<TemplatePart>),
    /// `|unhex`: the bytes of the digest before it, instead of hexadecimal digits.
    Unhex,
}

/// Filters without a key, by name.
const PLAIN: [(&str, Filter); 9] = [
    ("raw", Filter::Raw),
    ("url", Filter::Url),
    ("form", Filter::Form),
    ("json", Filter::Json),
    ("base64", Filter::Base64),
    ("md5", Filter::Md5),
    ("sha1", Filter::Sha1),
    ("sha256", Filter::Sha256),
    ("unhex", Filter::Unhex),
];

const HMAC: &str = "hmac_sha256";

const FILTERS: &str = "filters are |raw, |url, |form, |json, |base64, |md5, |sha1, |sha256, |hmac_sha256:KEY and |unhex, such as {name|url}";
const KEY: &str =
    "a key is a slot, a value of `set`, a column of a feed or a variable, such as {text|hmac_sha256:env:SECRET}";

impl Filter {
    /// Whether the filter's result is encoded for a place in a request, so that the place's own
    /// encoding is not applied.
    pub(super) fn is_place_encoding(&self) -> bool {
        matches!(self, Self::Raw | Self::Url | Self::Form | Self::Json)
    }

    fn is_digest(&self) -> bool {
        matches!(self, Self::Md5 | Self::Sha1 | Self::Sha256 | Self::HmacSha256(_))
    }

    /// Returns the key of the filter, if it has one.
    pub fn key(&self) -> Option<&TemplatePart> {
        if let Self::HmacSha256(key) = self { Some(key) } else { None }
    }

    /// Returns the filter with another key.
    pub(super) fn with_key(self, change: impl FnOnce(TemplatePart) -> TemplatePart) -> Self {
        if let Self::HmacSha256(key) = self { Self::HmacSha256(Box::new(change(*key))) } else { self }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::HmacSha256(key) = self {
            let key = key.to_string();
            return write!(
                out,
                "{HMAC}:{}",
                key.strip_prefix('{').and_then(|key| key.strip_suffix('}')).unwrap_or(&key)
            );
        }
        out.write_str(PLAIN.iter().find(|(_, filter)| filter == self).map_or("raw", |(name, _)| name))
    }
}

/// Reads the filters of a placeholder from byte `from` of the template, which is a bar or the
/// closing brace. Also returns the position of the brace.
pub(super) fn filters(text: &str, from: usize) -> Result<(Vec<Filter>, usize), TemplateError> {
    let (mut read, mut at): (Vec<Filter>, usize) = (Vec::new(), from);
    while text[at..].starts_with('|') {
        let (filter, end) = filter(text, at + 1)?;
        if filter == Filter::Unhex && !read.last().is_some_and(Filter::is_digest) {
            let word = Word { text: &text[at + 1..end], at: at + 1 };
            return Err(word.wrong("`unhex` follows a digest", "for example {text|sha256|unhex|base64}"));
        }
        read.push(filter);
        at = end;
    }
    Ok((read, at))
}

/// Reads a filter from byte `from`. Also returns the position after it.
fn filter(text: &str, from: usize) -> Result<(Filter, usize), TemplateError> {
    let end_of = |at: usize| text[at..].find(['|', '}']).map_or(text.len(), |length| at + length);
    let is_hmac = |rest: &str| rest.strip_prefix(HMAC).is_some_and(|rest| rest.starts_with(':'));
    if is_hmac(&text[from..]) {
        let at = from + HMAC.len() + 1;
        if text[at..].starts_with("text:") {
            let (key, end) = value_text(text, at + "text:".len())?;
            return Ok((Filter::HmacSha256(Box::new(TemplatePart::Value(key))), end));
        }
        let end = end_of(at);
        let key = parse_placeholder(&text[at..end], at)?;
        let is_key = |part: &TemplatePart| {
            use TemplatePart::{Env, Feed, Script, Slot};
            matches!(part, Slot(_) | Feed { .. } | Env(_) | Script(_))
        };
        let word = Word { text: &text[at..end], at };
        return if is_key(&key) {
            Ok((Filter::HmacSha256(Box::new(key)), end))
        } else {
            Err(word.wrong("this cannot be a key", KEY))
        };
    }
    let end = end_of(from);
    let word = Word { text: &text[from..end], at: from };
    if word.text == HMAC {
        return Err(word.wrong("the key is missing", KEY));
    }
    match PLAIN.iter().find(|(name, _)| *name == word.text) {
        Some((_, filter)) => Ok((filter.clone(), end)),
        None => Err(word.wrong(format!("there is no filter `{}`", word.text), FILTERS)),
    }
}

#[cfg(test)]
mod tests {
    use crate::template::{Template, with_environment};

    #[test]
    fn filters_survive_printing_and_parsing() {
        for text in [
            "{a|sha256}",
            "{seq|md5|base64|url}",
            "{body|hmac_sha256:env:KEY|unhex|base64}",
            "{body|hmac_sha256:key}",
            "{body|hmac_sha256:feed.users.secret|raw}",
            "{body|hmac_sha256:lua.key}",
            r"{text:a\|b|sha1|unhex|base64}",
            r"{body|hmac_sha256:text:a\}\|\\b|unhex|base64}",
            "{pad:8:{seq|sha256}}",
        ] {
            assert_eq!(Template::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn keys_are_filled_in() {
        let value = |name: &str| (name == "KEY").then(|| "a|b}".to_owned());
        assert_eq!(with_environment("{x|hmac_sha256:env:KEY}", &value), r"{x|hmac_sha256:text:a\|b\}}");
        let values = [("key".to_owned(), "k".to_owned())].into();
        assert_eq!(crate::template::with_slots("{x|hmac_sha256:key|raw}", &values), "{x|hmac_sha256:text:k|raw}");
    }

    #[test]
    fn mistakes_are_underlined() {
        for (text, underlined) in [
            ("{a|sha512}", "sha512"),
            ("{a|hmac_sha256}", "hmac_sha256"),
            ("{a|hmac_sha256:}", ":}"),
            ("{a|hmac_sha256:seq}", "seq"),
            ("{a|hmac_sha256:bytes:10}", "bytes:10"),
            ("{a|hmac_sha256:env:9}", "9"),
            ("{a|unhex}", "unhex"),
            ("{a|sha256|base64|unhex}", "unhex"),
            ("{a|sha256", "{a|sha256"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(&text[error.at.clone()], underlined, "{text}: {error}");
        }
    }
}
