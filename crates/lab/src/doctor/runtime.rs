//! Asks the installed Erlang what it is. It must not judge the answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::hooks::{Hook, Stream};

/// What the runtime says of itself without any flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erlang {
    /// `25`
    pub release: u32,
    /// `25.2.3`
    pub version: String,
    /// Scheduler threads that run.
    pub schedulers_online: u64,
    /// Processes at a time.
    pub processes: u64,
    /// Ports at a time.
    pub ports: u64,
}

/// A runtime that needs longer to start is not asked.
const WITHIN: Duration = Duration::from_secs(5);

const QUESTION: &str = r#"
    Release = erlang:system_info(otp_release),
    File = filename:join([code:root_dir(), "releases", Release, "OTP_VERSION"]),
    Version = case file:read_file(File) of {ok, Text} -> Text; _ -> Release end,
    io:format("~s ~s ~b ~b ~b~n", [Release, string:strip(hd(string:tokens(lists:flatten(io_lib:format("~s", [Version])), "\n"))),
        erlang:system_info(schedulers_online), erlang:system_info(process_limit), erlang:system_info(port_limit)]),
    halt()."#;

/// The Erlang in `PATH`.
pub fn erlang() -> Option<Erlang> {
    let hook = Hook {
        name: "erl".to_owned(),
        folder: std::env::temp_dir(),
        path: PathBuf::from("erl"),
        arguments: ["-noshell", "-noinput", "-eval", QUESTION].map(str::to_owned).to_vec(),
        environment: BTreeMap::new(),
        within: WITHIN,
        answer_bytes: crate::hooks::ANSWER_BYTES,
        in_foreground: false,
    };
    let mut said = None;
    let status = hook.run(&mut |stream, line| {
        if stream == Stream::Output && said.is_none() {
            said = parse(line);
        }
    });
    status.ok().filter(std::process::ExitStatus::success).and(said)
}

fn parse(line: &str) -> Option<Erlang> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [release, version, schedulers, processes, ports] = words.as_slice() else { return None };
    Some(Erlang {
        // Before 17 a release was called R16B03.
        release: release.trim_start_matches('R').split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?,
        version: (*version).to_owned(),
        schedulers_online: schedulers.parse().ok()?,
        processes: processes.parse().ok()?,
        ports: ports.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_five_words() {
        let erlang = parse("25 25.2.3 2 262144 65536").unwrap();
        assert_eq!((erlang.release, erlang.version.as_str()), (25, "25.2.3"));
        assert_eq!((erlang.schedulers_online, erlang.processes, erlang.ports), (2, 262_144, 65_536));
        assert_eq!(parse("R16B03 R16B03 2 262144 65536").unwrap().release, 16);
        assert_eq!(parse("{\"init terminating\"}"), None);
        assert_eq!(parse(""), None);
    }
}
