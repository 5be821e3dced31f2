//! Chart of operations by outcome for each member, one lane per member. The sum over all members
//! can hide that one of them is down.

use record::rows::OutcomeSlot;

use super::outcomes::{Bins, bin_s};
use super::{TrialView, lines_with_values};
use crate::drawing::chart::{Chart, Ink, LineStyle, Panel, PanelUnit};
use crate::series::MemberSeries;

const LANE: f64 = 40.0;

pub fn draw(view: &TrialView) -> Vec<Chart> {
    // In an exercise without a load, no operation ended at any member.
    if !view.series.members.iter().flat_map(|member| &member.outcomes).any(|slot| slot.ok + not_ok(slot) > 0) {
        return Vec::new();
    }
    let mut panels: Vec<Panel> = view.series.members.iter().map(|member| lane(view, member)).collect();
    Panel::share_axis(&mut panels, 0.0);
    let note = "Per second, of the clients of each.";
    vec![view.chart("members", "Operations by member", note, panels)]
}

fn lane(view: &TrialView, member: &MemberSeries) -> Panel {
    let bins = Bins::of(&member.outcomes, view.end_s(), bin_s(view));
    let mut lines = vec![view.line("ok", (Ink::Ok, LineStyle::Filled), &bins.rate(|slot| slot.ok))];
    if member.outcomes.iter().any(|slot| not_ok(slot) > 0) {
        lines.push(view.line("not ok", (Ink::Failed, LineStyle::Solid), &bins.rate(not_ok)));
    }
    Panel::linear(&member.name, PanelUnit::PerSecond, LANE, lines_with_values(lines))
}

fn not_ok(slot: &OutcomeSlot) -> u32 {
    slot.failed + slot.timeout + slot.wrong
}

#[cfg(test)]
mod tests {
    use record::results::Trial;

    use super::*;
    use crate::series::TrialSeries;

    fn member(name: &str, counts: &[(u32, u32)]) -> MemberSeries {
        let slots = (0..).zip(counts).map(|(second, &(ok, failed))| OutcomeSlot {
            at_s: f64::from(second),
            slot_s: 0.2,
            ok,
            failed,
            ..OutcomeSlot::default()
        });
        MemberSeries { name: name.to_owned(), outcomes: slots.collect() }
    }

    fn drawn(members: Vec<MemberSeries>) -> Vec<Chart> {
        let outcomes = vec![OutcomeSlot { at_s: 2.8, slot_s: 0.2, ok: 1, ..OutcomeSlot::default() }];
        let series = TrialSeries { outcomes, members, ..TrialSeries::default() };
        draw(&TrialView { trial: &Trial::default(), series: &series, points: 100 })
    }

    #[test]
    fn each_member_has_a_lane_and_all_have_the_same_axis() {
        assert_eq!(drawn(Vec::new()), []);
        assert_eq!(drawn(vec![member("n1", &[]), member("n2", &[(0, 0)])]), [], "an exercise without a load");
        let charts = drawn(vec![member("n1", &[(10, 0), (10, 0), (20, 0)]), member("n2", &[(10, 0), (0, 3), (10, 0)])]);
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
