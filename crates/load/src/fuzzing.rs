//! Access for fuzzers to parsers of this crate: expectations and recorded schedules.

use std::path::Path;

use experiment::plan::Expected;
use wire::testing::{names, source};
use wire::values::CompiledTemplate;

use crate::engine::expectation::{ExpectationCompiler, TextCheck};
use crate::schedules::Schedule;
use crate::schedules::replay::Replay;

/// Whether a text meets an expectation. Templates in the expectation have no slots, feeds or
/// scripts.
///
/// # Errors
/// Returns an error if the expectation is not valid.
pub fn holds(expected: &Expected, text: &[u8]) -> Result<bool, String> {
    let check = TextCheck::compile(
        expected,
        ExpectationCompiler { template: &mut |text| CompiledTemplate::compile(text, 0, &names()), program: None },
    )?;
    let holds = check.holds(text, &source(3, 12), &mut Vec::new());
    assert!(check.is_filled(&source(3, 12)), "it has no slots");
    Ok(holds)
}

/// Start times of an agent's operations.
#[derive(Debug, Default)]
pub struct Starts {
    /// Start times as found one by one with `next_ns`, nanoseconds.
    pub walked: Vec<u64>,
    /// Start times as returned by `due` for two consecutive windows, nanoseconds.
    pub counted: Vec<u64>,
}

/// Reads a recorded schedule and deals its starts to agents. Returns the starts before `end_ns` for
/// each agent. The two windows of `counted` meet at `cut_ns`.
///
/// # Errors
/// Returns an error if the file has no starts, or if they are not in order.
pub fn replay(path: &Path, agents: u32, cut_ns: u64, end_ns: u64) -> Result<Vec<Starts>, String> {
    let replay = Replay::read(path, 1.0, agents, end_ns).map_err(|error| error.to_string())?;
    let mut dealt = Vec::new();
    for agent in 0..agents {
        let mut starts = Starts::default();
        let mut next = replay.first_ns(agent);
        while next < end_ns {
            starts.walked.push(next);
            next = replay.next_ns(agent, next, next);
        }
        replay.due(agent, 0, cut_ns, &mut |due| starts.counted.push(due.first_ns));
        replay.due(agent, cut_ns, end_ns, &mut |due| starts.counted.push(due.first_ns));
        dealt.push(starts);
    }
    Ok(dealt)
}
