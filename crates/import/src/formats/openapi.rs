//! Descriptions of an API: OpenAPI 3.0 and 3.1, in JSON or YAML. Each operation becomes a request
//! with the examples of the description, or with values that match its schemas.

mod examples;

use examples::ExampleMaker;
use serde_json::Value;

use super::{Content, Format};
use crate::credentials::variable_name;
use crate::formats::curl::encoded;
use crate::left_out::LeftOut;
use crate::multipart::{self, FormPart};
use crate::placeholder::placeholder;
use crate::recording::{ImportedRecording, RecordedBody, RecordedRequest, RequestOrder};
use crate::web_address::WebAddress;
use crate::{ImportError, ImportSource, yaml};

pub const FORMAT: Format = Format { name: "openapi", title: "OpenAPI", is_of_a_browser: false, recognises, read };

const DOCUMENT: &str = "an OpenAPI 3.0 or 3.1 document in JSON or YAML, with `openapi` and `paths`";
/// Server of a description that names none.
const UNKNOWN_HOST: &str = "http://127.0.0.1:8080";
const METHODS: [&str; 8] = ["get", "head", "post", "put", "patch", "delete", "options", "trace"];
/// Headers that are described elsewhere in the document (OpenAPI 3.1, 4.8.12.1).
const NOT_PARAMETERS: [&str; 3] = ["accept", "authorization", "content-type"];

fn recognises(content: &Content<'_>) -> bool {
    if let Some(json) = &content.json {
        return json.get("openapi").is_some() || json.get("swagger").is_some();
    }
    let keys = ["openapi:", "swagger:", "'openapi':", "\"openapi\":", "\"swagger\":"];
    content.text.lines().any(|line| keys.iter().any(|key| line.starts_with(key)))
}

fn read(source: &ImportSource<'_>) -> Result<ImportedRecording, ImportError> {
    let document = if source.text.trim_start().starts_with('{') {
        serde_json::from_str(source.text).or_else(|error| {
            // YAML takes JSON with commas at the end of lists.
            yaml::parse(source.text)
                .map_err(|_| ImportError::at(error.line(), format!("this is not JSON: {error}"), DOCUMENT))
        })?
    } else {
        yaml::parse(source.text)?
    };
    let version = document.get("openapi").map(text::of_json).unwrap_or_default();
    if !version.starts_with("3.") {
        let what = match document.get("swagger") {
            Some(swagger) => format!("this is Swagger {}", text::of_json(swagger)),
            None => "there is no `openapi` with a version that begins with 3".to_owned(),
        };
        return Err(ImportError::new(what, format!("{DOCUMENT}; `npx swagger2openapi FILE` converts Swagger 2.0")));
    }
    let paths = document.get("paths").and_then(Value::as_object);
    let paths = paths.filter(|paths| !paths.is_empty());
    let paths = paths.ok_or_else(|| ImportError::new("there are no `paths`", DOCUMENT))?;
    let mut recording = ImportedRecording {
        title: document.pointer("/info/title").and_then(Value::as_str).map(str::to_owned),
        order: RequestOrder::Mix,
        ..ImportedRecording::default()
    };
    let reader = ApiReader { document: &document, maker: ExampleMaker::new(&document) };
    let server = reader.server(&document);
    if server.is_none() {
        recording.notes.push("The description does not name a server: write the URL of a server to load.".to_owned());
    }
    let relative = document.pointer("/servers/0/url").and_then(Value::as_str).filter(|url| url.starts_with('/'));
    let relative = relative.filter(|url| !url.starts_with("//") && !url.contains(['{', '?', ' '])).unwrap_or_default();
    let base = server.unwrap_or_else(|| format!("{UNKNOWN_HOST}{}", relative.trim_end_matches('/')));
    for (path, item) in paths.iter().filter(|(path, _)| path.starts_with('/')) {
        let item = reader.maker.resolved(item);
        if let Some(elsewhere) = item.get("$ref").and_then(Value::as_str) {
            recording.left_out.add("paths that are described in other files", elsewhere);
        }
        for method in METHODS {
            let Some(operation) = item.get(method).filter(|operation| operation.is_object()) else { continue };
            let base = reader.server(operation).or_else(|| reader.server(item)).unwrap_or_else(|| base.clone());
            recording.requests.push(reader.request((&base, path), method, item, operation, &mut recording.left_out));
        }
    }
    for name in document.get("webhooks").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name) {
        recording.left_out.add("webhooks", name);
    }
    recording.base = Some(base);
    Ok(recording)
}

struct ApiReader<'a> {
    document: &'a Value,
    maker: ExampleMaker<'a>,
}

