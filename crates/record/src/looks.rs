//! `looks.json`, beside the runs of `compare --play --until-decided`: the looks that were taken at them, so that nothing that an earlier
//! look has spent of the chance of a false alarm is spent again.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ReadError;
use crate::checked_file::{read_json_up_to, write_json};

/// Version of the format.
const FORMAT: u32 = 1;

/// Name of the file.
const LOOKS: &str = "looks.json";

/// The looks at a comparison's runs, in the order in which they were taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LooksTaken {
    /// Version of this format: 1.
    pub format: u32,
    /// The looks.
    pub looks: Vec<LookTaken>,
}

/// A look at a comparison's runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LookTaken {
    /// Turns that were played before it.
    pub turns: u32,
    /// Paths of the figures that were compared; the usual ones if empty.
    pub metrics: Vec<String>,
    /// Whether void trials were taken like others.
    pub accepts_void: bool,
    /// Chance of a false alarm that it had.
    pub level: f64,
}

impl LooksTaken {
    /// Reads the looks that were taken at the runs in this folder.
    ///
    /// # Errors
    /// If the file cannot be read, is broken, or a later version wrote it.
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        Ok(read_json_up_to(&folder.join(LOOKS), FORMAT)?.unwrap_or_default())
    }

    /// Writes them there.
    ///
    /// # Errors
    /// If that fails.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        write_json(&folder.join(LOOKS), self)
    }

    /// Adds a look; `level` gives its chance of a false alarm from what the other looks have spent. A look that was taken before at the same runs
    /// is the same one again: it keeps what it has. Returns its number, from 1, and its chance.
    pub fn add(&mut self, look: LookTaken, level: impl Fn(f64) -> f64) -> (usize, f64) {
        let is_same = |one: &LookTaken| LookTaken { level: look.level, ..one.clone() } == look;
        let others = self.looks.iter().filter(|one| !is_same(one)).map(|one| one.level).sum();
        let level = level(others);
        self.format = FORMAT;
        let at = self.looks.iter().position(is_same).unwrap_or(self.looks.len());
        if at == self.looks.len() {
            self.looks.push(look);
            self.looks[at].level = level;
        } else {
            self.looks[at].level = self.looks[at].level.max(level);
        }
        (at + 1, self.looks[at].level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn a_look_keeps_what_it_has_and_takes_nothing_of_the_others() {
        let look = |turns: u32| LookTaken { turns, ..LookTaken::default() };
        let mut taken = LooksTaken::default();
        let rest = |all: f64| move |spent: f64| (all - spent).max(0.0);
        assert_eq!(taken.add(look(5), rest(0.25)), (1, 0.25));
        assert_eq!(taken.add(look(10), rest(1.0)), (2, 0.75));
        // The same runs again: with another plan it has no more than is left of it, and no less than it had.
        assert_eq!(taken.add(look(5), rest(0.5)), (1, 0.25));
        assert_eq!(taken.add(look(20), rest(1.0)), (3, 0.0));
        let other = LookTaken { metrics: vec!["failed_pct".into()], ..look(10) };
        assert_eq!(taken.add(other, rest(1.0)), (4, 0.0), "another question to the same runs is another look");
        let scratch = Scratch::new("looks");
        let folder = scratch.path("");
        taken.write(&folder).unwrap();
        assert_eq!(LooksTaken::read(&folder).unwrap(), taken);
        assert_eq!(LooksTaken::read(&scratch.path("none")).unwrap(), LooksTaken::default());
    }
}
