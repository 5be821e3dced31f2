//! Encoding of values for the place in a request that they fill, so that a value cannot become
//! syntax: a blank in a path, `&` in a form, a quote in a JSON string.

use experiment::template::{self, Filter, Template, TemplatePart};

use super::feeds::FeedRows;

/// Part of a request that a template fills. Literal text is sent as it is written, except in
/// [`ValuePlace::FormValue`]. Each placeholder is encoded, unless its last filter is an encoding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ValuePlace {
    /// Any bytes; nothing is encoded.
    #[default]
    Plain,
    /// A path with a query. A placeholder at its beginning is a whole path and is not encoded.
    Path,
    /// A body of form fields (`application/x-www-form-urlencoded`).
    Form,
    /// The value of one form field. Literal text is encoded, too.
    FormValue,
    /// A name in the head of a part of a multipart body. Literal text is encoded, too.
    PartName,
    /// A JSON text. Placeholders between quotes are encoded; other placeholders are JSON already.
    Json,
}

/// Encoding of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Percent-encoding of all but unreserved characters (RFC 3986, 2.1 and 2.3).
    Url,
    /// Percent-encoding with `+` for a blank (WHATWG URL, application/x-www-form-urlencoded).
    Form,
    /// Escapes of a JSON string (RFC 8259, 7).
    Json,
    /// Base64 (RFC 4648, 4).
    Base64,
    /// Percent-encoding of quotes and line ends (WHATWG HTML, multipart/form-data).
    PartName,
}

impl Encoding {
    /// Returns the encoding of a filter, or `None` if the filter is no encoding.
    pub fn of(filter: &Filter) -> Option<Self> {
        match filter {
            Filter::Url => Some(Self::Url),
            Filter::Form => Some(Self::Form),
            Filter::Json => Some(Self::Json),
            Filter::Base64 => Some(Self::Base64),
            _ => None,
        }
    }

    /// Encodes the bytes of `out` from `start`.
    pub fn apply(self, out: &mut Vec<u8>, start: usize) {
        match self {
            Self::Base64 => template::base64_in_place(out, start),
            Self::Url => encode_percent(out, start, |byte| !is_unreserved(byte)),
            Self::Form => replace(
                out,
                start,
                |byte| !is_unreserved(byte),
                |byte, encoded| match byte {
                    b' ' => encoded.push(b'+'),
                    other => push_percent(other, encoded),
                },
            ),
            Self::PartName => replace(out, start, |byte| matches!(byte, b'"' | b'\r' | b'\n'), push_percent),
            Self::Json => replace(out, start, |byte| byte < b' ' || matches!(byte, b'"' | b'\\'), push_escape),
        }
    }
}

/// Whether a URL may contain the byte anywhere as itself (RFC 3986, 2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Replaces the bytes of `out` from `start` that `is_special` by what `push` appends for them. A
/// value without such bytes is not copied.
fn replace(out: &mut Vec<u8>, start: usize, is_special: impl Fn(u8) -> bool, push: impl Fn(u8, &mut Vec<u8>)) {
    let Some(first) = out[start..].iter().position(|byte| is_special(*byte)) else { return };
    // The encoded text is appended and then moved over the value.
    let (from, end) = (start + first, out.len());
    for index in from..end {
        let byte = out[index];
        if is_special(byte) {
            push(byte, out);
        } else {
            out.push(byte);
        }
    }
    let length = out.len() - end;
    out.copy_within(end.., from);
    out.truncate(from + length);
}

/// Percent-encodes the bytes of `out` from `start` that `is_special`.
pub fn encode_percent(out: &mut Vec<u8>, start: usize, is_special: impl Fn(u8) -> bool) {
    replace(out, start, is_special, push_percent);
}

