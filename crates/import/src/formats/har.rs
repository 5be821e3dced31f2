//! HTTP Archives (HAR 1.1 and 1.2), which browsers and proxies record.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::{Content, Format};
use crate::formats::curl::encoded;
use crate::left_out::LeftOut;
use crate::multipart::{self, FormPart};
use crate::recording::{ImportedRecording, RecordedBody, RecordedRequest};
use crate::{ImportError, ImportSource};

pub const FORMAT: Format = Format { name: "har", title: "HAR", is_of_a_browser: true, recognises, read };

const ARCHIVE: &str = "a HAR file: an object `log` with a list `entries`, each with a `request`";

fn recognises(content: &Content<'_>) -> bool {
    content.json.as_ref().and_then(|json| json.get("log")).is_some_and(Value::is_object)
}

fn read(source: &ImportSource<'_>) -> Result<ImportedRecording, ImportError> {
    let archive: Value = serde_json::from_str(source.text)
        .map_err(|error| ImportError::at(error.line(), format!("this is not JSON: {error}"), ARCHIVE))?;
    let log = archive.get("log").ok_or_else(|| ImportError::new("there is no `log`", ARCHIVE))?;
    let entries = log.get("entries").and_then(Value::as_array);
    let entries = entries.ok_or_else(|| ImportError::new("`log` has no list `entries`", ARCHIVE))?;
    if entries.is_empty() {
        return Err(ImportError::new("`log.entries` is empty", "at least one entry"));
    }
    let set = set_cookies(entries);
    let mut recording =
        ImportedRecording { title: title(log), has_cookie_jar: !set.is_empty(), ..ImportedRecording::default() };
    for (index, entry) in entries.iter().enumerate() {
        let request = request(entry, &set, &mut recording.left_out);
        let place = |what: String| ImportError::new(format!("`log.entries[{index}]`: {what}"), ARCHIVE);
        recording.requests.extend(request.map_err(place)?);
    }
    if recording.requests.iter().all(|request| request.at_s.is_some()) {
        recording.requests.sort_by(|one, other| one.at_s.unwrap_or(0.0).total_cmp(&other.at_s.unwrap_or(0.0)));
    }
    Ok(recording)
}

fn title(log: &Value) -> Option<String> {
    let title = log.pointer("/pages/0/title").or(log.pointer("/pages/0/id"))?.as_str()?;
    Some(format!("Session on {title}"))
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// Returns the request of an entry; `None` if it is left out.
fn request(entry: &Value, set: &[String], left_out: &mut LeftOut) -> Result<Option<RecordedRequest>, String> {
    let request = entry.get("request").ok_or("there is no `request`")?;
    let url = text(request, "url").ok_or("the request has no `url`")?;
    let method = text(request, "method").unwrap_or_else(|| "GET".to_owned()).to_ascii_uppercase();
    let status =
        entry.pointer("/response/status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let kind = entry.get("_resourceType").and_then(Value::as_str).unwrap_or_default();
    let has_failed = status == Some(0) && entry.pointer("/response/_error").is_some_and(|error| !error.is_null());
    let what = match () {
        () if kind == "websocket" || status == Some(101) || url.starts_with("ws") => Some("WebSocket connections"),
        () if entry.get("_fromCache").is_some_and(|cache| cache.is_string()) => {
            Some("answers from the browser's cache")
        }
        () if has_failed => Some("requests that the browser blocked or cancelled"),
        () => None,
    };
    if let Some(what) = what {
        let messages = socket_messages(entry).unwrap_or_default();
        left_out.add(what, &format!("{}{messages}", url.split(['?', '#']).next().unwrap_or_default()));
        return Ok(None);
    }
    let at_s = text(entry, "startedDateTime").and_then(|time| time.parse::<Timestamp>().ok());
    let mut headers = pairs(request.get("headers"));
    let mut cookies = pairs(request.get("cookies"));
    if !cookies.is_empty() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cookie")) {
        let cookies = cookies.drain(..).map(|(name, value)| format!("{name}={value}"));
        headers.push(("cookie".to_owned(), cookies.collect::<Vec<String>>().join("; ")));
    }
    for (_, value) in headers.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case("cookie")) {
        let is_of_jar = |cookie: &&str| !set.iter().any(|name| cookie.trim().split('=').next() == Some(name));
        *value = value.split(';').filter(is_of_jar).map(str::trim).collect::<Vec<&str>>().join("; ");
    }
    headers.retain(|(name, value)| !(name.eq_ignore_ascii_case("cookie") && value.is_empty()));
    let body = request.get("postData").map_or(RecordedBody::None, |data| body(data, &mut headers));
    Ok(Some(RecordedRequest {
        name: None,
        method,
        url: with_query(url, request.get("queryString")),
        headers,
        body,
        status,
        at_s: at_s.map(|time| time.as_nanosecond() as f64 / 1e9),
        took_s: entry.get("time").and_then(Value::as_f64).filter(|time| *time > 0.0).unwrap_or(0.0) / 1e3,
    }))
}

