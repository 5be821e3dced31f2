//! Playing a run: its trials in order, and how it ended. It must not know what happens inside a trial.

use experiment::plan::{Plan, Trial};
use record::events::{Ending, RunEnding, What};
use record::folder::RunFolder;

use crate::{Audience, Error, Interrupts, News, Run, trial};

/// Whether this version can play the plan.
///
/// # Errors
/// [`Error::NotYet`], naming what it cannot do.
pub fn can_play(plan: &Plan) -> Result<(), Error> {
    let not_yet = |what: &str| Err(Error::NotYet(what.to_owned()));
    if plan.find.is_some() {
        return not_yet("[find] needs the search for the safe load");
    }
    for trial in &plan.trials {
        if !trial.steps.is_empty() {
            return not_yet("[[step]] needs targets with named conditions");
        }
    }
    Ok(())
}

/// Plays every trial that is not yet done, and writes `ending.json`.
///
/// # Errors
/// What kept the run from going on; the records reach as far as it got.
pub fn play(run: &Run<'_>, audience: &mut dyn Audience, interrupts: &Interrupts) -> Result<Ending, Error> {
    let registry = lab::registry::Registry::begin(run.folder.path())?;
    let played = play_trials(run, &registry, audience, interrupts);
    registry.end();
    let ending = match &played {
        Ok((how, reason)) => RunEnding { how: *how, reason: reason.clone() },
        Err(error) => RunEnding { how: Ending::Failed, reason: Some(error.to_string()) },
    };
    run.folder.write_ending(&ending).map_err(Error::Record)?;
    played.map(|(how, _)| how)
}

fn play_trials(
    run: &Run<'_>,
    registry: &lab::registry::Registry,
    audience: &mut dyn Audience,
    interrupts: &Interrupts,
) -> Result<(Ending, Option<String>), Error> {
    let open: Vec<&Trial> = run.plan.trials.iter().filter(|trial| !is_done(run.folder, &trial.id)).collect();
    for (index, trial) in open.iter().enumerate() {
        // Asked while the last one was taken down: no lab is made for the next, only to be taken down again.
        if index > 0 && interrupts.asked() > 0 {
            return Ok((Ending::Interrupted, Some("interrupted by the user".to_owned())));
        }
        audience.tell(&News::TrialBegins { trial, number: index + 1, of: open.len() });
        let (how, reason) = trial::play(run, registry, trial, audience, interrupts)?;
        audience.tell(&News::TrialEnds { how, reason: reason.as_deref() });
        if how != Ending::Done {
            return Ok((how, reason));
        }
    }
    Ok((Ending::Done, None))
}

/// Whether the folder has this trial's records to its end.
fn is_done(folder: &RunFolder, id: &str) -> bool {
    let Ok(events) = record::lines::read_events(&folder.trial(id).events()) else { return false };
    events.items.last().is_some_and(|event| matches!(event.what, What::Ended { how: Ending::Done, .. }))
}
