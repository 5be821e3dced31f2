//! Page that lists several runs with links to their reports: question, answer, verdict and claims
//! of each run.

use record::results::{Claim, Holds, Results};
use serde::Serialize;

use super::{Reason, STYLE, Templates, reasons, with_code};
use crate::tables::{Cell, verdicts};
use crate::{Error, words};

/// Maximum number of reasons listed for a verdict; the report has all of them.
const REASONS: usize = 3;

/// A run on the page.
#[derive(Debug, Clone)]
pub struct ListedRun<'a> {
    /// `analysis.json`.
    pub results: &'a Results,
    /// Path from the page to the run's report, with `/`.
    pub report: String,
    /// Name of the run folder.
    pub folder: String,
    /// The first chart of curves in the report, as markup. Empty if there is none.
    pub chart: String,
}

#[derive(Serialize)]
struct LinkedPage<'a> {
    style: &'static str,
    title: &'a str,
    runs: Vec<LinkedRun>,
}

#[derive(Serialize)]
struct LinkedRun {
    /// Percent-encoded, so that it needs no escaping.
    report: String,
    folder: String,
    chart: String,
    title: String,
    asks: String,
    answer: String,
    verdict: &'static str,
    meaning: String,
    reasons: Vec<Reason>,
    more_reasons: usize,
    partial: Option<String>,
    cost: Option<String>,
    claims: Vec<ClaimRow>,
    /// Number of claims that hold, in words.
    held: String,
    trials: usize,
}

#[derive(Serialize)]
struct ClaimRow {
    says: String,
    source: String,
    said: Cell,
    held: Cell,
}

