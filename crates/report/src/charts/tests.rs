//! Tests of the charts of a trial.
#![allow(clippy::unwrap_used)]

use record::results::{Host, Trial};

use super::*;
use crate::drawing::chart::Shape;
use crate::example;

fn crash() -> (Trial, Series) {
    let plan = example::plan(&[], &[], 1);
    let mut trial = example::results(&plan).trials.remove(0);
    example::crash(&mut trial);
    let series = example::series(&trial, 30);
    (trial, series)
}

fn titles(charts: &[Chart]) -> Vec<&str> {
    charts.iter().map(|chart| chart.title.as_str()).collect()
}

#[test]
fn all_charts_of_a_trial_in_page_order() {
    let (trial, series) = crash();
    let charts = of_trial(&View { trial: &trial, series: &series, points: 1_500 });
    let expected = [
        "Operations by outcome",
        "Around the fault, in steps of 5 ms",
        "Latency",
        "CPU",
        "Load average",
        "Memory",
        "Disk",
        "Network",
        "Pressure",
        "Load generator",
    ];
    assert_eq!(titles(&charts), expected);
    let mut places: Vec<u8> = KINDS.iter().map(|kind| kind.place).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), KINDS.len(), "two kinds at one place");
}

#[test]
fn no_records_no_charts() {
    let trial = Trial::default();
    assert_eq!(of_trial(&View { trial: &trial, series: &Series::default(), points: 100 }), Vec::new());
}

#[test]
fn failures_have_a_lane_of_their_own_and_none_are_counted_twice() {
    let (trial, mut series) = crash();
    let view = View { trial: &trial, series: &series, points: 1_500 };
    let chart = &(outcomes::KIND.draw)(&view)[0];
    let labels: Vec<&str> = chart.panels.iter().map(|panel| panel.label.as_str()).collect();
    assert_eq!(
        labels,
        ["ok operations per second", "failed in each 0.2 s: 104 in all", "wrong in each 0.2 s: 10 in all"]
    );
    let failed: f64 = chart.panels[1].lines[0].points.iter().filter_map(|point| point.1).sum();
    assert_eq!(failed, 104.0);
    for slot in &mut series.outcomes {
        (slot.failed, slot.wrong) = (0, 0);
    }
    let chart = &(outcomes::KIND.draw)(&View { trial: &trial, series: &series, points: 1_500 })[0];
    assert_eq!(chart.panels[1].remark, "none in this trial");
}

#[test]
fn a_last_bin_that_was_cut_short_has_no_rate() {
    let (trial, mut series) = crash();
    series.outcomes.retain(|slot| slot.at_s < 12.05);
    let chart = &(outcomes::KIND.draw)(&View { trial: &trial, series: &series, points: 1_500 })[0];
    let points = &chart.panels[0].lines[0].points;
    assert_eq!(points.last().unwrap().1, None);
    assert!(points[points.len() - 2].1.unwrap() > 50_000.0);
}

#[test]
fn the_end_of_the_warm_up_is_marked_where_figures_are_cut_there() {
    let (mut trial, series) = crash();
    let marks = |trial: &Trial| {
        let charts = of_trial(&View { trial, series: &series, points: 1_500 });
        let of = |title: &str| charts.iter().find(|chart| chart.title == title).unwrap().marks.clone();
        [of("Operations by outcome"), of("Latency"), of("CPU")].map(|marks| marks[0].label.clone())
    };
    trial.steady = Some(Steady { from_s: 4.0, method: "MSER-5".to_owned(), is: Some(true), unsteady: None });
    assert_eq!(marks(&trial)[..2], ["warm-up until 4 s (MSER-5)"; 2]);
    assert!(marks(&trial)[2].starts_with("oops"), "{:?}", marks(&trial));
    trial.steady.as_mut().unwrap().unsteady = Some("latency".to_owned());
    assert_eq!(marks(&trial)[0], "warm-up until 4 s (MSER-5); latency not steady");
    trial.steady.as_mut().unwrap().from_s = 0.0;
    assert!(marks(&trial)[0].starts_with("oops"), "nothing is cut off");
}

#[test]
fn the_zoom_is_as_wide_as_the_outage_needs() {
    let (mut trial, series) = crash();
    let zoom = |trial: &Trial| (zoom::KIND.draw)(&View { trial, series: &series, points: 1_500 }).remove(0);
    let chart = zoom(&trial);
    assert_eq!((chart.x.from, chart.x.to), (-0.5, 0.5));
    assert_eq!(chart.marks[0].until, Some(0.12));
    let failed = chart.panels.iter().find(|panel| panel.label.starts_with("failed")).unwrap();
    assert_eq!(failed.lines[0].points.iter().filter_map(|point| point.1).sum::<f64>(), 104.0);
    trial.faults[0].outage.as_mut().unwrap().back_to_baseline_s = Some(8.0);
    let chart = zoom(&trial);
    assert_eq!((chart.x.from, chart.x.to), (-2.0, 10.0));
    // Beyond the records there is nothing, not 0.
    trial.faults[0].at_s = 25.0;
    assert_eq!(zoom(&trial).panels[0].lines[0].points.last().unwrap().1, None);
    trial.faults[0].failed = Some("no such member".to_owned());
    assert!((zoom::KIND.draw)(&View { trial: &trial, series: &series, points: 1_500 }).is_empty());
}

