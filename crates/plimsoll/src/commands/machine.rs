//! Commands about the machine. `plimsoll doctor` reports settings and load that would distort a
//! measurement, and makes or undoes changes. `clean` removes leftovers of interrupted runs.
//! `profile measure` makes a profile of a real machine.

use std::path::Path;

use doctor::checkups::{CheckState, Fix};
use doctor::text::words;
use doctor::{Applied, CheckOutcome, FixSession, Measured, TrialDemand, Undone, examine, worst};
use serde::Serialize;

use crate::commands::{experiments, install};
use crate::exit::{Exit, Failure};
use crate::{catalog, cli, output, packed};

/// Output of `doctor --json`.
#[derive(Serialize)]
struct Report<'a> {
    worst: CheckState,
    checkups: &'a [CheckOutcome],
    changes: &'a [AppliedChange],
}

/// A change that `doctor` made, and its result.
#[derive(Serialize)]
struct AppliedChange {
    #[serde(flatten)]
    fix: Fix,
    command: String,
    came: String,
}

/// Examines this machine, and makes or undoes changes if the options request it.
pub fn doctor(arguments: &cli::Doctor) -> Result<Exit, Failure> {
    let remedies = FixSession::at(&arguments.root);
    if arguments.undo {
        return undo(&remedies, arguments.json);
    }
    let asked = arguments.file.as_deref().map(|file| asked(file, &arguments.sets)).transpose()?;
    let measured = measured(arguments);
    let examined = examine(&arguments.root, &measured, asked.as_ref());
    let with_article = measured.erlang.is_some() || asked.as_ref().is_some_and(|asked| asked.is_articles);
    if !arguments.json {
        output::text(&words(&examined, with_article))?;
    }
    let mut changes = Vec::new();
    if arguments.fix {
        changes = fix(&remedies, &examined, measured.is_root == Some(true), arguments.json)?;
    }
    if arguments.json {
        output::json(&Report { worst: worst(&examined), checkups: &examined, changes: &changes })?;
    }
    let spoilt = arguments.strict && worst(&examined) == CheckState::Bad;
    Ok(if spoilt { Exit::Violated } else { Exit::Well })
}

/// Measures this machine. If `--root` names the files of another machine, only its files are read.
fn measured(arguments: &cli::Doctor) -> Measured {
    if arguments.root == Path::new("/") {
        output::say("measuring other processes, timers and the disk for a second");
        return Measured::here(&arguments.out);
    }
    Measured::without_time(&arguments.out)
}

fn asked(file: &Path, sets: &[String]) -> Result<TrialDemand, Failure> {
    let file = packed::experiment(file)?;
    let known = catalog::known(Some(&file))?;
    let plan = experiments::plan(&experiments::source(&file)?, sets, &known)?;
    let missing = install::missing(&known, &install::installations(&known, &plan))?;
    Ok(TrialDemand::of(&plan, missing, install::needs(&known, &plan)))
}

/// Prints each change that would help. If root is the caller, makes the changes.
fn fix(
    remedies: &FixSession,
    examined: &[CheckOutcome],
    is_root: bool,
    quiet: bool,
) -> Result<Vec<AppliedChange>, Failure> {
    let print: fn(&str) -> Result<(), Failure> = if quiet { |_| Ok(()) } else { output::text };
    let fixes: Vec<&Fix> = examined.iter().flat_map(|one| &one.finding.fixes).collect();
    print(match (fixes.is_empty(), is_root) {
        (true, _) => "\nThere is nothing that --fix could change.\n",
        (false, false) => "\nNothing was changed: changes need root. As root:\n\n",
        (false, true) => "\nChanges, undone by `plimsoll doctor --undo` and by the next boot:\n\n",
    })?;
    let mut changes = Vec::new();
    for fix in fixes {
        let came = if is_root {
            print(&format!("  /{}: {} -> {} … ", fix.path, fix.from, fix.to))?;
            let came = match remedies.apply(fix)? {
                Applied::Done => "done".to_owned(),
                Applied::ChangedSince(now) => format!("not done: the value has changed to {now}"),
                Applied::Refused(why) => format!("not done: {why}"),
            };
            print(&format!("{came}\n"))?;
            came
        } else {
            print(&format!("  {}\n", fix.command()))?;
            "not done: needs root".to_owned()
        };
        changes.push(AppliedChange { fix: fix.clone(), command: fix.command(), came });
    }
    Ok(changes)
}

