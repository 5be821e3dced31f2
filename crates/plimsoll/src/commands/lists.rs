//! `plimsoll targets | faults | protocols`: what there is, from the tables.

use experiment::catalog::{Effect, Field, Heals};
use experiment::manifest::Takes;

use crate::catalog::{self, Target};
use crate::cli;
use crate::exit::{Done, Failure};

/// Lists the targets, or tells about one.
pub fn targets(arguments: &cli::Named) -> Result<Done, Failure> {
    let known = catalog::known()?;
    match &arguments.name {
        None => print_lines(known.targets.iter().map(|target| (&*target.manifest.name, &*target.manifest.about.what))),
        Some(name) => tell_target(known.target(name).ok_or_else(|| unknown("target", name))?),
    }
    Ok(Done::Well)
}

fn tell_target(target: &Target) {
    let manifest = &target.manifest;
    println!("{} {}: {}", manifest.name, manifest.about.version, manifest.about.what);
    println!("speaks {}; {}; {}", manifest.about.protocol, manifest.about.licence, target.path.display());
    for (name, parameter) in &manifest.parameters {
        let takes = match &parameter.takes {
            Takes::Choice { of } => of.join(" | "),
            Takes::Integer { min, max } => {
                let bound = |bound: &Option<i64>| bound.map(|bound| bound.to_string()).unwrap_or_default();
                format!("{}..{}", bound(min), bound(max))
            }
            Takes::Boolean => "true | false".to_owned(),
            Takes::Text => "a text".to_owned(),
            Takes::Duration => "a duration".to_owned(),
        };
        println!("\n  {name} = {} ({takes})\n      {}", parameter.default, parameter.help);
    }
}

/// Lists the faults, or tells about one.
pub fn faults(arguments: &cli::Named) -> Result<Done, Failure> {
    match &arguments.name {
        None => print_lines(lab::faults::KINDS.iter().map(|kind| (kind.info.name, kind.info.help))),
        Some(name) => {
            let fault = lab::faults::find(name).ok_or_else(|| unknown("fault", name))?.info;
            println!("{}: {}", fault.name, fault.help);
            println!(
                "{}",
                match fault.heals {
                    Heals::ByItself => "an instant; it takes no `for`",
                    Heals::AfterFor => "lasts for `for`, or to the end of the trial",
                }
            );
            print_fields("with", fault.takes);
        }
    }
    Ok(Done::Well)
}

/// Lists the protocols, or tells about one.
pub fn protocols(arguments: &cli::Named) -> Result<Done, Failure> {
    match &arguments.name {
        None => print_lines(load::protocols::KINDS.iter().map(|kind| (kind.info.name, kind.info.help))),
        Some(name) => {
            let protocol = load::protocols::find(name).ok_or_else(|| unknown("protocol", name))?.info;
            println!("{}: {}", protocol.name, protocol.help);
            for operation in protocol.operations {
                let effect = match operation.effect {
                    Effect::None => "",
                    Effect::Read => " (reads)",
                    Effect::Write => " (writes)",
                    Effect::Remove | Effect::RemoveAll => " (removes)",
                };
                println!("\ncall = \"{}\": {}{effect}", operation.name, operation.help);
                print_fields("with", operation.takes);
                print_fields("answer", operation.answers);
            }
        }
    }
    Ok(Done::Well)
}

fn print_fields(heading: &str, fields: &[Field]) {
    for field in fields {
        let required = if field.required { " (required)" } else { "" };
        println!("  {heading}.{}: {}{required}", field.name, field.help);
    }
}

fn print_lines<'a>(lines: impl Iterator<Item = (&'a str, &'a str)> + Clone) {
    let width = lines.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, help) in lines {
        println!("{name:width$}  {help}");
    }
}

fn unknown(what: &str, name: &str) -> Failure {
    Failure::Bad { what: format!("no {what} `{name}`"), remedy: format!("`plimsoll {what}s` lists them") }
}
