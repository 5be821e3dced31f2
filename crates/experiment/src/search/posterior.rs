//! The posterior of a search: a probability for each position of the edge and each spread. The edge
//! is the load at which the limits hold as often as they break. The spread is how much trials at
//! one value differ.
//!
//! Answers are sometimes wrong, so this is probabilistic bisection (M. Horstein, "Sequential
//! transmission using noiseless feedback", IEEE Transactions on Information Theory 9, 1963; R.
//! Waeber, P. I. Frazier, S. G. Henderson, "Bisection search with noisy responses", SIAM Journal on
//! Control and Optimization 51, 2013). The cells of a grid start with equal probability per
//! logarithm of the value. Each answer multiplies the probabilities by its likelihood. Near the
//! tried value the likelihood is a logistic curve instead of a step (A. B. Watson, D. G. Pelli,
//! "QUEST: a Bayesian adaptive psychometric method", Perception & Psychophysics 33, 1983), because
//! a load just above the edge holds as often as it breaks. The width of that curve is the spread,
//! which is estimated together with the edge (L. L. Kontsevich, C. W. Tyler, "Bayesian adaptive
//! estimation of psychometric slope and threshold", Vision Research 39, 1999). Edge and spread
//! together give the value at which any other share of trials holds (A. B. Watson, "QUEST+: a
//! general multidimensional Bayesian adaptive psychometric method", Journal of Vision 17, 2017).
//!
//! **Margins**: A trial near the edge tells more than its side (held or broke). The ratio of its
//! metric to the bound and the slope of the metric over the load give the edge of that trial. Of
//! trials with a large margin only the side is used, because the slope is valid only near the edge:
//! a regression that is censored on both sides (J. Tobin, "Estimation of relationships for limited
//! dependent variables", Econometrica 26, 1958). The slope is the median of the slopes between two
//! trials, weighted by their distance (L. A. Jaeckel, "Estimating regression coefficients by
//! minimizing the dispersion of the residuals", Annals of Mathematical Statistics 43, 1972), so
//! that a spoiled trial does not determine it. The margin of a spoiled trial has no meaning.
//!
//! **Long run**: Consecutive trials may share an error, so the interval of the edge in the long run
//! is wider.

/// Quantiles at the ends of the 95 % interval.
pub(super) const LOW: f64 = 0.025;
pub(super) const HIGH: f64 = 0.975;

/// Number of cells in an interval as narrow as the search must reach.
const CELLS: f64 = 10.0;

/// Prior probability of an edge below the lowest value, and of one above the highest, in octaves.
const BEYOND: f64 = 0.5;

/// Probability that an answer with a large margin is wrong, because a disturbance spoiled the
/// trial.
const WRONG_FAR: f64 = 0.03;
/// Additional probability of a wrong answer at the bound itself. [`SPREADS`] already covers how
/// trials differ near the bound.
const WRONG_NEAR: f64 = 0.02;
/// Margin, as the logarithm of a ratio, over which [`WRONG_NEAR`] decays by a factor of e.
const FADES: f64 = 0.2;
/// Probability that an answer without a margin is wrong.
const WRONG: f64 = 0.1;
/// Possible standard deviations of the edges of single trials, as the logarithm of a ratio.
pub(super) const SPREADS: [f64; 6] = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16];
/// Ratio of each spread's prior probability to that of the next smaller spread.
const RARER: f64 = 0.75;
/// Scale of a logistic curve with standard deviation 1.
const LOGISTIC: f64 = 0.551_328_9;
/// Error that all trials of a search share, as a share of the spread.
const DRIFT: f64 = 0.6;
/// Additional shared error, as a share of the load, for each trial of the search. docs/find.md
/// shows how often simulated intervals contain the truth with this value and [`DRIFT`].
const TREND: f64 = 0.0007;
/// Relative error of the spread itself. Its effect grows with the share of trials that must hold.
const SPREAD_ERROR: f64 = 0.4;
/// Upper limit of [`memory`].
const MOST_ALIKE: f64 = 4.0;

