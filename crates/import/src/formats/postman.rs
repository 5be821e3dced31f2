//! Collections of Postman, v2.0 and v2.1. The requests become the steps of a cycle, in the order in
//! which Postman's runner sends them.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::{Content, Format};
use crate::credentials::variable_name;
use crate::formats::curl::encoded;
use crate::multipart::{self, FormPart};
use crate::placeholder::{has_placeholder, placeholder};
use crate::recording::{ImportedRecording, RecordedBody, RecordedRequest};
use crate::{ImportError, ImportSource};

pub const FORMAT: Format =
    Format { name: "postman", title: "a Postman collection", is_of_a_browser: false, recognises, read };

const COLLECTION: &str = "a Postman collection v2.0 or v2.1, with `info` and a list `item`";
/// Host of requests whose host is a variable without a value.
const UNKNOWN_HOST: &str = "http://127.0.0.1:8080";
/// Maximum depth of folders, and of variables in the values of variables.
const DEPTH: usize = 30;
/// Maximum number of variables that are replaced in a text, with those in values.
const VARIABLES: usize = 1000;

fn recognises(content: &Content<'_>) -> bool {
    let Some(json) = &content.json else { return false };
    let collection = json.get("collection").unwrap_or(json);
    let is_item = |item: &Value| item.get("request").is_some() || item.get("item").is_some();
    let items = collection.get("item").and_then(Value::as_array);
    items.is_some_and(|items| collection.get("info").is_some() || items.iter().any(is_item))
        || collection.get("requests").is_some_and(Value::is_array) && collection.get("order").is_some()
}

fn read(source: &ImportSource<'_>) -> Result<ImportedRecording, ImportError> {
    let json: Value = serde_json::from_str(source.text)
        .map_err(|error| ImportError::at(error.line(), format!("this is not JSON: {error}"), COLLECTION))?;
    // Postman's own API puts the collection into an object.
    let collection = json.get("collection").unwrap_or(&json);
    let Some(items) = collection.get("item").and_then(Value::as_array) else {
        let what = match collection.get("requests") {
            Some(_) => "this is a collection v1",
            None => "there is no list `item`",
        };
        return Err(ImportError::new(what, format!("{COLLECTION}; export it again as v2.1")));
    };
    let mut reader = CollectionReader {
        variables: Map::new(),
        left: Cell::new(0),
        unknown_hosts: Vec::new(),
        recording: ImportedRecording::default(),
    };
    // Postman keeps the cookies of its runs.
    reader.recording.has_cookie_jar = true;
    reader.recording.title = collection.pointer("/info/name").and_then(Value::as_str).map(str::to_owned);
    reader.add_variables(collection);
    reader.count_scripts(collection);
    reader.folder(items, collection.get("auth"), 0);
    let CollectionReader { unknown_hosts, mut recording, .. } = reader;
    if !unknown_hosts.is_empty() {
        recording.notes.push(format!(
            "The collection does not say where the host {} is: write the URL of a server to load.",
            unknown_hosts.join(", ")
        ));
    }
    Ok(recording)
}

struct CollectionReader {
    /// Values of the collection's variables, by name.
    variables: Map<String, Value>,
    /// Number of variables that may still be replaced in the current text.
    left: Cell<usize>,
    /// Hosts that are variables without a value, as written in the collection.
    unknown_hosts: Vec<String>,
    recording: ImportedRecording,
}

impl CollectionReader {
    fn add_variables(&mut self, of: &Value) {
        for variable in enabled(of.get("variable")) {
            let name = variable.get("key").or(variable.get("id")).and_then(Value::as_str);
            let value = variable.get("value").filter(|value| !value.is_null() && value.as_str() != Some(""));
            if let (Some(name), Some(value)) = (name, value) {
                self.variables.insert(name.to_owned(), value.clone());
            }
        }
    }

    fn count_scripts(&mut self, of: &Value) {
        for event in enabled(of.get("event")) {
            let lines = event.pointer("/script/exec");
            let has_code = match lines {
                Some(Value::Array(lines)) => {
                    lines.iter().any(|line| line.as_str().is_some_and(|line| !line.trim().is_empty()))
                }
                Some(Value::String(code)) => !code.trim().is_empty(),
                _ => false,
            };
            if has_code {
                let kind = event.get("listen").map(text::of_json).unwrap_or_default();
                self.recording.left_out.add("scripts", &kind);
            }
        }
    }

