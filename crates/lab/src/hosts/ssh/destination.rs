//! Where a host is reached: `user@host`, `host`, `host:port`, `ssh://user@host:port`, taken apart for ssh. Pure. It must not
//! know what ssh makes of it: names, users and jump hosts of the user's own configuration are ssh's business.

/// A destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// As it was written.
    pub text: String,
    /// What ssh is given: `host` or `user@host`.
    pub host: String,
    /// A port of its own.
    pub port: Option<u16>,
}

impl Destination {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix("ssh://").map_or(text, |rest| rest.strip_suffix('/').unwrap_or(rest));
        // ssh would take it for an option, and a shell behind ProxyCommand for more than a name.
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "'\"`$;&|<>()\\".contains(c);
        if bare.starts_with('-') || bare.contains(is_odd) {
            return Err(format!("`{text}` is no destination for ssh"));
        }
        let (user, place) = bare.rsplit_once('@').map_or((None, bare), |(user, place)| (Some(user), place));
        let (host, port) = split(place);
        if host.is_empty() || user == Some("") || host.starts_with('-') {
            return Err(format!("`{text}` names no host"));
        }
        let port = match port {
            None => None,
            Some(port) => match port.parse::<u16>() {
                Ok(number) if number > 0 => Some(number),
                _ => return Err(format!("`{port}` in `{text}` is no port")),
            },
        };
        let host = user.map_or_else(|| host.to_owned(), |user| format!("{user}@{host}"));
        Ok(Self { text: text.to_owned(), host, port })
    }

    /// As the last arguments of ssh.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let port = self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]);
        port.chain(["--".to_owned(), self.host.clone()]).collect()
    }

    /// What a user types to try it by hand.
    #[must_use]
    pub fn by_hand(&self) -> String {
        self.port.map_or_else(|| self.host.clone(), |port| format!("-p {port} {}", self.host))
    }
}

/// Host and port. An IPv6 address has colons of its own: with a port it stands in brackets.
fn split(place: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').unwrap_or(rest)) });
    }
    match place.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (place, None),
    }
}

#[cfg(test)]
mod tests {
    use super::Destination;

    #[test]
    fn every_form_is_taken_apart() {
        for (text, host, port) in [
            ("pi1", "pi1", None),
            ("pi@10.0.0.11", "pi@10.0.0.11", None),
            ("pi@10.0.0.11:2222", "pi@10.0.0.11", Some(2222)),
            ("pi1:22", "pi1", Some(22)),
            ("ssh://pi@10.0.0.11:2222", "pi@10.0.0.11", Some(2222)),
            ("ssh://pi1/", "pi1", None),
            ("me@home@pi1", "me@home@pi1", None),
            ("fe80::1", "fe80::1", None),
            ("[fe80::1]", "fe80::1", None),
            ("pi@[fe80::1]:2222", "pi@fe80::1", Some(2222)),
        ] {
            let destination = Destination::read(text).unwrap();
            assert_eq!((destination.host.as_str(), destination.port), (host, port), "{text}");
            assert_eq!(destination.text, text);
        }
    }

    #[test]
    fn an_option_is_no_destination() {
        for text in [
            "",
            "-oProxyCommand=x",
            "ssh://-oProxyCommand=x",
            "me@-x",
            "a b",
            "a;b",
            "a$(b)",
            "@pi1",
            "pi@",
            "pi1:",
            "a\nb",
        ] {
            Destination::read(text).unwrap_err();
        }
        for text in ["pi1:0", "pi1:70000", "pi1:ssh", "[fe80::1]x"] {
            assert!(Destination::read(text).unwrap_err().contains("is no port"), "{text}");
        }
    }

    #[test]
    fn ssh_gets_it_after_its_options() {
        let arguments = |text| Destination::read(text).unwrap().arguments().join(" ");
        assert_eq!(arguments("pi@pi1:2222"), "-p 2222 -- pi@pi1");
        assert_eq!(arguments("pi1"), "-- pi1");
    }
}
