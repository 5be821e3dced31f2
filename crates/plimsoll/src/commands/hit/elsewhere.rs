//! Options of wrk, hey, oha, ab, k6 and curl that `plimsoll hit` names differently or lacks, with
//! the message for each.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::Cli;

/// Options of other tools, each with the message that names the option of `hit`.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["-z", "--duration", "--dur"], "the duration is -t, such as -t 30s"),
    (
        &["-q", "-R", "--qps", "--rps", "--arrival-rate", "--rate-limit"],
        "the rate is --rate, the total of all clients: hey's -q 10 with -c 50 is --rate 500",
    ),
    (
        &["-o", "--output", "--output-format"],
        "results go to standard output: --json prints them as JSON, --report FILE writes a page, --out DIR keeps the records",
    ),
    (&["--h2", "-2", "--http-version"], "--http2 sends requests in HTTP/2"),
    (&["--http3"], "HTTP/3 is not supported; --http2 sends requests in HTTP/2"),
    (&["--latency", "-l"], "the quantiles of latency are always shown"),
    (
        &["--latency-correction"],
        "latency always counts from the time when a request was due, so it needs no correction",
    ),
    (
        &["-s", "--script", "--lua"],
        "--print > hit.toml writes an experiment, which takes values from CSV files and from Luau functions (docs/scripts.md)",
    ),
    (&["-T", "--content-type"], "a content type is -H 'Content-Type: …' (hey, ab), a timeout is --timeout 5s (wrk)"),
    (&["-D", "-p", "--body-file", "--data-binary"], "a body from a file is -d @FILE"),
    (&["--body", "--data-raw", "--data-ascii"], "the body is -d BODY"),
    (&["-X", "--request"], "the method is -m METHOD"),
    (&["-a", "-A", "--user", "--basic-auth"], "send the header: -H 'Authorization: Basic …'"),
    (&["-b", "-C", "--cookie"], "send the header: -H 'Cookie: name=value'"),
    (&["--host", "--hostname"], "send the header: -H 'Host: …'"),
    (&["--proxy-url", "--http-proxy"], "a forward proxy is --proxy URL"),
    (&["--follow", "--redirect"], "redirects are followed once, before the load, with -L"),
    (&["--disable-redirects"], "redirects are counted and not followed, unless -L says so"),
    (&["--vus", "-u", "--users", "--clients", "--concurrency", "--workers", "-w"], "concurrent clients are -c N"),
    (&["-i", "--iterations", "--number", "--count"], "the number of requests is -n N"),
    (&["--no-tui", "--no-progress", "--quiet", "-S"], "--plain writes lines instead of the live view"),
    (&["-v", "--verbose", "--dump"], "--debug sends one request and prints the answer"),
    (&["-E"], "a client certificate is --cert FILE, with --key FILE where its key is in another"),
    (&["--resolve", "--connect-to"], "give the address in the URL, with -H 'Host: …' and --server-name for its name"),
    (&["-K", "--keepalive", "--keep-alive"], "connections are kept; --no-keep-alive opens one for each request"),
];

/// Returns the message for a `hit` command line that clap refuses; `None` if it has no option of
/// another tool.
pub fn said(error: &clap::Error, words: &[String]) -> Option<String> {
    if words.get(1).map(String::as_str) != Some("hit") {
        return None;
    }
    if let Some(name) = long_with_one_dash(words) {
        return Some(format!("-{name}: long options take two dashes\n  write --{name}"));
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let (_, answer) = ELSEWHERE
        .iter()
        .find(|(options, _)| error.kind() == ErrorKind::UnknownArgument && options.contains(&option.as_str()))?;
    Some(format!("`hit` has no {option}\n  {answer}; docs/coming-from.md translates the options of other tools"))
}

/// Returns the first word that is a long option with one dash instead of two. Clap would read
/// `-rate 5` as `-r ate`.
fn long_with_one_dash(words: &[String]) -> Option<String> {
    let command = Cli::command();
    let hit = command.find_subcommand("hit")?;
    let longs: Vec<&str> = hit.get_arguments().filter_map(clap::Arg::get_long).collect();
    let mut bare = words.iter().filter_map(|word| word.strip_prefix('-'));
    bare.find(|name| longs.contains(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn of(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Cli::try_parse_from(&words).err().and_then(|error| said(&error, &words))
    }

    #[test]
    fn options_of_other_tools_are_mapped_to_ours() {
        for (line, words) in [
            ("plimsoll hit http://h/ -z 30s", "`hit` has no -z\n  the duration is -t"),
            ("plimsoll hit http://h/ -c 50 -q 10", "--rate 500"),
            ("plimsoll hit http://h/ -o json", "--json"),
            ("plimsoll hit http://h/ --http3", "HTTP/3"),
            ("plimsoll hit http://h/ --latency", "always shown"),
            ("plimsoll hit http://h/ --duration 5s", "-t 30s"),
            ("plimsoll hit -rate 5 http://h/", "-rate: long options take two dashes\n  write --rate"),
        ] {
            let said = of(line).unwrap_or_else(|| panic!("nothing is said of {line}"));
            assert!(said.contains(words), "{line}: {said}");
        }
        for line in ["plimsoll hit http://h/ --agnets 5", "plimsoll run -z 5", "plimsoll hit http://h/ -c 5"] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    /// An option of `hit` must not be in the list.
    #[test]
    fn no_listed_option_exists_in_hit() {
        let command = Cli::command();
        let hit = command.find_subcommand("hit").unwrap();
        for (options, answer) in ELSEWHERE {
            for option in *options {
                let name = option.trim_start_matches('-');
                let is_known = hit.get_arguments().any(|known| {
                    known.get_long() == Some(name)
                        || known.get_short().is_some_and(|short| short.to_string() == name)
                        || known.get_visible_aliases().is_some_and(|aliases| aliases.contains(&name))
                });
                assert!(!is_known, "{option}: {answer}");
            }
        }
    }
}
