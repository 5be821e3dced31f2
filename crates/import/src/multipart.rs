//! Bodies of multipart/form-data (RFC 7578).

use experiment::template::TemplatePart;

use crate::credentials::Variables;
use crate::placeholder::{has_placeholder, template};
use crate::recording::RecordedBody;

/// Boundary between the parts.
const BOUNDARY: &str = "----plimsoll-part";
/// Value of the header `content-type` of such a body.
pub const CONTENT_TYPE: &str = "multipart/form-data; boundary=----plimsoll-part";

/// A part of a form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormPart {
    pub name: String,
    /// Value of the part, if it is known and is a text.
    pub value: Option<String>,
    /// Path of the file whose bytes are the value.
    pub file: Option<String>,
    pub file_name: Option<String>,
    pub content_type: Option<String>,
}

/// Returns the file name of a path, so that a recording cannot name files elsewhere.
pub fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Returns the body as one text, if the values of all parts are known.
pub fn in_one_text(parts: &[FormPart]) -> RecordedBody {
    let quoted = |text: &str| text.replace('"', "%22").replace(['\r', '\n'], " ");
    let mut body = String::new();
    for part in parts {
        let Some(value) = &part.value else {
            let file = part.file.as_deref().unwrap_or(&part.name);
            return RecordedBody::LeftOut(format!("the file {file} cannot be read, or is no text"));
        };
        let file_name = part.file_name.as_deref().or(part.file.as_deref().map(base_name));
        let file = file_name.map_or_else(String::new, |name| format!("; filename=\"{}\"", quoted(name)));
        let content_type = part.content_type.as_deref().or(file_name.map(|_| "application/octet-stream"));
        let content_type =
            content_type.map_or_else(String::new, |given| format!("Content-Type: {}\r\n", quoted(given)));
        let name = quoted(&part.name);
        body.push_str(&format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n{content_type}\r\n{value}\r\n"
        ));
    }
    body.push_str(&format!("--{BOUNDARY}--\r\n"));
    RecordedBody::text(body)
}

/// Returns the parts as arguments of a step, or `None` if a name occurs twice or cannot be the name
/// of an argument.
pub fn arguments(parts: &[FormPart], variables: &mut Variables) -> Option<Vec<(String, String)>> {
    let is_plain = |name: &str| {
        !name.is_empty() && !name.contains('.') && !name.chars().any(char::is_control) && !has_placeholder(name)
    };
    let is_text = |value: &String| value.is_empty() || matches!(RecordedBody::text(value), RecordedBody::Text(_));
    let mut with: Vec<(String, String)> = Vec::new();
    for part in parts {
        let name = format!("multipart.{}", part.name);
        if !is_plain(&part.name) || with.iter().any(|(known, _)| *known == name) {
            return None;
        }
        let value = match (&part.file, &part.value) {
            (Some(file), _) if file.is_empty() => return None,
            (Some(file), _) => TemplatePart::File(file.clone()).to_string(),
            (None, value) => template(&variables.part(&part.name, value.as_ref().filter(|value| is_text(value))?)),
        };
        with.push((name, value));
        let own_name = part.file.as_deref().map(base_name);
        if let Some(file_name) = part.file_name.as_deref().filter(|name| own_name != Some(name)) {
            with.push((format!("filename.{}", part.name), template(file_name)));
        }
        if let Some(kind) = &part.content_type {
            with.push((format!("type.{}", part.name), template(&kind.replace(char::is_control, " "))));
        }
    }
    Some(with)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, value: Option<&str>, file: Option<&str>, file_name: Option<&str>) -> FormPart {
        let [value, file, file_name] = [value, file, file_name].map(|text| text.map(str::to_owned));
        FormPart { name: name.to_owned(), value, file, file_name, content_type: None }
    }

    #[test]
    fn parts_are_arguments() {
        let mut parts = vec![
            part("a", Some("{x}"), None, None),
            part("b", None, Some("in/a}b.jpg"), Some("a}b.jpg")),
            part("c", None, Some("in/a.jpg"), Some("b.jpg")),
            part("password", Some("word"), None, None),
        ];
        parts[2].content_type = Some("image/png".to_owned());
        let mut variables = Variables::default();
        let with = arguments(&parts, &mut variables).unwrap();
        let expected = [
            ("multipart.a", "{{x}}"),
            ("multipart.b", r"{file:in/a\}b.jpg}"),
            ("multipart.c", "{file:in/a.jpg}"),
            ("filename.c", "b.jpg"),
            ("type.c", "image/png"),
            ("multipart.password", "{env:PASSWORD}"),
        ];
        assert_eq!(with, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(variables.needed().len(), 1);
    }

    #[test]
    fn other_parts_are_one_text_if_they_are_known() {
        let parts = [part("a", Some("1"), None, None), part("a", Some("2"), None, Some("x.txt"))];
        assert_eq!(arguments(&parts, &mut Variables::default()), None);
        let RecordedBody::Text(body) = in_one_text(&parts) else { panic!("no text") };
        assert!(body.contains("name=\"a\"; filename=\"x.txt\"\r\nContent-Type: application/octet-stream\r\n\r\n2\r\n"));
        assert!(matches!(in_one_text(&[part("a", None, Some("x.jpg"), None)]), RecordedBody::LeftOut(_)));
    }
}
