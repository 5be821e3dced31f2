//! Where a Redis server is, and what a connection to it begins with. A password is never a literal: what stands in a file ends up in
//! records.

use std::collections::BTreeMap;

use super::request::of_words;
use crate::protocols::Greeting;
use crate::values::{Names, Template};

const FORM: &str = "write redis://host:port, redis://host:port/DB or redis://USER:{env:PASSWORD}@host:port";

/// A server, and a database in it.
#[derive(Debug)]
pub struct Place {
    /// `host:port`.
    pub authority: String,
    /// Who we are and which database is meant, where that is said.
    pub greeting: Option<Greeting>,
}

impl Place {
    /// Reads `host:port`, `redis://[[user]:{env:NAME}@]host:port[/db]`.
    pub fn parse(service: &str) -> Result<Self, String> {
        let rest = service.strip_prefix("redis://").unwrap_or(service);
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let is_good =
            authority.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !is_good {
            return Err(FORM.to_owned());
        }
        let mut greeting = Greeting { bytes: Vec::new(), answers: 0 };
        if let Some(login) = login {
            let (user, password) = login.split_once(':').ok_or(FORM)?;
            greeting.add(&[b"AUTH".as_slice(), user.as_bytes(), &secret(password)?].map(<[u8]>::to_vec));
        }
        match database.parse::<u32>() {
            // Where every connection begins.
            Ok(0) => {}
            Ok(number) => greeting.add(&[b"SELECT".to_vec(), number.to_string().into_bytes()]),
            Err(_) if database.is_empty() => {}
            Err(_) => return Err(format!("`{database}` is not the number of a database; {FORM}")),
        }
        Ok(Self { authority: authority.to_owned(), greeting: (greeting.answers > 0).then_some(greeting) })
    }
}

impl Greeting {
    /// One more command. A user without a name is left out.
    fn add(&mut self, words: &[Vec<u8>]) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).filter(|word| !word.is_empty()).collect();
        self.bytes.extend(of_words(&words));
        self.answers += 1;
    }
}

/// What `{env:NAME}` stands for.
fn secret(text: &str) -> Result<Vec<u8>, String> {
    let is_one = text.starts_with("{env:") && text.find('}') == Some(text.len() - 1);
    if !is_one {
        return Err(
            "a password belongs into the environment and not into a file: redis://:{env:NAME}@host:port".to_owned()
        );
    }
    let nothing = Names { slots: &[], feeds: &[], own: BTreeMap::new(), program: None };
    let template = Template::compile(text, 0, &nothing)?;
    match template.as_constant() {
        Some(password) if !password.is_empty() => Ok(password.to_vec()),
        _ => Err(format!("{text} is empty in the environment")),
    }
}
