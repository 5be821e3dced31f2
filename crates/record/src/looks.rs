//! `looks.json`, beside the runs of `compare --play --until-decided`: the interim looks at these
//! runs. The file records the error probability that each look spent, so that none is spent twice.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ReadError;
use crate::checked_file::{read_json_up_to, write_json};

/// Version of the format.
const FORMAT: u32 = 1;

/// Name of the file.
const LOOKS: &str = "looks.json";

/// Looks at a comparison's runs, in the order in which they were taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LooksTaken {
    /// Version of this format: 1.
    pub format: u32,
    pub looks: Vec<LookTaken>,
}

/// One look at a comparison's runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LookTaken {
    /// Number of turns played before the look.
    pub turns: u32,
    /// Paths of the compared metrics. Empty for the default metrics.
    pub metrics: Vec<String>,
    /// Whether void trials were used like other trials.
    pub accepts_void: bool,
    /// Probability of a false alarm in this look.
    pub level: f64,
}

impl LooksTaken {
    /// Reads the looks at the runs in this folder.
    ///
    /// # Errors
    /// If the file cannot be read, is broken, or was written by a later version.
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        Ok(read_json_up_to(&folder.join(LOOKS), FORMAT)?.unwrap_or_default())
    }

    /// Writes the looks into the folder.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        write_json(&folder.join(LOOKS), self)
    }

    /// Adds a look. Returns its index, from 1, and its probability of a false alarm. `level`
    /// computes that probability from the sum of the other looks' probabilities. A look that was
    /// already taken at the same runs keeps at least its earlier probability.
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
    use fixture::TestDir;

    use super::*;

    #[test]
    fn a_repeated_look_keeps_its_error_probability() {
        let look = |turns: u32| LookTaken { turns, ..LookTaken::default() };
        let mut taken = LooksTaken::default();
        let rest = |all: f64| move |spent: f64| (all - spent).max(0.0);
        assert_eq!(taken.add(look(5), rest(0.25)), (1, 0.25));
        assert_eq!(taken.add(look(10), rest(1.0)), (2, 0.75));
        // The same runs again: with another plan, the look gets only the remaining probability, but
        // no less than it had.
        assert_eq!(taken.add(look(5), rest(0.5)), (1, 0.25));
        assert_eq!(taken.add(look(20), rest(1.0)), (3, 0.0));
        let other = LookTaken { metrics: vec!["failed_pct".into()], ..look(10) };
        assert_eq!(taken.add(other, rest(1.0)), (4, 0.0), "another question to the same runs is another look");
        let scratch = TestDir::new();
        let folder = scratch.join("");
        taken.write(&folder).unwrap();
        assert_eq!(LooksTaken::read(&folder).unwrap(), taken);
        assert_eq!(LooksTaken::read(&scratch.join("none")).unwrap(), LooksTaken::default());
    }
}
