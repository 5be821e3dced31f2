//! Secrets of an experiment that must not be recorded: credentials in headers, passwords in URLs,
//! and values named by `secret`. They are found in the file, hidden in texts and in JSON, and
//! restored when a run is continued.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::overlay;
use crate::problem::Problem;
use crate::source::{self, Source};
use crate::template::{Template, TemplatePart};
use crate::tree::{Node, TextSpan, TomlTable, TomlValue};

/// Headers whose values are credentials.
const HEADERS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];
/// Words in the names of other headers that carry credentials: `x-api-key`, `x-auth-token`,
/// `private-token`.
const HEADER_WORDS: [&str; 7] = ["api-key", "apikey", "credential", "passw", "secret", "session", "token"];
/// Arguments whose values are credentials in every operation.
const ARGUMENTS: [&str; 4] = ["passphrase", "passwd", "password", "secret"];
/// Names, in queries, forms and program options, of values that are credentials. `_` also matches
/// `-`.
const PAIRS: [&str; 27] = [
    "access_key",
    "access_token",
    "api_key",
    "apikey",
    "api_token",
    "auth",
    "auth_token",
    "client_secret",
    "id_token",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "private_token",
    "pwd",
    "refresh_token",
    "secret",
    "secret_key",
    "session",
    "session_id",
    "sessionid",
    "sig",
    "signature",
    "token",
    "x_amz_security_token",
    "x_amz_signature",
];
/// Minimum length, characters, of a value named `key` that counts as a credential. Shorter values
/// of that name are often keys of records.
const KEY: usize = 16;
/// Tables with arguments of operations, targets and faults, or with expected answers.
const TABLES: [&str; 2] = ["with", "expect"];
/// Keys of a plan under which the whole value may be a secret, even if it is short.
const WHOLE: [&str; 6] = ["with", "expect", "point", "command", "url", "urls"];
/// Minimum length, characters, of a secret that is hidden wherever it occurs. A shorter value,
/// which may also be an ordinary word, is hidden only where the file sets it.
const DISTINCT: usize = 8;

const MARK: &str = "[redacted ";

/// The secrets of an experiment.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Secret>);

#[derive(Clone)]
struct Secret {
    /// Replacement text: `[redacted header.authorization]`.
    mark: String,
    /// The value as a template, as in the file.
    value: String,
    /// Forms in which the value may occur in a text, the longest first.
    forms: Vec<String>,
    /// Place of the value in the file; `None` if the secret is only a part of a value.
    place: Option<TextSpan>,
}

/// Formats the secrets without their values.
impl fmt::Debug for Secrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.0.iter().map(|secret| &secret.mark)).finish()
    }
}

impl Secrets {
    /// Finds the secrets of an experiment file with its `--set`s. Problems in both are reported by
    /// [`crate::read`].
    #[must_use]
    pub fn of(source: &Source, sets: &[String]) -> Self {
        let (base, mut problems) = source::parse(&Arc::new(source.clone()));
        let sources: Vec<Arc<Source>> =
            sets.iter().map(|text| Arc::new(Source { name: "--set".to_owned(), text: text.clone() })).collect();
        // A value that a `--set` replaces is still in the file.
        let mut found = Search::of(&base);
        found.look_at(&base);
        found.look_at(&overlay::layers(base, &sources, &mut problems).base);
        found.secrets
    }

