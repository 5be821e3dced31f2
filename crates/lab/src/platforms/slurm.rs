//! Load generators as Slurm jobs. Each has an `srun` process, which requests a place, waits for it,
//! and carries the stream to the generator.

use std::process::{Command, Stdio};
use std::time::Duration;

use experiment::plan::Fleet;

use super::{GeneratorConnection, Request, no_program};
use crate::system_program::{CommandOutcome, last_line, never, run_within};

/// Time limit for an answer of Slurm's controller.
const TO_ANSWER: Duration = Duration::from_secs(30);

/// Returns the connection to each generator. The generator's place is requested only when the
/// connection's command starts.
pub fn connections(fleet: &Fleet, request: &Request<'_>) -> Vec<GeneratorConnection> {
    let mut connections = Vec::new();
    for number in 1..=fleet.generators {
        let mut command = Command::new("srun");
        command.args(words(fleet, request));
        let place = "a job of Slurm".to_owned();
        connections.push(GeneratorConnection { name: fleet.name(number), place, command });
    }
    connections
}

fn words(fleet: &Fleet, request: &Request<'_>) -> Vec<String> {
    let minutes = request.longest.as_secs().div_ceil(60).max(1);
    let mut words = vec![
        format!("--job-name={}", name(request.run)),
        "--nodes=1".to_owned(),
        "--ntasks=1".to_owned(),
        format!("--cpus-per-task={}", fleet.threads),
        format!("--time={minutes}"),
        // Passes on each line at once.
        "--unbuffered".to_owned(),
    ];
    words.extend(fleet.slurm.partition.iter().map(|partition| format!("--partition={partition}")));
    // The last value of an option wins, so the user's options come last.
    words.extend(fleet.slurm.options.iter().cloned());
    words.extend(["sh", "-c", request.script].map(ToOwned::to_owned));
    words
}

/// Returns the name of all jobs of a run.
fn name(run: &str) -> String {
    format!("plimsoll-{run}")
}

/// Returns Slurm's reasons why jobs of the run wait.
#[must_use]
pub fn why_waiting(run: &str) -> Option<String> {
    let jobs = jobs(run, "%i is %T: %r").ok()?;
    (!jobs.is_empty()).then(|| jobs.join("; "))
}

/// Cancels all jobs of a run. Returns their job ids.
///
/// # Errors
/// A message for the user, if Slurm was not reached.
pub fn remove(run: &str) -> Result<Vec<String>, String> {
    cancel(run).map_err(|reason| format!("jobs named {} may remain: {reason}", name(run)))
}

fn cancel(run: &str) -> Result<Vec<String>, String> {
    let there = jobs(run, "%i")?;
    if there.is_empty() {
        return Ok(Vec::new());
    }
    let outcome = play("scancel", &[format!("--name={}", name(run))])?;
    if !outcome.is_ok() {
        return Err(last_line(&outcome.errors).to_owned());
    }
    Ok(there.into_iter().map(|number| format!("Slurm's job {number}")).collect())
}

/// Returns the run's waiting and running jobs, in squeue's output format `format`.
fn jobs(run: &str, format: &str) -> Result<Vec<String>, String> {
    let words = ["--noheader".to_owned(), format!("--name={}", name(run)), format!("--format={format}")];
    let outcome = play("squeue", &words)?;
    if !outcome.is_ok() {
        return Err(format!("squeue says: {}", last_line(&outcome.errors)));
    }
    Ok(outcome.output.lines().map(str::trim).filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect())
}

fn play(program: &str, words: &[String]) -> Result<CommandOutcome, String> {
    let mut command = Command::new(program);
    command.args(words);
    let outcome = run_within(command, Stdio::null(), TO_ANSWER, &never);
    let outcome = outcome.map_err(|error| no_program(program, &error).to_string())?;
    match outcome.status {
        Some(_) => Ok(outcome),
        None => Err(format!("`{program}` did not answer within {} s", TO_ANSWER.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn user_options_come_last_before_the_program() {
        let mut fleet = Fleet { generators: 2, threads: 4, ..Fleet::default() };
        fleet.slurm.partition = Some("load".to_owned());
        fleet.slurm.options = vec!["--time=5".to_owned()];
        let request = Request {
            run: "abc-1",
            number: 1,
            script: "true",
            longest: Duration::from_secs(601),
            scratch: Path::new("/s"),
            stop: &never,
        };
        let words = words(&fleet, &request).join(" ");
        assert_eq!(
            words,
            "--job-name=plimsoll-abc-1 --nodes=1 --ntasks=1 --cpus-per-task=4 --time=11 --unbuffered --partition=load --time=5 sh -c true"
        );
        assert_eq!(
            connections(&fleet, &request).into_iter().map(|connection| connection.name).collect::<Vec<_>>(),
            ["g1", "g2"]
        );
    }
}