/// A value and its place in a request.
struct SentParameter {
    place: String,
    name: String,
    value: String,
}

impl ApiReader<'_> {
    /// Returns the URL of the first server; `None` if there is none, or if its host is not known.
    fn server(&self, of: &Value) -> Option<String> {
        let server = of.pointer("/servers/0")?;
        let mut url = server.get("url")?.as_str()?.to_owned();
        for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
            let value = variable.get("default").map(text::of_json).unwrap_or_default();
            url = url.replace(&format!("{{{name}}}"), &value);
        }
        if url.starts_with("//") {
            url = format!("https:{url}");
        }
        // A braced variable without a default, or a path that is relative to the document.
        let is_known = url.contains("://") && !url.contains(['{', '}', ' ', '\u{fdd0}']);
        let address = WebAddress::parse(&url).ok().filter(|_| is_known)?;
        let path = address.path.split('?').next().unwrap_or_default().trim_end_matches('/');
        Some(format!("{}{path}", address.service))
    }

    fn request(
        &self,
        (base, path): (&str, &str),
        method: &str,
        item: &Value,
        operation: &Value,
        left_out: &mut LeftOut,
    ) -> RecordedRequest {
        let mut sent = self.parameters(item, operation, left_out);
        sent.extend(self.security(operation, left_out));
        let mut path = path.to_owned();
        let (mut query, mut headers, mut cookies) = (Vec::new(), Vec::new(), Vec::new());
        for parameter in sent {
            let SentParameter { place, name, value } = parameter;
            match place.as_str() {
                "path" => path = path.replace(&format!("{{{name}}}"), &encoded(&value)),
                "query" => query.push(format!("{}={}", encoded(&name), encoded(&value))),
                "cookie" => cookies.push(format!("{name}={value}")),
                _ => headers.push((name, value)),
            }
        }
        let path = without_parameters(&path);
        if !cookies.is_empty() {
            headers.push(("cookie".to_owned(), cookies.join("; ")));
        }
        headers.extend(self.accepted(operation).map(|kind| ("accept".to_owned(), kind)));
        let body = match operation.get("requestBody").map(|body| self.body(self.maker.resolved(body))) {
            None => RecordedBody::None,
            Some((kind, body)) => {
                headers.extend(kind.map(|kind| ("content-type".to_owned(), kind)));
                body
            }
        };
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let id = operation.get("operationId").and_then(Value::as_str);
        RecordedRequest {
            name: id.map(str::to_owned),
            method: method.to_ascii_uppercase(),
            url: format!("{base}{path}{query}"),
            headers,
            body,
            ..RecordedRequest::default()
        }
    }

    /// Returns the required parameters with their values, and those in the path.
    fn parameters(&self, item: &Value, operation: &Value, left_out: &mut LeftOut) -> Vec<SentParameter> {
        let mut sent: Vec<SentParameter> = Vec::new();
        let lists = [operation, item].map(|of| of.get("parameters").and_then(Value::as_array));
        // Parameters of the operation come first, and replace those of the path.
        for parameter in lists.into_iter().flatten().flatten().map(|parameter| self.maker.resolved(parameter)) {
            let text = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (name, place) = (text("name"), text("in"));
            let is_known = sent.iter().any(|known| known.name == name && known.place == place);
            let is_described = place == "header" && NOT_PARAMETERS.contains(&name.to_ascii_lowercase().as_str());
            if name.is_empty() || is_known || is_described {
                continue;
            }
            let is_required = parameter.get("required").and_then(Value::as_bool) == Some(true);
            if place != "path" && !is_required {
                left_out.add("optional parameters", &name);
                continue;
            }
            let value = match place.as_str() {
                "cookie" => placeholder(&format!("env:{}", variable_name(&name))),
                _ => self.maker.parameter(parameter, place == "path"),
            };
            sent.push(SentParameter { place, name, value });
        }
        sent
    }

    /// Returns the credentials for the first of the alternatives that an operation accepts.
    fn security(&self, operation: &Value, left_out: &mut LeftOut) -> Vec<SentParameter> {
        let alternatives = operation.get("security").or(self.document.get("security")).and_then(Value::as_array);
        let alternatives = alternatives.map(Vec::as_slice).unwrap_or_default();
        let first = alternatives.iter().filter_map(Value::as_object).next();
        let mut sent = Vec::new();
        for scheme_name in first.into_iter().flatten().map(|(name, _)| name) {
            let schemes = self.document.pointer("/components/securitySchemes");
            let Some(scheme) = schemes.and_then(|schemes| schemes.get(scheme_name)) else { continue };
            let scheme = self.maker.resolved(scheme);
            let text = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
            let authorization =
                |value: String| SentParameter { place: "header".to_owned(), name: "authorization".to_owned(), value };
            match (text("type"), text("scheme").to_ascii_lowercase().as_str()) {
                ("apiKey", _) => sent.push(SentParameter {
                    place: text("in").to_owned(),
                    name: text("name").to_owned(),
                    value: placeholder(&format!("env:{}", variable_name(text("name")))),
                }),
                ("http", "basic") => sent.push(authorization(format!("Basic {}", placeholder("base64:{env:LOGIN}")))),
                ("http", "bearer") | ("oauth2" | "openIdConnect", _) => {
                    sent.push(authorization(format!("Bearer {}", placeholder("env:BEARER_TOKEN"))));
                }
                (kind, scheme) => left_out.add("ways to authenticate", &format!("{kind} {scheme}")),
            }
        }
        sent
    }

    /// Returns the type of the first successful answer.
    fn accepted(&self, operation: &Value) -> Option<String> {
        let answers = operation.get("responses")?.as_object()?;
        let (_, answer) = answers.iter().find(|(status, _)| status.starts_with('2'))?;
        let kinds = self.maker.resolved(answer).get("content")?.as_object()?;
        let kind = kinds.keys().find(|kind| is_json(kind)).or(kinds.keys().next())?;
        Some(kind.clone())
    }

    /// Returns the type and content of a body.
    fn body(&self, body: &Value) -> (Option<String>, RecordedBody) {
        let kinds = body.get("content").and_then(Value::as_object);
        let Some(kinds) = kinds.filter(|kinds| !kinds.is_empty()) else { return (None, RecordedBody::None) };
        let tests: [fn(&str) -> bool; 4] = [
            is_json,
            |kind| kind.starts_with("application/x-www-form"),
            |kind| kind.starts_with("multipart/"),
            |kind| kind.starts_with("text/"),
        ];
        let chosen = tests.iter().find_map(|test| kinds.iter().find(|(kind, _)| test(kind))).or(kinds.iter().next());
        let Some((kind, media)) = chosen else { return (None, RecordedBody::None) };
        // A range of types, such as */*, is no type.
        let sent_kind = Some(kind.clone()).filter(|kind| !kind.contains('*'));
        let value = self.maker.media(media);
        if is_json(kind) || kind.contains('*') && !value.is_string() {
            let json = match serde_json::to_string(&value) {
                Ok(short) if short.len() <= 72 => short,
                _ => serde_json::to_string_pretty(&value).unwrap_or_default(),
            };
            return (sent_kind, RecordedBody::text(json));
        }
        let members: Vec<(&String, &Value)> = value.as_object().into_iter().flatten().collect();
        match (kind.split('/').next(), &value) {
            _ if kind.starts_with("application/x-www-form") => {
                let pairs =
                    members.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(&text::of_json(value))));
                (sent_kind, RecordedBody::text(pairs.collect::<Vec<String>>().join("&")))
            }
            (Some("multipart"), _) => {
                let files = self.maker.files(media);
                let parts = members.iter().filter(|(name, _)| !files.contains(name)).map(|(name, value)| FormPart {
                    name: (*name).clone(),
                    value: Some(text::of_json(value)),
                    content_type: (!value.is_string()).then(|| "application/json".to_owned()),
                    ..FormPart::default()
                });
                // The description has no example of a file.
                let uploads = files.iter().map(|name| FormPart {
                    name: (*name).clone(),
                    value: Some(placeholder("random_bytes:1024")),
                    file_name: Some(format!("{name}.bin")),
                    content_type: Some("application/octet-stream".to_owned()),
                    ..FormPart::default()
                });
                let parts = parts.chain(uploads).collect();
                (Some(multipart::CONTENT_TYPE.to_owned()), RecordedBody::Parts(parts))
            }
            (_, Value::String(text)) if !self.maker.is_file(media) => (sent_kind, RecordedBody::text(text.clone())),
            _ => (sent_kind, RecordedBody::LeftOut(format!("the type {kind} has no example"))),
        }
    }
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind == "application/json" || kind == "text/json" || kind.ends_with("+json")
}

/// Replaces parameters of a path that are not described, `{id}`, by random numbers.
fn without_parameters(path: &str) -> String {
    let mut replaced = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        replaced.push_str(before);
        let Some((_, behind)) = after.split_once('}') else {
            rest = after;
            continue;
        };
        replaced.push_str(&placeholder("uniform:1..1000"));
        rest = behind;
    }
    replaced + rest
}

#[cfg(test)]
mod tests;