    /// Whether there are no secrets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the secrets: `header.authorization`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|secret| secret.mark.strip_prefix(MARK)?.strip_suffix(']'))
    }

    /// Returns a text with all secrets hidden.
    #[must_use]
    pub fn hidden<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.0.iter().fold(Cow::Borrowed(text), |text, secret| {
            secret.forms.iter().fold(text, |text, form| {
                if text.contains(form.as_str()) { Cow::Owned(text.replace(form.as_str(), &secret.mark)) } else { text }
            })
        })
    }

    /// Returns the file's text with all secrets hidden.
    #[must_use]
    pub fn hidden_file(&self, source: &Source) -> String {
        let mut text = source.text.clone();
        let mut places: Vec<(&TextSpan, &str)> = self
            .0
            .iter()
            .filter_map(|secret| Some((secret.place.as_ref().filter(|place| place.rank == 0)?, secret.mark.as_str())))
            .collect();
        places.sort_by_key(|(place, _)| std::cmp::Reverse(place.span.start));
        places.dedup_by_key(|(place, _)| place.span.start);
        for (place, mark) in places {
            if text.get(place.span.clone()).is_some() {
                text.replace_range(place.span.clone(), &format!("\"{mark}\""));
            }
        }
        self.hidden(&text).into_owned()
    }

    /// Returns a `--set` with all secrets hidden. `number` is the index of the `--set`, from 0.
    #[must_use]
    pub fn hidden_set(&self, number: usize, set: &str) -> String {
        let here = self.0.iter().find(|secret| secret.place.as_ref().is_some_and(|place| place.rank == number + 1));
        match (here, set.split_once('=')) {
            (Some(secret), Some((path, _))) => format!("{path}={}", secret.mark),
            _ => self.hidden(set).into_owned(),
        }
    }

    /// Hides all secrets in a value.
    pub fn hide(&self, value: &mut Json) {
        if !self.is_empty() {
            self.hide_in(value, false);
        }
    }

    fn hide_in(&self, value: &mut Json, is_whole: bool) {
        let written = match &*value {
            Json::String(text) => Cow::Borrowed(text.as_str()),
            Json::Number(number) if is_whole => Cow::Owned(number.to_string()),
            Json::Array(_) | Json::Object(_) => {
                self.hide_below(value, is_whole);
                return;
            }
            _ => return,
        };
        let whole = self.0.iter().find(|secret| is_whole && secret.value == *written);
        let hidden = match whole {
            Some(secret) => secret.mark.clone(),
            None if value.is_string() => self.hidden(&written).into_owned(),
            None => return,
        };
        *value = Json::String(hidden);
    }

    fn hide_below(&self, value: &mut Json, is_whole: bool) {
        match value {
            Json::Array(list) => list.iter_mut().for_each(|value| self.hide_in(value, is_whole)),
            Json::Object(table) => {
                table
                    .iter_mut()
                    .for_each(|(key, value)| self.hide_in(value, is_whole || WHOLE.contains(&key.as_str())));
            }
            _ => {}
        }
    }

    /// Restores the hidden secrets in a value.
    pub fn restore(&self, value: &mut Json) {
        each_text(value, &mut |text| {
            for secret in self.0.iter().filter(|secret| text.contains(&secret.mark)).collect::<Vec<_>>() {
                *text = text.replace(&secret.mark, &secret.value);
            }
        });
    }
}

/// Returns the names of the secrets that are still hidden in a value.
#[must_use]
pub fn missing(value: &Json) -> Vec<String> {
    let mut names = Vec::new();
    each_text(&mut value.clone(), &mut |text| {
        let marks = text.split(MARK).skip(1).filter_map(|rest| rest.split_once(']'));
        names.extend(marks.map(|(name, _)| name.to_owned()));
    });
    names.sort();
    names.dedup();
    names
}

fn each_text(value: &mut Json, visit: &mut impl FnMut(&mut String)) {
    match value {
        Json::String(text) => visit(text),
        Json::Array(list) => list.iter_mut().for_each(|value| each_text(value, visit)),
        Json::Object(table) => table.values_mut().for_each(|value| each_text(value, visit)),
        _ => {}
    }
}

/// Reports names in `secret` that match no value. With a misspelt name, the secret value would
/// remain in the records.
pub(crate) fn check_names(base: &TomlTable, problems: &mut Vec<Problem>) {
    let mut search = Search::of(base);
    search.look_at(base);
    for (name, place, _) in search.names.iter().filter(|(.., is_used)| !is_used) {
        problems.push(
            Problem::absent(place, format!("no value of this file is called `{name}`")).expected("unknown value").hint(
                "name a value by the end of its path, such as \"header.x-token\", \"body\" or \"target.with.key\"",
            ),
        );
    }
}

/// Search for secrets in a file.
struct Search {
    /// Names in the file's list `secret`, each with its place, and whether a value has that name.
    names: Vec<(String, TextSpan, bool)>,
    secrets: Secrets,
}

