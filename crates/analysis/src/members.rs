//! Results for the clients of each member, if clients are spread over several members: while one
//! member is down, the others continue, and the total hides the outage. Outages are found in a
//! member's own counts, in the same way as in the total. Latency and memory are not recorded by
//! member.

use experiment::plan;
use record::ReadError;
use record::folder::TrialFolder;
use record::results::{MemberFigures, MemberOutage, Trial};

use crate::evidence::Evidence;
use crate::faults;
use crate::load_window::LoadWindow;
use crate::stats::timeline::Timeline;

/// Adds the results of each member to a trial. The records are read one after the other, because
/// all members' records of a large lab do not fit into memory.
pub(crate) fn add(
    trial: &mut Trial,
    planned: &plan::Trial,
    folder: &TrialFolder,
    evidence: &mut Evidence,
    window: &LoadWindow,
) -> Result<(), ReadError> {
    for name in folder.member_names()? {
        let own = evidence.of_member(planned, &folder.member(&name))?;
        let Some(timeline) = Timeline::refined(&own.slots, &own.fine_slots) else { continue };
        let timeline = timeline.with_clock_error(evidence.clock_error_s());
        let happened = faults::happened(planned, &own, Some(&timeline), Some(window));
        for (fault, felt) in trial.faults.iter_mut().zip(happened.faults) {
            fault.members.extend(felt.outage.map(|outage| MemberOutage { name: name.clone(), outage }));
        }
        trial.members.push(MemberFigures {
            operations_per_s: window.ok_per_s(&timeline, window.from_s),
            ok: timeline.ok().between(0, timeline.slots()),
            failed: timeline.failed().between(0, timeline.slots()),
            wrong: timeline.wrong().between(0, timeline.slots()),
            disturbances: happened.disturbances,
            name,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use record::clock::Clock;
    use record::events::{Event, What};
    use record::results::DisturbanceKind;
    use record::rows::{CsvWriter, OutcomeSlot};

    use super::*;
    use crate::synthetic;

    /// Operations that end `ok` and that fail in a millisecond of the load.
    type Ended = fn(u32) -> (u32, u32);

    fn write(path: &std::path::Path, ended: impl Fn(u32) -> (u32, u32)) {
        let mut rows = CsvWriter::create(path).unwrap();
        for number in 0..30_000 {
            let ((ok, failed), at_s) = (ended(number), f64::from(number) / 1e3);
            if ok + failed > 0 {
                rows.write(&OutcomeSlot { at_s, slot_s: 0.001, ok, failed, ..OutcomeSlot::default() }).unwrap();
            }
        }
        rows.flush().unwrap();
    }

    /// A trial of 30 s with faults at 10 s and 20 s, and these outcomes for each member in each
    /// millisecond.
    fn analyzed(members: &[(&str, Ended)]) -> Trial {
        let path = fixture::TestDir::new();
        let folder = TrialFolder::at(&path);
        write(&folder.outcomes(), |number| {
            let each = members.iter().map(|(_, ended)| ended(number));
            each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        });
        for (name, ended) in members {
            write(&folder.create_member(name).unwrap().outcomes(), ended);
        }
        let mut events = record::lines::JsonLinesWriter::create(&folder.events()).unwrap();
        let clock = What::Clock { unix_s: Clock::starting_in(std::time::Duration::ZERO).unix_s() };
        events.write(&Event { at_s: 0.0, what: clock }).unwrap();
        for (at_s, number) in [(10.0, 1), (20.0, 2)] {
            let what = What::FaultBegun { fault: "oops".into(), number, kind: "kill".into(), on: "n2".into() };
            events.write(&Event { at_s, what }).unwrap();
        }
        events.flush().unwrap();
        let mut planned = synthetic::trial(synthetic::load(10, 30.0));
        planned.faults = vec![synthetic::fault("oops", 10.0)];
        crate::trial(&planned, &folder).unwrap()
    }

    #[test]
    fn an_outage_of_one_member_hits_only_its_clients() {
        let down = |number: u32| match number {
            10_000..=10_099 => (0, 1),
            10_100..=14_999 => (0, 0),
            _ => (1, 0),
        };
        let trial = analyzed(&[("n10", |_| (1, 0)), ("n2", down), ("n1", |_| (1, 0))]);
        let [first, second] = trial.faults.as_slice() else { panic!("{:?}", trial.faults) };
        assert_eq!(first.outage.as_ref().unwrap().total_s, Some(0.0), "the others go on");
        let felt: Vec<_> = first
            .members
            .iter()
            .map(|member| (member.name.as_str(), member.outage.failed, member.outage.total_s, member.outage.first_ok_s))
            .collect();
        assert_eq!(
            felt,
            [("n1", 0, Some(0.0), Some(0.0)), ("n2", 100, Some(5.0), Some(5.0)), ("n10", 0, Some(0.0), Some(0.0))]
        );
        assert_eq!(first.members[1].outage.back_to_baseline_s, Some(5.0));
        assert!(second.members.iter().all(|member| member.outage.failed == 0), "{second:?}");
        let counts: Vec<_> =
            trial.members.iter().map(|member| (member.name.as_str(), member.ok, member.failed)).collect();
        assert_eq!(counts, [("n1", 30_000, 0), ("n2", 25_000, 100), ("n10", 30_000, 0)]);
    }

    #[test]
    fn a_members_outage_hidden_in_the_sum_is_found() {
        let members: [(&str, Ended); 2] =
            [("n1", |_| (1, 0)), ("n2", |number| if (4_000..7_000).contains(&number) { (0, 0) } else { (1, 0) })];
        let trial = analyzed(&members);
        let of_all: Vec<_> = trial.disturbances.iter().map(|one| one.kind).collect();
        assert_eq!(of_all, [DisturbanceKind::Slow], "half of the calls went on");
        assert_eq!(trial.members[0].disturbances, []);
        let [outage] = &trial.members[1].disturbances[..] else { panic!("{:?}", trial.members[1]) };
        assert_eq!((outage.at_s, outage.kind), (4.0, DisturbanceKind::Outage));
    }
}