fn push_percent(byte: u8, encoded: &mut Vec<u8>) {
    encoded.extend([b'%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
}

/// Replaces `%` and two hexadecimal digits by the byte. Other text stays.
pub fn decode_percent(text: &mut Vec<u8>) {
    let hex = |byte: &u8| char::from(*byte).to_digit(16);
    let (mut from, mut to) = (0, 0);
    while from < text.len() {
        let digits = text.get(from + 1).and_then(hex).zip(text.get(from + 2).and_then(hex));
        let byte = digits.filter(|_| text[from] == b'%').map(|(high, low)| (high << 4 | low) as u8);
        text[to] = byte.unwrap_or(text[from]);
        from += if byte.is_some() { 3 } else { 1 };
        to += 1;
    }
    text.truncate(to);
}

fn push_escape(byte: u8, encoded: &mut Vec<u8>) {
    match byte {
        b'"' | b'\\' => encoded.extend([b'\\', byte]),
        b'\n' => encoded.extend(*b"\\n"),
        b'\r' => encoded.extend(*b"\\r"),
        b'\t' => encoded.extend(*b"\\t"),
        other => encoded.extend([b'\\', b'u', b'0', b'0', hex_digit(other >> 4), hex_digit(other & 15)]),
    }
}

fn hex_digit(number: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(number & 15)]
}

/// Reader of a template's literal text that knows the encoding at each placeholder.
pub struct PlaceReader {
    place: ValuePlace,
    is_at_start: bool,
    /// Whether the text so far ends inside a JSON string, and after a backslash there.
    is_in_string: bool,
    is_escaped: bool,
}

impl PlaceReader {
    pub fn new(place: ValuePlace) -> Self {
        Self { place, is_at_start: true, is_in_string: false, is_escaped: false }
    }

    /// Passes the next part of the template. Returns its encoding, or `None` if it is sent as it is
    /// or is encoded by its own filter.
    pub fn part(&mut self, part: &TemplatePart) -> Option<Encoding> {
        let encoding = match part {
            TemplatePart::Text(text) => self.literal(text),
            _ => self.placeholder(),
        };
        encoding.filter(|_| !part.is_encoded())
    }

    /// Passes literal text. Returns its encoding, if it is encoded.
    fn literal(&mut self, text: &str) -> Option<Encoding> {
        self.is_at_start = false;
        if self.place == ValuePlace::Json {
            text.bytes().for_each(|byte| self.json(byte));
        }
        match self.place {
            ValuePlace::FormValue => Some(Encoding::Form),
            ValuePlace::PartName => Some(Encoding::PartName),
            _ => None,
        }
    }

    fn json(&mut self, byte: u8) {
        if std::mem::take(&mut self.is_escaped) {
            return;
        }
        match byte {
            b'"' => self.is_in_string = !self.is_in_string,
            b'\\' => self.is_escaped = self.is_in_string,
            _ => {}
        }
    }

    /// Passes a placeholder. Returns its encoding, if it is encoded.
    fn placeholder(&mut self) -> Option<Encoding> {
        let is_first = std::mem::take(&mut self.is_at_start);
        self.is_escaped = false;
        match self.place {
            ValuePlace::Plain => None,
            ValuePlace::Path => (!is_first).then_some(Encoding::Url),
            ValuePlace::Form | ValuePlace::FormValue => Some(Encoding::Form),
            ValuePlace::PartName => Some(Encoding::PartName),
            ValuePlace::Json => self.is_in_string.then_some(Encoding::Json),
        }
    }
}

/// A feed's value that its place in a request changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedValue {
    /// The placeholder without braces: `feed.NAME.COLUMN`.
    pub placeholder: String,
    /// The value in the file.
    pub value: String,
    /// The value as it is sent.
    pub sent: String,
}

/// Returns, for each placeholder of a feed that is encoded without a filter, the first value that
/// its encoding changes.
pub fn changed_values(place: ValuePlace, text: &str, feeds: &[FeedRows]) -> Vec<ChangedValue> {
    let mut reader = PlaceReader::new(place);
    let mut changed = Vec::new();
    for part in Template::parse(text).map_or_else(|_| Vec::new(), |template| template.parts) {
        let encoding = reader.part(&part);
        if let (TemplatePart::Feed { feed, column }, Some(encoding)) = (&part, encoding) {
            let rows = feeds.iter().find(|known| known.name() == feed);
            let value = rows.and_then(|rows| rows.first_value(column, |value| is_changed(encoding, value)));
            changed.extend(value.map(|value| ChangedValue {
                placeholder: format!("feed.{feed}.{column}"),
                sent: String::from_utf8_lossy(&encoded(encoding, &value)).into_owned(),
                value: String::from_utf8_lossy(&value).into_owned(),
            }));
        }
    }
    changed
}