/// Distance from the edge, as the logarithm of a ratio, within which answers are used for the
/// slope.
const NEAR: f64 = 0.3;
/// Minimum number of answers within [`NEAR`] of the edge for a slope.
const LEAST_NEAR: usize = 12;
/// Quantile of the weighted slopes that must be positive. Otherwise no slope is used.
const FALLING: f64 = 0.2;
/// Largest margin that is used as a distance: a ratio of 1.6. Of a larger margin, only the side is
/// used.
const READ: f64 = 0.5;
/// Probability density of the margin of a spoiled trial: uniform within a factor of 150 of the
/// bound.
const SPOILED: f64 = 0.1;

/// Margins are ignored if the edges that they give contradict the sides of the answers: if the mean
/// likelihood of the sides is below this share of the maximum.
const DISAGREES: f64 = 0.05;

/// Factor by which cells are wider beyond a distance of [`NEAR`] from the values at which answers
/// change.
const COARSE: f64 = 8.0;

/// Answer of a trial: whether the limits hold at its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProbeAnswer {
    /// Value that was tried.
    pub value: f64,
    /// Whether the limits held.
    pub held: bool,
    /// Margin: the absolute logarithm of the ratio of the metric and its bound.
    pub margin: Option<f64>,
}

impl ProbeAnswer {
    /// Returns the signed margin: positive if the limit broke.
    fn signed(&self) -> Option<f64> {
        self.margin.map(|margin| if self.held { -margin.abs() } else { margin.abs() })
    }
}

/// Returns the probability that an answer with this margin is wrong.
pub(super) fn wrong(margin: Option<f64>) -> f64 {
    margin.map_or(WRONG, |margin| WRONG_FAR + WRONG_NEAR * (-margin.abs() / FADES).exp())
}

/// Range of values that the search considers.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchRange {
    /// Lowest value. All edges below it share one cell.
    pub from: f64,
    /// Highest value. All edges at or above it share one cell.
    pub to: f64,
    /// Whether only whole values count.
    pub whole: bool,
    /// Width of the interval to reach, as a share of the value.
    pub precision: f64,
    /// Highest value that held and lowest value that broke, in ascending order.
    pub edge: [f64; 2],
}

impl SearchRange {
    /// Returns the lower end of the cell that follows the cell starting at `low`.
    fn cell_after(&self, low: f64) -> f64 {
        let is_near = (self.edge[0] * (-NEAR).exp()..self.edge[1] * NEAR.exp()).contains(&low);
        let next = low * (1.0 + self.precision / CELLS * if is_near { 1.0 } else { COARSE });
        if self.whole { (low + 1.0).max(next.round()) } else { next }
    }
}

/// A cell that may contain the edge: the limits hold at `low`, and break above `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bracket {
    /// Lower end; 0 in the first cell.
    pub low: f64,
    /// Upper end; infinite in the last cell.
    pub high: f64,
    /// Logarithm of the edge, if it is in this cell.
    edge_ln: f64,
    /// Prior probability, not normalised: the width of the cell in octaves.
    octaves: f64,
    /// Probability that the edge is in this cell, for each spread.
    likely: [f64; SPREADS.len()],
}

impl Bracket {
    /// Returns a cell with the prior probability `likely`. For whole numbers, the edge is between
    /// the last value that holds and the first that breaks.
    fn new(low: f64, high: f64, whole: bool, likely: f64) -> Self {
        let edge = if whole { f64::midpoint(low, high) + 0.5 } else { (low * high).sqrt() };
        let edge_ln = if low <= 0.0 { f64::NEG_INFINITY } else { edge.ln() };
        let prior: [f64; SPREADS.len()] = std::array::from_fn(|index| RARER.powi(index as i32));
        let sum: f64 = prior.iter().sum();
        Self { low, high, edge_ln, octaves: likely, likely: prior.map(|share| likely * share / sum) }
    }

    pub fn likely(&self) -> f64 {
        self.likely.iter().sum()
    }
}

/// Evidence of an answer about each cell and spread.
#[derive(Debug, Clone, Copy)]
enum EdgeEvidence {
    /// The trial's edge was above `edge_ln` if `above` is set, and below it otherwise.
    Side { edge_ln: f64, above: bool },
    /// The trial's edge was at `edge_ln`. `slope` is the slope of margins over the load.
    Edge { edge_ln: f64, slope: f64 },
}

