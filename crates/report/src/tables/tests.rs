//! Tests of the tables' content.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use experiment::plan::{Failover, MetricRange, Plan};
use record::events::HostFigures;
use record::results::{
    Emulated, Fault, GeneratorFigures, MemberFigures, MemberOutage, Outage, Results, SafeLoad, TargetMetric,
};
use record::rows::MetricKind;
use text::Tone;

use super::*;
use crate::example::{self, one_crash};

fn table(of: TableOf, results: &Results, plan: &Plan) -> Option<Table> {
    of(&ReportInput { environment: Some(example::environment()), ..ReportInput::without_records(results, plan) })
}

fn texts<'a>(table: &'a Table, head: &str) -> Vec<&'a str> {
    column(table, head).into_iter().map(|cell| cell.text.as_str()).collect()
}

/// Returns the texts of a row.
fn row(table: &Table, index: usize) -> Vec<&str> {
    table.rows[index].cells.iter().map(|cell| cell.text.as_str()).collect()
}

/// Returns the cells below a heading.
fn column<'a>(table: &'a Table, head: &str) -> Vec<&'a Cell> {
    let index = table.columns.iter().position(|column| column.head == head).unwrap();
    table.rows.iter().map(|row| &row.cells[index]).collect()
}

#[test]
fn every_row_has_a_cell_for_each_column() {
    let (plan, mut results) = example::policies();
    results.trials[0].disturbances = vec![example::disturbance()];
    results.trials[0].examples = vec![record::events::FailureExample::default()];
    results.trials[0].checks = example::failed_checks();
    results.trials[0].said = vec![record::results::Said::default()];
    results.trials[0].members =
        vec![MemberFigures { disturbances: vec![example::disturbance()], ..MemberFigures::default() }];
    results.trials[0].groups.insert("readers".to_owned(), record::results::GroupFigures::default());
    results.trials[0].steps = vec![record::results::PlayedStep::default()];
    results.trials[0].hosts[0].programs = vec![record::results::HostProgram::default()];
    results.trials[0].agents_without_cycle = Some(2);
    results.trials[0].outcomes.timeout = 3;
    results.trials[0].metrics.insert("queue_length".to_owned(), TargetMetric::default());
    results.outages = vec![example::distribution(Some("wait"), &results.trials[0].point, 6)];
    results.trials.iter_mut().flat_map(|trial| &mut trial.hosts).for_each(|host| host.kind = Some("netns".to_owned()));
    let tiers = [("sata".to_owned(), record::events::TierFigures::default())].into();
    results.trials[0].hosts[0].figures.get_or_insert_default().tiers = tiers;
    results.scaling = vec![record::results::Scaling::default(); 2];
    results.crossings = vec![record::results::Crossing::default()];
    results.costs = example::costs();
    results.demanded_hosts = example::demanded_hosts();
    results.trials[0].generator.each = vec![GeneratorFigures::default(), one_generator("gen2")];
    let steps = vec![record::results::SearchStep::default()];
    results.sweep_stops = vec![record::events::SweepStop::default()];
    results.safe_loads = vec![SafeLoad { steps, ..Default::default() }];
    let environment = Some(example::environment());
    let input = ReportInput { environment, ..ReportInput::without_records(&results, &plan) };
    for (index, table) in crate::page::tables(&input).enumerate() {
        let table = table.unwrap_or_else(|| panic!("table {index} of the page"));
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()), "{}", table.title);
    }
}

#[test]
fn demand_tables_show_hosts_needed_and_known_prices() {
    let (plan, mut results) = example::plain();
    assert_eq!(table(demand::hosts, &results, &plan), None);
    results.demanded_hosts = example::demanded_hosts();
    let shown = table(demand::hosts, &results, &plan).unwrap();
    assert!(shown.note.contains("For 20,000/s of throughput.operations_per_s"), "{}", shown.note);
    assert_eq!(row(&shown, 0), ["sata", "agents 8", "525/s", "2", "39", "EUR 1,950"]);
    assert_eq!(row(&shown, 1), ["fast", "agents 8", "1,050/s", "2", "20", numbers::NONE]);
    assert_eq!(shown.rows[0].cells[4].small, "36–42");
    results.demanded_hosts[0].price = None;
    assert_eq!(table(demand::hosts, &results, &plan).unwrap().columns.len(), 5);
}

