//! Tests of reading OpenAPI documents.

use super::*;
use crate::placeholder::shown;

const SHOP: &str = r"
openapi: 3.0.3
info: {title: Shop, version: 1.0.0}
servers: [{url: 'https://{host}/v1/', variables: {host: {default: shop.example}}}]
security: [{key: []}]
paths:
  /items/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: integer, maximum: 50}}]
    get:
      operationId: getItem
      security: []
      parameters:
        - {name: view, in: query, required: true, schema: {type: string, enum: [short, long]}}
        - {name: page, in: query, schema: {type: integer}}
      responses: {'200': {description: ok, content: {application/json: {}}}}
    put:
      requestBody:
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Item'}
  /upload:
    post:
      security: [{login: []}]
      requestBody: {content: {multipart/form-data: {schema: {properties: {file: {type: string, format: binary}}}}}}
  /form/{what}:
    post:
      security: [{token: []}]
      requestBody: {content: {application/x-www-form-urlencoded: {example: {a: b c, d: 1}}}}
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Api-Key}
    login: {type: http, scheme: basic}
    token: {type: oauth2}
  schemas:
    Item:
      allOf:
        - {type: object, required: [name], properties: {name: {type: string}, id: {type: integer, readOnly: true}, more: {type: string}}}
        - {properties: {parent: {$ref: '#/components/schemas/Item'}, at: {type: [string, 'null'], format: date}}}
";

fn read_text(text: &str) -> Result<ImportedRecording, ImportError> {
    read(&ImportSource { name: "api", text, attached: &|_| None })
}

#[test]
fn each_operation_becomes_a_request() {
    let recording = read_text(SHOP).unwrap();
    assert_eq!(
        (recording.title.as_deref(), recording.base.as_deref()),
        (Some("Shop"), Some("https://shop.example/v1"))
    );
    let [get, put, upload, form] = recording.requests.as_slice() else { panic!("{:?}", recording.requests) };
    assert_eq!(shown(&get.url), "https://shop.example/v1/items/{uniform:1..50}?view=short");
    assert_eq!(get.headers, [("accept".to_owned(), "application/json".to_owned())]);
    assert_eq!(shown(&put.headers[0].1), "{env:X_API_KEY}");
    let RecordedBody::Text(body) = &put.body else { panic!("no body") };
    assert!(body.contains("\"name\": \"text\"") && body.contains("\"at\": \"2025-01-31\""), "{body}");
    assert!(!body.contains("\"id\"") && !body.contains("\"more\""), "{body}");
    assert!(matches!(&upload.body, RecordedBody::Parts(parts) if parts[0].file_name.as_deref() == Some("file.bin")));
    assert_eq!(shown(&upload.headers[0].1), "Basic {base64:{env:LOGIN}}");
    assert_eq!(
        (shown(&form.url), &form.body),
        ("https://shop.example/v1/form/{uniform:1..1000}".to_owned(), &RecordedBody::Text("a=b%20c&d=1".to_owned()))
    );
}

#[test]
fn a_description_without_a_host_goes_to_this_machine() {
    for (servers, base) in [
        ("", ""),
        (", \"servers\": [{\"url\": \"/api/\"}]", "/api"),
        (", \"servers\": [{\"url\": \"https://{x}/\"}]", ""),
    ] {
        let text = format!("{{\"openapi\": \"3.1.0\", \"paths\": {{\"/\": {{\"get\": {{}}}}}}{servers}}}");
        let recording = read_text(&text).unwrap();
        assert_eq!(recording.requests[0].url, format!("http://127.0.0.1:8080{base}/"));
        assert_eq!(recording.notes.len(), 1);
    }
}

#[test]
fn other_documents_are_refused_with_the_reason() {
    for (text, what) in [
        ("swagger: '2.0'\npaths: {}\n", "Swagger 2.0"),
        ("openapi: 3.0.0\n", "no `paths`"),
        ("openapi: [", "not YAML"),
        ("{\"openapi\": \"3.0.0\", ", "not JSON"),
        ("a: 1", "no `openapi`"),
    ] {
        let error = read_text(text).unwrap_err();
        assert!(error.what.contains(what), "{error:?}");
    }
}
