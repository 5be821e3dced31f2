//! `plimsoll compare --play`: plays two experiments in turn, so that a drift of the machine cancels
//! out of their difference. `--until-decided` plays more turns while the gate is inconclusive.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use analysis::{CompareOptions, InterimLook, level_of_look};
use record::compared::{Compared, Gated};
use record::folder::RunFolder;
use record::looks::{LookTaken, LooksTaken};

use crate::commands::folders::is_inconclusive;
use crate::exit::Failure;
use crate::signals::PassedOn;
use crate::{cli, output};

/// Names of the two sides. Their folders and the comparison's columns have these names.
const SIDES: [&str; 2] = ["base", "candidate"];

/// Exit code of an interrupted `plimsoll run`.
const INTERRUPTED: i32 = 130;

/// Name of the folder for void runs that were played again. It is next to the sides' folders.
const VOID: &str = "void";

/// Maximum number of runs of a side in a turn. The last run counts even if it is void.
const VOID_TRIES: u32 = 3;

/// The two experiments and the folders of their runs.
struct PlayedInTurn<'a> {
    files: [&'a Path; 2],
    folders: [PathBuf; 2],
    void: PathBuf,
    arguments: &'a cli::Compare,
    signals: Arc<PassedOn>,
}

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Played {
    Well,
    Void,
    Interrupted,
}

/// Plays both experiments and compares their runs; returns `None` if interrupted.
pub fn compare(arguments: &cli::Compare, options: &CompareOptions) -> Result<Option<Compared>, Failure> {
    let turns = PlayedInTurn {
        files: files(arguments)?,
        folders: SIDES.map(|side| arguments.out.join(side)),
        void: arguments.out.join(VOID),
        arguments,
        signals: PassedOn::begin()?,
    };
    if !arguments.until_decided {
        let was_played = turns.play(0..arguments.turns, arguments.turns)?;
        return if was_played { turns.compared(options).map(Some) } else { Ok(None) };
    }
    if arguments.at_most < arguments.turns {
        return Err(Failure::Bad {
            what: format!("--at-most {}: the gate is first checked after {} turns", arguments.at_most, arguments.turns),
            remedy: "raise --at-most, or lower --turns".to_owned(),
        });
    }
    let looks = looks(arguments.turns, arguments.at_most);
    let mut played = turns.turns_played()?;
    if played == 0 && arguments.out.is_dir() {
        // The runs of earlier looks were deleted, so those looks do not count for new runs.
        turns.forget_looks()?;
    }
    for (number, upto) in looks.iter().enumerate() {
        let is_last = number + 1 == looks.len();
        if *upto < played && !is_last {
            continue;
        }
        if !turns.play(played..*upto, arguments.at_most)? {
            return Ok(None);
        }
        played = played.max(*upto);
        let look = turns.look(played, options)?;
        let compared = turns.compared(&CompareOptions { look: Some(look), ..options.clone() })?;
        if is_last || !is_open(&compared) {
            return Ok(Some(compared));
        }
        output::say(&said(&compared, played, looks[number + 1]));
    }
    Ok(None)
}

fn files(arguments: &cli::Compare) -> Result<[&Path; 2], Failure> {
    let [base, candidate] = arguments.folders.as_slice() else {
        return Err(Failure::Bad {
            what: format!("--play: expected two experiment files, found {}", arguments.folders.len()),
            remedy: "`plimsoll compare --play BASE.toml CANDIDATE.toml`".to_owned(),
        });
    };
    for file in [base, candidate] {
        if !file.is_file() {
            return Err(Failure::Bad {
                what: format!("--play: {} is not an experiment file", file.display()),
                remedy: "without --play, folders of finished runs are compared".to_owned(),
            });
        }
    }
    Ok([base, candidate])
}

/// Returns the numbers of turns after which the gate is checked. They double from `first`, and end
/// with `at_most`.
fn looks(first: u32, at_most: u32) -> Vec<u32> {
    let doubled = std::iter::successors(Some(first), |turns| turns.checked_mul(2));
    doubled.take_while(|turns| *turns < at_most).chain([at_most]).collect()
}

/// Whether the gate is undecided, so that more turns could decide it. One figure that fails decides
/// the gate.
fn is_open(compared: &Compared) -> bool {
    compared.gated(Gated::Fails).next().is_none() && is_inconclusive(compared)
}

/// Returns the message that is printed before more turns are played.
fn said(compared: &Compared, played: u32, next: u32) -> String {
    let unsure: Vec<_> = compared.gated(Gated::CannotTell).collect();
    let needed = unsure.iter().map(|judged| judged.repeats_needed).collect::<Option<Vec<u32>>>();
    let needed = needed.and_then(|needed| needed.into_iter().max());
    let needed = needed.map_or_else(String::new, |turns| format!(" (about {turns} turns would decide)"));
    let (figures, all) = (unsure.len(), compared.comparisons.len());
    format!(
        "after {played} turns the gate is inconclusive in {figures} of {all} comparisons{needed}: continuing to {next}"
    )
}