#[test]
fn log_lines_of_members_are_shown_verbatim() {
    let (plan, mut results) = example::plain();
    assert_eq!(table(outages::said, &results, &plan), None);
    results.trials[0].said = [("n1", "waits for tables", false), ("n2", "inconsistent_database", true)]
        .map(|(host, line, alarming)| record::results::Said {
            at_s: -2.5,
            host: host.to_owned(),
            line: line.to_owned(),
            count: 1_480,
            alarming,
            ..Default::default()
        })
        .to_vec();
    let table = table(outages::said, &results, &plan).unwrap();
    assert_eq!(texts(&table, "host"), ["n1", "n2"]);
    assert_eq!(texts(&table, "line"), ["waits for tables", "inconsistent_database"]);
    assert_eq!(texts(&table, "times"), ["1,480", "1,480"]);
    assert_eq!(column(&table, "line").iter().map(|cell| cell.tone).collect::<Vec<_>>(), [Tone::Plain, Tone::Bad]);
}

#[test]
fn a_program_that_is_gone_at_the_end_is_marked() {
    let (plan, mut results) = example::plain();
    assert_eq!(table(programs::programs, &results, &plan), None);
    results.trials[0].hosts[0].programs = [("attrd", 0), ("based", 1)]
        .map(|(name, last)| record::results::HostProgram {
            name: name.to_owned(),
            process: "node".to_owned(),
            processes_last: Some(last),
            replaced: Some(1),
            ..Default::default()
        })
        .to_vec();
    let table = table(programs::programs, &results, &plan).unwrap();
    let tones: Vec<_> = column(&table, "processes").iter().map(|cell| (cell.text.as_str(), cell.tone)).collect();
    assert_eq!(tones, [("0", Tone::Bad), ("1", Tone::Plain)]);
    assert_eq!(column(&table, "PSS")[0].text, numbers::NONE);
}

#[test]
fn unmeasured_values_are_not_shown_as_0() {
    let plan = example::plan(&[], &[], 1);
    let trials = vec![Trial { id: "001".to_owned(), ..Default::default() }];
    let results = Results { trials, ..Results::default() };
    let of_trials: [TableOf; 8] = [
        comparison::comparison,
        outages::outages,
        operations::attempts,
        verdicts::consistency,
        verdicts::claims,
        verdicts::requirements,
        operations::each_operation,
        hosts::hosts,
    ];
    for of in of_trials {
        assert_eq!(table(of, &results, &plan), None);
    }
    let (plan, mut results) = one_crash();
    results.trials[0].faults[0].outage = Some(Outage::default());
    let outages = table(outages::outages, &results, &plan).unwrap();
    for head in ["first failure", "first ok", "no service", "partial", "recovered after", "memory released", "baseline"]
    {
        assert_eq!(column(&outages, head)[0].text, numbers::NONE, "{head}");
    }
}

#[test]
fn the_lab_table_shows_host_figures_and_emulation() {
    let (plan, mut results) = one_crash();
    assert_eq!(table(hosts::lab, &results, &plan), None, "this machine is no lab");
    let trial = &mut results.trials[0];
    let figures = HostFigures { cores: Some(4), core_speed: Some(0.1), ..HostFigures::default() };
    trial.hosts[0].kind = Some("netns".to_owned());
    trial.hosts[0].profile = Some("raspberry-pi-2".to_owned());
    trial.hosts[0].figures = Some(figures);
    trial.emulated = Some(Emulated { speed: 0.5, granularity_s: Some(0.01), ..Emulated::default() });
    let lab = table(hosts::lab, &results, &plan).unwrap();
    assert_eq!(column(&lab, "cores")[0].text, "4 × 0.1");
    assert_eq!(column(&lab, "profile")[0].text, "raspberry-pi-2");
    assert!(lab.columns.iter().all(|column| column.head != "memory"), "the memory is unknown");
    assert!(lab.note.contains("0.5 of real speed") && lab.note.contains("only over periods of 10 ms"), "{}", lab.note);
}

