//! Chart of operations by outcome for each member, one lane per member. The sum over all members
//! can hide that one of them is down.

use record::rows::OutcomeSlot;

use super::outcomes::{Bins, bin_s};
use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, ChartLine, Ink, LineStyle, Panel, PanelUnit};
use crate::drawing::path::{DataPoint, thinned};
use crate::series::MemberSeries;

const LANE: f64 = 40.0;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    let any = |slot: &OutcomeSlot| slot.ok + slot.failed + slot.timeout + slot.wrong > 0;
    // In an exercise without a load, no operation ended at any member.
    if !view.series.members.iter().flat_map(|member| &member.outcomes).any(any) {
        return Vec::new();
    }
    let line = |name: &str, ink, shape, points: Vec<DataPoint>| ChartLine {
        name: name.to_owned(),
        ink,
        shape,
        points: thinned(&points, view.points),
    };
    let lane = |member: &MemberSeries| {
        let bins = Bins::of(&member.outcomes, view.end_s(), bin_s(view));
        let mut lines = vec![line("ok", Ink::Ok, LineStyle::Filled, bins.rate(|slot| slot.ok))];
        if member.outcomes.iter().any(|slot| slot.failed + slot.timeout + slot.wrong > 0) {
            let not_ok = bins.rate(|slot| slot.failed + slot.timeout + slot.wrong);
            lines.push(line("not ok", Ink::Failed, LineStyle::Solid, not_ok));
        }
        Panel::linear(&member.name, PanelUnit::PerSecond, LANE, lines_with_values(lines))
    };
    let mut panels: Vec<Panel> = view.series.members.iter().map(lane).collect();
    // Lanes are compared with each other, so they share an axis.
    let values = panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points).filter_map(|point| point.1);
    let highest = values.fold(0.0, f64::max);
    panels.iter_mut().for_each(|panel| panel.at_least_to = Some(highest));
    let note = "Per second, of the clients of each.";
    vec![view.chart("members", "Operations by member", note, panels)]
}

#[cfg(test)]
mod tests {
    use record::results::Trial;

    use super::*;
    use crate::series::TrialSeries;

    #[test]
    fn each_member_has_a_lane_and_all_have_the_same_axis() {
        let member = |name: &str, counts: &[(u32, u32)]| MemberSeries {
            name: name.to_owned(),
            outcomes: (0..)
                .zip(counts)
                .map(|(second, (ok, failed))| OutcomeSlot {
                    at_s: f64::from(second),
                    slot_s: 0.2,
                    ok: *ok,
                    failed: *failed,
                    ..OutcomeSlot::default()
                })
                .collect(),
        };
        let outcomes = vec![OutcomeSlot { at_s: 2.8, slot_s: 0.2, ok: 1, ..OutcomeSlot::default() }];
        let mut series = TrialSeries { outcomes, ..TrialSeries::default() };
        let trial = Trial::default();
        assert_eq!(draw(&TrialView { trial: &trial, series: &series, points: 100 }), []);
        series.members = vec![member("n1", &[]), member("n2", &[(0, 0)])];
        assert_eq!(draw(&TrialView { trial: &trial, series: &series, points: 100 }), [], "an exercise without a load");
        series.members = vec![member("n1", &[(10, 0), (10, 0), (20, 0)]), member("n2", &[(10, 0), (0, 3), (10, 0)])];
        let charts = draw(&TrialView { trial: &trial, series: &series, points: 100 });
        let lanes = &charts[0].panels;
        assert_eq!(
            lanes.iter().map(|lane| (lane.label.as_str(), lane.lines.len())).collect::<Vec<_>>(),
            [("n1", 1), ("n2", 2)]
        );
        assert!(lanes.iter().all(|lane| lane.at_least_to == Some(100.0)), "20 in 0.2 s");
        let down = &lanes[1].lines[1].points;
        assert_eq!(down.iter().filter_map(|point| point.1).fold(0.0, f64::max), 15.0);
    }
}
