//! Commands of curl: a script with one or several, or the words of one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Content, Format};
use crate::left_out::LeftOut;
use crate::multipart::{self, FormPart};
use crate::placeholder::{has_placeholder, shown};
use crate::recording::{ImportedRecording, RecordedBody, RecordedRequest};
use crate::shell_words;
use crate::web_address::WebAddress;
use crate::{ImportError, ImportSource};

pub const FORMAT: Format = Format { name: "curl", title: "curl commands", is_of_a_browser: false, recognises, read };

const COMMAND: &str = "a command such as `curl -H 'Accept: text/html' http://localhost:8080/`";

/// Short options with a value.
const SHORT_WITH_VALUE: &str = "AbcCdDeEFHhKmoPQrTtuUwxXyYz";
/// Long options with a value that changes nothing in a request, or that has no counterpart.
const LONG_WITH_VALUE: [&str; 54] = [
    "abstract-unix-socket",
    "alt-svc",
    "aws-sigv4",
    "cacert",
    "capath",
    "cert",
    "cert-type",
    "ciphers",
    "config",
    "connect-timeout",
    "connect-to",
    "continue-at",
    "cookie-jar",
    "crlfile",
    "curves",
    "dns-servers",
    "doh-url",
    "dump-header",
    "expect100-timeout",
    "hsts",
    "interface",
    "keepalive-time",
    "key",
    "key-type",
    "limit-rate",
    "local-port",
    "max-filesize",
    "max-redirs",
    "max-time",
    "netrc-file",
    "noproxy",
    "output",
    "output-dir",
    "parallel-max",
    "pass",
    "pinnedpubkey",
    "preproxy",
    "proto",
    "proto-default",
    "proto-redir",
    "proxy",
    "proxy-header",
    "proxy-user",
    "range",
    "resolve",
    "retry",
    "retry-delay",
    "retry-max-time",
    "socks5",
    "socks5-hostname",
    "speed-limit",
    "tls-max",
    "unix-socket",
    "write-out",
];
/// Options without an effect on the request.
const WITHOUT_EFFECT: [&str; 41] = [
    "connect-timeout",
    "cookie-jar",
    "create-dirs",
    "max-time",
    "parallel",
    "#",
    "0",
    "1",
    "N",
    "O",
    "S",
    "D",
    "basic",
    "dump-header",
    "f",
    "fail",
    "fail-with-body",
    "g",
    "globoff",
    "http1.1",
    "i",
    "include",
    "keepalive-time",
    "no-buffer",
    "no-progress-meter",
    "o",
    "output",
    "output-dir",
    "progress-bar",
    "remote-name",
    "retry",
    "retry-delay",
    "retry-max-time",
    "s",
    "show-error",
    "silent",
    "v",
    "verbose",
    "w",
    "write-out",
    "show-headers",
];
/// Words that may stand before `curl`.
const WRAPPERS: [&str; 10] = ["$", "!", "do", "else", "if", "sudo", "then", "time", "while", "exec"];

fn recognises(content: &Content<'_>) -> bool {
    let is_curl = |line: &str| {
        let words = line.split([' ', '\t', '(', '`']).map(|word| word.trim_matches(['"', '\'', '^']));
        let mut words =
            words.skip_while(|word| is_wrapper(word) || word.is_empty() || word.ends_with("=$") || word.ends_with('='));
        words.next().is_some_and(is_curl_program)
    };
    content.json.is_none() && content.text.lines().any(|line| is_curl(line.trim()))
}

fn is_wrapper(word: &str) -> bool {
    let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    WRAPPERS.contains(&word) || is_assignment
}

fn is_curl_program(word: &str) -> bool {
    let word = word.rsplit(['/', '\\']).next().unwrap_or_default();
    word == "curl" || word == "curl.exe"
}

