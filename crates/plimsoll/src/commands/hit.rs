//! `plimsoll hit`: a load on a URL in one line. Its options become an experiment, which is played on the same road as the file of
//! `plimsoll run`; it must not measure, judge or decide anything of its own.

mod asked;
mod connections;
mod home;
mod live;
mod next;
mod place;
mod text;

use std::path::PathBuf;

use experiment::catalog::Protocol;
use experiment::plan::Plan;
use experiment::secrets::Secrets;
use experiment::source::Source;
use record::folder::RunFolder;
use record::results::Results;

use crate::catalog::{self, Known};
use crate::cli;
use crate::commands::check;
use crate::commands::run::{self, Begun};
use crate::exit::{Done, Failure};
use crate::{output, signals};
use asked::{Asked, Wrong};
use home::Home;

/// What problems of the experiment name as its file.
const SOURCE: &str = "plimsoll hit --print";

/// Hits, and says what came of it.
pub fn run(words: &cli::Hit) -> Result<Done, Failure> {
    let known = catalog::known(None)?;
    let asked = asked::read(words, spoken(&known)?).map_err(|wrong| refused(&wrong))?;
    let text = text::experiment(&asked);
    let source = Source { name: SOURCE.to_owned(), text: text.clone() };
    let secrets = Secrets::of(&source, &[]);
    if !words.print {
        output::hide(&secrets);
    }
    let plan = check::plan(&source, &[], &known)?;
    if words.print {
        output::text(&text)?;
        return Ok(Done::Well);
    }
    if let Some(hint) = next::about_secrets(&secrets) {
        output::say(&hint);
    }
    run::clean_up();
    let begun = Begun::of(plan, secrets.hidden_file(&source), secrets, PathBuf::new());
    begun.can_be_played(&known, false)?;
    let interrupts = signals::interrupts()?;
    // Before the folder is made, and after it is no longer read: what is private goes with it.
    let home = Home::of(words.out.as_deref())?;
    let folder = begun.open(home.path(), &known)?;
    let audience = live::audience(words.plain, &what(&asked));
    let (ending, results) = begun.play(&folder, &known, audience, &interrupts).map_err(next::failure_in_options)?;
    if let Some(page) = &words.report {
        // The page is the user's to show; the folder is not.
        std::fs::read(folder.report())
            .and_then(|written| std::fs::write(page, written))
            .map_err(|error| Failure::File { what: format!("cannot write {}", page.display()), error })?;
    }
    let told = tell(words, begun.plan(), &folder, &results);
    run::done(run::outcome(ending, &results, words.accept), told)
}

/// What web servers are spoken to in.
fn spoken(known: &Known) -> Result<&'static Protocol, Failure> {
    let http = known.catalog.protocols.iter().copied().find(|protocol| protocol.schemes.contains(&"http"));
    http.ok_or_else(|| Failure::Ours("no protocol speaks http".to_owned()))
}

/// Every option that cannot be, each with what to write instead.
fn refused(wrong: &[Wrong]) -> Failure {
    Failure::Problems(wrong.iter().map(|wrong| format!("plimsoll: {}\n  {}\n", wrong.what, wrong.remedy)).collect())
}

/// `64 agents on GET http://localhost:8080/ for 10s`
fn what(asked: &Asked) -> String {
    let agents = if asked.agents == 1 { "1 agent".to_owned() } else { format!("{} agents", asked.agents) };
    let rate = asked.rate.map_or_else(String::new, |rate| {
        format!(", {} requests/s{}", rate.per_s, if rate.is_poisson { " at random" } else { "" })
    });
    let connections = match asked.connections.pipeline {
        Some(agents) => format!(", {agents} on each connection"),
        None if asked.connections.is_closed => ", a connection for each request".to_owned(),
        None => String::new(),
    };
    let (method, place) = (asked.method.to_ascii_uppercase(), &asked.place);
    format!("{agents} on {method} {}{}{rate}{connections}, {}", place.service, place.path, asked.time)
}

/// Prints the results, and where there is more.
fn tell(words: &cli::Hit, plan: &Plan, folder: &RunFolder, results: &Results) -> Result<(), Failure> {
    if words.json {
        return output::json(results);
    }
    let first = results.trials.first();
    let latency_ns = first.map(|trial| report::read_latency(&folder.trial(&trial.id))).transpose()?.flatten();
    let colour = output::colour_on_stdout();
    let mut text = report::words::at_a_glance(&next::in_options(results), plan, latency_ns.as_ref(), colour);
    let next = next::steps(results, words);
    if !next.is_empty() {
        text.push_str(&format!("\n{next}"));
    }
    let kept = words.out.as_ref().map(|_| folder.report());
    for page in words.report.iter().chain(&kept) {
        text.push_str(&format!("\n{}\n", page.display()));
    }
    output::text(&text)
}

#[cfg(test)]
mod tests;