/// Returns the whole page, in the order of the runs.
pub fn contents(title: &str, runs: &[ListedRun<'_>]) -> Result<String, Error> {
    let page = LinkedPage { style: STYLE, title, runs: runs.iter().map(run).collect() };
    Templates::new()?.fill("contents.html", &page)
}

/// Returns the first chart of curves in a report page, as markup.
#[must_use]
pub fn first_chart(page: &str) -> Option<&str> {
    let mut figures = page.split("<figure class=\"chart\"").skip(1);
    let figure = figures.find(|figure| figure.split('>').next().is_some_and(|tag| tag.contains("data-hover")))?;
    let svg = &figure[figure.find("<svg ")?..];
    // A drawing contains no `div`.
    let end = [svg.find("<div"), svg.find("</div")].into_iter().flatten().min()?;
    Some(&svg[..end])
}

fn run(listed: &ListedRun<'_>) -> LinkedRun {
    let results = listed.results;
    let title = if results.title.trim().is_empty() { &listed.folder } else { &results.title };
    let mut all = reasons(&results.verdict);
    let more_reasons = all.len().saturating_sub(REASONS);
    all.truncate(REASONS);
    LinkedRun {
        report: as_href(&listed.report),
        folder: listed.folder.clone(),
        chart: listed.chart.clone(),
        title: title.clone(),
        asks: results.asks.clone(),
        answer: with_code(if results.answer.is_empty() { "This run has no answer." } else { &results.answer }),
        verdict: words::verdict(results).0,
        meaning: text::stopped(&text::capital(words::meaning(results))),
        reasons: all,
        more_reasons,
        partial: results.partial.as_deref().map(text::stopped),
        cost: analysis::answer::sweeps::cost_line(results).map(|line| with_code(&line)),
        claims: results.claims.iter().map(|claim| claim_row(claim, results)).collect(),
        held: held(&results.claims),
        trials: results.trials.len(),
    }
}

fn claim_row(claim: &Claim, results: &Results) -> ClaimRow {
    ClaimRow {
        says: claim.says.clone(),
        source: claim.source.clone(),
        said: verdicts::said(claim, results),
        held: verdicts::held(claim),
    }
}

/// Returns a text such as `3 of 5 hold, 1 does not, 1 not shown`. Empty without claims.
fn held(claims: &[Claim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let [yes, no, not_shown, not_measured] = [Holds::Yes, Holds::No, Holds::NotShown, Holds::NotMeasured]
        .map(|holds| claims.iter().filter(|claim| claim.holds == holds).count());
    let others =
        [(no, if no == 1 { "does not" } else { "do not" }), (not_shown, "not shown"), (not_measured, "not measured")];
    let others = others.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!(", {count} {word}"));
    let verb = if yes == 1 { "holds" } else { "hold" };
    format!("{yes} of {} {verb}{}", claims.len(), others.collect::<String>())
}

/// Returns a path for a link, with all but plain characters percent-encoded (RFC 3986, section
/// 2.1).
fn as_href(way: &str) -> String {
    text::percent_encoded(way, |byte| text::is_unreserved(byte) || byte == b'/')
}

#[cfg(test)]
mod tests {
    use record::results::{Trust, Verdict};

    use super::*;
    use crate::example;

    fn claim(says: &str, value: Option<f64>, holds: Holds) -> Claim {
        Claim {
            says: says.to_owned(),
            source: "an article".to_owned(),
            metric: "latency_us.p99".into(),
            value,
            holds,
            ..Claim::default()
        }
    }

    fn results() -> Results {
        Results {
            title: "Pi <against> Xeon".to_owned(),
            asks: "Which & why?".to_owned(),
            answer: "`pi` <is> ahead.".to_owned(),
            claims: vec![
                claim("a <b> claim", Some(15_000.0), Holds::Yes),
                claim("another", None, Holds::NotMeasured),
                claim("a third", Some(1_000.0), Holds::No),
            ],
            ..example::results(&example::plan(&[], &[], 1))
        }
    }

    fn listed<'a>(results: &'a Results, report: &str) -> ListedRun<'a> {
        ListedRun { results, report: report.to_owned(), folder: "2026-<x>".to_owned(), chart: String::new() }
    }

    #[test]
    fn each_run_has_its_question_answer_verdict_claims_and_link() {
        let one = results();
        let mut two = results();
        two.verdict = Verdict {
            is: Trust::Suspect,
            reasons: ["a", "b", "c", "d", "e"].map(|reason| format!("reason {reason}")).to_vec(),
            ..Verdict::default()
        };
        two.partial = Some("the run was interrupted".to_owned());
        let plan = example::plan(&[], &[], 1);
        let report = crate::page(&crate::ReportInput {
            trials: vec![example::series(&one.trials[0], 9)],
            ..crate::ReportInput::without_records(&one, &plan)
        });
        let chart = first_chart(&report.unwrap()).unwrap().to_owned();
        let first = ListedRun { chart, ..listed(&one, "a/report.html") };
        let page = contents("The <Pi> article", &[first, listed(&two, "b/report.html")]).unwrap();
        assert_eq!(page.matches("<figure").count(), 1);
        let order = [
            "<h1>The &lt;Pi&gt; article</h1>",
            "Operations by outcome</text>",
            "1 of 3 holds, 1 does not, 1 not measured",
            "href=\"a/report.html\">Pi &lt;against&gt; Xeon</a>",
            "Which &amp; why?",
            "<code>pi</code> &lt;is&gt; ahead.",
            "badge valid\">valid</strong> <span>",
            "a &lt;b&gt; claim<small>an article</small>",
            "15 ms",
            "href=\"a/report.html\">The whole report",
            "2026-&lt;x&gt;",
            "href=\"b/report.html\">Pi",
            "the run was interrupted.",
            "<li>Reason c.</li>",
            "2 more in the report.",
        ];
        let mut rest = page.as_str();
        for text in order {
            let at = rest.find(text).unwrap_or_else(|| panic!("no {text} in\n{rest}"));
            rest = &rest[at..];
        }
        assert!(!page.contains("Reason d.") && !page.contains("<against>") && !page.contains("<b>"));
        assert!(page.contains("href=\"#run-2\"") && page.contains("id=\"run-2\""));
        for outside in ["http://", "https://", "src=", "@import", "url(", "<script"] {
            assert!(!page.contains(outside), "{outside}");
        }
        crate::tests::assert_balanced(&page);
    }

    #[test]
    fn a_cost_has_a_line_unless_the_answer_says_it() {
        let mut results = results();
        results.costs = example::costs();
        let page = contents("x", &[listed(&results, "r")]).unwrap();
        let line = "Cost at the peak, modelled: <code>pi2c</code>: 188 mJ a cycle, EUR 0.013 a million; <code>devx</code>: 417 mJ a cycle";
        assert!(page.contains(line), "{page}");
        results.answer = format!("It is so. {}", analysis::answer::sweeps::cost_sentence(&results).unwrap());
        assert!(!contents("x", &[listed(&results, "r")]).unwrap().contains("Cost at the peak"));
    }

    #[test]
    fn a_run_without_title_answer_or_claims_is_listed() {
        let results = Results::default();
        let page = contents("x", &[listed(&results, "r")]).unwrap();
        assert!(
            page.contains(">2026-&lt;x&gt;</a>")
                && page.contains("This run has no answer.")
                && page.contains("not judged")
        );
        assert!(!page.contains(">claim</th>"));
        crate::tests::assert_balanced(&page);
    }

    #[test]
    fn links_escape_folder_names() {
        assert_eq!(as_href("../a b/50%#é?/report.html"), "../a%20b/50%25%23%C3%A9%3F/report.html");
    }
}
