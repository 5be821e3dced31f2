//! Replacement of credentials by variables of the environment: headers, parameters of a query or
//! form, and members of JSON.

use crate::placeholder::{self, has_placeholder, placeholder};

/// Headers whose values are credentials.
const HEADERS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];
/// Words in the names of other headers that carry credentials.
const HEADER_WORDS: [&str; 8] = ["api-key", "apikey", "api_key", "credential", "passw", "secret", "session", "token"];
/// Names of parameters and members that are credentials, without `-` and `_`.
const NAMES: [&str; 33] = [
    "accesskey",
    "accesstoken",
    "apikey",
    "apisecret",
    "apitoken",
    "appsecret",
    "auth",
    "authtoken",
    "clientsecret",
    "confirmpassword",
    "csrfmiddlewaretoken",
    "csrftoken",
    "idtoken",
    "jwt",
    "newpassword",
    "oldpassword",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "passwordconfirmation",
    "privatekey",
    "privatetoken",
    "pwd",
    "refreshtoken",
    "secret",
    "secretkey",
    "sessionid",
    "sig",
    "signature",
    "token",
    "xamzsecuritytoken",
    "xamzsignature",
];
/// Variables that a shell sets. They must not be sent by accident.
const OF_THE_SHELL: [&str; 14] = [
    "EDITOR", "HOME", "HOST", "HOSTNAME", "LANG", "LOGNAME", "MAIL", "OLDPWD", "PATH", "PWD", "SHELL", "TERM", "TZ",
    "USER",
];

/// A variable that the experiment reads from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededVariable {
    pub name: String,
    /// Description of the places where it is used.
    pub places: Vec<String>,
}

/// Variables that replace credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(Vec<NeededVariable>);

impl Variables {
    /// Returns the variables in the order of first use.
    pub fn needed(&self) -> &[NeededVariable] {
        &self.0
    }

    /// Returns a placeholder for a variable, and notes its place.
    fn place(&mut self, name: &str, place: &str) -> String {
        let name = variable_name(name);
        self.note(&name, place);
        placeholder(&format!("env:{name}"))
    }

    fn note(&mut self, name: &str, place: &str) {
        match self.0.iter_mut().find(|known| known.name == name) {
            Some(known) if known.places.iter().any(|other| other == place) => {}
            Some(known) => known.places.push(place.to_owned()),
            None => self.0.push(NeededVariable { name: name.to_owned(), places: vec![place.to_owned()] }),
        }
    }

    /// Notes the variables that a text of the recording already names.
    pub fn note_used(&mut self, text: &str, place: &str) {
        for name in placeholder::variables(text) {
            self.note(name, place);
        }
    }

    /// Returns the value of a header with its credentials replaced.
    pub fn header(&mut self, name: &str, value: &str) -> String {
        let is_secret = HEADERS.contains(&name) || HEADER_WORDS.iter().any(|word| name.contains(word));
        let place = format!("header {name}");
        if has_placeholder(value) || !is_secret {
            self.note_used(value, &place);
            return value.to_owned();
        }
        let scheme = value.split_once(' ').map(|(scheme, _)| scheme).unwrap_or_default();
        match (name, scheme.to_ascii_lowercase().as_str()) {
            ("authorization", "bearer") => format!("{scheme} {}", self.place("BEARER_TOKEN", &place)),
            ("authorization", "basic") => {
                self.note("LOGIN", "header authorization, as user:password");
                format!("{scheme} {}", placeholder("base64:{env:LOGIN}"))
            }
            _ => self.place(name, &place),
        }
    }

    /// Returns a path with the credentials in its query replaced.
    pub fn path(&mut self, path: &str) -> String {
        match path.split_once('?') {
            Some((before, query)) => {
                self.note_used(before, "path");
                format!("{before}?{}", self.pairs(query, "query"))
            }
            None => {
                self.note_used(path, "path");
                path.to_owned()
            }
        }
    }

