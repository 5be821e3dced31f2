//! The keys of an open loop: `load.rate` in its forms, and what becomes of operations that find their agent busy.

use super::{Key, Kind};

/// When operations start.
pub(crate) const RATE: Key =
    Key::new("rate", Kind::Either(
        &[Kind::Positive, Kind::Table(DRAWN), Kind::Tables(STAGE)],
        "operations/s such as 5000, { poisson = 5000 }, { replay = \"starts.csv\" }, or stages: [{ to = 1000, over = \"10s\" }, { at = 1000, for = \"30s\" }]",
    ), "Operations/s in all: open loop; left out: closed loop")
        .elsewhere(&["rps", "qps", "throughput", "arrival_rate", "arrivals", "stages"]);

const DRAWN: &[Key] = &[
    Key::new("poisson", Kind::Positive, "Operations/s in the mean, at random and independently of each other")
        .elsewhere(&["random", "exponential"]),
    Key::new(
        "replay",
        Kind::Text,
        "A CSV file, relative to the experiment: its column `at_s` says when operations start, seconds since load start, in order",
    )
    .elsewhere(&["file", "recorded"]),
];

/// A stage of a rate that changes.
pub(crate) const STAGE: &[Key] = &[
    Key::new("to", Kind::Number, "Operations/s at its end, where the rate goes in a straight line")
        .elsewhere(&["target", "until", "end"]),
    Key::new("over", Kind::Duration { zero: false }, "How long it takes to get there")
        .elsewhere(&["duration", "in", "within", "time"]),
    Key::new("from", Kind::Number, "Operations/s at its beginning; left out: what the stage before ended with, or 0")
        .elsewhere(&["start", "start_rate", "startRate"]),
    Key::new("at", Kind::Number, "Operations/s that it stays at").elsewhere(&["rate", "hold"]),
    Key::new("for", Kind::Duration { zero: false }, "How long it stays there").elsewhere(&["lasts"]),
];

/// How many may wait.
pub(crate) const BACKLOG: Key = Key::new(
    "backlog",
    Kind::Whole { min: 0, max: u32::MAX as i64 },
    "Open loop: most operations that are due and have not begun, over all agents; left out: any number",
)
.elsewhere(&["max_backlog", "queue"]);

/// What happens to more.
pub(crate) const OVERFLOW: Key = Key::new(
    "overflow",
    Kind::Choice(&["drop", "stop"]),
    "What happens to an operation that is due when `backlog` is full: it is dropped and counted, or the load stops",
)
.or("drop")
.elsewhere(&["when_full"]);