impl EdgeEvidence {
    fn of(answer: &ProbeAnswer, slope: Option<f64>) -> Self {
        let value_ln = answer.value.ln();
        match (answer.signed(), slope) {
            (Some(margin), Some(slope)) => {
                let edge_ln = value_ln - margin.clamp(-READ, READ) / slope;
                if margin.abs() < READ {
                    Self::Edge { edge_ln, slope }
                } else {
                    Self::Side { edge_ln, above: answer.held }
                }
            }
            _ => Self::Side { edge_ln: value_ln, above: answer.held },
        }
    }

    /// Returns the likelihood of this answer for an edge in this cell, this spread, and this
    /// probability that the answer is wrong.
    fn likelihood(self, cell_ln: f64, spread: f64, wrong: f64) -> f64 {
        let scale = spread * LOGISTIC;
        let (Self::Side { edge_ln, .. } | Self::Edge { edge_ln, .. }) = self;
        // Beyond 30 the result is 0 or 1 to 13 digits.
        let far = ((edge_ln - cell_ln) / scale).clamp(-30.0, 30.0);
        let below = 1.0 / (1.0 + far.exp());
        match self {
            Self::Side { above, .. } => wrong + (1.0 - 2.0 * wrong) * if above { below } else { 1.0 - below },
            Self::Edge { slope, .. } => {
                2.0 * wrong * SPOILED + (1.0 - 2.0 * wrong) * below * (1.0 - below) / (scale * slope)
            }
        }
    }
}

/// Returns the slope of the metric's logarithm over the load's logarithm, or `None` if the answers
/// near this value are too few or do not show a rise. The slope is the median of the slopes between
/// a trial that held and a trial that broke, weighted by their distance.
fn slope(answers: &[ProbeAnswer], near: f64) -> Option<f64> {
    let close = answers.iter().filter(|answer| (answer.value / near).ln().abs() <= NEAR);
    let points: Vec<(f64, f64)> = close.filter_map(|answer| Some((answer.value.ln(), answer.signed()?))).collect();
    let (held, broke): (Vec<_>, Vec<_>) = points.iter().partition::<Vec<(f64, f64)>, _>(|point| point.1 < 0.0);
    let pairs = held.iter().flat_map(|a| broke.iter().map(move |b| (b.0 - a.0, b.1 - a.1)));
    let mut slopes: Vec<(f64, f64)> =
        pairs.filter(|(far, _)| *far != 0.0).map(|(far, risen)| (risen / far, far.abs())).collect();
    slopes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rises = points.len() >= LEAST_NEAR && weighted_quantile(&slopes, FALLING)? > 0.0;
    weighted_quantile(&slopes, 0.5).filter(|_| rises)
}

/// Returns the lowest value up to which the weights add up to this share. `weighted` has pairs of
/// value and weight, sorted by value.
fn weighted_quantile(weighted: &[(f64, f64)], share: f64) -> Option<f64> {
    let all: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0.0;
    let found = weighted.iter().find(|(_, weight)| {
        sum += weight;
        sum >= share * all
    });
    found.map(|(value, _)| *value)
}

/// Returns the factor by which consecutive trials are more alike than other trials; 1 if they are
/// not more alike. It uses J. von Neumann's ratio ("Distribution of the ratio of the mean square
/// successive difference to the variance", Annals of Mathematical Statistics 12, 1941), which is 2
/// for independent trials.
fn memory(answers: &[ProbeAnswer], slope: f64) -> f64 {
    let read = answers.iter().filter_map(|answer| match EdgeEvidence::of(answer, Some(slope)) {
        EdgeEvidence::Edge { edge_ln, .. } => Some(edge_ln),
        EdgeEvidence::Side { .. } => None,
    });
    let edges: Vec<f64> = read.collect();
    let mean = edges.iter().sum::<f64>() / edges.len() as f64;
    let squares: f64 = edges.iter().map(|edge| (edge - mean).powi(2)).sum();
    let steps: f64 = edges.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    if steps > 0.0 { (2.0 * squares / steps).clamp(1.0, MOST_ALIKE) } else { 1.0 }
}