#[test]
fn missing_samples_stay_a_gap() {
    let (trial, series) = crash();
    let view = View { trial: &trial, series: &series, points: 1_500 };
    let points = view.sampled("local", "", |sample| sample.load1);
    let gaps: Vec<f64> = points.iter().filter(|point| point.1.is_none()).map(|point| point.0).collect();
    assert_eq!(gaps, [21.0]);
    let points = with_gaps(vec![(-2.0, Some(1.0)), (1.0, Some(1.0)), (2.0, None), (99.0, Some(1.0))], 30.0);
    assert_eq!(points, [(1.0, Some(1.0)), (2.0, None)]);
}

#[test]
fn what_was_not_measured_has_no_line() {
    let (trial, mut series) = crash();
    for sample in &mut series.samples {
        (sample.cpu_iowait_pct, sample.psi_cpu_some_pct) = (None, None);
        (sample.psi_io_some_pct, sample.psi_memory_some_pct) = (None, None);
    }
    let view = View { trial: &trial, series: &series, points: 1_500 };
    let chart = &(cpu::KIND.draw)(&view)[0];
    let names: Vec<&str> = chart.panels[0].lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["user", "system", "steal", "strangers"]);
    assert_eq!(chart.panels[0].lines[2].shape, Shape::Stacked);
    assert!((pressure::KIND.draw)(&view).is_empty());
}

#[test]
fn several_hosts_have_a_chart_each() {
    let (trial, mut series) = crash();
    let second: Vec<_> = series.samples.iter().cloned().map(|s| Sample { host: "n2".to_owned(), ..s }).collect();
    series.samples.extend(second);
    let view = View { trial: &trial, series: &series, points: 1_500 };
    assert_eq!(titles(&(memory::KIND.draw)(&view)), ["Memory of this machine", "Memory of n2"]);
}

/// A trial on so many virtual hosts, and its records.
fn lab(hosts: usize) -> (Trial, Series) {
    let (mut trial, mut series) = crash();
    let names: Vec<String> = (1..=hosts).map(|number| format!("n{number}")).collect();
    let host = |name: &String| Host { name: name.clone(), kind: Some("netns".to_owned()), ..Host::default() };
    trial.hosts = names.iter().map(host).collect();
    let rows = series.samples.clone();
    for name in &names {
        let of_host = rows.iter().filter(|row| row.process != "generator");
        series.samples.extend(of_host.cloned().map(|row| Sample { host: name.clone(), ..row }));
    }
    (trial, series)
}

#[test]
fn the_hosts_of_a_lab_have_a_lane_each() {
    let (trial, series) = lab(2);
    let view = View { trial: &trial, series: &series, points: 1_500 };
    let charts = (lanes::KIND.draw)(&view);
    assert_eq!(charts[0].title, "CPU of each host");
    let labels: Vec<&str> = charts[0].panels.iter().map(|panel| panel.label.as_str()).collect();
    assert_eq!(labels, ["n1", "n2"], "the machine that makes the load is none of them");
    assert_eq!(titles(&(memory::KIND.draw)(&view)).len(), 3, "and charts of their own as long as they are few");
    let (trial, series) = lab(16);
    let view = View { trial: &trial, series: &series, points: 1_500 };
    assert_eq!((lanes::KIND.draw)(&view)[0].panels.len(), 16);
    assert_eq!(titles(&(memory::KIND.draw)(&view)), ["Memory of this machine"]);
    let (trial, series) = crash();
    assert!((lanes::KIND.draw)(&View { trial: &trial, series: &series, points: 1_500 }).is_empty(), "no lab");
}

#[test]
fn notices_say_what_a_reader_should_know() {
    let (_, series) = crash();
    let notices = notices(&series);
    let words: Vec<&str> = notices.iter().map(|(_, words)| words.as_str()).collect();
    assert_eq!(words[..2], ["server on local started", "fault oops (call) begun on local.server"]);
    assert_eq!(notices[1].0, "15.002 s");
}

#[test]
fn what_no_fault_explains_is_marked_beside_the_faults() {
    let (mut trial, series) = crash();
    trial.disturbances = vec![example::disturbance()];
    let chart = &(outcomes::KIND.draw)(&View { trial: &trial, series: &series, points: 1_500 })[0];
    let marks: Vec<_> = chart.marks.iter().map(|mark| (mark.label.as_str(), mark.at, mark.until)).collect();
    assert_eq!(marks[1], ("disturbance", 22.5, Some(23.7)));
    assert_eq!(marks.len(), 2);
}
