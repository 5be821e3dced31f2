//! Rule: only some modules may use files, the network, processes, threads, the environment and
//! clocks.

use super::{HouseRule, Violation};
use crate::source::{code_only, without_inline_tests};
use crate::tree::{File, Tree};

pub const KIND: HouseRule = HouseRule {
    name: "purity",
    reason: "what does no disk, network, process or clock work is tested with values and works on last year's runs; such work \
             has its home elsewhere",
    check,
    canary: &[("crates/analysis/src/lib.rs", "//! x\nfn f() { std::fs::read(\"x\"); }\n")],
};

/// Crates that work on the machine. They may use everything.
const OF_THE_MACHINE: [&str; 5] =
    ["crates/doctor/", "crates/lab/", "crates/linux/", "crates/plimsoll/", "crates/runner/"];

/// Restricted items: name, code that uses them, and the other modules that may use them (prefixes
/// of paths).
const RATIONED: &[(&str, &[&str], &[&str])] = &[
    (
        "files",
        &["std::fs", "fs::", "File::"],
        &[
            "crates/record/",
            "crates/fixture/",
            "crates/wire/src/feed_stream.rs",
            "crates/wire/src/input_files.rs",
            "crates/wire/src/protobuf/sources.rs",
            "crates/wire/src/values",
            "crates/transport/src/source_addresses.rs",
            "crates/load/src/engine/run_delay.rs",
            "crates/conduct/",
            "crates/fuzzing/",
            "xtask/",
        ],
    ),
    (
        "the network",
        &["std::net", "TcpStream", "TcpListener", "UdpSocket", "UnixStream", "UnixListener"],
        &["crates/fixture/", "crates/transport/", "crates/load/", "crates/conduct/", "crates/echo/"],
    ),
    (
        "processes",
        &["process::Command", "Command::new"],
        &["crates/fixture/", "crates/fleet/src/engines.rs", "crates/transport/src/program_worker", "xtask/"],
    ),
    (
        "the environment",
        &["std::env::", "env::var"],
        &["crates/fixture/", "crates/fuzzing/", "crates/wire/src/values", "fuzz/", "xtask/"],
    ),
    (
        "clocks",
        &["Instant::now", "SystemTime::now", "clock_gettime"],
        &[
            "crates/fixture/",
            "crates/record/",
            "crates/wire/src/feed_stream.rs",
            "crates/wire/src/values/lua.rs",
            "crates/transport/",
            "crates/load/",
            "crates/fleet/",
            "crates/conduct/",
            "crates/echo/",
        ],
    ),
    (
        "threads",
        &["std::thread", "thread::spawn"],
        &[
            "crates/fixture/",
            "crates/wire/src/feed_stream.rs",
            "crates/transport/",
            "crates/load/",
            "crates/fleet/",
            "crates/conduct/",
            "crates/echo/",
        ],
    ),
];

fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust_without_tests().flat_map(judge).collect()
}

fn judge(file: &File) -> Vec<Violation> {
    let code = without_inline_tests(&code_only(&file.text));
    let mut offences = Vec::new();
    for (what, looks, homes) in RATIONED {
        if OF_THE_MACHINE.iter().chain(*homes).any(|home| file.path.starts_with(home)) {
            continue;
        }
        for (index, line) in code.lines().enumerate() {
            if let Some(look) = looks.iter().find(|look| stands_alone(line, look)) {
                offences.push(Violation::at(
                    &file.path,
                    index + 1,
                    format!("`{look}`: {what} may not be touched in this room"),
                ));
            }
        }
    }
    offences
}

/// Whether `look` is in `line` and not the end of a longer name (`Offs::` is not `fs::`).
fn stands_alone(line: &str, look: &str) -> bool {
    line.match_indices(look)
        .any(|(at, _)| !line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_'))
}