    fn folder(&mut self, items: &[Value], auth: Option<&Value>, depth: usize) {
        if depth > DEPTH {
            return self.recording.left_out.add("folders that are nested too deep", "");
        }
        for item in items {
            self.count_scripts(item);
            self.add_variables(item);
            if let Some(items) = item.get("item").and_then(Value::as_array) {
                self.folder(items, item.get("auth").filter(|auth| !auth.is_null()).or(auth), depth + 1);
            } else if let Some(request) = item.get("request") {
                match self.request(item, request, auth) {
                    Some(request) => self.recording.requests.push(request),
                    None => self.recording.left_out.add("requests without a URL", &text_of(item, "name")),
                }
            }
        }
    }

    fn request(&mut self, item: &Value, request: &Value, auth: Option<&Value>) -> Option<RecordedRequest> {
        let url = self.url(request.get("url").unwrap_or(request))?;
        let method = text_of(request, "method");
        let method = if method.is_empty() { "GET".to_owned() } else { method.to_ascii_uppercase() };
        let mut headers = self.headers(request.get("header"));
        let mut query = Vec::new();
        let auth = request.get("auth").filter(|auth| !auth.is_null()).or(auth);
        self.auth(auth, &mut headers, &mut query);
        let is_pruned = matches!(method.as_str(), "GET" | "HEAD")
            && item.pointer("/protocolProfileBehavior/disableBodyPruning") != Some(&Value::Bool(true));
        let body = request.get("body").filter(|body| body.get("disabled") != Some(&Value::Bool(true)));
        let body = match body.map(|body| self.body(body)) {
            None | Some((_, RecordedBody::None)) => RecordedBody::None,
            Some(_) if is_pruned => {
                self.recording.left_out.add("bodies of GET requests, which Postman does not send", "");
                RecordedBody::None
            }
            Some((kind, body)) => {
                let has_kind = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
                if kind.as_deref() == Some(multipart::CONTENT_TYPE) {
                    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
                    headers.extend(kind.map(|kind| ("content-type".to_owned(), kind)));
                } else if !has_kind {
                    headers.extend(kind.map(|kind| ("content-type".to_owned(), kind)));
                }
                body
            }
        };
        let url =
            query.iter().fold(url, |url, pair| format!("{url}{}{pair}", if url.contains('?') { "&" } else { "?" }));
        let name = Some(text_of(item, "name")).filter(|name| !name.is_empty());
        Some(RecordedRequest { name, method, url, headers, body, ..RecordedRequest::default() })
    }

    /// Returns the URL with the values of its variables.
    fn url(&mut self, url: &Value) -> Option<String> {
        let raw = match url {
            Value::String(raw) => raw.clone(),
            _ => url
                .get("raw")
                .and_then(Value::as_str)
                .filter(|raw| !raw.is_empty())
                .map_or_else(|| of_parts(url), str::to_owned),
        };
        if raw.trim().is_empty() {
            return None;
        }
        let mut filled = self.filled(raw.trim(), 0);
        for variable in enabled(url.get("variable")) {
            let name = variable.get("key").or(variable.get("id")).and_then(Value::as_str).unwrap_or_default();
            let value = variable.get("value").filter(|value| !value.is_null()).map(text::of_json).unwrap_or_default();
            let value = match value.is_empty() {
                true => placeholder("uniform:1..1000"),
                false => encoded(&self.filled(&value, 0)),
            };
            filled = with_path_variable(&filled, name, &value);
        }
        let (scheme, rest) =
            filled.split_once("://").map_or((None, filled.as_str()), |(scheme, rest)| (Some(scheme), rest));
        let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if !host.is_empty() && !has_placeholder(host) && !scheme.is_some_and(has_placeholder) {
            return Some(filled);
        }
        let (raw_scheme, raw_rest) = raw.split_once("://").map_or(("", raw.as_str()), |(scheme, rest)| (scheme, rest));
        let raw_host = raw_rest.split(['/', '?', '#']).next().unwrap_or_default();
        let raw_host =
            if raw_scheme.contains('{') { format!("{raw_scheme}://{raw_host}") } else { raw_host.to_owned() };
        let raw_host = if raw_host.is_empty() { "of some requests".to_owned() } else { raw_host };
        if !self.unknown_hosts.contains(&raw_host) {
            self.unknown_hosts.push(raw_host);
        }
        Some(format!("{UNKNOWN_HOST}{path}"))
    }