fn read(source: &ImportSource<'_>) -> Result<ImportedRecording, ImportError> {
    let mut recording = ImportedRecording::default();
    let mut is_found = false;
    for command in shell_words::commands(source.text)? {
        let Some(at) = command.words.iter().position(|word| !is_wrapper(word)) else { continue };
        let Some((program, words)) = command.words.get(at..).and_then(<[String]>::split_first) else { continue };
        if !is_curl_program(program) {
            recording.left_out.add("other commands of the script", program);
            continue;
        }
        is_found = true;
        let input = command.input.as_deref();
        let mut reader = CurlReader { left_out: &mut recording.left_out, attached: source.attached, input };
        let read = reader.requests(words).map_err(|what| ImportError::at(command.line, what, COMMAND))?;
        recording.is_insecure |= read.is_insecure;
        recording.has_cookie_jar |= read.has_cookie_jar;
        let requests = read.requests.into_iter();
        recording.requests.extend(requests.map(|request| RecordedRequest { url: ranges(&request.url), ..request }));
    }
    if !is_found {
        return Err(ImportError::new("there is no curl command in this file", COMMAND));
    }
    Ok(recording)
}

/// Reads the words of one command, without the word `curl`.
pub fn command(words: &[String], attached: &dyn Fn(&str) -> Option<Vec<u8>>) -> Result<ImportedRecording, ImportError> {
    let mut recording = ImportedRecording::default();
    let mut reader = CurlReader { left_out: &mut recording.left_out, attached, input: None };
    let read = reader.requests(words).map_err(|what| ImportError::new(what, COMMAND))?;
    Ok(ImportedRecording { requests: read.requests, is_insecure: read.is_insecure, ..recording })
}

/// Requests of a command.
#[derive(Default)]
struct CurlRequests {
    requests: Vec<RecordedRequest>,
    is_insecure: bool,
    has_cookie_jar: bool,
}

/// Options up to `--next`.
#[derive(Default)]
struct CurlOptions {
    urls: Vec<String>,
    query: Vec<String>,
    method: Option<String>,
    headers: Vec<(String, String)>,
    /// Names of headers that the user removed.
    removed: Vec<String>,
    data: Vec<String>,
    parts: Vec<FormPart>,
    upload: Option<RecordedBody>,
    missing: Option<String>,
    is_get: bool,
    is_head: bool,
    is_json: bool,
    is_form: bool,
    has_cookie_jar: bool,
    /// Whether URLs with TLS use HTTP/2, and whether URLs without TLS do.
    has_http2: (bool, bool),
}

struct CurlReader<'a> {
    left_out: &'a mut LeftOut,
    attached: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    /// Standard input of the command.
    input: Option<&'a str>,
}

