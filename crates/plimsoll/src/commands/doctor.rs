//! `plimsoll doctor`: what on this machine would spoil a measurement, the remedy, and the remedies that can be applied and
//! taken back.

use std::path::Path;

use lab::checkups::{Fix, State};
use lab::doctor::{Applied, Asked, Examined, Measured, Remedies, Undone, examine, worst};
use serde::Serialize;

use crate::catalog;
use crate::cli;
use crate::commands::{check, install};
use crate::examined::words;
use crate::exit::{Done, Failure};
use crate::output;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    worst: State,
    checkups: &'a [Examined],
    changes: &'a [Change],
}

/// A change, and what came of it.
#[derive(Serialize)]
struct Change {
    #[serde(flatten)]
    fix: Fix,
    command: String,
    came: String,
}

/// Examines this machine, and changes or restores it if asked to.
pub fn run(arguments: &cli::Doctor) -> Result<Done, Failure> {
    let remedies = Remedies::at(&arguments.root);
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
    let spoilt = arguments.strict && worst(&examined) == State::Bad;
    Ok(if spoilt { Done::Violated } else { Done::Well })
}

/// Of a recorded machine only the files are known.
fn measured(arguments: &cli::Doctor) -> Measured {
    if arguments.root == Path::new("/") {
        output::say("watching for a second what else runs here, and how timers and the disk do");
        return Measured::here(&arguments.out);
    }
    Measured::without_time(&arguments.out)
}

fn asked(file: &Path, sets: &[String]) -> Result<Asked, Failure> {
    let known = catalog::known(Some(file))?;
    let plan = check::plan(&check::source(file)?, sets, &known)?;
    let missing = install::missing(&known, &install::installations(&known, &plan))?;
    Ok(Asked::of(&plan, missing))
}

/// Shows each change and, as root, makes it.
fn fix(remedies: &Remedies, examined: &[Examined], is_root: bool, quiet: bool) -> Result<Vec<Change>, Failure> {
    let say = |text: &str| if quiet { Ok(()) } else { output::text(text) };
    let fixes: Vec<&Fix> = examined.iter().flat_map(|one| &one.finding.fixes).collect();
    match (fixes.is_empty(), is_root) {
        (true, _) => say("\nThere is nothing that --fix could change.\n")?,
        (false, false) => say("\nNothing was changed, for that needs root. As root:\n\n")?,
        (false, true) => say("\nChanges, undone by `plimsoll doctor --undo` and by the next boot:\n\n")?,
    }
    let mut changes = Vec::new();
    for fix in fixes {
        let came = if is_root {
            say(&format!("  /{}: {} -> {} … ", fix.path, fix.from, fix.to))?;
            let came = match remedies.apply(fix)? {
                Applied::Done => "done".to_owned(),
                Applied::ChangedSince(now) => format!("not done: it says {now} meanwhile"),
                Applied::Refused(why) => format!("not done: {why}"),
            };
            say(&format!("{came}\n"))?;
            came
        } else {
            say(&format!("  {}\n", fix.command()))?;
            "not done: needs root".to_owned()
        };
        changes.push(Change { fix: fix.clone(), command: fix.command(), came });
    }
    Ok(changes)
}

fn undo(remedies: &Remedies, in_json: bool) -> Result<Done, Failure> {
    let mut changes: Vec<Change> = Vec::new();
    let mut failed = false;
    remedies.undo(&mut |fix, undone| {
        failed |= matches!(undone, Undone::Failed(_));
        let came = match undone {
            Undone::Done => "put back".to_owned(),
            Undone::Already => "was put back already".to_owned(),
            Undone::ChangedSince(now) => format!("left alone: somebody has set it to {now} since"),
            Undone::Failed(why) => format!("not put back: {why}"),
        };
        let back = Fix { path: fix.path.clone(), from: fix.to.clone(), to: fix.from.clone() };
        changes.push(Change { command: back.command(), fix: back, came });
    })?;
    if in_json {
        output::json(&changes)?;
    } else if changes.is_empty() {
        output::text("nothing is to be undone\n")?;
    } else {
        for Change { fix, came, .. } in &changes {
            output::text(&format!("/{}: {} -> {}: {came}\n", fix.path, fix.from, fix.to))?;
        }
    }
    // It is still on record, and somebody with more rights can try again.
    if failed {
        return Err(Failure::Bad {
            what: "not all of it could be put back".to_owned(),
            remedy: "run `plimsoll doctor --undo` again, as root".to_owned(),
        });
    }
    Ok(Done::Well)
}