    fn headers(&self, headers: Option<&Value>) -> Vec<(String, String)> {
        if let Some(Value::String(lines)) = headers {
            let pairs = lines.lines().filter_map(|line| line.split_once(':'));
            return pairs.map(|(name, value)| (name.trim().to_owned(), self.filled(value.trim(), 0))).collect();
        }
        let named = enabled(headers).map(|header| (text_of(header, "key"), self.filled(&text_of(header, "value"), 0)));
        named.filter(|(name, _)| !name.is_empty()).collect()
    }

    /// Adds the headers or the parameter by which a request is authenticated.
    fn auth(&mut self, auth: Option<&Value>, headers: &mut Vec<(String, String)>, query: &mut Vec<String>) {
        let Some(auth) = auth else { return };
        let kind = text_of(auth, "type");
        // v2.1 has a list of keys and values, v2.0 an object.
        let value = |key: &str| match auth.get(&kind) {
            Some(Value::Array(pairs)) => {
                let pair = pairs.iter().find(|pair| pair.get("key").and_then(Value::as_str) == Some(key));
                pair.and_then(|pair| pair.get("value")).map(text::of_json).unwrap_or_default()
            }
            Some(object) => object.get(key).map(text::of_json).unwrap_or_default(),
            None => String::new(),
        };
        let has = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        match kind.as_str() {
            "" | "noauth" => {}
            "basic" if !has => {
                headers.push(("authorization".to_owned(), format!("Basic {}", placeholder("base64:{env:LOGIN}"))))
            }
            "bearer" | "oauth2" if !has => {
                let token = if kind == "bearer" { value("token") } else { value("accessToken") };
                let token = self.filled(&token, 0);
                let token = if token.is_empty() { placeholder("env:BEARER_TOKEN") } else { token };
                headers.push(("authorization".to_owned(), format!("Bearer {token}")));
            }
            "basic" | "bearer" | "oauth2" => {}
            "apikey" => {
                let name =
                    Some(self.filled(&value("key"), 0)).filter(|name| !name.is_empty() && !has_placeholder(name));
                let name = name.unwrap_or_else(|| "x-api-key".to_owned());
                let variable = placeholder(&format!("env:{}", variable_name(&name)));
                match value("in").as_str() {
                    "query" => query.push(format!("{}={variable}", encoded(&name))),
                    _ => headers.push((name, variable)),
                }
            }
            other => self.recording.left_out.add("ways to authenticate", other),
        }
    }

    /// Returns the type and content of a body.
    fn body(&self, body: &Value) -> (Option<String>, RecordedBody) {
        let mode = text_of(body, "mode");
        match mode.as_str() {
            "raw" => {
                let raw = self.filled(&text_of(body, "raw"), 0);
                let language = body.pointer("/options/raw/language").and_then(Value::as_str).unwrap_or_default();
                let kind = match language {
                    "json" => Some("application/json"),
                    "xml" => Some("application/xml"),
                    "html" => Some("text/html"),
                    _ if raw.is_empty() => None,
                    _ => Some("text/plain"),
                };
                let body = if raw.is_empty() { RecordedBody::None } else { RecordedBody::text(raw) };
                (kind.map(str::to_owned), body)
            }
            "urlencoded" => {
                let pairs = enabled(body.get("urlencoded")).map(|pair| {
                    let [name, value] = ["key", "value"].map(|key| encoded(&self.filled(&text_of(pair, key), 0)));
                    format!("{name}={value}")
                });
                let form = pairs.collect::<Vec<String>>().join("&");
                (Some("application/x-www-form-urlencoded".to_owned()), RecordedBody::text(form))
            }
            "formdata" => {
                let parts: Vec<&Value> = enabled(body.get("formdata")).collect();
                let parts: Option<Vec<FormPart>> = parts.into_iter().map(|part| self.part(part)).collect();
                let Some(parts) = parts else {
                    return (None, RecordedBody::LeftOut("an uploaded file that is not in the collection".to_owned()));
                };
                (Some(multipart::CONTENT_TYPE.to_owned()), RecordedBody::Parts(parts))
            }
            "graphql" => {
                let graphql = body.get("graphql").unwrap_or(&Value::Null);
                let variables = graphql.get("variables").map(text::of_json).unwrap_or_default();
                let variables: Value = serde_json::from_str(&variables).unwrap_or(Value::Object(Map::new()));
                let json = serde_json::json!({"query": text_of(graphql, "query"), "variables": variables});
                (Some("application/json".to_owned()), RecordedBody::text(self.filled(&json.to_string(), 0)))
            }
            "file" => (None, RecordedBody::LeftOut("a file that is not in the collection".to_owned())),
            _ => (None, RecordedBody::None),
        }
    }

