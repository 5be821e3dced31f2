//! Tables of outages: effect of each fault on clients, outages that no fault explains, and the
//! target's log lines at that time.

use analysis::answer::slow_by;
use analysis::trial_groups::{label, planned, repeated};
use experiment::plan::Failover;
use record::results::{Disturbance, DisturbanceKind, Fault, Outage, OutageDistribution, Said, Spread, Trial};
use text::{Tone, numbers};

use super::{Cell, Column, Row, Table};
use crate::ReportInput;

/// Number of rows above which the table is folded, because the comparison above it has the main
/// figures.
const MANY: usize = 12;

const OUTAGE_COLUMNS: [(&str, &str); 13] = [
    ("failed", "operations that ended with a definite error, while the fault was felt"),
    ("timeouts", "operations without an answer in time, while the fault was felt; they may have taken effect"),
    ("wrong", "answers that contradict what the client did before, while the fault was felt"),
    ("first failure", "from the fault to the first operation that failed or timed out"),
    ("first ok", "from the fault to the first operation that succeeded again after service was interrupted"),
    ("no service", "time in which nothing succeeded"),
    ("partial", "time in which some operations failed while others succeeded"),
    (
        "degraded",
        "time in which nothing failed and throughput was below the bound, or latency far above the baseline's",
    ),
    (
        "recovered after",
        "from the fault until service had recovered for good; unknown: the baseline varies too much, or too little of \
         the load was left",
    ),
    ("overshoot", "throughput beyond the baseline while a backlog drained, and until when"),
    (
        "lost operations",
        "ok operations missing against the baseline until recovery, less those made up for later; 95 % interval",
    ),
    ("memory released", "largest fall of the target's resident memory within 5 s of the fault"),
    (
        "baseline",
        "ok operations per second before the fault, 95 % interval; if the time before it was disturbed, those of the \
         longest undisturbed part of the load before it, which is named",
    ),
];

/// Columns that the narrow terminal also shows.
const BRIEF: [&str; 7] = ["failed", TIMEOUTS, "wrong", "first failure", "first ok", "no service", "recovered after"];

const TIMEOUTS: &str = "timeouts";

/// Marks columns for the narrow terminal. The timeouts column is included only if there were
/// timeouts.
fn brief(input: &ReportInput, columns: &mut [Column]) {
    for column in columns {
        let is_brief = BRIEF.contains(&column.head.as_str());
        column.brief |= is_brief && (column.head != TIMEOUTS || any_timed_out(input));
    }
}

fn any_timed_out(input: &ReportInput) -> bool {
    let mut faults = input.results.trials.iter().flat_map(|trial| &trial.faults);
    let mut disturbances = input.results.trials.iter().flat_map(|trial| &trial.disturbances);
    faults.any(|fault| fault.outage.as_ref().is_some_and(|outage| outage.timed_out > 0))
        || disturbances.any(|one| one.outage.timed_out > 0)
}

pub fn outages(input: &ReportInput) -> Option<Table> {
    // An exercise without a load has no clients.
    if input.plan.possible().iter().all(|trial| trial.load.is_none()) {
        return None;
    }
    let mut columns = vec![Column::text("fault")];
    columns.extend(Column::numerics(&OUTAGE_COLUMNS));
    brief(input, &mut columns);
    let table = Table::new("Effect of each fault on clients", note(input), columns);
    let table = table.by_trial(input, |trial| {
        let faults = trial.faults.iter().filter(|fault| !stands(input, &trial.id, fault));
        faults.map(|fault| [vec![fault_name(fault)], felt(trial, fault)].concat()).collect()
    });
    Some(table?.folded_beyond(MANY).explained())
}

const MEMBER_COLUMNS: [(&str, &str); 9] = [
    ("failed", "operations of this member's clients that ended with a definite error"),
    ("timeouts", "operations of this member's clients without an answer in time"),
    ("wrong", "answers of this member that contradict what the client did before"),
    ("first failure", "from the fault to the first operation that failed or timed out at this member"),
    ("first ok", "from the fault to this member's first success after its service was interrupted"),
    ("no service", "time in which nothing succeeded at this member"),
    ("recovered after", "from the fault until this member's service had recovered for good"),
    ("lost operations", "ok operations of this member that are missing against its baseline until recovery"),
    ("baseline", "this member's ok operations per second before the fault, 95 % interval"),
];

/// Returns the effect on the clients of each member, if they noticed anything.
pub fn members(input: &ReportInput) -> Option<Table> {
    let mut columns = vec![Column::text("fault"), Column::text("member")];
    columns.extend(Column::numerics(&MEMBER_COLUMNS));
    brief(input, &mut columns);
    let note = "Each client goes to one member. Members whose clients noticed nothing are left out.";
    let table = Table::new("Outages by member", note, columns);
    Some(table.by_trial(input, |trial| member_rows(input, trial))?.folded_beyond(MANY).explained())
}