impl CurlReader<'_> {
    fn requests(&mut self, words: &[String]) -> Result<CurlRequests, String> {
        let mut read = CurlRequests::default();
        let mut options = CurlOptions::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--next" || word == "-:" {
                read.has_cookie_jar |= options.has_cookie_jar;
                read.requests.extend(std::mem::take(&mut options).requests()?);
            } else if let Some(name) = word.strip_prefix("--").filter(|name| !name.is_empty()) {
                // `--name=value` is no form of curl, but a common mistake.
                let (name, given) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
                read.is_insecure |= name == "insecure";
                let mut value = || given.map(str::to_owned).or_else(|| words.next().cloned());
                self.long(name, &mut value, &mut options)?;
            } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                for (at, letter) in letters.char_indices() {
                    read.is_insecure |= letter == 'k';
                    if !SHORT_WITH_VALUE.contains(letter) {
                        self.long(long_name(letter), &mut || None, &mut options)?;
                        continue;
                    }
                    let rest = letters.get(at + letter.len_utf8()..).unwrap_or_default();
                    let mut value = || if rest.is_empty() { words.next().cloned() } else { Some(rest.to_owned()) };
                    self.long(long_name(letter), &mut value, &mut options)?;
                    break;
                }
            } else if word != "--" {
                options.urls.push(word.clone());
            }
        }
        read.has_cookie_jar |= options.has_cookie_jar;
        read.requests.extend(options.requests()?);
        if read.requests.is_empty() {
            return Err("this curl command has no URL".to_owned());
        }
        Ok(read)
    }

    fn long(
        &mut self,
        name: &str,
        value: &mut dyn FnMut() -> Option<String>,
        options: &mut CurlOptions,
    ) -> Result<(), String> {
        let mut required = || value().ok_or_else(|| format!("the option {name} of curl has no value"));
        match name {
            "url" => options.urls.push(required()?),
            "url-query" => options.query.push(required()?),
            "request" => options.method = Some(required()?.to_ascii_uppercase()),
            "header" => {
                let header = required()?;
                self.header(&header, options);
            }
            "data" | "data-ascii" | "data-binary" | "data-raw" | "data-urlencode" => {
                let data = required()?;
                self.data(name, &data, options);
            }
            "json" => {
                options.is_json = true;
                let data = required()?;
                self.data("data-binary", &data, options);
            }
            "get" => options.is_get = true,
            "head" => options.is_head = true,
            "form" | "form-string" => {
                let form = required()?;
                self.form(name, &form, options);
            }
            "user" => {
                let login = required()?;
                options.headers.push(("authorization".to_owned(), basic(&login)));
            }
            "oauth2-bearer" => options.headers.push(("authorization".to_owned(), format!("Bearer {}", required()?))),
            "user-agent" => options.headers.push(("user-agent".to_owned(), required()?)),
            "referer" => options.headers.push(("referer".to_owned(), required()?)),
            "cookie" => {
                let cookie = required()?;
                match cookie.contains('=') {
                    true => options.headers.push(("cookie".to_owned(), cookie)),
                    // A file of cookies turns on curl's cookie jar.
                    false => {
                        options.has_cookie_jar = true;
                        self.left_out.add("cookies in files", &cookie);
                    }
                }
            }
            "cookie-jar" => {
                required()?;
                options.has_cookie_jar = true;
            }
            "compressed" => options.headers.push(("accept-encoding".to_owned(), "deflate, gzip, br, zstd".to_owned())),
            "upload-file" => {
                let file = required()?;
                options.upload = Some(self.file(&file).unwrap_or_else(RecordedBody::LeftOut));
            }
            "range" => {
                let range = required()?;
                options.headers.push(("range".to_owned(), format!("bytes={range}")));
            }
            // Without TLS, `--http2` asks the server for an upgrade, which servers may ignore.
            "http2" => options.has_http2.0 = true,
            "http2-prior-knowledge" => options.has_http2 = (true, true),
            "insecure" => {}
            _ => {
                if LONG_WITH_VALUE.contains(&name) || name.len() == 1 && SHORT_WITH_VALUE.contains(name) {
                    required()?;
                }
                if !WITHOUT_EFFECT.contains(&name) {
                    let dashes = if name.len() == 1 { "-" } else { "--" };
                    self.left_out.add("options of curl", &format!("{dashes}{name}"));
                }
            }
        }
        Ok(())
    }

    fn header(&mut self, header: &str, options: &mut CurlOptions) {
        if let Some(file) = header.strip_prefix('@') {
            return self.left_out.add("files of headers", file);
        }
        match (header.split_once(':'), header.strip_suffix(';')) {
            (Some((name, value)), _) if value.trim().is_empty() => {
                options.removed.push(name.trim().to_ascii_lowercase())
            }
            (Some((name, value)), _) => options.headers.push((name.trim().to_owned(), value.trim().to_owned())),
            (None, Some(name)) => options.headers.push((name.trim().to_owned(), String::new())),
            (None, None) => self.left_out.add("headers without a colon", header),
        }
    }

    fn data(&mut self, option: &str, data: &str, options: &mut CurlOptions) {
        let data = match (option, data.split_once(['=', '@'])) {
            ("data-raw", _) => data.to_owned(),
            ("data-urlencode", Some(("", rest))) if data.starts_with('=') => encoded(rest),
            ("data-urlencode", Some((name, rest))) if !data[name.len()..].starts_with('@') => {
                format!("{name}={}", encoded(rest))
            }
            ("data-urlencode", None) => encoded(data),
            _ => match data.split_once('@') {
                Some((name, file)) if name.is_empty() || option == "data-urlencode" => match self.file(file) {
                    Ok(RecordedBody::Text(text)) if option == "data-urlencode" && name.is_empty() => encoded(&text),
                    Ok(RecordedBody::Text(text)) if option == "data-urlencode" => format!("{name}={}", encoded(&text)),
                    // curl removes line ends from `--data`, not from `--data-binary`.
                    Ok(RecordedBody::Text(text)) if option != "data-binary" => text.replace(['\r', '\n'], ""),
                    Ok(RecordedBody::Text(text)) => text,
                    Ok(RecordedBody::LeftOut(why)) | Err(why) => {
                        options.missing = Some(why);
                        return;
                    }
                    Ok(RecordedBody::None | RecordedBody::Parts(_)) => String::new(),
                },
                _ => data.to_owned(),
            },
        };
        options.data.push(data);
    }

    /// Returns the content of a file or of the standard input.
    fn file(&mut self, name: &str) -> Result<RecordedBody, String> {
        if let Some(input) = self.input.filter(|_| matches!(name, "-" | "/dev/stdin")) {
            return Ok(RecordedBody::text(input));
        }
        let bytes = (self.attached)(name).ok_or_else(|| format!("the file {name} cannot be read"))?;
        Ok(RecordedBody::bytes(bytes))
    }

    fn form(&mut self, option: &str, form: &str, options: &mut CurlOptions) {
        options.is_form = true;
        let Some((name, value)) = form.split_once('=') else {
            return self.left_out.add("parts of a form without a value", form);
        };
        let (mut value, mut content_type, mut file_name) = (value, None, None);
        if option == "form" {
            let mut attributes = value.split(';');
            value = attributes.next().unwrap_or_default();
            for attribute in attributes {
                match attribute.trim().split_once('=') {
                    Some(("type", given)) => content_type = Some(given.to_owned()),
                    Some(("filename", given)) => file_name = Some(given.trim_matches('"').to_owned()),
                    _ => {}
                }
            }
        }
        let file = value.strip_prefix(['@', '<']).filter(|_| option == "form");
        let uploaded = file.filter(|_| value.starts_with('@'));
        // The standard input and names with variables are no files for an experiment.
        let path = uploaded.filter(|file| !has_placeholder(file) && *file != "-" && *file != "/dev/stdin");
        let value = match file.map(|file| self.file(file)) {
            None => Some(value.trim_matches('"').to_owned()),
            Some(Ok(RecordedBody::Text(text))) => Some(text),
            Some(Ok(_) | Err(_)) if path.is_some() => None,
            Some(Ok(RecordedBody::LeftOut(why)) | Err(why)) => {
                options.missing = Some(why);
                return;
            }
            Some(Ok(_)) => Some(String::new()),
        };
        file_name = file_name.or(uploaded.map(|file| multipart::base_name(file).to_owned()));
        let (name, file) = (name.to_owned(), path.map(str::to_owned));
        options.parts.push(FormPart { name, value, file, file_name, content_type });
    }
}