/// Returns the number of messages of a WebSocket, as ` with 2 messages sent and 30 received`, if
/// the browser has recorded them. An experiment has one protocol, so they are left out.
fn socket_messages(entry: &Value) -> Option<String> {
    let messages = entry.get("_webSocketMessages")?.as_array()?;
    let sent = messages.iter().filter(|message| message.get("type").and_then(Value::as_str) == Some("send")).count();
    let plural = if sent == 1 { "" } else { "s" };
    Some(format!(" with {sent} message{plural} sent and {} received", messages.len() - sent))
}

/// Returns the names of the cookies that answers set: each session gets its own.
fn set_cookies(entries: &[Value]) -> Vec<String> {
    let answers = entries.iter().filter_map(|entry| entry.get("response"));
    let set = answers.flat_map(|answer| {
        let headers =
            pairs(answer.get("headers")).into_iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        // Several cookies are in one value, each on a line.
        let lines = headers.flat_map(|(_, value)| value.lines().map(str::to_owned).collect::<Vec<String>>());
        let names = lines.filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned()));
        names.chain(pairs(answer.get("cookies")).into_iter().map(|(name, _)| name)).collect::<Vec<String>>()
    });
    text::distinct(set)
}

/// Returns the names and values of a list of `{name, value}`.
fn pairs(list: Option<&Value>) -> Vec<(String, String)> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|pair| Some((text(pair, "name")?, pair.get("value").map_or_else(String::new, text::of_json))))
        .collect()
}

/// Returns the URL with the parameters of `queryString`, which some programs write only there.
fn with_query(url: String, query: Option<&Value>) -> String {
    let pairs = pairs(query);
    if pairs.is_empty() || url.contains('?') {
        return url;
    }
    let query: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    let (before, fragment) = url.split_once('#').map_or((url.as_str(), None), |(url, fragment)| (url, Some(fragment)));
    let fragment = fragment.map_or_else(String::new, |fragment| format!("#{fragment}"));
    format!("{before}?{}{fragment}", query.join("&"))
}

