//! Where the edge may be: how likely each place is, given answers that are sometimes wrong. It must not know what comes next.
//!
//! This is the posterior of probabilistic bisection (M. Horstein, "Sequential transmission using noiseless feedback", IEEE
//! Transactions on Information Theory 9, 1963; R. Waeber, P. I. Frazier, S. G. Henderson, "Bisection search with noisy
//! responses", SIAM Journal on Control and Optimization 51, 2013): the places of a grid start out equally likely by the logarithm of their
//! value, and each answer multiplies those on its side by 1 − e and the others by e, e being the chance that it is wrong. Near the
//! value tried, 1 − e passes into e along a logistic curve instead of a step (as in A. B. Watson, D. G. Pelli, "QUEST: a Bayesian
//! adaptive psychometric method", Perception & Psychophysics 33, 1983): a load just above the edge holds as often as it breaks.

/// Cells for each width that the search is to reach.
const CELLS: f64 = 10.0;

/// How likely, in octaves, an edge below the lowest or above the highest cell is at first: about as likely as next to them.
const BEYOND: f64 = 0.5;

/// How wrong an answer may be whose figure is far from its bound: a trial that something spoiled which nobody saw.
const WRONG_FAR: f64 = 0.03;
/// What comes on top of that at the bound itself.
const WRONG_NEAR: f64 = 0.07;
/// The distance, as a logarithm of a ratio, over which that fades.
const FADES: f64 = 0.2;
/// How far around the edge trials disagree by nature, as a share of the width to reach: the scale of the logistic curve.
const UNSURE: f64 = 0.2;
/// How wrong an answer without a distance may be.
const WRONG: f64 = 0.1;

/// The chance that an answer with this distance from its bound is wrong.
pub(super) fn wrong(margin: Option<f64>) -> f64 {
    margin.map_or(WRONG, |margin| WRONG_FAR + WRONG_NEAR * (-margin.abs() / FADES).exp())
}

/// Where the search looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Lowest value; an edge below it is one cell.
    pub from: f64,
    /// Highest value; an edge at or above it is one cell.
    pub to: f64,
    /// Whether only whole values count.
    pub whole: bool,
    /// The width to reach, as a share.
    pub precision: f64,
}

/// The edge is in here: the limits hold at `low`, and no more above `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    /// 0 in the first cell.
    pub low: f64,
    /// Infinite in the last.
    pub high: f64,
    likely: f64,
}

impl Cell {
    /// How likely limits with the edge in here hold at `value`, spoiled trials aside.
    fn holds(&self, value: f64, whole: bool, unsure: f64) -> f64 {
        // Between the last number that holds and the first that does not.
        let edge = if whole { f64::midpoint(self.low, self.high) + 0.5 } else { (self.low * self.high).sqrt() };
        if self.low <= 0.0 {
            return 0.0;
        }
        1.0 / (1.0 + (-(edge / value).ln() / unsure).exp())
    }
}

/// How likely the edge is where; the shares add up to 1.
#[derive(Debug, Clone)]
pub(super) struct Belief {
    cells: Vec<Cell>,
    /// Scale of the logistic curve, as the logarithm of a ratio.
    unsure: f64,
    whole: bool,
}

impl Belief {
    /// Before any answer.
    pub fn new(span: Span) -> Self {
        let ratio = 1.0 + span.precision / CELLS;
        let next = |low: f64| if span.whole { (low + 1.0).max((low * ratio).round()) } else { low * ratio };
        let octaves = |low: f64, high: f64| (high / low).log2();
        let last = if span.whole { 1.0 } else { 0.0 };
        let mut cells = vec![Cell { low: 0.0, high: span.from - last, likely: BEYOND }];
        let mut low = span.from;
        while low < span.to {
            let high = next(low).min(span.to);
            cells.push(Cell { low, high: high - last, likely: octaves(low, high) });
            low = high;
        }
        cells.push(Cell { low: span.to, high: f64::INFINITY, likely: BEYOND });
        let mut belief = Self { cells, whole: span.whole, unsure: UNSURE * span.precision };
        belief.balance();
        belief
    }

    /// Takes in an answer that is wrong with this chance.
    pub fn learn(&mut self, value: f64, held: bool, wrong: f64) {
        for cell in &mut self.cells {
            let holds = wrong + (1.0 - 2.0 * wrong) * cell.holds(value, self.whole, self.unsure);
            cell.likely *= if held { holds } else { 1.0 - holds };
        }
        self.balance();
    }

    fn balance(&mut self) {
        let sum: f64 = self.cells.iter().map(|cell| cell.likely).sum();
        self.cells.iter_mut().for_each(|cell| cell.likely /= sum);
    }

    /// The cell below whose upper end the edge is with this probability.
    pub fn quantile(&self, q: f64) -> Cell {
        let mut sum = 0.0;
        let found = self.cells.iter().find(|cell| {
            sum += cell.likely;
            sum >= q
        });
        // The shares may add up to a hair less than 1.
        found.or(self.cells.last()).copied().unwrap_or(Cell { low: 0.0, high: f64::INFINITY, likely: 1.0 })
    }

    /// The value that is as likely to hold as to break.
    pub fn median(&self) -> f64 {
        let mut below = 0.0;
        let mut best = (f64::INFINITY, 0.0);
        for pair in self.cells.windows(2) {
            below += pair[0].likely;
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
    use super::*;

    fn agents(from: f64, to: f64) -> Belief {
        Belief::new(Span { from, to, whole: true, precision: 0.05 })
    }

    #[test]
    fn an_answer_multiplies_its_side_by_one_minus_e_and_the_other_by_e() {
        let before = agents(1.0, 4.0);
        let mut after = Belief { unsure: 1e-6, ..before.clone() };
        after.learn(2.0, true, 0.1);
        let share = |belief: &Belief, from: f64| -> f64 {
            belief.cells.iter().filter(|cell| cell.low >= from).map(|cell| cell.likely).sum()
        };
        let (above, below) = (share(&before, 2.0) * 0.9, (1.0 - share(&before, 2.0)) * 0.1);
        assert!((share(&after, 2.0) - above / (above + below)).abs() < 1e-12);
        assert!((after.cells.iter().map(|cell| cell.likely).sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn equal_octaves_are_equally_likely() {
        let belief = Belief::new(Span { from: 100.0, to: 400.0, whole: false, precision: 0.05 });
        assert!((belief.median() - 200.0).abs() < 2.0, "{}", belief.median());
        assert_eq!(belief.quantile(0.01).low, 0.0, "it may be below");
        assert!(belief.quantile(0.999).high.is_infinite(), "or above");
    }

    #[test]
    fn every_number_of_agents_has_its_cell() {
        let lows: Vec<f64> = agents(1.0, 6.0).cells.iter().map(|cell| cell.low).collect();
        assert_eq!(lows, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn what_is_far_from_its_bound_is_trusted_more() {
        assert!(wrong(Some(2.0)) < wrong(Some(0.05)) && wrong(Some(0.05)) < wrong(Some(0.0)));
        assert!(wrong(Some(-2.0)) < 0.031 && wrong(Some(0.0)) <= 0.1001 && (wrong(None) - 0.1).abs() < 1e-12);
    }
}