impl CurlOptions {
    /// Returns a request for each URL.
    fn requests(mut self) -> Result<Vec<RecordedRequest>, String> {
        if self.is_get {
            self.query.append(&mut self.data);
        }
        let has_data = !self.data.is_empty() || self.missing.is_some() && !self.is_form;
        let body = match (self.missing.take(), self.upload.take()) {
            (Some(why), _) => RecordedBody::LeftOut(why),
            (None, Some(upload)) => {
                self.method.get_or_insert_with(|| "PUT".to_owned());
                upload
            }
            (None, None) if !self.parts.is_empty() => RecordedBody::Parts(self.parts.clone()),
            (None, None) if self.data.is_empty() => RecordedBody::None,
            (None, None) => RecordedBody::text(self.data.join("&")),
        };
        let kind = match () {
            () if !self.parts.is_empty() => Some(multipart::CONTENT_TYPE),
            () if self.is_json => Some("application/json"),
            () if has_data && !self.is_get => Some("application/x-www-form-urlencoded"),
            () => None,
        };
        let has = |headers: &[(String, String)], name: &str| {
            headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
        };
        if !self.parts.is_empty() {
            // The form is sent with another boundary.
            self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        }
        if let Some(kind) = kind.filter(|_| !has(&self.headers, "content-type")) {
            self.headers.push(("content-type".to_owned(), kind.to_owned()));
        }
        if self.is_json && !has(&self.headers, "accept") {
            self.headers.push(("accept".to_owned(), "application/json".to_owned()));
        }
        self.headers.retain(|(name, _)| !self.removed.contains(&name.to_ascii_lowercase()));
        let usual = match () {
            () if self.is_head => "HEAD",
            () if body != RecordedBody::None => "POST",
            () => "GET",
        };
        let method = self.method.take().unwrap_or_else(|| usual.to_owned());
        let query = self.query.join("&");
        let requests = self.urls.iter().map(|url| RecordedRequest {
            method: method.clone(),
            url: self.with_protocol(with_query(url, &query)),
            headers: self.headers.clone(),
            body: body.clone(),
            ..RecordedRequest::default()
        });
        Ok(requests.collect())
    }
}

