//! CPU time and memory of the programs that the target's manifest names, on each host, from
//! `programs.csv`, in one pass.

use std::collections::BTreeMap;

use record::results::{Host, HostProgram};
use record::rows::ProgramSample;

use crate::sampled::RunningMean;

/// Sums over the load, by host, role and program.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ProgramSums {
    /// End of the load, seconds since its start; `None` for a trial without load.
    until_s: Option<f64>,
    programs: BTreeMap<(String, String, String), ProgramFigures>,
}

#[derive(Debug, Default, PartialEq)]
struct ProgramFigures {
    cpu_pct: RunningMean,
    rss_max_bytes: Option<u64>,
    pss_max_bytes: Option<u64>,
    processes_min: Option<u64>,
    processes_last: Option<u64>,
    replaced: Option<u64>,
}

impl ProgramSums {
    /// Creates empty sums for a load that ends at this time; `None` includes all rows.
    pub fn until(until_s: Option<f64>) -> Self {
        Self { until_s, programs: BTreeMap::new() }
    }

    /// Adds the next row.
    pub fn add(&mut self, row: &ProgramSample) {
        // A row covers the second before it. At least half of this second must lie in the load.
        if self.until_s.is_some_and(|until_s| !(0.5..=until_s + 0.5).contains(&row.at_s)) {
            return;
        }
        let key = (row.host.clone(), row.process.clone(), row.program.clone());
        let sums = self.programs.entry(key).or_default();
        sums.cpu_pct.add(row.cpu_user_pct.zip(row.cpu_system_pct).map(|(user, system)| user + system));
        sums.rss_max_bytes = sums.rss_max_bytes.max(row.rss_bytes);
        sums.pss_max_bytes = sums.pss_max_bytes.max(row.pss_bytes);
        sums.processes_min = [sums.processes_min, row.processes].into_iter().flatten().min();
        sums.processes_last = row.processes.or(sums.processes_last);
        sums.replaced =
            row.processes_replaced.map(|count| sums.replaced.unwrap_or(0).saturating_add(count)).or(sums.replaced);
    }

    /// Adds the programs to their hosts.
    pub fn with(&self, mut hosts: Vec<Host>) -> Vec<Host> {
        for ((host, process, program), sums) in &self.programs {
            let Some(host) = hosts.iter_mut().find(|known| known.name == *host) else { continue };
            host.programs.push(HostProgram {
                name: program.clone(),
                process: process.clone(),
                cpu_pct: sums.cpu_pct.value(),
                rss_max_bytes: sums.rss_max_bytes,
                pss_max_bytes: sums.pss_max_bytes,
                processes_min: sums.processes_min,
                processes_last: sums.processes_last,
                replaced: sums.replaced,
            });
        }
        hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarted_and_dead_programs_are_distinguished() {
        let row = |at_s: f64, program: &str, processes: u64, replaced: u64| ProgramSample {
            at_s,
            host: "n1".into(),
            process: "node".into(),
            program: program.into(),
            processes: Some(processes),
            cpu_user_pct: Some(at_s),
            cpu_system_pct: Some(1.0),
            rss_bytes: Some(100 * processes),
            pss_bytes: (at_s < 2.0).then_some(50),
            processes_replaced: Some(replaced),
            ..ProgramSample::default()
        };
        let mut sums = ProgramSums::until(Some(3.0));
        let rows = [row(1.0, "based", 1, 0), row(2.0, "based", 0, 0), row(3.0, "based", 1, 1), row(1.0, "attrd", 1, 0)];
        rows.iter().chain([&row(2.0, "attrd", 0, 0), &row(9.0, "attrd", 7, 7)]).for_each(|row| sums.add(row));
        let hosts = ["n1", "n2"].map(|name| Host { name: name.into(), ..Host::default() });
        let hosts = sums.with(hosts.to_vec());
        let [attrd, based] = hosts[0].programs.as_slice() else { panic!("{:?}", hosts[0]) };
        assert_eq!((attrd.name.as_str(), attrd.processes_last, attrd.replaced), ("attrd", Some(0), Some(0)));
        assert_eq!((based.processes_min, based.processes_last, based.replaced), (Some(0), Some(1), Some(1)));
        let figures = (based.cpu_pct, based.rss_max_bytes, based.pss_max_bytes);
        assert_eq!(figures, (Some(3.0), Some(100), Some(50)));
        assert_eq!((based.process.as_str(), &hosts[1].programs), ("node", &Vec::new()));
    }
}
