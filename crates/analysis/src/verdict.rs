//! Trust in a trial: every rule of the table is evaluated, and each rule that speaks against the
//! trial gives a reason. A sound measurement of a bad target is valid. A void trial that sound
//! repeats replace makes the run only suspect.

pub(crate) mod figures;
mod rules;

use experiment::plan::{self, MetricPath, Plan};
use record::results::{FigureClass, FigureVerdict, Trial, Trust, Verdict};

use crate::evidence::Evidence;
use crate::load_window::LoadWindow;
use crate::stats::timeline::Timeline;
use crate::versions::EarlierVersions;

pub(crate) use rules::RULES;

/// Input of the rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleInput<'a> {
    pub planned: &'a plan::Trial,
    pub evidence: &'a Evidence,
    pub window: Option<&'a LoadWindow>,
    pub timeline: Option<&'a Timeline>,
    /// All results except the verdict.
    pub trial: &'a Trial,
    /// Context of the trial within the run.
    pub run: RunContext<'a>,
}

/// Facts outside the trial that its verdict depends on. The default is a trial without a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunContext<'a> {
    /// Plan of the run.
    pub plan: Option<&'a Plan>,
    /// Requested metrics that the plan does not name.
    pub metrics: &'a [MetricPath],
    /// Versions of the target and of Plimsoll in earlier trials of the run.
    pub earlier: Option<&'a EarlierVersions>,
    /// Whether the run, and so each of its trials, has ended.
    pub is_over: bool,
}

/// Threshold at which a rule's figure speaks against a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// Speaks against a trial at or above a value.
    From {
        /// Figure from which the trial is suspect.
        suspect: f64,
        /// Figure from which the trial is void.
        void: f64,
    },
    /// Speaks against a trial below a value.
    Under {
        /// Figure below which the trial is suspect.
        suspect: f64,
        /// Figure below which the trial is void.
        void: f64,
    },
}

impl Threshold {
    fn trust(self, figure: f64) -> Trust {
        let (suspect, void) = match self {
            Self::From { suspect, void } => (figure >= suspect, figure >= void),
            Self::Under { suspect, void } => (figure < suspect, figure < void),
        };
        match (suspect, void) {
            (_, true) => Trust::Void,
            (true, _) => Trust::Suspect,
            // NaN is within no threshold.
            _ if figure.is_nan() => Trust::Void,
            _ => Trust::Valid,
        }
    }
}

/// A rule: a figure of the trial, and the threshold from which it speaks against the trial.
#[derive(Debug)]
pub struct Rule {
    pub name: &'static str,
    /// Description of the figure.
    pub looks_at: &'static str,
    /// Unit of the figure; empty for yes or no.
    pub unit: &'static str,
    pub threshold: Threshold,
    /// Classes of figures that the rule speaks against.
    pub spoils: &'static [FigureClass],
    /// Reason for the rule and its threshold.
    pub why: &'static str,
    /// Remedy for the user.
    pub remedy: &'static str,
    /// Function that returns the figure and the problem in words, or `None` if the rule does not
    /// apply or the figure was not measured.
    weigh: Weighing,
}