impl CurlOptions {
    /// Returns the URL with the scheme of HTTP/2, if the options want it.
    fn with_protocol(&self, url: String) -> String {
        let (by_tls, clear) = self.has_http2;
        match url.split_once("://") {
            Some((scheme, rest)) if by_tls && scheme.eq_ignore_ascii_case("https") => format!("h2://{rest}"),
            Some((scheme, rest)) if clear && scheme.eq_ignore_ascii_case("http") => format!("h2c://{rest}"),
            None if clear => format!("h2c://{url}"),
            _ => url,
        }
    }
}

/// Returns the header for a login, `user:password`.
fn basic(login: &str) -> String {
    format!("Basic {}", STANDARD.encode(shown(login)))
}

/// Returns the long name of a short option.
fn long_name(letter: char) -> &'static str {
    match letter {
        'X' => "request",
        'H' => "header",
        'd' => "data",
        'G' => "get",
        'I' => "head",
        'F' => "form",
        'u' => "user",
        'A' => "user-agent",
        'e' => "referer",
        'b' => "cookie",
        'T' => "upload-file",
        'k' => "insecure",
        'r' => "range",
        'L' => "location",
        'm' => "max-time",
        'o' => "output",
        'w' => "write-out",
        'x' => "proxy",
        'c' => "cookie-jar",
        'D' => "dump-header",
        'E' => "cert",
        'K' => "config",
        's' | 'S' | 'v' | 'i' | 'f' | 'g' | 'N' | 'O' | '#' | '0' | '1' => "silent",
        // Their values are read, because they are in the list of short options with a value.
        'C' | 'P' | 'Q' | 't' | 'U' | 'y' | 'Y' | 'z' | 'h' => "continue-at",
        _ => "other",
    }
}

fn with_query(url: &str, query: &str) -> String {
    match (query.is_empty(), url.contains('?')) {
        (true, _) => url.to_owned(),
        (false, true) => format!("{url}&{query}"),
        (false, false) => format!("{url}?{query}"),
    }
}

/// Replaces ranges of numbers in a URL, `[1-100]`, by random numbers.
fn ranges(url: &str) -> String {
    let mut replaced = String::new();
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('[') {
        let range = after.split_once(']').and_then(|(range, behind)| Some((range.split_once('-')?, behind)));
        replaced.push_str(before);
        match range {
            Some(((from, to), behind)) if number(from) < number(to) && WebAddress::parse(before).is_ok() => {
                replaced.push_str(&crate::placeholder::placeholder(&format!("uniform:{from}..{to}")));
                rest = behind;
            }
            _ => {
                replaced.push('[');
                rest = after;
            }
        }
    }
    replaced + rest
}

