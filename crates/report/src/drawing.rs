//! Charts as SVG: a chart is plain data (panels of lines over one axis), and this module draws it.
//! Escapes texts and colours from files, so that they are harmless in the drawing.

pub mod axis;
pub mod bar_rows;
pub mod chart;
pub mod operation_lanes;
pub mod path;
pub mod render;

use text::visible;

/// Returns `text` with all markup characters escaped, quotes included.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML does not allow the character, so a saved SVG would not open.
            c if c.is_control() && !matches!(c, '\n' | '\t') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Returns JSON for a `<script>` element: it cannot contain `</script>` or `<!--`.
pub fn json_in_script(json: &str) -> String {
    visible(json)
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Returns a coordinate, rounded to a tenth.
pub fn place(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Colour that replaces anything that is not `#rrggbb`.
const UNKNOWN: [u8; 3] = [0xd5, 0x5e, 0x00];

/// Background colours in light and in dark mode, as in the page's style.
const LIGHT: [u8; 3] = [0xff, 0xff, 0xff];
const DARK: [u8; 3] = [0x16, 0x1b, 0x22];

/// Minimum contrast of lines and areas: WCAG 2.2, 1.4.11.
const CONTRAST: f64 = 3.0;

/// Returns two colours of the same hue, for a light and for a dark background, each as `#rrggbb`.
pub fn legible(colour: &str) -> (String, String) {
    let colour = parsed(colour).unwrap_or(UNKNOWN);
    (hex(toward(colour, [0; 3], LIGHT)), hex(toward(colour, [255; 3], DARK)))
}

fn parsed(colour: &str) -> Option<[u8; 3]> {
    let digits = colour.strip_prefix('#')?;
    if digits.len() != 6 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some([red, green, blue])
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Mixes `end` into the colour, as little as needed for enough contrast with `paper`.
fn toward(colour: [u8; 3], end: [u8; 3], paper: [u8; 3]) -> [u8; 3] {
    for share in (0..=20).map(|step| f64::from(step) / 20.0) {
        let mixed: [u8; 3] =
            std::array::from_fn(|i| (f64::from(colour[i]) * (1.0 - share) + f64::from(end[i]) * share).round() as u8);
        if contrast(mixed, paper) >= CONTRAST {
            return mixed;
        }
    }
    end
}

/// Returns the contrast ratio of WCAG 2.2.
fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Returns the relative luminance of WCAG 2.2.
fn luminance(colour: [u8; 3]) -> f64 {
    let [red, green, blue] = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

#[cfg(test)]
mod tests {

    use super::axis::{Axis, Spacing, ceiling, linear_ticks, log_range, log_ticks, nines_ticks};
    use super::chart::{AxisRange, Chart, ChartLine, Ink, LineStyle, Mark, Panel, PanelUnit};
    use super::legible;
    use super::path::{self, DataPoint, thinned, thinned_together};
    use super::render::drawn;
    use crate::drawing::{escaped, json_in_script, place};
    use text::visible;

    fn axis(spacing: Spacing, from: f64, to: f64, start: f64, end: f64) -> Axis {
        Axis { spacing, from, to, start, end }
    }

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9 * b.abs().max(1.0))
    }

    #[test]
    fn places_run_from_start_to_end_and_are_clamped() {
        let upright = axis(Spacing::Linear, 0.0, 100.0, 200.0, 0.0);
        assert_eq!(upright.place(25.0), Some(150.0));
        assert_eq!(upright.place(1_000.0), Some(0.0));
        let log = axis(Spacing::Log, 1.0, 1_000.0, 0.0, 300.0);
        assert!((log.place(10.0).unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(log.place(0.0), None);
        assert_eq!(axis(Spacing::Linear, 1.0, 1.0, 0.0, 9.0).place(1.0), None);
    }

    #[test]
    fn ticks_are_1_2_5_within_the_range() {
        assert!(close(&linear_ticks(0.0, 80_000.0, 5), &[0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0]));
        assert!(close(&linear_ticks(-0.5, 0.5, 5), &[-0.4, -0.2, 0.0, 0.2, 0.4]));
        assert!(close(&linear_ticks(0.0, 0.03, 3), &[0.0, 0.01, 0.02, 0.03]));
        assert!(close(&linear_ticks(3.0, 3.0, 5), &[3.0]));
        assert!(close(&log_ticks(200.0, 20_000.0, 9), &[200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4]));
        assert!(close(&log_ticks(1.0, 1e6, 4), &[1.0, 100.0, 1e4, 1e6]));
        assert!(
            close(&log_ticks(211.0, 470.0, 6), &[250.0, 300.0, 350.0, 400.0, 450.0]),
            "a narrow range has ticks, too"
        );
        assert!(close(&log_ticks(2.0, 50.0, 4), &[2.0, 10.0, 50.0]), "one alone tells no scale");
        assert!(close(&nines_ticks(1.0, 500.0), &[1.0, 2.0, 10.0, 100.0]));
    }

    #[test]
    fn axes_end_on_round_values_beyond_the_data() {
        assert!(close(
            &[ceiling(63_412.0, 5), ceiling(99.0, 2), ceiling(0.0, 3), ceiling(f64::NAN, 3)],
            &[8e4, 100.0, 1.0, 1.0]
        ));
        assert_eq!(log_range(230.0, 16_000.0), (200.0, 20_000.0));
        assert_eq!(log_range(100.0, 100.0), (100.0, 200.0));
    }

    #[test]
    fn thinning_keeps_extremes_and_gaps() {
        let mut points: Vec<DataPoint> = (0..10_000).map(|index| (f64::from(index), Some(10.0))).collect();
        points[4_321].1 = Some(99.0);
        points[4_322].1 = Some(-5.0);
        points[7_000].1 = None;
        let thin = thinned(&points, 500);
        assert!(thin.len() <= 750, "{}", thin.len());
        assert!(thin.contains(&(4_321.0, Some(99.0))) && thin.contains(&(4_322.0, Some(-5.0))));
        assert!(thin.contains(&(7_000.0, None)));
        assert!(thin.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(thinned(&points[..50], 500).len(), 50);
    }

    #[test]
    fn a_stack_is_thinned_at_the_same_moments() {
        let mut lines =
            [1.0, 2.0].map(|value| (0..1_000).map(|index| (f64::from(index), Some(value))).collect::<Vec<DataPoint>>());
        lines[1][777].1 = Some(50.0);
        let thin = thinned_together(&lines, 100);
        assert_eq!((thin[0].len(), thin[1].len()), (100, 100));
        assert!(thin[1].contains(&(777.0, Some(50.0))) && thin[0].contains(&(777.0, Some(1.0))));
    }

    #[test]
    fn a_gap_interrupts_lines_and_areas() {
        let x = axis(Spacing::Linear, 0.0, 10.0, 0.0, 100.0);
        let y = axis(Spacing::Linear, 0.0, 10.0, 50.0, 0.0);
        let points = [(0.0, Some(0.0)), (1.0, Some(10.0)), (2.0, None), (3.0, Some(5.0)), (4.0, None)];
        assert_eq!(path::line(&points, &x, &y), "M0 500l100-500M300 250h1");
        let flat = points.map(|point| (point.0, Some(0.0)));
        assert_eq!(path::area(&points, &flat, &x, &y), "M0 500l100-500l0 500l-100 0zM300 250l0 250z");
    }

    #[test]
    fn small_counts_have_a_visible_bar_but_zero_has_none() {
        let x = axis(Spacing::Linear, 0.0, 10.0, 0.0, 100.0);
        let y = axis(Spacing::Linear, 0.0, 60_000.0, 50.0, 0.0);
        let bars = path::bars(&[(1.0, Some(1.0)), (2.0, Some(0.0)), (3.0, None)], &x, &y, 4.0, 2.5);
        assert_eq!(bars, "M80 500v-25h40v25z");
    }

    #[test]
    fn colours_from_files_are_made_legible_or_replaced() {
        assert_eq!(legible("#b30000").0, "#b30000");
        // Yellow is invisible on white, dark blue on a dark background.
        assert_ne!(legible("#ffff00").0, "#ffff00");
        assert_eq!(legible("#ffff00").1, "#ffff00");
        assert_ne!(legible("#000080").1, "#000080");
        for bad in ["red", "#12345", "#12345é", "\"/><script>", ""] {
            assert_eq!(legible(bad), legible("#d55e00"), "{bad}");
        }
    }

    #[test]
    fn texts_are_escaped_in_markup_and_scripts() {
        assert_eq!(escaped("<b a='1' c=\"2\">&\u{1b}"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\u{fffd}");
        assert_eq!(json_in_script("\"</script><!--\""), "\"\\u003c/script\\u003e\\u003c!--\"");
        assert_eq!([place(12.04), place(-0.04), place(3.25)], ["12", "0", "3.2"]);
    }

    #[test]
    fn adjacent_lines_differ_without_colour() {
        let all: Vec<_> = (0..15).map(Ink::nth).collect();
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one), "{index}");
            assert!(index == 0 || all[index - 1].1 != one.1, "{index}");
        }
    }

    fn line(name: &str, points: &[(f64, f64)]) -> ChartLine {
        ChartLine::new(
            name,
            (Ink::One, LineStyle::Solid),
            points.iter().map(|(at, value)| (*at, Some(*value))).collect(),
        )
    }

    /// Draws panels over `from..=to` seconds.
    fn svg([from, to]: [f64; 2], panels: Vec<Panel>, marks: Vec<Mark>) -> String {
        let x = AxisRange::new(Spacing::Linear, from, to, "s");
        drawn(&Chart { marks, ..Chart::new("", "", "", x, panels) }).svg
    }

    #[test]
    fn a_drawn_chart_escapes_its_words_and_carries_its_values() {
        let points = vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(1234.567))];
        let line = ChartLine { points, ..line("<i>", &[]) };
        let other = ChartLine { name: "b".to_owned(), ..line.clone() };
        let panels = vec![Panel::linear("<u>", PanelUnit::Count, 60.0, vec![line, other])];
        let chart = Chart {
            marks: vec![Mark { until: Some(1.5), ..Mark::new(1.0, "<m>") }],
            measured: Some([0.5, 2.0]),
            ..Chart::new("x", "<script>", "", AxisRange::new(Spacing::Linear, 0.0, 2.0, "s"), panels)
        };
        let drawn = drawn(&chart);
        for raw in ["<script>", "<i>", "<u>", "<m>"] {
            assert!(!drawn.svg.contains(raw), "{raw}");
        }
        assert!(drawn.svg.contains("veil") && drawn.svg.contains("shade"));
        let lines = &drawn.data["lines"];
        assert_eq!(lines[0]["y"].to_string(), "[1,null,1235]");
        assert_eq!(lines[0]["s"].to_string(), "[0,1]");
        assert!(lines[1].get("s").is_none() && lines[1].get("x").is_none());
    }

    /// Draws a line over 30 s with marks.
    fn marked(marks: Vec<Mark>) -> String {
        let lines = vec![line("ok", &[(0.0, 1.0), (30.0, 2.0)])];
        svg([0.0, 30.0], vec![Panel::linear("", PanelUnit::Count, 60.0, lines)], marks)
    }

    fn height(svg: &str) -> f64 {
        svg.split('"').nth(1).unwrap().split(' ').nth(3).unwrap().parse().unwrap()
    }

    #[test]
    fn fault_and_warm_up_labels_do_not_overlap() {
        let (warmup, fault) = (Mark::new(14.0, "warm-up until 14 s (MSER-5)"), Mark::new(15.0, "oops (crash on n1)"));
        let both = marked(vec![warmup, fault.clone()]);
        assert!(both.contains("warm-up until 14 s") && both.contains("oops (crash on n1)"));
        assert_eq!(height(&both) - height(&marked(vec![fault])), 18.0, "each has a row of its own");
    }

    #[test]
    fn a_single_line_is_named_unless_the_label_names_it() {
        for (label, name, is_named) in
            [("resident, by process", "generator", true), ("ok operations per second", "ok", false)]
        {
            let lines = vec![line(name, &[(0.0, 1.0), (1.0, 2.0)])];
            let svg = svg([0.0, 1.0], vec![Panel::linear(label, PanelUnit::Bytes, 60.0, lines)], Vec::new());
            assert_eq!(svg.contains(&format!(">{name}</text>")), is_named, "{svg}");
        }
    }

    /// Draws bytes over an axis in milliseconds.
    fn ticks(spacing: Spacing, unit: PanelUnit, [from, to]: [f64; 2]) -> String {
        let lines = vec![line("read", &[(from, 0.0), (to, 2e8)])];
        let panels = vec![Panel::linear("bytes per second", unit, 60.0, lines)];
        drawn(&Chart::new("", "", "", AxisRange::new(spacing, from, to, "ms"), panels)).svg
    }

    #[test]
    fn tick_labels_fit_and_do_not_overlap() {
        let log = ticks(Spacing::Log, PanelUnit::BytesPerSecond, [0.02, 15_000.0]);
        assert!(log.contains(">100</text>") && log.contains(">10,000 ms</text>"), "{log}");
        assert!(!log.contains(">1,000</text>"), "it has no room beside the unit: {log}");
        assert!(log.contains(">100 MB</text>"), "{log}");
        assert!(!log.contains("MB/s</text>"), "the panel says that it is per second");
        let narrow = ticks(Spacing::Log, PanelUnit::Bytes, [9_000.0, 18_500.0]);
        assert!(narrow.contains(">14,000</text>") && !narrow.contains(">16,000</text>"), "{narrow}");
        let linear = ticks(Spacing::Linear, PanelUnit::Bytes, [0.0, 12.0]);
        assert_eq!(linear.split("ticks x").nth(1).unwrap().matches("</text>").count(), 7, "there is room between them");
    }

    #[test]
    fn lanes_of_the_same_lines_do_not_repeat_their_legend() {
        let read = line("read", &[(0.0, 1.0), (1.0, 2.0)]);
        let both = vec![read.clone(), ChartLine { name: "written".to_owned(), ink: Ink::Four, ..read.clone() }];
        let lanes = [("n1", both.clone()), ("n2", both.clone()), ("n3", vec![read])];
        let lanes = lanes.map(|(host, lines)| Panel::linear(host, PanelUnit::Bytes, 30.0, lines));
        let three = svg([0.0, 1.0], lanes.to_vec(), Vec::new());
        let entries: Vec<&str> = three.split("class=\"entry\" data-line=\"").skip(1).collect();
        let switched: Vec<&str> = entries.iter().filter_map(|entry| entry.split('"').next()).collect();
        assert_eq!(switched, ["0 2", "1 3", "4"], "a name switches its lines in all lanes that it stands for");
        for host in ["n1", "n2", "n3"] {
            assert!(three.contains(&format!(">{host}</text>")), "{three}");
        }
        let high = [("a", 90.0), ("b", 30.0)]
            .map(|(name, height)| Panel::linear(name, PanelUnit::Bytes, height, both.clone()));
        let high = svg([0.0, 1.0], high.to_vec(), Vec::new());
        assert_eq!(high.matches("class=\"entry\"").count(), 4, "panels that are no lanes have their own");
    }

    #[test]
    fn a_long_label_is_placed_on_the_wider_side() {
        let label = "a fault whose name is as long as the chart (a crash on n1)";
        for (at, class) in [(8.0, "first"), (22.0, "last")] {
            let svg = marked(vec![Mark::new(at, label)]);
            let before = svg.split(label).next().unwrap();
            assert_eq!(before.rsplit("class=\"").next().unwrap().split('"').next(), Some(class));
        }
    }

    /// Returns the end of a panel's axis, if this is the largest value.
    fn ends(unit: PanelUnit, largest: f64, height: f64) -> f64 {
        let stacked = ChartLine { shape: LineStyle::Stacked, ..line("", &[(0.0, 1.0), (2.0, largest)]) };
        super::render::upright(&Panel::linear("", unit, height, vec![stacked]), 0.0, height).0.to
    }

    #[test]
    fn an_axis_of_percentages_ends_at_100() {
        for height in [30.0, 60.0, 80.0, 120.0, 180.0] {
            assert_eq!(ends(PanelUnit::Percent, 100.4, height), 100.0, "a sample is a little off");
            assert_eq!(ends(PanelUnit::Percent, 100.0, height), 100.0);
            assert!(ends(PanelUnit::Plain, 100.4, height) > 100.4);
        }
        assert_eq!(ends(PanelUnit::Percent, 30.0, 60.0), ends(PanelUnit::Plain, 30.0, 60.0), "below that it is free");
    }

    #[test]
    fn bidi_control_characters_are_made_visible() {
        let turned = "ok\u{202e}drow\u{2066}";
        assert_eq!(escaped(turned), "ok[U+202E]drow[U+2066]");
        assert_eq!(visible(turned), "ok[U+202E]drow[U+2066]");
        assert_eq!(json_in_script("\"\u{202e}\""), "\"[U+202E]\"");
        assert_eq!(visible("\u{5e9}\u{5dc}\u{5d5}\u{5dd}"), "\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "letters are letters");
    }
}