/// Joint distribution of the edge and the spread of trials; the probabilities add up to 1.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    pub cells: Vec<Bracket>,
    /// Number of answers that the distribution includes.
    answers: u32,
    /// Factor by which consecutive trials are more alike than others.
    pub memory: f64,
}

impl Posterior {
    /// Returns the distribution before any answer.
    pub fn new(span: SearchRange) -> Self {
        let last = if span.whole { 1.0 } else { 0.0 };
        let mut cells = vec![Bracket::new(0.0, span.from - last, span.whole, BEYOND)];
        let mut low = span.from;
        while low < span.to {
            let high = span.cell_after(low).min(span.to);
            cells.push(Bracket::new(low, high - last, span.whole, (high / low).log2()));
            low = high;
        }
        cells.push(Bracket::new(span.to, f64::INFINITY, span.whole, BEYOND));
        let mut posterior = Self { cells, answers: 0, memory: 1.0 };
        posterior.balance();
        posterior
    }

    /// Returns the distribution after these answers.
    pub fn of(span: SearchRange, answers: &[ProbeAnswer]) -> Self {
        let by_side = Self::learnt(span, answers, None);
        let near = by_side.median();
        // A cell of one agent is too coarse for the edges that margins give.
        let is_coarse = span.whole && near * span.precision < CELLS;
        let Some(slope) = slope(answers, near).filter(|_| !is_coarse) else { return by_side };
        let by_margin = Self { memory: memory(answers, slope), ..Self::learnt(span, answers, Some(slope)) };
        if by_margin.agrees_with(&by_side) { by_margin } else { by_side }
    }

    fn learnt(span: SearchRange, answers: &[ProbeAnswer], slope: Option<f64>) -> Self {
        let mut posterior = Self::new(span);
        answers.iter().for_each(|answer| posterior.learn(answer, slope));
        posterior
    }

    /// Whether the sides of the answers are likely under this posterior, which uses margins. If a
    /// metric jumps at the edge instead of rising, the margins suggest a larger spread than the
    /// sides do.
    fn agrees_with(&self, by_side: &Self) -> bool {
        let mut most: f64 = 0.0;
        let mut mean = 0.0;
        for (cell, side) in self.cells.iter().zip(&by_side.cells) {
            for index in 0..SPREADS.len() {
                let likelihood = side.likely[index] / RARER.powi(index as i32) / side.octaves;
                most = most.max(likelihood);
                mean += cell.likely[index] * likelihood;
            }
        }
        mean >= DISAGREES * most
    }

    /// Updates the distribution with an answer. Uses the answer's margin if the slope is known.
    pub fn learn(&mut self, answer: &ProbeAnswer, slope: Option<f64>) {
        let (evidence, wrong) = (EdgeEvidence::of(answer, slope), wrong(answer.margin));
        for cell in &mut self.cells {
            for (likely, spread) in cell.likely.iter_mut().zip(SPREADS) {
                *likely *= evidence.likelihood(cell.edge_ln, spread, wrong);
            }
        }
        self.answers += 1;
        self.balance();
    }

    /// Returns the distribution of the value at which trials of this search hold with these odds.
    /// `log_odds` is the logarithm of the odds.
    pub fn these_trials(&self, log_odds: f64) -> Self {
        if log_odds == 0.0 { self.clone() } else { self.moved(log_odds, |_| 0.0) }
    }

    /// Returns the distribution of the value at which trials of other searches also hold with these
    /// odds. It allows for an error that all trials of this search share.
    pub fn long_run(&self, log_odds: f64) -> Self {
        let together = (self.memory * DRIFT).hypot(SPREAD_ERROR * LOGISTIC * log_odds);
        self.moved(log_odds, |spread| (together * spread).hypot(TREND * f64::from(self.answers)))
    }