/// Function by which a rule computes its figure.
#[derive(Debug)]
enum Weighing {
    /// One figure for all classes that the rule speaks against.
    Whole(fn(&RuleInput<'_>) -> Option<(f64, String)>),
    /// A figure for each class.
    EachClass(fn(&RuleInput<'_>, FigureClass) -> Option<(f64, String)>),
}

/// A rule that speaks against a trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RuleFinding {
    /// Name of the rule.
    pub rule: &'static str,
    /// Trust in the trial: the worst among the classes that the verdict is about. `Valid` makes the
    /// finding a note.
    pub trust: Trust,
    /// Sentence for the user.
    pub reason: String,
    /// Classes that the rule speaks against, each with its trust and the sentence.
    pub classes: Vec<(FigureClass, Trust, String)>,
}

impl RuleFinding {
    /// Creates a finding against all classes of figures.
    pub fn against_all(rule: &'static str, trust: Trust, reason: String) -> Self {
        let classes = FigureClass::ALL.iter().map(|class| (*class, trust, reason.clone())).collect();
        Self { rule, trust, reason, classes }
    }

    /// Lowers the finding to suspect, because no figure uses its trial.
    fn weaken(&mut self) {
        self.trust = Trust::Suspect;
        self.reason.push_str("; this trial is left out of all figures");
        for (_, trust, reason) in &mut self.classes {
            *trust = Trust::Suspect;
            reason.clone_from(&self.reason);
        }
    }
}

/// Returns every rule, sorted by name.
#[must_use]
pub fn rules() -> &'static [Rule] {
    RULES
}

/// Returns the findings of all rules, in the order of the table.
pub(crate) fn findings(facts: &RuleInput<'_>) -> Vec<RuleFinding> {
    let used = figures::used(facts);
    RULES.iter().filter_map(|rule| finding(rule, facts, &used)).collect()
}

fn finding(rule: &Rule, facts: &RuleInput<'_>, used: &[FigureClass]) -> Option<RuleFinding> {
    let weighed: Vec<(FigureClass, f64, String)> = match rule.weigh {
        Weighing::Whole(weigh) => {
            let (figure, reason) = weigh(facts)?;
            rule.spoils.iter().map(|class| (*class, figure, reason.clone())).collect()
        }
        Weighing::EachClass(weigh) => rule
            .spoils
            .iter()
            .filter_map(|class| weigh(facts, *class).map(|(figure, reason)| (*class, figure, reason)))
            .collect(),
    };
    let judged = weighed.into_iter().map(|(class, figure, reason)| (class, rule.threshold.trust(figure), reason));
    let classes: Vec<_> = judged.filter(|(_, trust, _)| *trust > Trust::Valid).collect();
    let of_used = classes.iter().filter(|(class, ..)| used.contains(class));
    // The first of the worst classes decides. `max_by_key` returns the last, so the order is
    // reversed.
    let worst = of_used.rev().max_by_key(|(_, trust, _)| *trust);
    let trust = worst.map_or(Trust::Valid, |(_, trust, _)| *trust);
    let reason = worst.or(classes.first())?.2.clone();
    Some(RuleFinding { rule: rule.name, trust, reason, classes })
}

/// Combines findings into a verdict. The worst findings come first.
pub(crate) fn verdict(findings: &[RuleFinding]) -> Verdict {
    let (mut sorted, notes): (Vec<&RuleFinding>, Vec<&RuleFinding>) =
        findings.iter().partition(|finding| finding.trust > Trust::Valid);
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.trust));
    Verdict {
        is: sorted.first().map_or(Trust::Valid, |finding| finding.trust),
        remedies: sorted.iter().map(|finding| remedy(finding.rule).to_owned()).collect(),
        rules: sorted.iter().map(|finding| finding.rule.to_owned()).collect(),
        severities: sorted.iter().map(|finding| finding.trust).collect(),
        reasons: sorted.into_iter().map(|finding| finding.reason.clone()).collect(),
        figures: FigureClass::ALL.iter().map(|class| figure_verdict(*class, findings)).collect(),
        notes: notes.into_iter().map(|finding| finding.reason.clone()).collect(),
    }
}

fn figure_verdict(figure: FigureClass, findings: &[RuleFinding]) -> FigureVerdict {
    let against = findings.iter().flat_map(|finding| &finding.classes).filter(|(class, ..)| *class == figure);
    let against: Vec<_> = against.collect();
    let is = against.iter().map(|(_, trust, _)| *trust).max().unwrap_or_default();
    FigureVerdict { figure, is, reasons: against.into_iter().map(|(.., reason)| reason.clone()).collect() }
}

/// Returns the finding against a trial without any records in a run that has ended.
pub(crate) fn lost_trial() -> RuleFinding {
    let reason = "no records, although the run ended".to_owned();
    RuleFinding::against_all("missing_records", Trust::Void, reason)
}

/// Whether a rule with this name can make a trial void. True for an unknown name.
pub(crate) fn can_void(rule: &str) -> bool {
    let threshold = RULES.iter().find(|known| known.name == rule).map(|known| known.threshold);
    !matches!(threshold, Some(Threshold::From { void, .. }) if void == f64::INFINITY)
        && !matches!(threshold, Some(Threshold::Under { void, .. }) if void == f64::NEG_INFINITY)
}

fn remedy(rule: &str) -> &'static str {
    RULES.iter().find(|known| known.name == rule).map_or("", |known| known.remedy)
}

