//! Targets of vegeta: texts of `METHOD URL`, headers and `@body`, or JSON lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Content, Format};
use crate::recording::{ImportedRecording, RecordedBody, RecordedRequest, RequestOrder};
use crate::{ImportError, ImportSource};

pub const FORMAT: Format =
    Format { name: "vegeta", title: "targets of vegeta", is_of_a_browser: false, recognises, read };

const TARGET: &str = "a line such as `GET http://localhost:8080/`, a header `Name: value` or a body `@file`";
const JSON_TARGET: &str = "an object with `method` and `url` in each line, and optionally `header` and `body` (base64)";

fn recognises(content: &Content<'_>) -> bool {
    if let Some(json) = &content.json {
        // Lines of an access log can have a method and a URL, too.
        let url = json.get("url").and_then(Value::as_str).unwrap_or_default();
        return json.get("method").is_some_and(Value::is_string) && url.contains("://") && json.get("status").is_none();
    }
    method_and_url(content.first_line).is_some_and(|(_, url)| url.contains("://") || url.contains('$'))
}

fn read(source: &ImportSource<'_>) -> Result<ImportedRecording, ImportError> {
    let first = source.text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let requests = match first {
        Some(line) if line.starts_with('{') => json_targets(source.text)?,
        _ => text_targets(source)?,
    };
    Ok(ImportedRecording { order: RequestOrder::Mix, requests, ..ImportedRecording::default() })
}

/// Splits `METHOD URL`.
fn method_and_url(line: &str) -> Option<(&str, &str)> {
    let (method, url) = line.split_once(char::is_whitespace)?;
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    is_method.then_some((method, url.trim()))
}

fn text_targets(source: &ImportSource<'_>) -> Result<Vec<RecordedRequest>, ImportError> {
    let mut requests: Vec<RecordedRequest> = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((method, url)) = method_and_url(line) {
            let (method, url) = (method.to_owned(), url.to_owned());
            requests.push(RecordedRequest { method, url, ..RecordedRequest::default() });
            continue;
        }
        let Some(request) = requests.last_mut() else {
            return Err(ImportError::at(index + 1, "this is not a target of vegeta", TARGET));
        };
        match (line.strip_prefix('@'), line.split_once(':')) {
            (Some(file), _) => {
                request.body = match (source.attached)(file.trim()) {
                    Some(bytes) => RecordedBody::bytes(bytes),
                    None => RecordedBody::LeftOut(format!("the file {} cannot be read", file.trim())),
                };
            }
            (None, Some((name, value))) => request.headers.push((name.to_owned(), value.trim().to_owned())),
            (None, None) => {
                return Err(ImportError::at(index + 1, format!("`{}` belongs to no target", shortened(line)), TARGET));
            }
        }
    }
    if requests.is_empty() {
        return Err(ImportError::new("there is no target in this file", TARGET));
    }
    Ok(requests)
}

fn shortened(line: &str) -> String {
    crate::left_out::comment(line).chars().take(60).collect()
}

fn json_targets(text: &str) -> Result<Vec<RecordedRequest>, ImportError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| json_target(line).map_err(|what| ImportError::at(index + 1, what, JSON_TARGET))).collect()
}

fn json_target(line: &str) -> Result<RecordedRequest, String> {
    let json: Value = serde_json::from_str(line).map_err(|error| format!("this is not JSON: {error}"))?;
    let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
    let (Some(method), Some(url)) = (text("method"), text("url")) else {
        return Err("`method` or `url` is missing".to_owned());
    };
    let mut headers = Vec::new();
    for (name, values) in json.get("header").and_then(Value::as_object).into_iter().flatten() {
        let one = std::slice::from_ref(values);
        let values = values.as_array().map_or(one, Vec::as_slice);
        headers.extend(values.iter().filter_map(|value| Some((name.clone(), value.as_str()?.to_owned()))));
    }
    let body = match text("body") {
        None => RecordedBody::None,
        Some(body) if body.is_empty() => RecordedBody::None,
        Some(body) => {
            RecordedBody::bytes(STANDARD.decode(&body).map_err(|error| format!("`body` is not base64: {error}"))?)
        }
    };
    Ok(RecordedRequest { method: method.to_ascii_uppercase(), url, headers, body, ..RecordedRequest::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<ImportedRecording, ImportError> {
        let attached = |name: &str| (name == "body.json").then(|| b"{}".to_vec());
        read(&ImportSource { name: "targets", text, attached: &attached })
    }

    #[test]
    fn targets_have_headers_and_bodies() {
        let text = "# two\nPOST http://a/b\nX-A: 1\n@body.json\nGET http://a/c\n\nPUT http://a/d\n@gone\n";
        let requests = read_text(text).unwrap().requests;
        assert_eq!(requests[0].headers, [("X-A".to_owned(), "1".to_owned())]);
        assert_eq!(requests[0].body, RecordedBody::Text("{}".to_owned()));
        assert_eq!((requests[1].method.as_str(), requests[1].url.as_str()), ("GET", "http://a/c"));
        assert!(matches!(&requests[2].body, RecordedBody::LeftOut(why) if why.contains("gone")));
    }

    #[test]
    fn json_lines_have_bodies_in_base64() {
        let line = r#"{"method":"post","url":"http://a/","header":{"X-A":["1","2"]},"body":"aGk="}"#;
        let requests = read_text(line).unwrap().requests;
        assert_eq!(requests[0].headers.len(), 2);
        assert_eq!((requests[0].method.as_str(), &requests[0].body), ("POST", &RecordedBody::Text("hi".to_owned())));
    }

    #[test]
    fn a_broken_line_is_named() {
        for (text, line) in [("GET http://a/\nrubbish", 2), ("rubbish", 1), ("{\"method\":\"GET\"}", 1), ("{}\n{", 1)] {
            let error = read_text(text).unwrap_err();
            assert_eq!(error.line, Some(line), "{text}");
            assert!(!error.expected.is_empty());
        }
        let broken = r#"{"method":"GET","url":"http://a/","body":"?"}"#;
        assert!(read_text(broken).unwrap_err().what.contains("base64"));
    }
}