#[test]
fn outages_show_missing_recoveries_and_failed_injections() {
    let (plan, mut results) = one_crash();
    let outages = table(outages::outages, &results, &plan).unwrap();
    assert_eq!(column(&outages, "failed")[0], &Cell::new("99").with("of 1,834,666").toned(Tone::Bad));
    assert_eq!(column(&outages, "recovered after")[0].text, "120 ms");
    assert_eq!(column(&outages, "memory released")[0].text, "5.12 MB");
    results.trials[0].faults[0].outage.as_mut().unwrap().back_to_baseline_s = None;
    assert_eq!(column(&table(outages::outages, &results, &plan).unwrap(), "recovered after")[0].text, "never");
    results.trials[0].faults[0].failed = Some("no such member".to_owned());
    let failed = table(outages::outages, &results, &plan).unwrap();
    assert_eq!(column(&failed, "failed")[0].small, "no such member");
    assert_eq!(column(&failed, "wrong")[0].text, numbers::NONE);
}

#[test]
fn members_left_by_their_clients_have_no_recovery() {
    let (mut plan, mut results) = one_crash();
    let outage = Outage { baseline_per_s: Some(10.0), failed: 3, ..Outage::default() };
    results.trials[0].faults[0].members = vec![MemberOutage { name: "n1".to_owned(), outage }];
    let members = table(outages::members, &results, &plan).unwrap();
    assert_eq!(texts(&members, "recovered after"), ["never"]);
    plan.trials[0].load.as_mut().unwrap().reconnects.failover = Failover::Next;
    let members = table(outages::members, &results, &plan).unwrap();
    let moved = Cell::new(numbers::NONE).with("its clients went to other members");
    assert_eq!(column(&members, "recovered after"), [&moved]);
}

#[test]
fn only_affected_members_have_a_row() {
    let (plan, mut results) = one_crash();
    assert_eq!(table(outages::members, &results, &plan), None, "one address");
    let trial = &mut results.trials[0];
    let well = Outage { baseline_per_s: Some(10.0), back_to_baseline_s: Some(0.0), ..Outage::default() };
    let down = Outage { failed: 7, total_s: Some(5.0), back_to_baseline_s: None, ..well.clone() };
    trial.faults[0].members = [("n1", well.clone()), ("n2", down), ("n3", Outage::default())]
        .map(|(name, outage)| MemberOutage { name: name.to_owned(), outage })
        .to_vec();
    let disturbances = vec![example::disturbance()];
    trial.members = vec![MemberFigures { name: "n3".to_owned(), disturbances, ..MemberFigures::default() }];
    let members = table(outages::members, &results, &plan).unwrap();
    assert_eq!(texts(&members, "fault"), ["oops", "no fault"]);
    assert_eq!(texts(&members, "member"), ["n2", "n3"]);
    assert_eq!(column(&members, "no service")[0].text, "5 s");
    assert_eq!(column(&members, "recovered after")[0], &Cell::new("never").with("within the trial").toned(Tone::Bad));
}