fn member_rows(input: &ReportInput, trial: &Trial) -> Vec<Vec<Cell>> {
    let moves = moves(input, trial);
    let mut rows = Vec::new();
    for fault in trial.faults.iter().filter(|fault| fault.failed.is_none()) {
        let until = until_next(trial, fault.at_s);
        for member in fault.members.iter().filter(|member| member.outage.is_noticed()) {
            let felt = felt_by_member(fault.at_s, &member.outage, until, moves);
            rows.push([vec![fault_name(fault), Cell::new(&member.name)], felt].concat());
        }
    }
    for member in &trial.members {
        for one in &member.disturbances {
            let none = Cell::new("no fault").with(format!("at {}", numbers::moment(one.at_s)));
            let felt = felt_by_member(one.at_s, &one.outage, WITHIN, moves);
            rows.push([vec![none, Cell::new(&member.name)], felt].concat());
        }
    }
    rows
}

fn felt_by_member(at_s: f64, outage: &Outage, until: &str, moves: bool) -> Vec<Cell> {
    vec![
        Cell::loss(outage.refused()),
        Cell::loss(outage.timed_out),
        Cell::loss(outage.wrong),
        Cell::of(outage.first_failure_s, numbers::seconds),
        Cell::of(outage.first_ok_s, numbers::seconds),
        Cell::of(outage.total_s, numbers::seconds),
        if moves { back_or_moved(outage, until) } else { back(outage, until) },
        Cell::of(outage.lost_operations, whole).over(outage.lost_operations_ci95, whole),
        baseline(at_s, outage),
    ]
}

/// Whether clients go to another member if theirs does not answer.
fn moves(input: &ReportInput, trial: &Trial) -> bool {
    let load = planned(input.plan, &trial.id).and_then(|trial| trial.load.as_ref());
    load.is_some_and(|load| load.populations().iter().any(|load| load.reconnects.failover == Failover::Next))
}

/// Returns the recovery time. A member whose clients have moved does not get its load back.
fn back_or_moved(outage: &Outage, until: &str) -> Cell {
    match outage.is_never_back() {
        true => Cell::new(numbers::NONE).with("its clients went to other members"),
        false => back(outage, until),
    }
}

/// Returns the part of the load from which the baseline was taken, if it is not the part just
/// before the fault.
pub fn earlier_baseline(at_s: f64, outage: &Outage) -> Option<String> {
    /// Tolerance, seconds: the last slot before the fault is incomplete.
    const JUST_S: f64 = 0.05;
    let [from_s, until_s] = outage.baseline_s.filter(|[_, until_s]| until_s + JUST_S < at_s)?;
    Some(format!("of {} to {}", numbers::moment(from_s), numbers::moment(until_s)))
}

fn baseline(at_s: f64, outage: &Outage) -> Cell {
    let cell = Cell::of(outage.baseline_per_s, numbers::rate).over(outage.baseline_ci95, numbers::rate);
    let parts = [Some(cell.small.clone()).filter(|small| !small.is_empty()), earlier_baseline(at_s, outage)];
    let small = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    cell.with(small)
}

/// Whether the fault is a condition of the trial that is active before the load starts, so that
/// clients do not notice its start.
fn stands(input: &ReportInput, trial: &str, fault: &Fault) -> bool {
    let planned = planned(input.plan, trial).into_iter().flat_map(|trial| &trial.faults);
    planned.into_iter().any(|planned| planned.standing && planned.name == fault.name)
}

fn note(input: &ReportInput) -> String {
    let members = input.results.trials.iter().any(|trial| trial.hosts.len() > 1);
    let over_all =
        " They cover all members together: while one is down, the others go on, and service is not interrupted.";
    let faults = input.results.trials.iter().flat_map(|trial| &trial.faults);
    let earlier = faults
        .clone()
        .filter(|fault| fault.outage.as_ref().is_some_and(|felt| earlier_baseline(fault.at_s, felt).is_some()));
    let earlier = match (earlier.count(), faults.count()) {
        (0, _) => String::new(),
        (some, all) => format!(
            " For {some} of {all} faults, the baseline is of an earlier part of the load, because service was \
             disturbed within half a second before the fault."
        ),
    };
    format!("Times count from the moment the fault began.{}{earlier}", if members { over_all } else { "" })
}

fn fault_name(fault: &Fault) -> Cell {
    let label = if fault.label.is_empty() { &fault.kind } else { &fault.label };
    let times = if fault.number > 1 { format!(" #{}", fault.number) } else { String::new() };
    let on = if fault.on.is_empty() { String::new() } else { format!("{} ", fault.on) };
    Cell::new(format!("{}{times}", fault.name)).with(format!("{label}: {on}at {}", numbers::moment(fault.at_s)))
}