impl Search {
    fn of(base: &TomlTable) -> Self {
        let named = base.get("secret").and_then(Node::list).unwrap_or_default();
        let names = named.iter().filter_map(|node| Some((node.text()?.to_owned(), node.place.clone(), false)));
        Self { names: names.collect(), secrets: Secrets::default() }
    }

    fn look_at(&mut self, base: &TomlTable) {
        let others = base.entries.iter().filter(|entry| entry.key != "secret");
        others.for_each(|entry| self.node(&entry.key, &entry.node));
    }

    fn node(&mut self, path: &str, node: &Node) {
        match &node.value {
            TomlValue::Table(table) => {
                table.entries.iter().for_each(|entry| self.node(&format!("{path}.{}", entry.key), &entry.node));
            }
            TomlValue::List(list) => list.iter().for_each(|node| self.node(path, node)),
            _ => self.value(path, node),
        }
    }

    fn value(&mut self, path: &str, node: &Node) {
        let Some(text) = node.as_written() else { return };
        let mut is_named = false;
        for (name, _, is_used) in &mut self.names {
            let is_this = path.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
            is_named |= is_this;
            *is_used |= is_this;
        }
        let argument = argument(path);
        if is_named || argument.is_some_and(is_credential) && is_literal(&text) {
            self.add(argument.unwrap_or(path), &text, Some(node.place.clone()));
            return;
        }
        if let Some((login, password)) = login(&text) {
            self.add(&format!("{path} login"), login, None);
            self.add(&format!("{path} password"), password, None);
        }
        for (name, pair, value) in pairs(&text) {
            self.add(&format!("{path} {name}"), pair, None);
            if value.chars().count() >= DISTINCT {
                self.add(&format!("{path} {name} value"), value, None);
            }
        }
    }

    fn add(&mut self, name: &str, value: &str, place: Option<TextSpan>) {
        let secrets = &mut self.secrets.0;
        let known = secrets.iter().find(|known| known.value == value).map(|known| known.mark.clone());
        let taken = |mark: &str| secrets.iter().any(|known| known.mark == mark);
        let numbered = (1..).map(|number| if number == 1 { name.to_owned() } else { format!("{name} {number}") });
        let fresh = || numbered.map(|name| format!("{MARK}{name}]")).find(|mark| !taken(mark)).unwrap_or_default();
        let mark = known.unwrap_or_else(fresh);
        secrets.push(Secret { mark, value: value.to_owned(), forms: forms(value), place });
        // A longer secret is hidden first, because it may contain a shorter one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
    }
}

/// Returns the argument's name in a path: `header.authorization` of
/// `load.cycle.with.header.authorization`.
fn argument(path: &str) -> Option<&str> {
    let arguments = TABLES.iter().filter_map(|table| Some(path.rsplit_once(&format!(".{table}."))?.1));
    arguments.min_by_key(|argument| argument.len())
}

/// Whether an argument of this name, or a field of an answer, is a credential.
#[must_use]
pub fn is_credential(argument: &str) -> bool {
    if let Some(field) = argument.strip_prefix("form.").or(argument.strip_prefix("multipart.")) {
        return PAIRS.contains(&field.to_ascii_lowercase().replace('-', "_").as_str());
    }
    let header = argument.strip_prefix("header.").or_else(|| argument.strip_prefix("metadata."));
    match header.map(str::to_ascii_lowercase) {
        Some(header) => {
            HEADERS.contains(&header.as_str())
                || HEADER_WORDS.iter().any(|word| header.replace('_', "-").contains(word))
        }
        None => argument.starts_with("cookie.") || ARGUMENTS.contains(&argument.to_ascii_lowercase().as_str()),
    }
}

/// Whether the text contains the credential itself. A template may instead take it from the
/// environment, an answer, a feed or a script.
fn is_literal(text: &str) -> bool {
    let Ok(template) = Template::parse(text) else { return true };
    let parts = template.all_parts();
    let is_from_elsewhere = parts.iter().any(|part| {
        use TemplatePart::{Env, Feed, Script, Slot};
        matches!(part, Env(_) | Slot(_) | Feed { .. } | Script(_))
    });
    !is_from_elsewhere && parts.iter().any(|part| matches!(part, TemplatePart::Text(_)))
}