#[test]
fn an_earlier_baseline_shows_its_interval() {
    let (plan, mut results) = one_crash();
    let at_s = results.trials[0].faults[0].at_s;
    results.trials[0].faults[0].outage.as_mut().unwrap().baseline_s = Some([at_s - 10.0, at_s - 0.001]);
    let outages = table(outages::outages, &results, &plan).unwrap();
    let small = &column(&outages, "baseline")[0].small;
    assert!(!small.contains("of ") && !outages.note.contains("earlier"), "{small} {}", outages.note);
    results.trials[0].faults[0].outage.as_mut().unwrap().baseline_s = Some([1.0, 4.0]);
    let outages = table(outages::outages, &results, &plan).unwrap();
    let small = &column(&outages, "baseline")[0].small;
    assert!(small.ends_with("of 1 s to 4 s") && outages.note.contains("For 1 of 1 faults, the baseline"), "{small}");
    results.trials[0].faults[0].outage.as_mut().unwrap().back_to_baseline_s = None;
    let next = Fault { at_s: at_s + 1.0, ..results.trials[0].faults[0].clone() };
    results.trials[0].faults.push(next);
    let outages = table(outages::outages, &results, &plan).unwrap();
    let back: Vec<_> = column(&outages, "recovered after").iter().map(|cell| cell.small.clone()).collect();
    assert_eq!(back, ["before the next fault", "within the trial"]);
}

#[test]
fn the_comparison_has_medians_and_leaves_void_trials_out() {
    let (plan, results) = example::policies();
    let comparison = table(comparison::comparison, &results, &plan).unwrap();
    assert_eq!(comparison.rows.len(), 18);
    assert!(comparison.note.contains("0 everywhere: timeouts"));
    let failed = column(&comparison, "failed");
    assert_eq!((failed[0].text.as_str(), failed[0].small.as_str(), failed[0].tone), ("149", "99–198", Tone::Bad));
    assert_eq!((failed[3].text.as_str(), failed[3].tone), ("0", Tone::Good));
    // Row 4 has one void trial of two, so there is no range.
    assert_eq!(column(&comparison, "variant")[4].small, "1 of 2 void");
    assert_eq!(column(&comparison, "ops/s")[4].small, "");
    let begins: Vec<usize> = (0..18).filter(|&row| comparison.rows[row].begins).collect();
    assert_eq!(begins, [3, 6, 9, 12, 15]);
}

#[test]
fn tables_without_new_facts_are_folded() {
    let (plan, mut results) = one_crash();
    assert!(!table(operations::attempts, &results, &plan).unwrap().folded, "93 were not ok");
    results.trials[0].attempt_results.retain(|result, _| result == "ok");
    assert!(table(operations::attempts, &results, &plan).unwrap().folded);
    results.requirements = vec![record::results::Requirement { holds: true, ..Default::default() }; 2];
    assert!(table(verdicts::requirements, &results, &plan).unwrap().folded);
    results.requirements.push(record::results::Requirement::default());
    assert!(!table(verdicts::requirements, &results, &plan).unwrap().folded);
}

#[test]
fn claims_and_requirements_carry_their_units_and_words() {
    let (plan, results) = example::policies();
    let claims = table(verdicts::claims, &results, &plan).unwrap();
    assert_eq!(texts(&claims, "holds"), ["yes", "not shown", "no", "not measured"]);
    assert_eq!(texts(&claims, "this run"), ["0", "99", "50 ms", numbers::NONE]);
    assert_eq!(column(&claims, "expected")[2].text, "at least 5 s and at most 20 s");
    assert_eq!(column(&claims, "metric")[2].text, "faults.oops.outage.back_to_baseline_s");
    assert!(claims.note.starts_with("By vsns-complex-and-crash, closing thoughts. ") && !claims.folded);
    assert_eq!(column(&claims, "claim")[2].small, "", "their one source was told");
    let requirements = table(verdicts::requirements, &results, &plan).unwrap();
    assert_eq!(row(&requirements, 0), ["faults.oops.outage.back_to_baseline_s", "below 80 ms", "100 ms", "violated"]);
    assert_eq!(
        verdicts::asked("failed_pct", &MetricRange { equals: Some(0.0), ..MetricRange::default() }, &results),
        "exactly 0 %"
    );
}

