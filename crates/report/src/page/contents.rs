//! A page that lists several runs and links the report of each: what was asked, what was found, whether it can be trusted, which claims hold.
//! It must not say more of a run than its results do.

use record::results::{Claim, Holds, Results};
use serde::Serialize;

use super::sections::{Reason, reasons, with_code};
use super::{STYLE, Templates};
use crate::tables::{Cell, claims};
use crate::{Error, words};

/// Reasons of a verdict that are listed at most; the report has them all.
const REASONS: usize = 3;

/// A run on the page.
#[derive(Debug, Clone)]
pub struct Listed<'a> {
    /// `analysis.json`.
    pub results: &'a Results,
    /// The way from the page to its report, with `/`.
    pub report: String,
    /// Name of the run folder.
    pub folder: String,
}

#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    title: &'a str,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Run {
    /// Encoded, so that it holds nothing that would have to be escaped.
    report: String,
    folder: String,
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
    /// How many claims hold, in words.
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

/// The whole page, in the order of the runs.
///
/// # Errors
/// If a template cannot be filled, which is a fault of ours.
pub fn contents(title: &str, runs: &[Listed<'_>]) -> Result<String, Error> {
    let page = Page { style: STYLE, title, runs: runs.iter().map(run).collect() };
    Templates::new()?.fill("contents.html", &page)
}

fn run(listed: &Listed<'_>) -> Run {
    let results = listed.results;
    let title = if results.title.trim().is_empty() { &listed.folder } else { &results.title };
    let mut all = reasons(&results.verdict);
    let more_reasons = all.len().saturating_sub(REASONS);
    all.truncate(REASONS);
    Run {
        report: as_href(&listed.report),
        folder: listed.folder.clone(),
        title: title.clone(),
        asks: results.asks.clone(),
        answer: with_code(if results.answer.is_empty() { "It has no answer." } else { &results.answer }),
        verdict: words::verdict(results).0,
        meaning: words::stopped(&words::capital(words::meaning(results))),
        reasons: all,
        more_reasons,
        partial: results.partial.as_deref().map(words::stopped),
        cost: words::cost::line(results).map(|line| with_code(&line)),
        claims: results.claims.iter().map(claim_row).collect(),
        held: held(&results.claims),
        trials: results.trials.len(),
    }
}

fn claim_row(claim: &Claim) -> ClaimRow {
    ClaimRow {
        says: claim.says.clone(),
        source: claim.source.clone(),
        said: claims::said(claim),
        held: claims::held(claim),
    }
}

/// `3 of 5 hold, 1 does not, 1 not shown`; empty without claims.
fn held(claims: &[Claim]) -> String {
    let count = |holds: Holds| claims.iter().filter(|claim| claim.holds == holds).count();
    if claims.is_empty() {
        return String::new();
    }
    let others = [
        (count(Holds::No), if count(Holds::No) == 1 { "does not" } else { "do not" }),
        (count(Holds::NotShown), "not shown"),
        (count(Holds::NotMeasured), "not measured"),
    ];
    let others = others.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!(", {count} {word}"));
    let verb = if count(Holds::Yes) == 1 { "holds" } else { "hold" };
    format!("{} of {} {verb}{}", count(Holds::Yes), claims.len(), others.collect::<String>())
}

/// A way in a form that a link may have: all but plain characters percent-encoded (RFC 3986, section 2.1).
fn as_href(way: &str) -> String {
    let encoded = way.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests;