fn encoded(encoding: Encoding, value: &[u8]) -> Vec<u8> {
    let mut encoded = value.to_vec();
    encoding.apply(&mut encoded, 0);
    encoded
}

fn is_changed(encoding: Encoding, value: &[u8]) -> bool {
    encoded(encoding, value) != value
}

#[cfg(test)]
mod tests {
    use experiment::plan;

    use super::*;
    use crate::input_files::InputFiles;

    /// Encodes a text that stands behind another one, which must not change.
    fn text_behind(encoding: Encoding, text: &[u8]) -> String {
        let mut out = b"a b&".to_vec();
        out.extend_from_slice(text);
        encoding.apply(&mut out, 4);
        assert!(out.starts_with(b"a b&"));
        String::from_utf8(out.split_off(4)).unwrap()
    }

    #[test]
    fn each_encoding_encodes_its_own_syntax() {
        let table: [(&[u8], &str, &str, &str); 9] = [
            (b"", "", "", ""),
            (b"plain-._~", "plain-._~", "plain-._~", "plain-._~"),
            (b"a b", "a%20b", "a+b", "a b"),
            (b"p&w=2", "p%26w%3D2", "p%26w%3D2", "p&w=2"),
            (b"\r\nX: y", "%0D%0AX%3A%20y", "%0D%0AX%3A+y", r"\r\nX: y"),
            (b"100%", "100%25", "100%25", "100%"),
            (br#"say "\""#, "say%20%22%5C%22", "say+%22%5C%22", r#"say \"\\\""#),
            ("é/\0".as_bytes(), "%C3%A9%2F%00", "%C3%A9%2F%00", r"é/\u0000"),
            (b"+", "%2B", "%2B", "+"),
        ];
        for (text, url, form, json) in table {
            assert_eq!(text_behind(Encoding::Url, text), url);
            assert_eq!(text_behind(Encoding::Form, text), form);
            assert_eq!(text_behind(Encoding::Json, text), json);
            let read: String = serde_json::from_str(&format!("\"{json}\"")).unwrap();
            assert_eq!(read.as_bytes(), text);
        }
    }

    #[test]
    fn only_placeholders_in_json_strings_are_encoded() {
        let mut reader = PlaceReader::new(ValuePlace::Json);
        for (text, encoding) in [
            (r#"{"count": "#, None),
            (r#", "name": ""#, Some(Encoding::Json)),
            (r#" said \""#, Some(Encoding::Json)),
            (r#"\\", "more": ["#, None),
            (r#""\\"#, Some(Encoding::Json)),
        ] {
            reader.literal(text);
            assert_eq!(reader.placeholder(), encoding, "{text}");
        }
    }

    #[test]
    fn only_values_that_their_place_changes_are_reported() {
        let folder = fixture::TestDir::new();
        let text = "id,name,plain\n1,a b,x\n2,\"say \"\"no\"\"\",y\n";
        let file = folder.write("f.csv", text).display().to_string();
        let feed = plan::Feed { file, ..crate::testing::feed("f.csv") };
        let name = feed.name.clone();
        let feeds = [FeedRows::read(&feed, &InputFiles::below("/")).unwrap()];
        let changed = |place, text: &str| {
            let values = changed_values(place, &text.replace("FEED", &format!("feed.{name}")), &feeds);
            values.into_iter().map(|changed| changed.sent).collect::<Vec<_>>()
        };
        assert_eq!(changed(ValuePlace::Path, "/x?id={FEED.id}&name={FEED.name}"), ["a%20b"]);
        assert_eq!(changed(ValuePlace::Json, r#"{{"name": "{FEED.name}", "id": {FEED.name}}}"#), [r#"say \"no\""#]);
        for text in ["{FEED.name}", "/{FEED.name|raw}", "/{FEED.name|url}", "/{FEED.plain}"] {
            assert_eq!(changed(ValuePlace::Path, text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(changed(ValuePlace::Plain, "x{FEED.name}"), Vec::<String>::new());
    }
}