/// Returns `user:password@` of a URL, and the password.
fn login(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len())];
    let at = authority.rfind('@')?;
    let (_, password) = authority[..at].split_once(':')?;
    (!password.is_empty() && !password.contains("{env:")).then_some((&authority[..=at], password))
}

/// Returns the credentials in queries, forms and options, each as its name, the whole pair, and its
/// value.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let pieces = text.split(|character: char| character.is_whitespace() || "?&;#\"'".contains(character));
    // The headers of a handshake of WebSocket follow its URL.
    let has_headers = text.starts_with("ws://") || text.starts_with("wss://");
    pieces.filter_map(move |pair| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim_start_matches('-');
        let known = name.to_ascii_lowercase().replace('-', "_");
        let is_credential = PAIRS.contains(&known.as_str())
            || known == "key" && value.chars().count() >= KEY
            || has_headers && is_credential(&format!("header.{name}"));
        (is_credential && is_literal(value)).then_some((name, pair, value))
    })
}

/// Returns the forms in which the value of a template may occur in a text: as in the file, as sent
/// to the target, or escaped as in JSON and TOML.
fn forms(value: &str) -> Vec<String> {
    let sent = Template::parse(value).ok().and_then(|template| template.constant());
    let mut forms: Vec<String> = [Some(value.to_owned()), sent].into_iter().flatten().collect();
    forms.extend(forms.clone().iter().filter_map(|form| {
        let quoted = serde_json::to_string(form).ok()?;
        Some(quoted[1..quoted.len() - 1].to_owned())
    }));
    // A login has a colon and an at sign, and a pair has its name, so neither can be an ordinary
    // word.
    forms.retain(|form| {
        form.chars().count() >= DISTINCT || form.contains(':') && form.ends_with('@') || form.contains('=')
    });
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = r#"
secret = ["x-tenant", "body"]
[target]
url = "http://me:hunter2@localhost:8080"
[[load.cycle]]
call = "post" # not 'Bearer s3cr3t-t0ken' again
with = { path = "/", header.authorization = 'Bearer s3cr3t-t0ken', header.x-tenant = "acme", body = "{{\"pin\": 1234}}" }
[[load.cycle]]
call = "get"
with = { path = "/get", header.cookie = "sid={sid}", header.x-api-key = "{env:KEY}", header.accept = "acme" }
expect = { "header.set-cookie" = "sid=0123456789", cookie.csrf = "c0-0kie" }
"#;

    fn source(text: &str) -> Source {
        Source { name: "x.toml".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn secrets_are_hidden_in_the_file_and_its_comments() {
        let hidden = Secrets::of(&source(FILE), &[]).hidden_file(&source(FILE));
        for secret in ["s3cr3t-t0ken", "hunter2", "1234}", "0123456789", "c0-0kie", "x-tenant = \"acme\""] {
            assert!(!hidden.contains(secret), "{secret} in {hidden}");
        }
        for kept in
            ["sid={sid}", "{env:KEY}", "header.accept = \"acme\"", "[redacted header.authorization]", "[redacted body]"]
        {
            assert!(hidden.contains(kept), "no {kept} in {hidden}");
        }
        assert!(source::parse(&Arc::new(source(&hidden))).1.is_empty(), "it is a file still: {hidden}");
    }

    #[test]
    fn a_set_and_the_value_it_replaces_are_hidden() {
        let sets = ["load.cycle.post.with.header.authorization='Bearer an0ther-one'".to_owned()];
        let secrets = Secrets::of(&source(FILE), &sets);
        assert!(!secrets.hidden_file(&source(FILE)).contains("s3cr3t-t0ken"));
        assert!(!secrets.hidden_set(0, &sets[0]).contains("an0ther-one"), "{}", secrets.hidden_set(0, &sets[0]));
        assert!(!secrets.hidden("sent: Bearer an0ther-one").contains("an0ther-one"));
    }

    #[test]
    fn short_secrets_are_hidden_only_in_their_own_field() {
        let secrets = Secrets::of(&source(FILE), &[]);
        let mut plan = json!({ "title": "acme", "with": { "header.x-tenant": "acme" }, "url": "http://me:hunter2@localhost:8080" });
        secrets.hide(&mut plan);
        assert_eq!(plan["title"], "acme");
        assert_eq!(plan["with"]["header.x-tenant"], "[redacted header.x-tenant]");
        assert_eq!(plan["url"], "http://[redacted target.url login]localhost:8080");
    }

    #[test]
    fn hidden_secrets_are_restored_or_listed() {
        let secrets = Secrets::of(&source(FILE), &[]);
        let plan = json!({ "with": { "header.authorization": "Bearer s3cr3t-t0ken", "body": "{{\"pin\": 1234}}" }, "agents": 4 });
        let mut hidden = plan.clone();
        secrets.hide(&mut hidden);
        assert_eq!(missing(&hidden), ["body", "header.authorization"]);
        assert!(missing(&plan).is_empty());
        secrets.restore(&mut hidden);
        assert_eq!(hidden, plan);
    }

    #[test]
    fn credentials_in_queries_forms_and_options_are_hidden_and_put_back() {
        let text = "title = \"GET http://h/x?access_token=abcdef123456&page=2\"\n[target]\n\
                    url = \"http://h/x?access_token=abcdef123456&page=2#top\"\nstart = \"serve --token=t0 --port=1\"\n\
                    [[load.cycle]]\nwith = { path = \"/y?key=record-1&api-key={env:KEY}\", body = \"user=me&password=hunter2\" }";
        let secrets = Secrets::of(&source(text), &[]);
        let hidden = secrets.hidden_file(&source(text));
        for secret in ["abcdef123456", "hunter2", "token=t0"] {
            assert!(!hidden.contains(secret), "{secret} in {hidden}");
        }
        for kept in ["page=2", "#top", "--port=1", "key=record-1", "api-key={env:KEY}", "user=me"] {
            assert!(hidden.contains(kept), "no {kept} in {hidden}");
        }
        let plan =
            json!({ "url": "http://h/x?access_token=abcdef123456&page=2#top", "body": "user=me&password=hunter2" });
        let mut recorded = plan.clone();
        secrets.hide(&mut recorded);
        assert_eq!(recorded["body"], "user=me&[redacted load.cycle.with.body password]");
        assert!(!missing(&recorded).is_empty());
        secrets.restore(&mut recorded);
        assert_eq!(recorded, plan);
        assert!(pairs("?key=AIzaSyDabcdefghijklmn").next().is_some() && pairs("token=").next().is_none());
    }

    #[test]
    fn secrets_with_the_same_name_stay_distinct() {
        let text = "[[load.cycle]]\nwith = { header.cookie = \"first-one\" }\n[[load.cycle]]\nwith = { header.cookie = \"second-one\" }";
        let secrets = Secrets::of(&source(text), &[]);
        let plan = json!(["first-one", "second-one"]);
        let mut hidden = plan.clone();
        secrets.hide(&mut hidden);
        assert_ne!(hidden[0], hidden[1]);
        secrets.restore(&mut hidden);
        assert_eq!(hidden, plan);
    }

    #[test]
    fn credentials_in_the_handshake_of_a_websocket_are_hidden() {
        let text = "[target]\nurl = \"ws://h/chat#origin=https://a.example&authorization=Bearer%20abcdef123456&x-auth-token={env:T}\"";
        let hidden = Secrets::of(&source(text), &[]).hidden_file(&source(text));
        assert!(!hidden.contains("abcdef123456"), "{hidden}");
        assert!(hidden.contains("origin=https://a.example") && hidden.contains("x-auth-token={env:T}"), "{hidden}");
    }

    #[test]
    fn a_secret_that_names_no_value_is_a_problem() {
        let (base, _) = source::parse(&Arc::new(source("secret = [\"x-tokn\"]\n[target]\nurl = \"http://h\"")));
        let mut problems = Vec::new();
        check_names(&base, &mut problems);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].what.contains("`x-tokn`"));
    }

    #[test]
    fn secrets_are_not_printed_for_debugging() {
        let printed = format!("{:?}", Secrets::of(&source(FILE), &[]));
        assert!(printed.contains("header.authorization") && !printed.contains("s3cr3t"), "{printed}");
    }
}
