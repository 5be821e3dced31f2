//! A curl command after `hit --`, as options of `hit`.

use std::borrow::Cow;

use import::recording::RecordedBody;

use crate::commands::imports;
use crate::exit::Failure;
use crate::{cli, output};

/// Returns the options with those of the curl command, if there is one.
pub fn in_options(words: &cli::Hit) -> Result<Cow<'_, cli::Hit>, Failure> {
    let Some((program, command)) = words.curl.split_first() else { return Ok(Cow::Borrowed(words)) };
    if program != "curl" {
        return Err(Failure::Bad {
            what: format!("`{program}` after `--`: that is no curl command"),
            remedy: "write hit -- curl http://localhost:8080/, or a URL without `--`".to_owned(),
        });
    }
    let attached = |name: &str| imports::attached(None, name);
    let (request, recording) =
        import::curl_command(command, &attached).map_err(|error| imports::failure("curl", &error))?;
    let body = match request.body.in_one_text() {
        RecordedBody::None | RecordedBody::Parts(_) => None,
        RecordedBody::Text(body) if body.starts_with('@') => {
            return Err(Failure::Bad {
                what: "the body begins with @, and `hit` would read a file".to_owned(),
                remedy: "write the body into a file, and give it as `-d @FILE`".to_owned(),
            });
        }
        RecordedBody::Text(body) => Some(body),
        RecordedBody::LeftOut(why) => {
            return Err(Failure::Bad {
                what: format!("the body of the curl command cannot be sent: {why}"),
                remedy: "an experiment is a text, and so are the bodies in it (UTF-8)".to_owned(),
            });
        }
    };
    for line in recording.left_out.paragraphs() {
        output::say(&format!("not sent: {line}"));
    }
    let headers = request.headers.into_iter().map(|(name, value)| format!("{name}: {value}"));
    Ok(Cow::Owned(cli::Hit {
        url: request.url,
        method: Some(request.method),
        headers: headers.collect(),
        body,
        tls: cli::TlsWords { insecure: words.tls.insecure || recording.is_insecure, ..words.tls.clone() },
        curl: Vec::new(),
        ..words.clone()
    }))
}