#[test]
fn safe_load_claims_have_units_and_mark_void_trials() {
    let (mut plan, mut results) = example::policies();
    results.safe_loads = vec![SafeLoad { over: "load.agents".to_owned(), ..SafeLoad::default() }];
    let claim = &mut results.claims[0];
    (claim.metric, claim.value, claim.range) = ("safe_load(wait)".to_owned(), Some(1_234.0), Some([1_100.0, 1_300.0]));
    claim.on_void = true;
    plan.claims[0].metric = "safe_load(wait)".into();
    let claims = table(verdicts::claims, &results, &plan).unwrap();
    let cell = column(&claims, "this run")[0];
    assert_eq!(
        (cell.text.as_str(), cell.small.as_str()),
        ("at least 1,100 agents", "edge near 1,230 agents; 1,100–1,300 agents")
    );
    assert_eq!(texts(&claims, "holds"), ["yes, on void trials", "not shown", "no", "not measured"]);
    assert!(claims.terms.iter().any(|(term, _)| term == "on void trials"));
    results.claims[0].on_void = false;
    results.claims[0].trials = 1;
    assert_eq!(column(&table(verdicts::claims, &results, &plan).unwrap(), "holds")[0].text, "yes, one trial");
    results.safe_loads[0].over = "load.rate".to_owned();
    assert_eq!(column(&table(verdicts::claims, &results, &plan).unwrap(), "this run")[0].text, "at least 1,100/s");
}

#[test]
fn each_target_metric_has_a_row() {
    let (plan, mut results) = one_crash();
    assert_eq!(table(target_metrics::metrics, &results, &plan), None, "it tells nothing");
    let gauge = TargetMetric { max: Some(5e6), mean: Some(2e6), last: Some(1e6), ..TargetMetric::default() };
    let counter = TargetMetric {
        kind: MetricKind::Counter,
        max: Some(190.0),
        mean: Some(120.0),
        last: Some(190.0),
        increase: Some(90.0),
        per_s: Some(4.5),
        ..TargetMetric::default()
    };
    results.trials[0].metrics = [("calls_total".to_owned(), counter), ("heap_bytes".to_owned(), gauge)].into();
    let metrics = table(target_metrics::metrics, &results, &plan).unwrap();
    assert_eq!(row(&metrics, 0), ["calls_total", numbers::NONE, numbers::NONE, "190", "90", "4.5/s"]);
    assert_eq!(row(&metrics, 1), ["heap_bytes", "2 MB", "5 MB", "1 MB", numbers::NONE, numbers::NONE]);
}

#[test]
fn the_effect_of_the_warm_up_is_shown() {
    let (plan, mut results) = one_crash();
    let warmup = table(operations::warmup, &results, &plan).unwrap();
    let cells = &warmup.rows[0].cells;
    assert_eq!(row(&warmup, 0), ["63,400", "61,200", "15,300", "14,800", "2.71 ms", "2.71 ms", "6.87 ms", "6.87 ms"]);
    let differences: Vec<&str> = cells.iter().map(|cell| cell.small.as_str()).filter(|text| !text.is_empty()).collect();
    assert_eq!(differences, ["−3.49 %", "−3.27 %", "0 %", "0 %"]);
    results.trials[0].with_warmup = record::results::WithWarmup::default();
    assert_eq!(table(operations::warmup, &results, &plan), None);
}

#[test]
fn hosts_and_environment_list_missing_figures() {
    let (plan, results) = one_crash();
    let hosts = table(hosts::hosts, &results, &plan).unwrap();
    assert_eq!(
        hosts.note,
        "Over the whole load. Not measured: busiest thread, throttled, own load 1 min, out of memory, power."
    );
    let environment = table(hosts::environment, &results, &plan).unwrap();
    assert!(environment.note.contains("Not known: machine, architecture, caches, highest frequency, governor"));
    let what = texts(&environment, "what");
    assert!(what.contains(&"target vsns") && !what.contains(&"governor"));
}

