//! `plimsoll compare --play`: two experiments played in turn, so that what drifts on the machine falls out of their difference.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli;
use crate::exit::Failure;
use crate::output;

/// What the two sides are called, as folders and in the table.
const SIDES: [&str; 2] = ["base", "candidate"];

/// Exit code of a run that was interrupted.
const INTERRUPTED: i32 = 130;

/// Plays both and says in which folders their runs are; `None` if it was interrupted.
pub fn play(arguments: &cli::Compare) -> Result<Option<Vec<PathBuf>>, Failure> {
    let [base, candidate] = arguments.folders.as_slice() else {
        return Err(Failure::Bad {
            what: format!("--play: expected two experiment files, found {}", arguments.folders.len()),
            remedy: "`plimsoll compare --play BASE.toml CANDIDATE.toml`".to_owned(),
        });
    };
    for file in [base, candidate] {
        if !file.is_file() {
            return Err(Failure::Bad {
                what: format!("--play: {} is no experiment file", file.display()),
                remedy: "without --play, folders of finished runs are compared".to_owned(),
            });
        }
    }
    let folders = SIDES.map(|side| arguments.out.join(side));
    for turn in 0..arguments.turns {
        // A B B A: a steady change falls out of the pairs, too.
        let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            output::say(&format!("turn {} of {}: {}", turn + 1, arguments.turns, SIDES[side]));
            if !played([base, candidate][side], &folders[side])? {
                return Ok(None);
            }
        }
    }
    Ok(Some(folders.to_vec()))
}

/// Plays one by the program itself, as a process of its own: each run begins alike. Whether it was not interrupted; a void run or a violated
/// requirement is for the comparison to weigh.
fn played(file: &Path, out: &Path) -> Result<bool, Failure> {
    let failed = |error| Failure::File { what: "cannot start `plimsoll run`".to_owned(), error };
    let program = std::env::current_exe().map_err(failed)?;
    let mut run = Command::new(program);
    run.arg("run").arg(file).arg("--out").arg(out).args(["--accept", "--plain"]).stdout(std::process::Stdio::null());
    let status = run.status().map_err(failed)?;
    match status.code() {
        // 5: a requirement is violated.
        Some(0 | 5) => Ok(true),
        Some(INTERRUPTED) | None => Ok(false),
        Some(code) => Err(Failure::Bad {
            what: format!("{} could not be played (exit code {code})", file.display()),
            remedy: "what is printed above says why; `plimsoll check` checks the file".to_owned(),
        }),
    }
}