fn undo(remedies: &FixSession, in_json: bool) -> Result<Exit, Failure> {
    let mut changes: Vec<AppliedChange> = Vec::new();
    let mut failed = false;
    remedies.undo(&mut |fix, undone| {
        failed |= matches!(undone, Undone::Failed(_));
        let came = match undone {
            Undone::Done => "put back".to_owned(),
            Undone::Already => "was put back already".to_owned(),
            Undone::ChangedSince(now) => format!("left alone: the value has changed to {now} since"),
            Undone::Failed(why) => format!("not put back: {why}"),
        };
        let back = Fix { path: fix.path.clone(), from: fix.to.clone(), to: fix.from.clone() };
        changes.push(AppliedChange { command: back.command(), fix: back, came });
    })?;
    if in_json {
        output::json(&changes)?;
    } else if changes.is_empty() {
        output::text("there is nothing to undo\n")?;
    } else {
        for AppliedChange { fix, came, .. } in &changes {
            output::text(&format!("/{}: {} -> {}: {came}\n", fix.path, fix.from, fix.to))?;
        }
    }
    // Changes that could not be undone stay recorded, so that root can try again.
    if failed {
        return Err(Failure::Bad {
            what: "not all changes could be undone".to_owned(),
            remedy: "run `plimsoll doctor --undo` again, as root".to_owned(),
        });
    }
    Ok(Exit::Well)
}

/// Removes leftovers of interrupted runs. Prints the removed ones, and those that remain with the
/// reasons.
pub fn clean() -> Result<Exit, Failure> {
    let mut cleaned = lab::clean();
    for left in cleaned.unreached.iter().chain(&cleaned.left_alone) {
        output::say(left);
    }
    if !cleaned.removed.is_empty() {
        output::text(&(cleaned.removed.join("\n") + "\n"))?;
    } else if cleaned.failed.is_empty() {
        output::text("nothing was left\n")?;
    }
    // Print all failures but the last, which the command returns.
    let last = cleaned.failed.pop();
    for failed in &cleaned.failed {
        output::say(&failed.to_string());
    }
    last.map_or(Ok(Exit::Well), |last| Err(last.into()))
}

/// Measures this machine or a machine reached over ssh, and prints its profile.
pub fn measure_profile(arguments: &cli::Profile) -> Result<Exit, Failure> {
    let cli::ProfileCommand::Measure { host } = &arguments.command;
    let text = match host {
        None => {
            output::say("measuring this machine for about ten seconds; nothing else should run");
            runner::machine::measure()
                .map_err(|reason| Failure::Lab(lab::Error::Host { host: "this machine".to_owned(), reason }))?
        }
        Some(url) => over_ssh(url, |destination| {
            output::say(&format!("measuring {destination} for about ten seconds; nothing else should run there"));
            let plimsoll = std::env::current_exe().map_err(Failure::file("cannot find the path of this program"))?;
            lab::hosts::measure(destination, &plimsoll).map_err(Failure::Lab)
        })?,
    };
    output::data(&text)?;
    Ok(Exit::Well)
}

/// Calls `ask` with the part of the URL after `ssh://`, such as `user@host:22`, to measure that
/// machine.
fn over_ssh(url: &str, ask: impl FnOnce(&str) -> Result<String, Failure>) -> Result<String, Failure> {
    match url.strip_prefix("ssh://").map(|address| address.trim_end_matches('/')) {
        Some(address) if !address.is_empty() && !address.starts_with('-') => ask(address),
        _ => Err(Failure::Bad {
            what: format!("cannot measure `{url}`"),
            remedy: "write ssh://user@address, or nothing for this machine".to_owned(),
        }),
    }
}
