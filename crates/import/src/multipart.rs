//! Bodies of multipart/form-data (RFC 7578).

/// Boundary between the parts.
const BOUNDARY: &str = "----plimsoll-part";
/// Value of the header `content-type` of such a body.
pub const CONTENT_TYPE: &str = "multipart/form-data; boundary=----plimsoll-part";

/// A part of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart {
    pub name: String,
    pub value: String,
    pub file_name: Option<String>,
    pub content_type: Option<String>,
}

/// Returns the body for the parts.
pub fn body(parts: &[FormPart]) -> String {
    let quoted = |text: &str| text.replace('"', "%22").replace(['\r', '\n'], " ");
    let mut body = String::new();
    for part in parts {
        let file = part.file_name.as_ref().map_or_else(String::new, |name| format!("; filename=\"{}\"", quoted(name)));
        let content_type = part.content_type.as_ref();
        let content_type =
            content_type.map_or_else(String::new, |given| format!("Content-Type: {}\r\n", quoted(given)));
        let name = quoted(&part.name);
        body.push_str(&format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n{content_type}\r\n{}\r\n",
            part.value
        ));
    }
    body.push_str(&format!("--{BOUNDARY}--\r\n"));
    body
}
