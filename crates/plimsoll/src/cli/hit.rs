//! The words of `plimsoll hit`. It must not do anything with them.

use std::path::PathBuf;

use clap::Args;

/// What stands below the help of `plimsoll hit`.
pub const EXAMPLES: &str = "Examples:
  plimsoll hit http://localhost:8080/
  plimsoll hit http://localhost:8080/ -c 256 -t 30s
  plimsoll hit http://localhost:8080/ --rate 2000 --report page.html
  plimsoll hit http://localhost:8080/items -d @item.json -H 'Content-Type: application/json' --expect status=201
  plimsoll hit https://localhost:8443/items --cacert ca.pem --expect body/items/0/id=7
  plimsoll hit http://localhost:8080/ --print > hit.toml && plimsoll run hit.toml

Every request counts: nothing is cut off as a warm-up unless --warmup says so. A status of 400 or more is
failed, an answer that contradicts --expect is wrong; redirects are not followed. Latency counts from when a
request was due, which with --rate is the schedule's time, however late it was sent. docs/coming-from.md
translates the options of wrk, hey, oha, k6, ab and vegeta.";

#[derive(Debug, Clone, Args)]
pub struct Hit {
    /// What to hit, such as http://localhost:8080/
    pub url: String,
    /// Agents, each with a connection: the next request when the last is answered
    #[arg(
        short = 'c',
        long,
        visible_alias = "connections",
        value_name = "N",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub agents: u32,
    /// How long, such as 500ms, 10s or 2m [default: 10s]
    #[arg(short, long, value_name = "DURATION")]
    pub time: Option<String>,
    /// Requests per second in all, whatever the answers do (open loop); left out, agents wait for answers
    #[arg(short, long, value_name = "N")]
    pub rate: Option<f64>,
    /// With --rate: at random, as if by many users who know nothing of each other (a Poisson process)
    #[arg(long)]
    pub poisson: bool,
    /// So many requests in all, instead of --time; needs --rate
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub requests: Option<u64>,
    /// GET without a body, POST with one, or this
    #[arg(short, long, value_name = "METHOD")]
    pub method: Option<String>,
    /// A header of the request, 'Name: value'; may be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER", allow_hyphen_values = true)]
    pub headers: Vec<String>,
    /// The request's body, or @FILE
    #[arg(short = 'd', long = "data", value_name = "BODY", allow_hyphen_values = true)]
    pub body: Option<String>,
    /// What no record may have, beside credentials: the name of a header, or body; may be repeated
    #[arg(long = "secret", value_name = "NAME")]
    pub secrets: Vec<String>,
    /// What the answer has to be: status=200, header.content-type=text/html, body=ok, or in JSON body/items/0/id=7; may be repeated
    #[arg(long = "expect", value_name = "FIELD=VALUE")]
    pub expects: Vec<String>,
    /// A connection for each request, whose latency contains that
    #[arg(long, visible_alias = "disable-keepalive")]
    pub no_keep_alive: bool,
    /// So many agents share a connection, each with a request in flight on it [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub pipeline: Option<u32>,
    /// https: trust only what the certificates in this PEM file vouch for
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// https: take any certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// https: the name to ask for and to find in the certificate, if it is not the URL's
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// Of each request [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// Cut off before figures are taken: a duration, or auto
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub warmup: String,
    /// Generator threads [default: one for every two cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: Option<u32>,
    /// Where all randomness comes from [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u32>,
    /// Take braces in URL, headers, body and expectations for placeholders, such as {seq} or {env:TOKEN}
    #[arg(long)]
    pub templates: bool,
    /// Print the experiment that this is, and do nothing
    #[arg(long)]
    pub print: bool,
    /// Write the page with charts into this file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Keep the run folder, in this one
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print analysis.json instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Plain progress lines, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Exit 0 even if the result is void; the verdict stays
    #[arg(long)]
    pub accept: bool,
}