impl PlayedInTurn<'_> {
    /// Plays these turns. `of` is the maximum number of turns, which is printed. Returns false if a
    /// turn was interrupted.
    fn play(&self, turns: std::ops::Range<u32>, of: u32) -> Result<bool, Failure> {
        for turn in turns {
            // In the order A B B A, a steady drift cancels out, too.
            let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
            for side in order {
                output::say(&format!("turn {} of {of}: {}", turn + 1, SIDES[side]));
                if !self.play_side(side)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Plays one side of a turn, up to [`VOID_TRIES`] times while the run is void. Moves a void run
    /// aside before the next try. Returns false if a run was interrupted.
    fn play_side(&self, side: usize) -> Result<bool, Failure> {
        for again in 2..=VOID_TRIES {
            match self.played(self.files[side], &self.folders[side])? {
                Played::Well => return Ok(true),
                Played::Interrupted => return Ok(false),
                Played::Void => {}
            }
            let aside = self.move_aside(side)?;
            let (side, aside) = (SIDES[side], aside.display());
            output::say(&format!(
                "{side} is void and is played again (try {again} of {VOID_TRIES}); the void run was moved to {aside}"
            ));
        }
        Ok(self.played(self.files[side], &self.folders[side])? != Played::Interrupted)
    }

    /// Moves the latest run of a side to the folder of void runs, and returns its new path.
    fn move_aside(&self, side: usize) -> Result<PathBuf, Failure> {
        let Some(run) = self.runs(side)?.pop() else { return Ok(self.void.clone()) };
        let name = run.path().file_name().unwrap_or_default().to_string_lossy();
        let aside = self.void.join(format!("{}-{name}", SIDES[side]));
        let made = if self.void.is_dir() { Ok(()) } else { record::private::create_folder(&self.void) };
        made.and_then(|()| std::fs::rename(run.path(), &aside))
            .map_err(Failure::file(format!("cannot move the run to {}", aside.display())))?;
        Ok(aside)
    }

    /// Returns the runs of a side, oldest first.
    fn runs(&self, side: usize) -> Result<Vec<RunFolder>, Failure> {
        let folder = &self.folders[side];
        if !folder.exists() {
            return Ok(Vec::new());
        }
        RunFolder::found_at(folder).map_err(Failure::file(format!("cannot read {}", folder.display())))
    }

    /// Returns the number of turns for which both sides have a run already.
    fn turns_played(&self) -> Result<u32, Failure> {
        let runs = [self.runs(0)?.len(), self.runs(1)?.len()];
        Ok(runs.into_iter().min().and_then(|fewest| u32::try_from(fewest).ok()).unwrap_or_default())
    }

    fn forget_looks(&self) -> Result<(), Failure> {
        let out = &self.arguments.out;
        LooksTaken::default().write(out).map_err(Failure::file(format!("cannot write to {}", out.display())))
    }

    /// Takes a look after `played` turns. Records the look next to the runs, before the comparison
    /// shows any result.
    fn look(&self, played: u32, options: &CompareOptions) -> Result<InterimLook, Failure> {
        let out = &self.arguments.out;
        let mut taken = LooksTaken::read(out).map_err(analysis::Error::from)?;
        let look = LookTaken {
            turns: played,
            metrics: options.metrics.clone(),
            accepts_void: options.accepts_void,
            ..LookTaken::default()
        };
        let (number, level) = taken.add(look, |spent| level_of_look(played, self.arguments.at_most, spent));
        taken.write(out).map_err(Failure::file(format!("cannot write to {}", out.display())))?;
        Ok(InterimLook { number: u32::try_from(number).unwrap_or(u32::MAX), level })
    }

    fn compared(&self, options: &CompareOptions) -> Result<Compared, Failure> {
        Ok(analysis::compare(&self.folders.each_ref().map(PathBuf::as_path), options)?)
    }

    /// Plays an experiment file in a separate process of this program, so that all runs begin
    /// alike. A violated requirement is no failure here: the comparison judges the runs.
    fn played(&self, file: &Path, out: &Path) -> Result<Played, Failure> {
        let program = std::env::current_exe().map_err(Failure::file("cannot start `plimsoll run`"))?;
        let mut run = Command::new(program);
        run.arg("run").arg(file).arg("--out").arg(out).stdout(Stdio::null());
        run.args(self.arguments.accept.then_some("--accept")).args(self.arguments.plain.then_some("--plain"));
        let status = self.signals.run(&mut run).map_err(Failure::file("cannot start `plimsoll run`"))?;
        match status.filter(|_| !self.signals.is_asked()).and_then(|status| status.code()) {
            // 5: a requirement is violated.
            Some(0 | 5) => Ok(Played::Well),
            Some(6) => Ok(Played::Void),
            Some(INTERRUPTED) | None => Ok(Played::Interrupted),
            Some(code) => Err(Failure::Bad {
                what: format!("{} could not be played (exit code {code})", file.display()),
                remedy: "the reason is printed above; `plimsoll check` checks the file".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use record::compared::GatedComparison;

    use super::*;

    #[test]
    fn looks_double_the_number_of_turns() {
        assert_eq!(looks(5, 40), [5, 10, 20, 40]);
        assert_eq!(looks(5, 30), [5, 10, 20, 30]);
        assert_eq!(looks(5, 5), [5]);
        assert_eq!(looks(2, 3), [2, 3]);
    }

    #[test]
    fn a_failed_gate_stops_and_an_inconclusive_gate_continues() {
        let compared = |gates: &[Gated]| {
            let one = |gate: &Gated| GatedComparison {
                gate: Some(*gate),
                repeats_needed: Some(17),
                ..GatedComparison::default()
            };
            Compared { gate_pct: Some(5.0), comparisons: gates.iter().map(one).collect(), ..Compared::default() }
        };
        use Gated::{CannotTell, Fails, Passes};
        for (gates, open) in [
            (&[][..], true),
            (&[Passes], false),
            (&[Passes, CannotTell], true),
            (&[CannotTell, Fails], false),
            (&[Fails, Passes], false),
        ] {
            assert_eq!(is_open(&compared(gates)), open, "{gates:?}");
        }
        let words = said(&compared(&[Passes, CannotTell]), 5, 10);
        assert_eq!(
            words,
            "after 5 turns the gate is inconclusive in 1 of 2 comparisons (about 17 turns would decide): continuing to 10"
        );
    }
}