    /// Moves each cell's probability, for each spread, to the value at which a trial holds with
    /// these odds, and spreads it with the standard deviation that `smear` returns.
    fn moved(&self, log_odds: f64, smear: impl Fn(f64) -> f64) -> Self {
        let mut moved = self.clone();
        moved.cells.iter_mut().for_each(|cell| cell.likely = [0.0; SPREADS.len()]);
        let inner = &self.cells[1..self.cells.len() - 1];
        for (from, cell) in self.cells.iter().enumerate() {
            for (index, spread) in SPREADS.into_iter().enumerate() {
                if !(1..=inner.len()).contains(&from) {
                    moved.cells[from].likely[index] += cell.likely[index];
                    continue;
                }
                let wanted_ln = cell.edge_ln - log_odds * LOGISTIC * spread;
                let smear = smear(spread);
                // Cells are sorted by edge, so a binary search finds them.
                let below = |reach: f64| inner.partition_point(|to| to.edge_ln < wanted_ln + reach) + 1;
                let nearest = self.nearest(wanted_ln);
                let reached = below(-3.0 * smear).min(nearest)..below(3.0 * smear).max(nearest + 1);
                let mut weights = vec![1.0];
                if reached.len() > 1 {
                    let far = self.cells[reached.clone()].iter().map(|to| (to, (to.edge_ln - wanted_ln) / smear));
                    weights = far.map(|(to, far)| to.octaves * (-far * far / 2.0).exp()).collect();
                }
                let sum: f64 = weights.iter().sum();
                for (to, weight) in reached.zip(weights) {
                    moved.cells[to].likely[index] += cell.likely[index] * weight / sum;
                }
            }
        }
        moved
    }

    /// Returns the index of the cell with the nearest edge; the first cell if all edges are above
    /// `edge_ln`.
    fn nearest(&self, edge_ln: f64) -> usize {
        let next = self.cells.partition_point(|cell| cell.edge_ln < edge_ln).min(self.cells.len() - 1);
        let off = |index: usize| (self.cells[index].edge_ln - edge_ln).abs();
        if next > 0 && off(next - 1) <= off(next) { next - 1 } else { next }
    }

    fn balance(&mut self) {
        let sum: f64 = self.cells.iter().map(Bracket::likely).sum();
        self.cells.iter_mut().flat_map(|cell| &mut cell.likely).for_each(|likely| *likely /= sum);
    }

    /// Returns the cell at this quantile of the edge.
    pub fn quantile(&self, q: f64) -> Bracket {
        let mut sum = 0.0;
        let found = self.cells.iter().find(|cell| {
            sum += cell.likely();
            sum >= q
        });
        // The probabilities may add up to slightly less than 1.
        found.or(self.cells.last()).copied().unwrap_or(Bracket::new(0.0, f64::INFINITY, false, 1.0))
    }