/// Returns a number of digits; `None` for any other text. `None` is less than any number.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Percent-encodes all but unreserved characters (RFC 3986, 2.3), as `--data-urlencode` does.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    let mut is_placeholder = false;
    for one in text.chars() {
        match one {
            '\u{fdd0}' | '\u{fdd1}' => {
                is_placeholder = one == '\u{fdd0}';
                encoded.push(one);
            }
            _ if is_placeholder || one.is_ascii_alphanumeric() || "-._~".contains(one) => encoded.push(one),
            _ => encoded.push_str(&text::percent_encoded(one.encode_utf8(&mut [0; 4]), |_| false)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<ImportedRecording, ImportError> {
        let attached = |name: &str| (name == "a.json").then(|| b"{\n}".to_vec());
        read(&ImportSource { name: "script", text, attached: &attached })
    }

    fn one(text: &str) -> RecordedRequest {
        read_text(text).unwrap().requests.remove(0)
    }

    fn header<'a>(request: &'a RecordedRequest, name: &str) -> Option<&'a str> {
        request.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    #[test]
    fn data_makes_a_post() {
        let request = one("curl -sS -d a=1 --data-urlencode 'b=x y' http://a/");
        assert_eq!((request.method.as_str(), &request.body), ("POST", &RecordedBody::Text("a=1&b=x%20y".to_owned())));
        assert_eq!(header(&request, "content-type"), Some("application/x-www-form-urlencoded"));
        let request = one("curl -XPUT -d@a.json -H 'Content-Type: application/json' http://a/");
        assert_eq!((request.method.as_str(), &request.body), ("PUT", &RecordedBody::Text("{}".to_owned())));
        assert_eq!(one("curl --data-binary @a.json a").body, RecordedBody::Text("{\n}".to_owned()));
        assert_eq!(one("curl -d @- a <<E\n{}\nE\n").body, RecordedBody::Text("{}".to_owned()));
        assert!(matches!(one("curl -d @gone a").body, RecordedBody::LeftOut(_)));
        assert_eq!(one("curl -G -d a=1 'http://a/?b=2'").url, "http://a/?b=2&a=1");
        let request = one("curl --json '{}' a");
        assert_eq!(header(&request, "accept"), Some("application/json"));
    }

    #[test]
    fn options_become_headers() {
        let request =
            one("curl -u me:word -A agent -b 'a=1' -e http://r/ --compressed -H 'X-A: 1' -H 'X-B;' http://a/");
        for (name, value) in [
            ("authorization", "Basic bWU6d29yZA=="),
            ("user-agent", "agent"),
            ("cookie", "a=1"),
            ("referer", "http://r/"),
            ("accept-encoding", "deflate, gzip, br, zstd"),
            ("x-a", "1"),
            ("x-b", ""),
        ] {
            assert_eq!(header(&request, name), Some(value), "{name}");
        }
        assert_eq!(one("curl -I a").method, "HEAD");
        assert!(read_text("curl -k https://a/").unwrap().is_insecure);
        let request = one("curl -F a=1 -F 'f=@a.json;type=application/json' http://a/");
        let RecordedBody::Text(body) = request.body.in_one_text() else { panic!("no body") };
        assert!(
            body.contains("name=\"f\"; filename=\"a.json\"\r\nContent-Type: application/json\r\n\r\n{\n}\r\n"),
            "{body}"
        );
    }

    #[test]
    fn http2_is_a_scheme() {
        for (command, url) in [
            ("curl --http2 https://a/x", "h2://a/x"),
            ("curl --http2 http://a/x", "http://a/x"),
            ("curl --http2-prior-knowledge http://a/x", "h2c://a/x"),
            ("curl --http2-prior-knowledge a/x", "h2c://a/x"),
            ("curl --http2-prior-knowledge https://a/x", "h2://a/x"),
        ] {
            assert_eq!(one(command).url, url, "{command}");
        }
    }

    #[test]
    fn a_script_has_several_requests() {
        let text = "export T=1\nsleep 1\ncurl http://a/1 http://a/2 --next -X DELETE http://a/3\nx=$(curl -s http://a/$T/[1-9])";
        let recording = read_text(text).unwrap();
        let urls: Vec<String> = recording.requests.iter().map(|request| shown(&request.url)).collect();
        assert_eq!(urls, ["http://a/1", "http://a/2", "http://a/3", "http://a/{env:T}/{uniform:1..9}"]);
        assert_eq!(recording.requests[2].method, "DELETE");
        assert_eq!(recording.left_out.paragraphs().next().unwrap(), "other commands of the script (2): export, sleep");
    }

    #[test]
    fn a_command_without_a_url_or_a_value_is_an_error_with_its_line() {
        for text in ["\ncurl -s", "\ncurl http://a/ -H"] {
            assert_eq!(read_text(text).unwrap_err().line, Some(2), "{text}");
        }
        assert!(read_text("ls").is_err());
    }
}
