//! What a function over trials comes to, and whether it is in range. It must not know how it was found.

use experiment::plan::Range;
use record::results::Holds;

use crate::scaling::Estimate;
use crate::stats::curve::Curve;
use crate::stats::order::{largest, median};

/// A function at one point of the swept paths that it is not of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Part {
    /// Its value; `None` if it lies beyond what was swept, so that only its bounds are known.
    pub value: Option<f64>,
    /// Its 95 % interval, if there were repeats enough.
    pub ci95: Option<[f64; 2]>,
    /// Between what it lies; an end may be infinite.
    pub span: [f64; 2],
    /// Why there is no value, no interval, or one without an end; empty if nothing has to be said.
    pub note: String,
}

/// What a function comes to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Found {
    /// Its value; of several points, because other paths are swept too, the median. Null where one of them has none.
    pub value: Option<f64>,
    /// From the lowest to the highest end of their intervals, where they have ends.
    pub range: Option<[f64; 2]>,
    /// Why there is no value, or an interval has no end.
    pub note: String,
    /// Between what each lies; an end may be infinite.
    spans: Vec<[f64; 2]>,
    /// Whether some trials that should have it do not, so that what the others say is not all.
    lacking: bool,
}

impl Part {
    /// Of a figure with its interval.
    pub fn of(value: f64, ci95: Option<[f64; 2]>) -> Self {
        Self { value: Some(value), ci95, span: ci95.unwrap_or([value; 2]), note: String::new() }
    }

    /// The same; without an interval it says why there is none.
    pub fn of_curves(value: f64, ci95: Option<[f64; 2]>, curves: &[&Curve]) -> Self {
        let note = if ci95.is_none() { no_interval(curves) } else { String::new() };
        Self { note, ..Self::of(value, ci95) }
    }

    /// Of a load at which something happens. An infinite one was not met within the loads of the sweep, from `lowest` to `highest`, so it
    /// lies beyond them; `beyond` says what that means.
    pub fn of_load(
        found: &Estimate,
        [lowest, highest]: [f64; 2],
        curves: &[&Curve],
        beyond: impl Fn(f64) -> String,
    ) -> Self {
        let [low, high] = found.ci95.unwrap_or([found.value; 2]);
        let ends = found.ci95.into_iter().flatten();
        let open = std::iter::once(found.value).chain(ends).find(|value| value.is_infinite());
        let perhaps = if found.value.is_infinite() { "" } else { "perhaps " };
        let note = match open {
            Some(open) => format!("{perhaps}{}", beyond(open)),
            None if found.ci95.is_none() => no_interval(curves),
            None => String::new(),
        };
        let low_end = if low == f64::INFINITY { highest } else { low.max(0.0) };
        let high_end = if high == f64::NEG_INFINITY { lowest } else { high };
        Self {
            value: Some(found.value).filter(|value| value.is_finite()),
            ci95: found.ci95,
            span: [low_end, high_end],
            note,
        }
    }
}

/// Why curves have no interval.
fn no_interval(curves: &[&Curve]) -> String {
    let once = curves.iter().flat_map(|curve| &curve.points).all(|point| point.rates.len() == 1);
    if once { "one trial each: no interval".to_owned() } else { "too few repeats: no interval".to_owned() }
}

impl Found {
    /// Of the parts, in the order of the trials.
    pub fn of(parts: impl IntoIterator<Item = Part>) -> Self {
        let parts: Vec<Part> = parts.into_iter().collect();
        let values: Vec<f64> = parts.iter().filter_map(|part| part.value).collect();
        let ends = || parts.iter().flat_map(|part| part.ci95.into_iter().flatten());
        let low = largest(ends().map(|end| -end)).map(|end| -end);
        let range = low.zip(largest(ends())).map(|(low, high)| [low, high]);
        Self {
            value: median(&values).filter(|_| values.len() == parts.len()),
            range: range.filter(|range| range.iter().all(|end| end.is_finite())),
            note: parts.iter().map(|part| part.note.clone()).find(|note| !note.is_empty()).unwrap_or_default(),
            spans: parts.iter().map(|part| part.span).collect(),
            lacking: false,
        }
    }

    /// The same, of which some trials lack what they should have.
    pub fn lacking(self, lacking: bool) -> Self {
        Self { lacking, ..self }
    }

    /// The same, with this said where nothing else is.
    pub fn noted(self, note: &str) -> Self {
        if self.note.is_empty() { Self { note: note.to_owned(), ..self } } else { self }
    }

    /// Whether it is in range: `yes` if all that it may be is, `no` if nothing of it is.
    pub fn holds(&self, range: &Range) -> Holds {
        let inside = |[low, high]: &[f64; 2]| range.holds(*low) && range.holds(*high);
        if self.spans.is_empty() {
            Holds::NotMeasured
        } else if self.lacking {
            Holds::NotShown
        } else if self.spans.iter().all(inside) {
            Holds::Yes
        } else if self.spans.iter().any(|span| meets(range, *span)) {
            Holds::NotShown
        } else {
            Holds::No
        }
    }
}

/// Whether anything of a span is in range.
fn meets(range: &Range, [low, high]: [f64; 2]) -> bool {
    let above = range.above.is_none_or(|bound| high > bound) && range.at_least.is_none_or(|bound| high >= bound);
    let below = range.below.is_none_or(|bound| low < bound) && range.at_most.is_none_or(|bound| low <= bound);
    above && below && range.equals.is_none_or(|wanted| (low..=high).contains(&wanted))
}
