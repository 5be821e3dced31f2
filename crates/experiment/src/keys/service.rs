//! The keys by which an experiment file says where its load goes and how it is connected: `[target]`, and those of `[load]` that are
//! about connections.

use super::{Key, Kind};

const TIME: Kind = Kind::Duration { zero: false };
/// More on one connection tells nothing more of a server, and a break would fail them all.
const PIPELINE_MAX: i64 = 1024;

pub(super) const TARGET: &[Key] = &[
    Key::new("use", Kind::Text, "A target folder's name; `plimsoll targets` lists them").elsewhere(&["name", "target"]),
    Key::new("with", Kind::Map(&Kind::Scalar), "Parameters that the target declares")
        .elsewhere(&["parameters", "params"]),
    Key::new("url", Kind::Text, "Where the load goes; without `start`, it runs already and nothing is started")
        .elsewhere(&["host", "address", "endpoint"]),
    Key::new("start", Kind::Text, "A shell command that starts it; killed with its process group at the end")
        .elsewhere(&["command", "run", "cmd"]),
    Key::new(
        "ready",
        Kind::Text,
        "With `start`: a URL that must answer 2xx before the load starts; without it, `url` must accept a connection",
    ),
    Key::new("within", TIME, "With `start`: how long it may take to be ready").or("30s"),
    Key::new("protocol", Kind::Text, "How to speak to `url`, where its scheme does not tell; `command` needs no `url`"),
    Key::new("tls", Kind::Table(TLS), "With an `https` URL: whom to trust there; left out: whom this machine trusts")
        .elsewhere(&["ssl", "https"]),
];

const TLS: &[Key] = &[
    Key::new(
        "ca",
        Kind::Text,
        "A PEM file, relative to the experiment: only what its certificates vouch for is trusted",
    )
    .elsewhere(&["cacert", "ca_file", "cafile", "ca_cert", "root", "roots"]),
    Key::new("insecure", Kind::Boolean, "Whether any certificate is taken, whoever it belongs to")
        .or("false")
        .elsewhere(&["skip_verify", "insecure_skip_verify", "no_verify"]),
    Key::new(
        "server_name",
        Kind::Text,
        "The name that is asked for and must be in the certificate; left out: the URL's",
    )
    .elsewhere(&["sni"]),
];

pub(super) const KEEP_ALIVE: Key = Key::new(
    "keep_alive",
    Kind::Boolean,
    "Whether connections are kept between operations; false: each operation makes its own, and its latency contains that",
)
.or("true")
.elsewhere(&["keepalive", "no_connection_reuse", "disable_keepalive"]);

pub(super) const PIPELINE: Key = Key::new(
    "pipeline",
    Kind::Whole { min: 1, max: PIPELINE_MAX },
    "So many agents share a connection, each with an operation in flight on it, answered in order",
)
.or("1")
.elsewhere(&["pipelining", "depth"]);