#[test]
fn the_environment_is_grouped_and_keeps_details_small() {
    let (plan, results) = one_crash();
    let mut environment = example::environment();
    environment.build.profile = Some("debug".to_owned());
    environment.build.revision = Some("0123abcd".to_owned());
    environment.installed =
        BTreeMap::from([("vsns".to_owned(), BTreeMap::from([("otp".to_owned(), "25.2.3".to_owned())]))]);
    environment.sysctls = BTreeMap::from([("net.core.rmem_max".to_owned(), "212992".to_owned())]);
    environment.quota_cores = Some(1.5);
    let input = ReportInput { environment: Some(environment), ..ReportInput::without_records(&results, &plan) };
    let table = hosts::environment(&input).unwrap();
    assert_eq!(table.rows.iter().filter(|row| row.begins).count(), 4);
    for (what, small) in [
        ("Plimsoll", "commit 0123abcd, debug build"),
        ("target vsns", "otp 25.2.3"),
        ("cores", "quota of 1.5 cores"),
        ("settings of the kernel", "net.core.rmem_max = 212992"),
    ] {
        let row = table.rows.iter().find(|row| row.cells[0].text == what).unwrap();
        assert_eq!(row.cells[1].small, small);
    }
}

#[test]
fn disagreeing_repeats_are_shown_as_different() {
    let plan = example::plan(&[], &[], 2);
    let mut results = example::results(&plan);
    results.trials[0].generator.limit = "cpu".to_owned();
    results.trials[1].consistency.linearizable = "yes".to_owned();
    let generator = table(hosts::generator, &results, &plan).unwrap();
    assert_eq!(column(&generator, "limited by")[0], &Cell::new("cpu, none").toned(Tone::Bad));
    let consistency = table(verdicts::consistency, &results, &plan).unwrap();
    assert_eq!(column(&consistency, "linearizable")[0].text, "differs between repeats");
}

fn one_generator(name: &str) -> GeneratorFigures {
    GeneratorFigures { name: name.to_owned(), operations_per_s: Some(500.0), ..GeneratorFigures::default() }
}

#[test]
fn unmeasured_operation_counts_are_not_marked_as_bad() {
    let plan = example::plan(&[], &[], 2);
    let mut results = example::results(&plan);
    results.trials[0].verdict.is = Trust::Void;
    results.trials[0].operations.insert("find".to_owned(), record::results::Operation::default());
    let operations = table(operations::each_operation, &results, &plan).unwrap();
    assert_eq!(texts(&operations, "operation")[0], "find");
    assert_eq!(column(&operations, "failed")[0], &Cell::new(numbers::NONE));
}

#[test]
fn only_fleets_have_a_row_for_each_generator() {
    let plan = example::plan(&[], &[], 2);
    let mut results = example::results(&plan);
    results.trials[0].generator.each = vec![one_generator("gen1")];
    assert_eq!(table(generators::generators, &results, &plan), None);
    for (trial, late_us) in results.trials.iter_mut().zip([4_000.0, 6_000.0]) {
        let late = GeneratorFigures { late_us_p99: Some(late_us), ..one_generator("gen2") };
        trial.generator.each = vec![one_generator("gen1"), late];
    }
    let each = table(generators::generators, &results, &plan).unwrap();
    assert_eq!(texts(&each, "generator"), ["gen1", "gen2"]);
    assert_eq!(texts(&each, "ops/s"), ["500", "500"]);
    assert_eq!(column(&each, "lateness p99")[1], &Cell::new("5 ms").with("4–6 ms"));
    assert!(each.columns.iter().all(|column| column.head != "carried"), "not known in a closed loop");
}

#[test]
fn wide_tables_take_the_whole_page_width() {
    let claim = "at least 11,700/s and at most 14,300/s";
    let (text, number) = (Column::text("c"), Column::numeric("lost", ""));
    let interval = Cell::new("42,857").with("31,512–54,200");
    for (count, column, cell, fits) in [
        (2, &text, Cell::new(claim), true),
        // Claims: whether they hold was out of sight.
        (3, &text, Cell::new(claim), false),
        (6, &text, Cell::new("10,400/s"), true),
        (9, &text, Cell::new("10,400/s"), false),
        (7, &text, interval.clone(), true),
        // What stands below a number is in one line.
        (7, &number, interval, false),
    ] {
        let table = Table::new("", "", vec![column.clone(); count]);
        assert_eq!(table.filled(vec![Row::of(vec![cell; count])]).unwrap().fits_half(), fits);
    }
}

