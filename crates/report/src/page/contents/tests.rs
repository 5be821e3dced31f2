//! Checks of the page that links reports.
#![allow(clippy::unwrap_used, clippy::panic)]

use record::results::{Trust, Verdict};

use super::*;
use crate::example;

fn claim(says: &str, value: Option<f64>, holds: Holds) -> Claim {
    Claim {
        says: says.to_owned(),
        source: "an article".to_owned(),
        metric: "latency_us.p99".to_owned(),
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

fn listed<'a>(results: &'a Results, report: &str) -> Listed<'a> {
    Listed { results, report: report.to_owned(), folder: "2026-<x>".to_owned() }
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
    let page = contents("The <Pi> article", &[listed(&one, "a/report.html"), listed(&two, "b/report.html")]).unwrap();
    let order = [
        "<h1>The &lt;Pi&gt; article</h1>",
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
    results.answer = format!("It is so. {}", words::cost::sentence(&results).unwrap());
    assert!(!contents("x", &[listed(&results, "r")]).unwrap().contains("Cost at the peak"));
}

#[test]
fn a_run_without_title_answer_or_claims_is_listed_all_the_same() {
    let results = Results::default();
    let page = contents("x", &[listed(&results, "r")]).unwrap();
    assert!(page.contains(">2026-&lt;x&gt;</a>") && page.contains("It has no answer.") && page.contains("not judged"));
    assert!(!page.contains("the article says"));
    crate::tests::assert_balanced(&page);
}

#[test]
fn a_link_survives_what_folders_are_called() {
    assert_eq!(as_href("../a b/50%#é?/report.html"), "../a%20b/50%25%23%C3%A9%3F/report.html");
}