    /// Returns `name=value&…` with credentials replaced.
    pub fn pairs(&mut self, pairs: &str, place: &str) -> String {
        let replaced = pairs.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) if is_secret(name) && !value.is_empty() && !has_placeholder(value) => {
                format!("{name}={}", self.place(name, &format!("{place} parameter {name}")))
            }
            _ => {
                self.note_used(pair, place);
                pair.to_owned()
            }
        });
        replaced.collect::<Vec<String>>().join("&")
    }

    /// Returns the value of a form's part, or a variable instead of a credential.
    pub fn part(&mut self, name: &str, value: &str) -> String {
        if is_secret(name) && !value.is_empty() && !has_placeholder(value) {
            return self.place(name, &format!("form part {name}"));
        }
        self.note_used(value, "form");
        value.to_owned()
    }

    /// Returns a body with credentials replaced, if it is JSON or a form.
    pub fn body(&mut self, body: &str) -> String {
        if body.trim_start().starts_with(['{', '[']) {
            self.json(body)
        } else if is_form(body) {
            self.pairs(body, "form")
        } else {
            self.note_used(body, "body");
            body.to_owned()
        }
    }

    /// Returns JSON with the string values of credentials replaced. All other characters stay.
    fn json(&mut self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        let mut key: Option<&str> = None;
        while let Some(at) = rest.find('"') {
            let (before, quoted) = rest.split_at(at);
            let length = quoted_length(quoted);
            let (string, behind) = quoted.split_at(length);
            let inner = string.get(1..length.saturating_sub(1)).unwrap_or_default();
            replaced.push_str(before);
            // The key counts only if nothing but a colon stands between it and the value.
            let is_value = key.is_some() && before.trim() == ":";
            match key.filter(|key| is_value && is_secret(key) && !inner.is_empty() && !has_placeholder(inner)) {
                Some(key) => {
                    let variable = self.place(key, &format!("JSON member {key}"));
                    replaced.push_str(&format!("\"{variable}\""));
                }
                None => {
                    self.note_used(string, "body");
                    replaced.push_str(string);
                }
            }
            key = (!is_value).then_some(inner);
            rest = behind;
        }
        replaced.push_str(rest);
        replaced
    }
}

/// Returns the length of a JSON string with its quotes; of an unclosed string, the whole text.
fn quoted_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return at + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// Whether a parameter or member of this name is a credential.
pub fn is_secret(name: &str) -> bool {
    let name: String = name.chars().filter(|one| !matches!(one, '-' | '_')).collect();
    NAMES.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether a text is a form, `name=value&…`.
fn is_form(text: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| !b" \t\r\n<>{}\"".contains(&byte));
    !text.contains('\n') && text.split('&').all(|pair| pair.split_once('=').is_some_and(|(name, _)| is_name(name)))
}

/// Returns the name of a variable for a header, a parameter or a variable of another tool.
pub fn variable_name(name: &str) -> String {
    let mut variable = String::new();
    for byte in name.bytes() {
        let byte = byte.to_ascii_uppercase();
        match byte.is_ascii_uppercase() || byte.is_ascii_digit() {
            true => variable.push(char::from(byte)),
            false if !variable.ends_with('_') => variable.push('_'),
            false => {}
        }
    }
    let variable = variable.trim_matches('_');
    if variable.is_empty() {
        return "VALUE".to_owned();
    }
    let is_taken = OF_THE_SHELL.contains(&variable) || variable.starts_with(|first: char| first.is_ascii_digit());
    if is_taken { format!("API_{variable}") } else { variable.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placeholder::template;

    #[test]
    fn credentials_become_variables() {
        let mut variables = Variables::default();
        let header = |name: &str, value: &str, variables: &mut Variables| template(&variables.header(name, value));
        assert_eq!(header("authorization", "Bearer abc", &mut variables), "Bearer {env:BEARER_TOKEN}");
        assert_eq!(header("authorization", "Basic YTpi", &mut variables), "Basic {base64:{env:LOGIN}}");
        assert_eq!(header("x-api-key", "abc", &mut variables), "{env:X_API_KEY}");
        assert_eq!(header("accept", "a", &mut variables), "a");
        assert_eq!(
            template(&variables.path("/a?b=1&api_key=x&pwd=y")),
            "/a?b=1&api_key={env:API_KEY}&pwd={env:API_PWD}"
        );
        assert_eq!(template(&variables.body("user=a&password=b")), "user=a&password={env:PASSWORD}");
        let json = r#"{"user":"a", "password" : "b\"c", "list": ["password", "x"], "token": 5}"#;
        let expected = r#"{{"user":"a", "password" : "{env:PASSWORD}", "list": ["password", "x"], "token": 5}}"#;
        assert_eq!(template(&variables.body(json)), expected);
        let names: Vec<&str> = variables.needed().iter().map(|variable| variable.name.as_str()).collect();
        assert_eq!(names, ["BEARER_TOKEN", "LOGIN", "X_API_KEY", "API_KEY", "API_PWD", "PASSWORD"]);
    }

    #[test]
    fn variables_that_a_shell_sets_are_not_used() {
        for (name, variable) in
            [("path", "API_PATH"), ("2fa", "API_2FA"), ("x-auth token", "X_AUTH_TOKEN"), ("é", "VALUE")]
        {
            assert_eq!(variable_name(name), variable);
        }
    }

    #[test]
    fn broken_json_is_unchanged() {
        for text in ["{\"password\": \"", "{\"password\"", "{\"a\": \"b\\"] {
            assert_eq!(Variables::default().body(text), text);
        }
    }
}