fn felt(trial: &Trial, fault: &Fault) -> Vec<Cell> {
    if let Some(reason) = &fault.failed {
        let mut cells = vec![Cell::new("not injected").with(reason.clone()).toned(Tone::Bad)];
        cells.resize(OUTAGE_COLUMNS.len(), Cell::new(numbers::NONE));
        return cells;
    }
    let Some(outage) = &fault.outage else {
        return vec![Cell::new(numbers::NONE); OUTAGE_COLUMNS.len()];
    };
    vec![
        Cell::loss(outage.refused()).with(share(outage, trial).unwrap_or_default()),
        Cell::loss(outage.timed_out),
        Cell::loss(outage.wrong),
        Cell::of(outage.first_failure_s, numbers::seconds),
        Cell::of(outage.first_ok_s, numbers::seconds),
        Cell::of(outage.total_s, numbers::seconds),
        Cell::of(outage.partial_s, numbers::seconds),
        Cell::of(outage.degraded_s, numbers::seconds),
        back(outage, until_next(trial, fault.at_s)),
        overshoot(outage),
        Cell::of(outage.lost_operations, whole).over(outage.lost_operations_ci95, whole),
        Cell::of(outage.memory_released_bytes, |bytes| numbers::bytes(bytes as f64)),
        baseline(fault.at_s, outage),
    ]
}

/// Formats a number of lost operations. A surplus counts as none lost.
fn whole(lost: f64) -> String {
    numbers::count_in_words(lost.max(0.0).round() as u64)
}

fn overshoot(outage: &Outage) -> Cell {
    let until = match outage.overshoot_until_s {
        Some(until) => format!("until {}", numbers::seconds(until)),
        None => "to the end".to_owned(),
    };
    let cell = Cell::of(outage.overshoot_ratio, |ratio| format!("{} ×", numbers::number(ratio)));
    if outage.overshoot_ratio.is_some() { cell.with(until) } else { cell }
}

fn share(outage: &Outage, trial: &Trial) -> Option<String> {
    let all = analysis::trial_groups::operations(trial);
    (all > 0 && outage.refused() > 0).then(|| format!("of {}", numbers::count_in_words(all)))
}

/// Text on when the observation of recovery ended, if no other fault followed.
const WITHIN: &str = "within the trial";

/// Returns, in words, when the observation of recovery ended for a fault that began at `at_s`.
fn until_next(trial: &Trial, at_s: f64) -> &'static str {
    let has_next = trial.faults.iter().any(|other| other.failed.is_none() && other.at_s > at_s);
    if has_next { "before the next fault" } else { WITHIN }
}

fn back(outage: &Outage, until: &str) -> Cell {
    match (outage.back_to_baseline_s, outage.baseline_per_s) {
        (None, None) => Cell::new(numbers::NONE),
        (back, _) if let Some(why) = &outage.cannot_tell => {
            let small = back.map_or_else(
                || why.clone(),
                |back| format!("{} by {}; {why}", numbers::seconds(back), text::listed(&outage.recovery_by, "and")),
            );
            Cell::new("unknown").with(small).toned(Tone::Doubtful)
        }
        (Some(_), _) if !outage.is_noticed() => Cell::new("not noticed"),
        (Some(back), _) => Cell::new(numbers::seconds(back)),
        (None, Some(_)) => Cell::new("never").with(until).toned(Tone::Bad),
    }
}

const RECOVERY_COLUMNS: [(&str, &str); 7] = [
    ("occurrences", "in trials that are not void"),
    ("first ok", "median time to the first operation that succeeded again, 95 % interval"),
    ("recovered after", "median time until service had recovered for good, 95 % interval"),
    ("p90", "nine of ten had recovered after this"),
    ("longest", "the longest recovery"),
    ("not ok", "median of the operations that failed or timed out, 95 % interval"),
    ("lost operations", "median of the ok operations missing against the baseline, 95 % interval"),
];

pub fn recovery(input: &ReportInput) -> Option<Table> {
    let repeated: Vec<&OutageDistribution> = repeated(input.results).collect();
    let named = repeated.iter().any(|of| !label(of, input.plan).is_empty());
    let mut columns = vec![Column::text("fault")];
    columns.extend(named.then(|| Column::text("with")));
    columns.extend(Column::numerics(&RECOVERY_COLUMNS));
    let rows = repeated.into_iter().map(|of| {
        let name = named.then(|| Cell::new(label(of, input.plan)));
        Row::of([Cell::new(of.fault.clone())].into_iter().chain(name).chain(figures(of)).collect())
    });
    let note = "A service that never recovered counts as the longest. A quantile of too few occurrences is left out: \
                the median needs 5, its interval 6, p90 29.";
    let table = Table::new("Recovery from each fault", note, columns);
    Some(table.filled(rows.collect())?.explained())
}

