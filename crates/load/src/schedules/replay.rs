//! Open loop with recorded starts.
//!
//! The schedule is a CSV file with a header line. Its column `at_s` holds the starts in seconds
//! since the start of the load, in order. Agents take the starts in turn.

use std::path::{Path, PathBuf};

use wire::values::csv_text;

use super::{Due, Schedule, own_from};
use crate::Error;

/// Column with the starts.
const COLUMN: &str = "at_s";

/// An open loop of recorded starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    agents: u32,
    /// Starts, in order. Starts of the same agent are at least a nanosecond apart, so that a time
    /// identifies a start.
    starts: Vec<u64>,
    end_ns: u64,
    path: PathBuf,
}

impl Replay {
    /// Reads the file. Multiplies each time in the file by `stretch`.
    ///
    /// # Errors
    /// If the file cannot be read or has no start, or if a start is not a valid time or is earlier
    /// than the previous start.
    pub fn read(path: &Path, stretch: f64, agents: u32, end_ns: u64) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Replay { path: path.to_path_buf(), reason };
        let mut reader = csv_text::open(path).map_err(|error| wrong(error.to_string()))?;
        let header = csv_text::columns(reader.headers().map_err(|error| wrong(error.to_string()))?).map_err(wrong)?;
        let column = header.iter().position(|name| name == COLUMN);
        let column = column.ok_or_else(|| wrong(format!("its header line has no column `{COLUMN}`")))?;
        let mut times = Vec::new();
        let mut last_s = 0.0;
        let mut row = csv::StringRecord::new();
        while reader.read_record(&mut row).map_err(|error| wrong(error.to_string()))? {
            reader.get_ref().check_end().map_err(wrong)?;
            let line = row.position().map_or(0, csv::Position::line);
            let text = row.get(column).unwrap_or_default();
            let at_s = text.parse::<f64>().ok().filter(|at_s| at_s.is_finite() && *at_s >= 0.0);
            let at_s = at_s.ok_or_else(|| {
                wrong(format!(
                    "line {line}: `{text}` is not a time: expected seconds since load start, at least 0, in `{COLUMN}`"
                ))
            })?;
            if at_s < last_s {
                return Err(wrong(format!(
                    "line {line}: {at_s} comes after {last_s}: starts must be in ascending order"
                )));
            }
            last_s = at_s;
            times.push(at_s);
        }
        if times.is_empty() {
            return Err(wrong("it has no starts below its header line".to_owned()));
        }
        let starts = times.iter().map(|at_s| (at_s * stretch * 1e9).round() as u64).collect();
        Ok(Self { path: path.to_path_buf(), ..Self::new(starts, agents, end_ns) })
    }

    /// Creates a schedule from sorted starts, which are dealt to agents in turn.
    fn new(mut starts: Vec<u64>, agents: u32, end_ns: u64) -> Self {
        let agents = agents.max(1);
        for place in agents as usize..starts.len() {
            starts[place] = starts[place].max(starts[place - agents as usize].saturating_add(1));
        }
        Self { agents, starts, end_ns, path: PathBuf::new() }
    }

    fn start_ns(&self, number: u128) -> u64 {
        let start = usize::try_from(number).ok().and_then(|number| self.starts.get(number));
        start.copied().unwrap_or(u64::MAX)
    }

    /// Returns the index of the agent's first start at `from_ns` or later.
    fn own_from(&self, agent: u32, from_ns: u64) -> u128 {
        let number = self.starts.partition_point(|at_ns| *at_ns < from_ns);
        own_from(agent, self.agents, number as u128)
    }
}

impl Schedule for Replay {
    fn first_ns(&self, agent: u32) -> u64 {
        self.start_ns(u128::from(agent))
    }

    fn next_ns(&self, agent: u32, intended_ns: u64, _ended_ns: u64) -> u64 {
        self.start_ns(self.own_from(agent, intended_ns.saturating_add(1)))
    }

    fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Takes time in proportion to the number of operations.
    fn due(&self, agent: u32, from_ns: u64, until_ns: u64, take: &mut dyn FnMut(Due)) {
        let mut number = self.own_from(agent, from_ns);
        loop {
            let at_ns = self.start_ns(number);
            if at_ns >= until_ns {
                return;
            }
            take(Due::one(at_ns));
            number += u128::from(self.agents);
        }
    }

    fn notice(&self) -> Option<String> {
        let played = self.starts.partition_point(|at_ns| *at_ns < self.end_ns);
        let left = self.starts.len() - played;
        (left > 0).then(|| {
            let (all, file) = (self.starts.len(), self.path.display());
            format!("{left} of the {all} starts in {file} lie after the end of the load and are not played")
        })
    }
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::super::tests::{S, all_starts, recorded, starts};
    use super::*;

    #[test]
    fn agents_take_the_starts_in_turn() {
        let text = "user,at_s\na,0\nb,0.25\n# no comment,0.5\nd, 0.5 \ne,1\nf,7\n";
        let replay = recorded(text, 2, 5 * S).unwrap();
        assert_eq!(starts(&replay, 0), [0, S / 2, S]);
        assert_eq!(starts(&replay, 1), [S / 4, S / 2]);
        assert!(replay.notice().unwrap().starts_with("1 of the 6 starts in "), "{:?}", replay.notice());
        assert_eq!(recorded(text, 2, 8 * S).unwrap().notice(), None);
    }

    #[test]
    fn simultaneous_starts_are_all_kept() {
        let replay = recorded("at_s\n0\n0\n0\n0\n0\n0.000000001\n", 2, S).unwrap();
        assert_eq!(all_starts(&replay, 2), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_stretch_factor_lengthens_the_schedule() {
        let folder = TestDir::new();
        let read = Replay::read(&folder.write("stretched.csv", "at_s\n0.5\n1.5\n"), 10.0, 1, 60 * S);
        assert_eq!(starts(&read.unwrap(), 0), [5 * S, 15 * S]);
    }

    #[test]
    fn invalid_files_are_refused_with_their_line() {
        let table = [
            ("", "has no column `at_s`"),
            ("time\n1\n", "has no column `at_s`"),
            ("at_s\n", "no starts below its header line"),
            ("at_s\n0\n1.5\n1.25\n", "line 4: 1.25 comes after 1.5"),
            ("at_s\n0\nsoon\n", "line 3: `soon` is not a time"),
            ("at_s\n-1\n", "line 2: `-1` is not a time"),
            ("at_s\ninf\n", "line 2: `inf` is not a time"),
            ("at_s,user\n0,a\n1\n", "line: 3"),
            ("at_s,at_s\n0,1\n", "line 1 names the column `at_s` twice"),
            ("at_s,user\n0,a\n1,\"b\n2,c\n", "line 3: a quote is opened and never closed"),
        ];
        for (text, expected) in table {
            let error = recorded(text, 1, S).unwrap_err().to_string();
            assert!(error.contains(expected), "`{error}` should contain `{expected}`");
            assert!(error.starts_with("the schedule ") && error.contains("recorded.csv"), "{error}");
        }
        let missing = Replay::read(Path::new("no-such-file.csv"), 1.0, 1, S).unwrap_err().to_string();
        assert!(missing.contains("no-such-file.csv") && missing.contains("No such file"), "{missing}");
    }
}