    /// Returns a part of a form, or `None` for a file without a name.
    fn part(&self, part: &Value) -> Option<FormPart> {
        let is_file = part.get("type").and_then(Value::as_str) == Some("file");
        let src = part.get("src").and_then(|src| src.as_str().or_else(|| src.get(0)?.as_str()));
        let file = src.filter(|_| is_file).map(|src| multipart::base_name(src).to_owned());
        if is_file && file.as_ref().is_none_or(String::is_empty) {
            return None;
        }
        Some(FormPart {
            name: self.filled(&text_of(part, "key"), 0),
            value: (!is_file).then(|| self.filled(&text_of(part, "value"), 0)),
            file,
            file_name: None,
            content_type: part.get("contentType").and_then(Value::as_str).map(str::to_owned),
        })
    }

    /// Replaces variables, `{{name}}`, by their values. A variable without a value is read from the
    /// environment.
    fn filled(&self, text: &str, depth: usize) -> String {
        if depth == 0 {
            self.left.set(VARIABLES);
        }
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            match after.split_once("}}") {
                Some((name, behind)) if !name.contains(['{', '\n', '"']) => {
                    filled.push_str(&self.variable(name.trim(), depth));
                    rest = behind;
                }
                _ => {
                    filled.push_str("{{");
                    rest = after;
                }
            }
        }
        filled + rest
    }

    fn variable(&self, name: &str, depth: usize) -> String {
        self.left.set(self.left.get().saturating_sub(1));
        match name {
            "$guid" | "$randomUUID" => placeholder("uuid"),
            "$randomInt" => placeholder("uniform:0..1000"),
            "$timestamp" => placeholder("now:%s"),
            "$isoTimestamp" => placeholder("now:%Y-%m-%dT%H:%M:%S.%3fZ"),
            _ if name.starts_with("$random") => placeholder("bytes:8"),
            _ => match self.variables.get(name).filter(|_| depth < DEPTH && self.left.get() > 0) {
                Some(value) => self.filled(&text::of_json(value), depth + 1),
                None => placeholder(&format!("env:{}", variable_name(name))),
            },
        }
    }
}

fn text_of(value: &Value, key: &str) -> String {
    value.get(key).filter(|value| !value.is_null()).map(text::of_json).unwrap_or_default()
}

/// Returns the entries of a list that are not disabled.
fn enabled(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    entries.filter(|entry| entry.is_object() && entry.get("disabled") != Some(&Value::Bool(true)))
}

/// Returns a URL from its parts.
fn of_parts(url: &Value) -> String {
    let joined = |key: &str, between: &str| match url.get(key) {
        Some(Value::Array(parts)) => {
            let parts = parts.iter().map(|part| part.get("value").map_or_else(|| text::of_json(part), text::of_json));
            parts.collect::<Vec<String>>().join(between)
        }
        Some(Value::String(text)) => text.trim_start_matches('/').to_owned(),
        _ => String::new(),
    };
    let host = joined("host", ".");
    if host.is_empty() {
        return String::new();
    }
    let scheme = text_of(url, "protocol");
    let scheme = if scheme.is_empty() { String::new() } else { format!("{}://", scheme.trim_end_matches("://")) };
    let port = text_of(url, "port");
    let port = if port.is_empty() { String::new() } else { format!(":{port}") };
    let query = enabled(url.get("query")).map(|pair| format!("{}={}", text_of(pair, "key"), text_of(pair, "value")));
    let query = query.collect::<Vec<String>>().join("&");
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("{scheme}{host}{port}/{}{query}", joined("path", "/"))
}