#[test]
fn outages_show_intervals_overshoot_and_degraded_time() {
    let (plan, mut results) = one_crash();
    let outage = results.trials[0].faults[0].outage.as_mut().unwrap();
    outage.baseline_ci95 = Some([63_500.0, 64_300.0]);
    outage.lost_operations_ci95 = Some([5_900.0, 6_340.0]);
    (outage.degraded_s, outage.overshoot_ratio, outage.overshoot_until_s) = (Some(0.25), Some(1.5), Some(2.0));
    let outages = table(outages::outages, &results, &plan).unwrap();
    assert_eq!(column(&outages, "lost operations")[0], &Cell::new("6,120").with("5,900–6,340"));
    assert_eq!(column(&outages, "baseline")[0], &Cell::new("63,900/s").with("63,500–64,300/s"));
    assert_eq!(column(&outages, "degraded")[0].text, "250 ms");
    assert_eq!(column(&outages, "overshoot")[0], &Cell::new("1.5 ×").with("until 2 s"));
}

#[test]
fn disturbances_have_their_own_table() {
    let (plan, mut results) = one_crash();
    assert_eq!(table(outages::disturbances, &results, &plan), None);
    results.trials[0].disturbances = vec![example::disturbance()];
    let disturbances = table(outages::disturbances, &results, &plan).unwrap();
    assert_eq!(column(&disturbances, "at")[0].text, "22.5 s");
    assert_eq!(column(&disturbances, "failed")[0], &Cell::new("40").toned(Tone::Bad));
    assert_eq!(column(&disturbances, "recovered after")[0].text, "1.2 s");
}

#[test]
fn a_fault_that_occurred_often_enough_has_its_distribution() {
    let (plan, mut results) = one_crash();
    let point = results.trials[0].point.clone();
    results.outages = vec![example::distribution(None, &point, 2)];
    assert_eq!(table(outages::recovery, &results, &plan), None, "two are two figures");
    results.outages = vec![example::distribution(None, &point, 9)];
    let recovery = table(outages::recovery, &results, &plan).unwrap();
    assert_eq!(column(&recovery, "recovered after")[0], &Cell::new("120 ms").with("80–200 ms"));
    assert_eq!(column(&recovery, "longest")[0].text, "400 ms");
    results.outages[0].never_back = 2;
    let recovery = table(outages::recovery, &results, &plan).unwrap();
    assert_eq!(column(&recovery, "longest")[0], &Cell::new("never").with("2 of 9").toned(Tone::Bad));
}

#[test]
fn cost_shows_the_peak_and_a_cheaper_point_if_that_is_elsewhere() {
    let (plan, mut results) = one_crash();
    assert_eq!(table(sweeps::cost, &results, &plan), None);
    results.costs = example::costs();
    let cost = table(sweeps::cost, &results, &plan).unwrap();
    assert_eq!(texts(&cost, "curve"), ["pi2c", "devx"]);
    assert_eq!(column(&cost, "at"), [&Cell::new("agents 32").with("peak, cheapest"); 2]);
    assert_eq!(texts(&cost, "energy/cycle"), ["188 mJ", "417 mJ"]);
    assert_eq!(column(&cost, "energy/cycle")[1].small, "375–459 mJ");
    assert_eq!(texts(&cost, "with warm-up"), ["225 mJ", "500 mJ"]);
    assert_eq!(texts(&cost, "price/million"), ["EUR 0.013", "EUR 0.053"]);
    assert!(cost.note.starts_with("Modelled from the profile's watts and the measured CPU"), "{}", cost.note);

    (results.costs[1].cheapest, results.costs[0].cheapest) = (false, true);
    results.costs[2].lacks = Some("Price is not known: no [price] in profile `x` for n1.".to_owned());
    results.costs[3].price_per_million_cycles = None;
    let cost = table(sweeps::cost, &results, &plan).unwrap();
    let which: Vec<&str> = column(&cost, "at").into_iter().map(|cell| cell.small.as_str()).collect();
    assert_eq!(which, ["cheapest", "peak", "peak, cheapest"]);
    assert_eq!(column(&cost, "price/million")[2], &Cell::new(numbers::NONE));
    assert!(cost.note.ends_with(" devx: Price is not known: no [price] in profile `x` for n1."), "{}", cost.note);
}