fn body(data: &Value, headers: &mut Vec<(String, String)>) -> RecordedBody {
    let kind = text(data, "mimeType").unwrap_or_default();
    let mut set_kind = |kind: &str, is_new: bool| {
        let known = headers.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        match known {
            Some((_, value)) if is_new => kind.clone_into(value),
            Some(_) => {}
            None if kind.is_empty() => {}
            None => headers.push(("content-type".to_owned(), kind.to_owned())),
        }
    };
    let given = text(data, "text").filter(|text| !text.is_empty());
    if let Some(given) = given {
        set_kind(&kind, false);
        let is_base64 =
            ["encoding", "_encoding"].iter().any(|key| data.get(key).and_then(Value::as_str) == Some("base64"));
        return match is_base64 {
            true => STANDARD.decode(&given).map_or_else(|_| RecordedBody::text(given), RecordedBody::bytes),
            false => RecordedBody::text(given),
        };
    }
    let params = data.get("params").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if params.is_empty() {
        return RecordedBody::None;
    }
    if !kind.starts_with("multipart/") {
        set_kind("application/x-www-form-urlencoded", false);
        let pairs = pairs(data.get("params"));
        let pairs: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        return RecordedBody::text(pairs.join("&"));
    }
    set_kind(multipart::CONTENT_TYPE, true);
    let parts = params.iter().map(|part| FormPart {
        name: text(part, "name").unwrap_or_default(),
        value: text(part, "value").or(text(part, "fileName").is_none().then(String::new)),
        // The file is not in the recording, and its name must not lead elsewhere.
        file: text(part, "fileName")
            .filter(|_| part.get("value").is_none())
            .map(|name| multipart::base_name(&name).to_owned()),
        file_name: text(part, "fileName"),
        content_type: text(part, "contentType"),
    });
    RecordedBody::Parts(parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_entries(entries: &str) -> Result<ImportedRecording, ImportError> {
        let text = format!("{{\"log\": {{\"pages\": [{{\"title\": \"shop\"}}], \"entries\": [{entries}]}}}}");
        read(&ImportSource { name: "a.har", text: &text, attached: &|_| None })
    }

    #[test]
    fn an_entry_becomes_a_request() {
        let entries = r#"
            {"startedDateTime": "2024-01-01T00:00:02.5+01:00", "time": 500, "request": {"method": "post", "url": "http://a/",
             "headers": [{"name": "Accept", "value": "x"}], "queryString": [{"name": "a b", "value": "c"}],
             "cookies": [{"name": "s", "value": "1"}], "postData": {"mimeType": "text/plain", "text": "hi"}},
             "response": {"status": 201}},
            {"startedDateTime": "2024-01-01T00:00:01+01:00", "request": {"url": "http://a/first"}}"#;
        let recording = read_entries(entries).unwrap();
        assert_eq!(recording.title.as_deref(), Some("Session on shop"));
        assert_eq!(recording.requests[0].url, "http://a/first", "entries are sorted by time");
        let request = &recording.requests[1];
        assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "http://a/?a%20b=c"));
        assert_eq!(
            (request.status, request.took_s, &request.body),
            (Some(201), 0.5, &RecordedBody::Text("hi".to_owned()))
        );
        let headers: Vec<String> = request.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(headers, ["Accept: x", "cookie: s=1", "content-type: text/plain"]);
    }

    #[test]
    fn cookies_that_answers_set_are_left_to_the_jar() {
        let entries = r#"
            {"request": {"url": "http://a/"}, "response": {"headers": [{"name": "Set-Cookie", "value": "s=1; Path=/\nt=2"}]}},
            {"request": {"url": "http://a/1", "headers": [{"name": "Cookie", "value": "s=1; t=2"}]}},
            {"request": {"url": "http://a/2", "headers": [{"name": "Cookie", "value": "s=1; u=3"}]}}"#;
        let recording = read_entries(entries).unwrap();
        assert!(recording.has_cookie_jar);
        assert_eq!(recording.requests[1].headers, []);
        assert_eq!(recording.requests[2].headers, [("Cookie".to_owned(), "u=3".to_owned())]);
    }

    #[test]
    fn entries_that_were_not_sent_are_left_out() {
        let entries = r#"
            {"request": {"url": "wss://a/?x"}, "_webSocketMessages": [{"type": "send", "data": "a"}, {"type": "receive"}]},
            {"request": {"url": "http://a/1"}, "_fromCache": "disk"},
            {"request": {"url": "http://a/2"}, "response": {"status": 0, "_error": "net::ERR_BLOCKED"}},
            {"request": {"url": "http://a/3"}}"#;
        let recording = read_entries(entries).unwrap();
        assert_eq!((recording.requests.len(), recording.left_out.paragraphs().count()), (1, 3));
        let sockets = recording.left_out.paragraphs().next().unwrap();
        assert_eq!(sockets, "WebSocket connections (1): wss://a/ with 1 message sent and 1 received");
    }

    #[test]
    fn forms_are_built_from_their_parameters() {
        let body = |data: &str| {
            let entry = format!("{{\"request\": {{\"url\": \"http://a/\", \"postData\": {data}}}}}");
            read_entries(&entry).unwrap().requests.remove(0).body
        };
        let form = r#"{"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "a", "value": "b c"}]}"#;
        assert_eq!(body(form), RecordedBody::Text("a=b%20c".to_owned()));
        let multipart = r#"{"mimeType": "multipart/form-data", "params": [{"name": "a", "value": "b"}]}"#;
        assert!(
            matches!(body(multipart).in_one_text(), RecordedBody::Text(text) if text.contains("name=\"a\"\r\n\r\nb\r\n"))
        );
        let file = r#"{"mimeType": "multipart/form-data", "params": [{"name": "a", "fileName": "b.png"}]}"#;
        assert!(matches!(body(file), RecordedBody::Parts(parts) if parts[0].file.as_deref() == Some("b.png")));
        assert_eq!(body(r#"{"text": "aGk=", "encoding": "base64"}"#), RecordedBody::Text("hi".to_owned()));
        assert!(matches!(body(r#"{"text": "/w==", "encoding": "base64"}"#), RecordedBody::LeftOut(_)));
    }

    #[test]
    fn broken_archives_are_refused_with_the_place() {
        for (text, what) in [
            ("{\"log\": {", "not JSON"),
            ("{}", "no `log`"),
            ("{\"log\": {}}", "no list `entries`"),
            ("{\"log\": {\"entries\": []}}", "empty"),
            ("{\"log\": {\"entries\": [{}]}}", "entries[0]"),
            ("{\"log\": {\"entries\": [{\"request\": {}}]}}", "no `url`"),
        ] {
            let error = read(&ImportSource { name: "a.har", text, attached: &|_| None }).unwrap_err();
            assert!(error.what.contains(what), "{error:?}");
        }
    }
}