fn figures(of: &OutageDistribution) -> Vec<Cell> {
    let [back, first_ok, failed, lost] = ["back_to_baseline_s", "first_ok_s", "failed", "lost_operations"]
        .map(|name| of.figures.get(name).cloned().unwrap_or_default());
    let longest = match (back.max, of.never_back) {
        (_, 1..) => Cell::new("never").with(format!("{} of {}", of.never_back, of.count)).toned(Tone::Bad),
        (longest, 0) => Cell::of(longest, numbers::seconds),
    };
    vec![
        Cell::new(numbers::count(of.count)),
        median(&first_ok, numbers::seconds),
        median(&back, numbers::seconds),
        Cell::of(back.p90, numbers::seconds),
        longest,
        median(&failed, numbers::median_count),
        median(&lost, |lost| numbers::median_count_in_words(lost.max(0.0).round())),
    ]
}

fn median(spread: &Spread, write: fn(f64) -> String) -> Cell {
    Cell::of(spread.p50, write).over(spread.p50_ci95, write)
}

const DISTURBANCE_COLUMNS: [(&str, &str); 7] = [
    ("failed", "operations that ended with a definite error, until recovery"),
    ("timeouts", "operations without an answer in time, until recovery"),
    ("wrong", "answers that contradict what the client did before, until recovery"),
    ("no service", "time in which nothing succeeded"),
    ("partial", "time in which some operations failed while others succeeded"),
    ("recovered after", "until service had recovered for good"),
    ("lost operations", "ok operations missing against the time before"),
];

pub fn disturbances(input: &ReportInput) -> Option<Table> {
    let mut columns = vec![Column::numeric("at", "start, from load start"), Column::text("what")];
    columns.extend(Column::numerics(&DISTURBANCE_COLUMNS));
    columns.iter_mut().for_each(|column| column.brief = column.head != TIMEOUTS || any_timed_out(input));
    let note = "Something else failed, or the target failed by itself. All times but the first count from the start of the outage.";
    let table = Table::new("Outages and slow times that no fault explains", note, columns);
    let table = table.by_trial(input, |trial| trial.disturbances.iter().map(felt_unexplained).collect());
    Some(table?.folded_beyond(MANY).explained())
}

fn felt_unexplained(one: &Disturbance) -> Vec<Cell> {
    let outage = &one.outage;
    let [refused, timed_out, wrong] = [outage.refused(), outage.timed_out, outage.wrong]
        .map(|count| if count > 0 { Cell::loss(count) } else { Cell::new("0") });
    let what = match one.kind {
        DisturbanceKind::Outage => "outage".to_owned(),
        DisturbanceKind::Slow => format!("slow: {}", slow_by(one)),
    };
    vec![
        Cell::new(numbers::moment(one.at_s)),
        Cell::new(what),
        refused,
        timed_out,
        wrong,
        Cell::of(outage.total_s, numbers::seconds),
        Cell::of(outage.partial_s, numbers::seconds),
        back(outage, WITHIN),
        Cell::of(outage.lost_operations, whole),
    ]
}

pub fn said(input: &ReportInput) -> Option<Table> {
    let mut columns = vec![
        Column::numeric("first", "when the line was first read, from load start; negative: before load start").brief(),
    ];
    columns.extend(["host", "role", "line"].map(Column::text));
    columns.push(Column::numeric("times", "lines with the same text in them").brief());
    let note = "Lines that match the target's [log]; the first of lines with the same text. The whole logs are in \
                each trial's folder.";
    let table = Table::new("Log lines of the members", note, columns);
    Some(table.by_trial(input, |trial| trial.said.iter().map(said_row).collect())?.folded_beyond(MANY))
}

fn said_row(said: &Said) -> Vec<Cell> {
    let line = Cell::new(&said.line);
    vec![
        Cell::new(numbers::moment(said.at_s)),
        Cell::new(&said.host),
        Cell::new(&said.role),
        if said.alarming { line.with("alarming, by the target's own list").toned(Tone::Bad) } else { line },
        Cell::new(numbers::count(said.count)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_has_three_answers() {
        for (back_s, cannot_tell, text, small) in [
            (Some(1.5), None, "1.5 s", ""),
            (None, None, "never", WITHIN),
            (None, Some("too short"), "unknown", "too short"),
            (Some(1.5), Some("it varies"), "unknown", "1.5 s by failures and gaps; it varies"),
        ] {
            let outage = Outage {
                baseline_per_s: Some(100.0),
                failed: 1,
                back_to_baseline_s: back_s,
                cannot_tell: cannot_tell.map(str::to_owned),
                recovery_by: vec!["failures".into(), "gaps".into()],
                ..Outage::default()
            };
            let cell = back(&outage, WITHIN);
            assert_eq!((cell.text.as_str(), cell.small.as_str()), (text, small));
        }
    }
}