#[test]
fn cost_cites_the_sources_of_watts_and_prices() {
    let (mut plan, mut results) = one_crash();
    results.costs = example::costs();
    let share = experiment::profile::Profile {
        name: "xeon".to_owned(),
        source: "cpu: estimated\npower: the blade's share (6 VMs)\nprice: an article".to_owned(),
        idle_watts: Some(41.7),
        load_watts: Some(41.7),
        price: Some(experiment::profile::Price { amount: 833.0, currency: "EUR".to_owned() }),
        lifetime_years: Some(5.0),
        ..Default::default()
    };
    let bare = experiment::profile::Profile { name: "bare".to_owned(), ..Default::default() };
    plan.trials[0].lab.profiles = vec![share.clone(), share, bare];
    let cost = table(sweeps::cost, &results, &plan).unwrap();
    let said = "41.7 W (the blade's share (6 VMs)); EUR 833 over 5 years (an article)";
    assert_eq!(cost.terms.last().unwrap(), &("xeon".to_owned(), said.to_owned()));
    assert_eq!(cost.terms.iter().filter(|(term, _)| term == "xeon" || term == "bare").count(), 1);
}

#[test]
fn known_energy_is_in_the_warm_up_table() {
    let (plan, mut results) = one_crash();
    let warmup = table(operations::warmup, &results, &plan).unwrap();
    assert!(warmup.columns.iter().all(|column| column.head != "energy/cycle"));
    assert!(warmup.columns.iter().any(|column| column.head == "cycles/s"), "a cycle of several operations");
    results.trials[0].cost.joules_per_cycle = Some(0.2);
    results.trials[0].cost.with_warmup.joules_per_cycle = Some(0.25);
    let warmup = table(operations::warmup, &results, &plan).unwrap();
    let index = warmup.columns.iter().position(|column| column.head == "energy/cycle").unwrap();
    let [after, with] = &warmup.rows[0].cells[index..index + 2] else { panic!("{warmup:?}") };
    assert_eq!((after.text.as_str(), with.text.as_str(), with.small.as_str()), ("200 mJ", "250 mJ", "+25 %"));
}

#[test]
fn virtual_disks_are_not_shown_as_rotating() {
    let (plan, results) = one_crash();
    for (device, rotates) in [("vda", false), ("/dev/vdb1", false), ("xvda", false), ("sda", true), ("nvme0n1", true)] {
        let mut environment = example::environment();
        environment.disk.device = Some(device.to_owned());
        environment.disk.rotational = Some(true);
        let input = ReportInput { environment: Some(environment), ..ReportInput::without_records(&results, &plan) };
        let table = hosts::environment(&input).unwrap();
        let row = table.rows.iter().find(|row| row.cells[0].text == "disk of the run folder").unwrap();
        assert_eq!(row.cells[1].text.contains("rotates"), rotates, "{device}");
    }
}

#[test]
fn a_long_note_below_a_figure_is_wrapped() {
    let rows = ["0.9–1.1 s", "the baseline varies, so a smaller drop is not seen"]
        .map(|small| Row::of(vec![Cell::new("1 s").with(small)]));
    let table = Table::new("x", "", vec![Column::numeric("y", "")]).filled(rows.to_vec()).unwrap();
    let markup = crate::page::Templates::new().unwrap().table(table).unwrap();
    assert_eq!(markup.matches("<small class=\"long\">").count(), 1, "{markup}");
}