/// Replaces the segment `:name` of a path.
fn with_path_variable(url: &str, name: &str, value: &str) -> String {
    let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let segment = format!(":{name}");
    let segments = path.split('/').map(|part| if part == segment { value } else { part });
    let path = segments.collect::<Vec<&str>>().join("/");
    query.map_or(path.clone(), |query| format!("{path}?{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placeholder::shown;

    const SHOP: &str = r#"{"info": {"name": "Shop"}, "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{token}}"}]},
      "variable": [{"key": "base", "value": "http://{{host}}/v1"}, {"key": "host", "value": "shop.example"}],
      "event": [{"listen": "test", "script": {"exec": ["pm.test()"]}}],
      "item": [
        {"name": "Folder", "auth": {"type": "noauth"}, "item": [
          {"name": "One item", "request": {"method": "GET", "header": [{"key": "X-A", "value": "1"}, {"key": "X-B", "value": "2", "disabled": true}],
           "url": {"raw": "{{base}}/items/:id?q={{$guid}}", "variable": [{"key": "id", "value": "7"}]}, "body": {"mode": "raw", "raw": "x"}}}]},
        {"name": "Add", "request": {"method": "POST", "url": "{{base}}/items", "body": {"mode": "raw", "raw": "{\"a\": {{b}}}", "options": {"raw": {"language": "json"}}}}},
        {"name": "Form", "request": {"method": "POST", "url": {"host": ["{{other}}"], "path": ["a", "b"], "query": [{"key": "c", "value": "d"}]},
         "body": {"mode": "urlencoded", "urlencoded": [{"key": "a", "value": "b c"}]}}},
        {"name": "Upload", "request": {"method": "POST", "url": "{{base}}", "auth": {"type": "apikey", "apikey": {"key": "k", "in": "query"}},
         "body": {"mode": "formdata", "formdata": [{"key": "f", "type": "file", "src": "/srv/cat.png"}]}}},
        {"name": "Graph", "request": {"method": "POST", "url": "{{base}}", "auth": {"type": "ntlm"}, "body": {"mode": "graphql", "graphql": {"query": "{ a }", "variables": "{\"x\": 1}"}}}}
      ]}"#;

    fn read_text(text: &str) -> Result<ImportedRecording, ImportError> {
        read(&ImportSource { name: "collection.json", text, attached: &|_| None })
    }

    #[test]
    fn requests_have_the_values_of_variables() {
        let recording = read_text(SHOP).unwrap();
        let [one, add, form, upload, graph] = recording.requests.as_slice() else { panic!("{:?}", recording.requests) };
        assert_eq!(shown(&one.url), "http://shop.example/v1/items/7?q={uuid}");
        assert_eq!((one.headers.len(), &one.body), (1, &RecordedBody::None));
        let header = |request: &RecordedRequest, at: usize| shown(&request.headers[at].1);
        assert_eq!((header(add, 0), header(add, 1)), ("Bearer {env:TOKEN}".to_owned(), "application/json".to_owned()));
        assert!(matches!(&add.body, RecordedBody::Text(text) if shown(text) == "{\"a\": {env:B}}"));
        assert_eq!(
            (form.url.as_str(), &form.body),
            ("http://127.0.0.1:8080/a/b?c=d", &RecordedBody::Text("a=b%20c".to_owned()))
        );
        assert!(recording.notes[0].contains("{{other}}"), "{:?}", recording.notes);
        assert_eq!(shown(&upload.url), "http://shop.example/v1?k={env:K}");
        assert!(matches!(&upload.body, RecordedBody::Parts(parts) if parts[0].file.as_deref() == Some("cat.png")));
        assert_eq!(graph.body, RecordedBody::Text("{\"query\":\"{ a }\",\"variables\":{\"x\":1}}".to_owned()));
        let left_out: Vec<String> = recording.left_out.paragraphs().collect();
        assert_eq!(left_out[0], "scripts (1): test");
        assert!(left_out.iter().any(|line| line.contains("ntlm")), "{left_out:?}");
    }

    #[test]
    fn variables_that_contain_each_other_come_to_an_end() {
        let text = r#"{"info": {}, "variable": [{"key": "a", "value": "{{b}}"}, {"key": "b", "value": "{{a}}"}],
            "item": [{"request": "http://h/{{a}}"}]}"#;
        assert_eq!(shown(&read_text(text).unwrap().requests[0].url), "http://h/{env:A}");
    }

    #[test]
    fn other_files_are_refused_with_the_reason() {
        for (text, what) in [("{", "not JSON"), ("{\"requests\": []}", "v1"), ("{\"values\": []}", "no list `item`")] {
            assert!(read_text(text).unwrap_err().what.contains(what), "{text}");
        }
    }
}