    /// Returns the value that is as likely to hold as to break.
    pub fn median(&self) -> f64 {
        let mut below = 0.0;
        let mut best = (f64::INFINITY, 0.0);
        for pair in self.cells.windows(2) {
            below += pair[0].likely();
            let off = f64::abs(below - 0.5);
            if off < best.0 {
                best = (off, pair[1].low);
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn answer(value: f64, held: bool, margin: Option<f64>) -> ProbeAnswer {
        ProbeAnswer { value, held, margin }
    }

    fn belief_in_agents(from: f64, to: f64) -> Posterior {
        Posterior::new(SearchRange { from, to, whole: true, precision: 0.05, edge: [from, to] })
    }

    #[test]
    fn an_answer_weights_both_sides_by_the_error_rate() {
        let before = belief_in_agents(1.0, 4.0);
        let mut after = before.clone();
        after.learn(&answer(2.0, true, None), None);
        let share = |posterior: &Posterior, from: f64| -> f64 {
            posterior.cells.iter().filter(|cell| cell.low >= from).map(|cell| cell.likely()).sum()
        };
        let (above, below) = (share(&before, 2.0) * 0.9, (1.0 - share(&before, 2.0)) * 0.1);
        // The difference is the spread of trials at one value, which hardly reaches from one agent
        // to the next.
        assert!((share(&after, 2.0) - above / (above + below)).abs() < 0.005);
        assert!((after.cells.iter().map(Bracket::likely).sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn equal_octaves_are_equally_likely() {
        let posterior =
            Posterior::new(SearchRange { from: 100.0, to: 400.0, whole: false, precision: 0.05, edge: [150.0, 150.0] });
        assert!((posterior.median() - 200.0).abs() < 2.0, "{}", posterior.median());
        assert_eq!(posterior.quantile(0.01).low, 0.0, "it may be below");
        assert!(posterior.quantile(0.999).high.is_infinite(), "or above");
    }

    #[test]
    fn every_number_of_agents_has_its_cell() {
        let lows: Vec<f64> = belief_in_agents(1.0, 6.0).cells.iter().map(|cell| cell.low).collect();
        assert_eq!(lows, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn large_margins_are_trusted_more() {
        assert!(wrong(Some(2.0)) < wrong(Some(0.05)) && wrong(Some(0.05)) < wrong(Some(0.0)));
        assert!(wrong(Some(-2.0)) < 0.031 && wrong(Some(0.0)) <= 0.1001 && (wrong(None) - 0.1).abs() < 1e-12);
    }

    /// Returns answers around an edge at 1,000, from trials whose margins are this multiple of the
    /// logarithm of the load.
    fn sloped(slope: f64) -> Vec<ProbeAnswer> {
        (0..12)
            .map(|index| 0.04 * f64::from(index) - 0.22)
            .map(|off| answer(1000.0 * off.exp(), off < 0.0, Some(slope * off.abs())))
            .collect()
    }

    #[test]
    fn the_slope_resists_outliers() {
        let mut answers = sloped(3.0);
        assert!((slope(&answers, 1000.0).unwrap() - 3.0).abs() < 1e-9);
        answers[2] = answer(answers[2].value, false, Some(4.0));
        assert!((slope(&answers, 1000.0).unwrap() - 3.0).abs() < 0.5, "{:?}", slope(&answers, 1000.0));
        assert_eq!(slope(&answers[..9], 1000.0), None, "too few");
        let falls: Vec<ProbeAnswer> = sloped(3.0).iter().map(|one| ProbeAnswer { held: !one.held, ..*one }).collect();
        assert_eq!(slope(&falls, 1000.0), None, "it does not rise");
    }

    #[test]
    fn a_large_margin_gives_only_a_side() {
        let EdgeEvidence::Edge { edge_ln, .. } = EdgeEvidence::of(&answer(1000.0, true, Some(0.2)), Some(4.0)) else {
            panic!()
        };
        assert!((edge_ln - (1000_f64.ln() + 0.05)).abs() < 1e-12);
        let EdgeEvidence::Side { edge_ln, above } = EdgeEvidence::of(&answer(1000.0, false, Some(2.0)), Some(4.0))
        else {
            panic!()
        };
        assert!((edge_ln - (1000_f64.ln() - READ / 4.0)).abs() < 1e-12 && !above, "it was below that at least");
    }

    #[test]
    fn drift_increases_the_memory() {
        let at = |off: f64| answer(1000.0, off < 0.0, Some(off.abs()));
        let drifting: Vec<ProbeAnswer> = (0..12).map(|index| at(0.02 * f64::from(index) - 0.11)).collect();
        let turning: Vec<ProbeAnswer> = (0..12).map(|index| at(if index % 2 == 0 { 0.1 } else { -0.1 })).collect();
        assert_eq!((memory(&drifting, 1.0), memory(&turning, 1.0)), (MOST_ALIKE, 1.0));
    }

    #[test]
    fn long_run_keeps_the_mean_over_uneven_cells() {
        let mut posterior =
            Posterior::new(SearchRange { from: 100.0, to: 1600.0, whole: false, precision: 0.05, edge: [400.0; 2] });
        posterior.cells.iter_mut().for_each(|cell| cell.likely = [0.0; SPREADS.len()]);
        let at = posterior.nearest(540_f64.ln());
        posterior.cells[at].likely[5] = 1.0;
        let mean: f64 = posterior
            .long_run(0.0)
            .cells
            .iter()
            .filter(|cell| cell.likely() > 0.0)
            .map(|cell| cell.likely() * cell.edge_ln)
            .sum();
        assert!((mean - 540_f64.ln()).abs() < 0.01, "{}", mean.exp());
    }
}
