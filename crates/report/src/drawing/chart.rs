//! Data of a chart before it is drawn.

use text::numbers;

use super::axis::Spacing;
use super::path::DataPoint;

/// One chart: panels above each other over a shared horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Id, unique on the page: letters, digits and hyphens.
    pub id: String,
    pub title: String,
    /// Note that a reader needs to understand the chart; may be empty.
    pub note: String,
    /// Horizontal axis below all panels.
    pub x: AxisRange,
    pub panels: Vec<Panel>,
    /// Events to mark, such as faults.
    pub marks: Vec<Mark>,
    /// Measured part of the load. The rest is drawn under a grey veil, because no figures come from
    /// it.
    pub measured: Option<[f64; 2]>,
}

/// The horizontal axis of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisRange {
    /// Value at the left end.
    pub from: f64,
    /// Value at the right end.
    pub to: f64,
    pub spacing: Spacing,
    /// Unit of the values: `s`, `agents`.
    pub unit: String,
    /// Whether positive values get a plus sign, as for seconds around a fault.
    pub signed: bool,
    /// Names of the values 0, 1, 2 … if the values are not numbers: `100mbit`, `5mbit`. Empty for
    /// numbers.
    pub names: Vec<String>,
    /// Values with a tick. If empty, ticks are at round values.
    pub ticks: Vec<f64>,
}

/// One panel of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Quantity: `operations per second`.
    pub label: String,
    pub unit: PanelUnit,
    /// Spacing of the vertical axis.
    pub spacing: Spacing,
    pub height: f64,
    /// Value that the axis includes at least, such as 100 %.
    pub at_least_to: Option<f64>,
    /// Value at which the axis ends at the latest, because larger values are impossible, such as
    /// 100 % of a whole. A larger value from an inexact sample is drawn at the end of the axis.
    pub at_most_to: Option<f64>,
    pub lines: Vec<ChartLine>,
    /// Reference values: name and value.
    pub levels: Vec<(String, f64)>,
    /// Text that replaces the lines if there are none.
    pub remark: String,
}

/// One line, area or row of bars.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartLine {
    pub name: String,
    pub ink: Ink,
    pub shape: LineStyle,
    /// Points by their value on the horizontal axis. `None` is a gap.
    pub points: Vec<DataPoint>,
}

/// Style of a line. The pattern distinguishes crossing lines without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineStyle {
    Solid,
    Dashed,
    Dotted,
    /// One dot per point, without a line. Not in the legend: the colour shows to which line the
    /// dots belong.
    Dots,
    /// A line with the area down to 0 filled.
    Filled,
    /// A line with the area between it and the previous line tinted.
    Band,
    /// An area stacked on the previous stacked area.
    Stacked,
    /// Bars from 0. The number is their width on the horizontal axis, in thousandths of its unit.
    Bars(u32),
}

/// An event on the chart, such as a fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Start of the event.
    pub at: f64,
    /// Start of the shaded effect, if it differs from `at`.
    pub since: Option<f64>,
    /// End of the shaded effect. `None` for no shade.
    pub until: Option<f64>,
    pub label: String,
    /// Colours `#rrggbb` for a light and for a dark background. `None` for the colour of the axis.
    pub colours: Option<(String, String)>,
}

/// Colours by meaning. The page's style defines each colour in light and in dark mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are named after what they stand for, or numbered")]
pub enum Ink {
    Ok,
    Failed,
    Timeout,
    Wrong,
    Iowait,
    Steal,
    Strangers,
    One,
    Two,
    Three,
    Four,
    Five,
}

impl Ink {
    /// Returns the colour's class in the page's style.
    pub fn class(self) -> &'static str {
        match self {
            Self::Ok => "i-ok",
            Self::Failed => "i-failed",
            Self::Timeout => "i-timeout",
            Self::Wrong => "i-wrong",
            Self::Iowait => "i-iowait",
            Self::Steal => "i-steal",
            Self::Strangers => "i-strangers",
            Self::One => "i-1",
            Self::Two => "i-2",
            Self::Three => "i-3",
            Self::Four => "i-4",
            Self::Five => "i-5",
        }
    }

    /// Returns the colour of the n-th variant or curve, if colour alone distinguishes them: in
    /// lines over a load, and in bars.
    pub fn of_curve(index: usize) -> Self {
        let inks = [Self::One, Self::Three, Self::Two, Self::Four, Self::Five];
        inks[index % inks.len()]
    }

    /// Returns colour and pattern of the n-th of several lines of equal rank. The first fifteen all
    /// differ, because 5 and 3 have no common factor.
    pub fn nth(index: usize) -> (Self, LineStyle) {
        let inks = [Self::One, Self::Two, Self::Three, Self::Four, Self::Five];
        let shapes = [LineStyle::Solid, LineStyle::Dashed, LineStyle::Dotted];
        // Neighbours differ in colour and pattern, so that two lines are distinguishable in print.
        (inks[index % inks.len()], shapes[index % shapes.len()])
    }
}

