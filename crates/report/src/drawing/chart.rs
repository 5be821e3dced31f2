//! A chart as plain data, before it is drawn.

use text::numbers;

use super::axis::Spacing;
use super::path::DataPoint;

/// One chart: panels above each other over one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Unique on the page; letters, digits and hyphens.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What a reader has to know to read it; empty if nothing.
    pub note: String,
    /// The axis below all panels.
    pub x: AxisRange,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// What happened when.
    pub marks: Vec<Mark>,
    /// Stretch outside of which figures are not taken from; drawn as a grey veil over the rest.
    pub measured: Option<[f64; 2]>,
}

/// The axis below the panels.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisRange {
    /// Its left end.
    pub from: f64,
    /// Its right end.
    pub to: f64,
    /// Spacing.
    pub spacing: Spacing,
    /// Of its values: `s`, `agents`.
    pub unit: String,
    /// Whether positive values get a plus: seconds around a fault.
    pub signed: bool,
    /// Names of the values 0, 1, 2 …, where they are no numbers: `100mbit`, `5mbit`. Empty: they are.
    pub names: Vec<String>,
    /// Values with a tick. If empty, ticks are at round values.
    pub ticks: Vec<f64>,
}

/// One panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What its values are: `operations per second`.
    pub label: String,
    /// Their unit.
    pub unit: PanelUnit,
    /// Spacing of the upright axis.
    pub spacing: Spacing,
    /// How high it is drawn.
    pub height: f64,
    /// At least up to here, such as 100 %.
    pub at_least_to: Option<f64>,
    /// The axis ends here where values reach it, as they cannot be larger: 100 % of a whole. What is, by an inexact sample, is drawn here.
    pub at_most_to: Option<f64>,
    /// What is drawn in it.
    pub lines: Vec<ChartLine>,
    /// Values to compare with: name and value.
    pub levels: Vec<(String, f64)>,
    /// Said instead of lines where there are none.
    pub remark: String,
}

/// One line, area or row of bars.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartLine {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub ink: Ink,
    /// How it is drawn.
    pub shape: LineStyle,
    /// Its points, by their place on the axis below; `None` is a gap.
    pub points: Vec<DataPoint>,
}

/// How a line is drawn. Where lines cross, the pattern tells them apart without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineStyle {
    /// A line.
    Solid,
    /// A line of dashes.
    Dashed,
    /// A line of dots.
    Dotted,
    /// A dot for each point, and no line. The legend leaves it out: its colour says whose it is.
    Dots,
    /// A line with its area filled down to 0.
    Filled,
    /// A line, and the area between it and the line before it washed in.
    Band,
    /// An area on top of the stacked one before it.
    Stacked,
    /// Bars from 0; the number is their width on the axis below, in thousandths of its unit.
    Bars(u32),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// When it began.
    pub at: f64,
    /// From when on its effect is shaded, where that is not `at`.
    pub since: Option<f64>,
    /// Until when its effect is shaded; `None`: nothing is shaded.
    pub until: Option<f64>,
    /// In words.
    pub label: String,
    /// `#rrggbb`, for light and for dark paper; `None`: the ink of the axis.
    pub colours: Option<(String, String)>,
}

/// Colours, by what they stand for; the page's style says which colour that is in light and in dark.
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
    /// Its class in the page's style.
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

    /// The colour of the n-th variant or curve, where colour alone tells them apart: in lines over a load, and in bars.
    pub fn of_curve(index: usize) -> Self {
        let inks = [Self::One, Self::Three, Self::Two, Self::Four, Self::Five];
        inks[index % inks.len()]
    }

    /// The colour and the pattern of the n-th of several lines of equal rank; no two of the first fifteen are alike, because 5 and 3
    /// have no common factor.
    pub fn nth(index: usize) -> (Self, LineStyle) {
        let inks = [Self::One, Self::Two, Self::Three, Self::Four, Self::Five];
        let shapes = [LineStyle::Solid, LineStyle::Dashed, LineStyle::Dotted];
        // Neighbours differ in both, so that two lines are told apart in print.
        (inks[index % inks.len()], shapes[index % shapes.len()])
    }
}

/// Of a panel's values.
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
    /// A value with its unit, for an axis.
    pub fn tick(self, value: f64) -> String {
        match self {
            Self::PerSecond | Self::Count | Self::Plain => numbers::tick(value),
            Self::Micros => numbers::micros(value),
            Self::Percent => numbers::percent(value),
            Self::Bytes => numbers::bytes(value),
            Self::BytesPerSecond => format!("{}/s", numbers::bytes(value)),
        }
    }

    /// Name in the data that goes with the chart; the page's script writes values by it.
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

impl Chart {
    /// Whether any of its lines has a value.
    pub fn has_values(&self) -> bool {
        let mut lines = self.panels.iter().flat_map(|panel| &panel.lines);
        lines.any(|line| line.points.iter().any(|point| point.1.is_some()))
    }
}

impl Panel {
    /// A panel with an axis from 0, of percentages to 100 at most.
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

    /// The highest value, stacked ones taken alone: an axis that is a little low is raised when it is drawn.
    pub fn highest(&self) -> f64 {
        let values = self.lines.iter().flat_map(|line| line.points.iter().filter_map(|point| point.1));
        values.fold(0.0, f64::max)
    }

    /// Whether any of its lines has a value.
    pub fn has_values(&self) -> bool {
        self.lines.iter().any(|line| line.points.iter().any(|point| point.1.is_some()))
    }
}