/// Returns the verdict on a run: the worst of its trials' verdicts, with the reasons of all rules
/// that spoke against a trial. A rule has separate reasons for the trials that it voids and those
/// that it makes suspect, so that suspect trials are not counted as void.
pub(crate) fn run_verdict(trials: &[(String, Vec<RuleFinding>)]) -> Verdict {
    let mut findings = Vec::new();
    for rule in RULES {
        for trust in [Trust::Void, Trust::Suspect, Trust::Valid] {
            let found = trials.iter().flat_map(|(id, findings)| findings.iter().map(move |finding| (id, finding)));
            let found: Vec<(&String, &RuleFinding)> =
                found.filter(|(_, finding)| finding.rule == rule.name && finding.trust == trust).collect();
            let Some((id, first)) = found.first() else { continue };
            let reason = match (trials.len(), found.len()) {
                (1, _) => first.reason.clone(),
                (_, 1) => format!("trial {id}: {}", first.reason),
                (_, many) => format!("trial {id} (and {} more): {}", many - 1, first.reason),
            };
            let mut classes = Vec::new();
            for class in FigureClass::ALL {
                let own = found.iter().flat_map(|(_, finding)| &finding.classes).filter(|(own, ..)| own == class);
                classes.extend(own.map(|(_, trust, _)| *trust).max().map(|worst| (*class, worst, reason.clone())));
            }
            findings.push(RuleFinding { rule: rule.name, trust, reason, classes });
        }
    }
    verdict(&findings)
}

/// Share of its time that the reader of a feed waits for the disk, percent, below which unpacking
/// is the limit.
pub(crate) const UNPACKING_PCT: f64 = 50.0;

/// Returns the main limit of the load, as a value of `generator.limit`; empty without records of
/// the generator. A limit that voids the trial comes before a limit that makes it suspect.
pub(crate) fn limit(findings: &[RuleFinding], trial: &Trial) -> String {
    if trial.generator.connect_failures.is_none() {
        return String::new();
    }
    // A reader that hardly waits for the disk is busy unpacking.
    let unpacks = trial.generator.feed.and_then(|feed| feed.read_pct).is_some_and(|read_pct| read_pct < UNPACKING_PCT);
    let limits = [
        ("slow_feed", if unpacks { "cpu" } else { "disk" }),
        ("generator_cpu", "cpu"),
        ("generator_throttled", "cpu"),
        ("delayed", "cpu"),
        ("generator_lateness", "lateness"),
        ("generator_stall", "lateness"),
        ("stall_in_outage", "lateness"),
        ("failed_connects", "connections"),
        ("local_limits", "connections"),
        ("refused_connects", "connections"),
        ("failed_handshakes", "connections"),
        ("full_disk", "disk"),
        ("saturated_balancer", "balancer"),
    ];
    for trust in [Trust::Void, Trust::Suspect] {
        // A delay that affected only latency did not limit the load.
        let limiting = findings.iter().filter(|finding| finding.trust == trust).filter(|finding| {
            finding.rule != "delayed" || finding.classes.iter().any(|(class, ..)| *class == FigureClass::Throughput)
        });
        let rules: Vec<&str> = limiting.map(|finding| finding.rule).collect();
        if let Some((_, limit)) = limits.iter().find(|(rule, _)| rules.contains(rule)) {
            return (*limit).to_owned();
        }
    }
    "none".to_owned()
}

/// Raises the findings `no operation succeeded` to void if no trial of the run had a success.
/// Otherwise they stay suspect, because other points succeeded.
pub(crate) fn without_success(trials: &[Trial], findings: &mut [(String, Vec<RuleFinding>)]) {
    if trials.iter().any(|trial| trial.outcomes.ok > 0) {
        return;
    }
    let found = findings.iter_mut().flat_map(|(_, found)| found).filter(|one| one.reason == rules::NO_SUCCESS);
    found.for_each(|one| *one = RuleFinding::against_all(one.rule, Trust::Void, one.reason.clone()));
}

/// Number of sound repeats that replace one void repeat.
const STAND_IN: usize = 3;

/// Returns the findings that count for the run. No figure uses a void trial. If a point has three
/// sound repeats for each void repeat, its void repeats do not void the run. The run is then
/// suspect: the cause that spoiled one repeat may have affected others.
pub(crate) fn of_used(trials: &[Trial], findings: Vec<(String, Vec<RuleFinding>)>) -> Vec<(String, Vec<RuleFinding>)> {
    let mut counted = Vec::with_capacity(findings.len());
    for (id, mut found) in findings {
        if trials.iter().any(|trial| trial.id == id && is_replaced(trial, trials)) {
            found.retain(|finding| finding.trust == Trust::Void);
            found.iter_mut().for_each(RuleFinding::weaken);
        }
        counted.push((id, found));
    }
    counted
}

/// Whether a trial is void and its point has enough sound repeats to replace it.
fn is_replaced(trial: &Trial, trials: &[Trial]) -> bool {
    let repeats = trials.iter().filter(|other| other.variant == trial.variant && other.point == trial.point);
    let (void, sound): (Vec<&Trial>, Vec<&Trial>) = repeats.partition(|other| other.verdict.is == Trust::Void);
    trial.verdict.is == Trust::Void && sound.len() >= STAND_IN * void.len()
}

#[cfg(test)]
mod tests;