/// Unit of a panel's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are units")]
pub enum PanelUnit {
    PerSecond,
    Count,
    Micros,
    Percent,
    Bytes,
    BytesPerSecond,
    Plain,
}

impl PanelUnit {
    /// Returns a value with its unit, for an axis.
    pub fn tick(self, value: f64) -> String {
        match self {
            Self::PerSecond | Self::Count | Self::Plain => numbers::tick(value),
            Self::Micros => numbers::micros(value),
            Self::Percent => numbers::percent(value),
            Self::Bytes => numbers::bytes(value),
            Self::BytesPerSecond => format!("{}/s", numbers::bytes(value)),
        }
    }

    /// Returns the unit's name in the chart's data, by which the page's script formats values.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "per_s",
            Self::Count => "count",
            Self::Micros => "us",
            Self::Percent => "pct",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes_per_s",
            Self::Plain => "plain",
        }
    }
}

impl AxisRange {
    /// Returns an axis of numbers with ticks at round values.
    pub fn new(spacing: Spacing, from: f64, to: f64, unit: &str) -> Self {
        Self { from, to, spacing, unit: unit.to_owned(), signed: false, names: Vec::new(), ticks: Vec::new() }
    }
}

impl Mark {
    /// Returns a mark without a shade, in the colour of the axis.
    pub fn new(at: f64, label: impl Into<String>) -> Self {
        Self { at, since: None, until: None, label: label.into(), colours: None }
    }
}

impl ChartLine {
    pub fn new(name: impl Into<String>, (ink, shape): (Ink, LineStyle), points: Vec<DataPoint>) -> Self {
        Self { name: name.into(), ink, shape, points }
    }

    pub fn has_values(&self) -> bool {
        self.points.iter().any(|point| point.1.is_some())
    }

    /// Returns the values without the gaps.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.points.iter().filter_map(|point| point.1)
    }
}

impl Chart {
    /// Returns a chart without marks.
    pub fn new(id: &str, title: impl Into<String>, note: impl Into<String>, x: AxisRange, panels: Vec<Panel>) -> Self {
        let (title, note) = (title.into(), note.into());
        Self { id: id.to_owned(), title, note, x, panels, marks: Vec::new(), measured: None }
    }

    /// Whether any line has a value.
    pub fn has_values(&self) -> bool {
        self.panels.iter().any(Panel::has_values)
    }
}

impl Panel {
    /// Returns a panel with a logarithmic axis.
    pub fn log(label: &str, unit: PanelUnit, height: f64, lines: Vec<ChartLine>) -> Self {
        Self { spacing: Spacing::Log, ..Self::linear(label, unit, height, lines) }
    }

    /// Returns a panel with an axis from 0. An axis of percentages ends at 100 at most.
    pub fn linear(label: &str, unit: PanelUnit, height: f64, lines: Vec<ChartLine>) -> Self {
        Self {
            label: label.to_owned(),
            unit,
            spacing: Spacing::Linear,
            height,
            at_least_to: None,
            at_most_to: (unit == PanelUnit::Percent).then_some(100.0),
            lines,
            levels: Vec::new(),
            remark: String::new(),
        }
    }

    /// Ends the axes of these panels at the same value, so that they can be compared: at the
    /// highest value of all panels, or at `at_least` if that is higher.
    pub fn share_axis(panels: &mut [Self], at_least: f64) {
        let highest = panels.iter().map(Self::highest).fold(at_least, f64::max);
        panels.iter_mut().for_each(|panel| panel.at_least_to = Some(highest));
    }

    /// Returns the highest value of any line, without stacking. The axis is raised for a stack when
    /// the panel is drawn.
    pub fn highest(&self) -> f64 {
        self.lines.iter().flat_map(ChartLine::values).fold(0.0, f64::max)
    }

    /// Whether any line has a value.
    pub fn has_values(&self) -> bool {
        self.lines.iter().any(ChartLine::has_values)
    }
}
