//! `plimsoll targets | experiments | profiles | faults | protocols`: list the available names, or
//! describe one of them.

use experiment::catalog::{Effect, Fault, Field, Heals, Protocol};
use experiment::duration;
use experiment::manifest::Takes;
use experiment::profile::Profile;
use experiment::quantity::{show_bits_per_s, show_bytes, show_bytes_per_s};

use crate::catalog::{self, FoundTarget};
use crate::cli;
use crate::exit::{Exit, Failure};
use crate::{output, packed};

/// Lists the targets, or describes one.
pub fn targets(arguments: &cli::Named) -> Result<Exit, Failure> {
    let known = catalog::known(None)?;
    let lines = match &arguments.name {
        None => columns(known.targets.iter().map(|target| (&*target.manifest.name, &*target.manifest.about.what))),
        Some(name) => about_target(known.trusted_target(name)?),
    };
    if arguments.name.is_none() {
        for (name, refused) in known.refused() {
            output::say(&format!("`{name}` is refused: {}\n  {}", refused.why, refused.remedy));
        }
    }
    print(&lines)
}

/// Lists the built-in experiments, or prints one.
pub fn experiments(arguments: &cli::Named) -> Result<Exit, Failure> {
    let all = packed::experiments();
    let Some(name) = &arguments.name else {
        let titles: Vec<(&str, String)> = all.iter().map(|one| (one.name, title(&one.text))).collect();
        return print(&columns(titles.iter().map(|(name, title)| (*name, title.as_str()))));
    };
    let wanted = name.strip_suffix(".toml").unwrap_or(name);
    let found = all.into_iter().find(|one| one.name == wanted).ok_or_else(|| unknown("experiment", name))?;
    output::text(&found.text)?;
    Ok(Exit::Well)
}

/// Returns the title of a built-in experiment file.
fn title(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("title")?.trim_start().strip_prefix('='));
    line.unwrap_or_default().trim().trim_matches('"').to_owned()
}

/// Lists the profiles, or describes one.
pub fn profiles(arguments: &cli::Named) -> Result<Exit, Failure> {
    let profiles = catalog::profiles(None)?;
    let lines = match &arguments.name {
        None => columns(profiles.values().map(|profile| (&*profile.name, &*profile.what))),
        Some(name) => about_profile(profiles.get(name).ok_or_else(|| unknown("profile", name))?),
    };
    print(&lines)
}

/// Lists the faults, or describes one.
pub fn faults(arguments: &cli::Named) -> Result<Exit, Failure> {
    let lines = match &arguments.name {
        None => columns(lab::faults::KINDS.iter().map(|kind| (kind.info.name, kind.info.help))),
        Some(name) => about_fault(lab::faults::find(name).ok_or_else(|| unknown("fault", name))?.info),
    };
    print(&lines)
}

/// Lists the protocols, or describes one.
pub fn protocols(arguments: &cli::Named) -> Result<Exit, Failure> {
    let lines = match &arguments.name {
        None => columns(load::protocols::KINDS.iter().map(|kind| (kind.info.name, kind.info.help))),
        Some(name) => about_protocol(load::protocols::find(name).ok_or_else(|| unknown("protocol", name))?.info),
    };
    print(&lines)
}

fn print(lines: &[String]) -> Result<Exit, Failure> {
    output::text(&(lines.join("\n") + "\n"))?;
    Ok(Exit::Well)
}

fn about_target(target: &FoundTarget) -> Vec<String> {
    let about = &target.manifest.about;
    let home = if target.path.as_os_str().is_empty() { "built in".into() } else { target.path.to_string_lossy() };
    let mut lines = vec![
        format!("{} {}: {}", target.manifest.name, about.version, about.what),
        format!("speaks {}; {}; {home}", about.protocol, about.licence),
    ];
    for (name, parameter) in &target.manifest.parameters {
        lines.push(format!("\n  {name} = {} ({})", parameter.default, takes(&parameter.takes)));
        lines.push(format!("      {}", parameter.help));
    }
    for operation in &target.manifest.operations {
        let takes: Vec<&str> = operation.takes.keys().map(String::as_str).collect();
        let with = if takes.is_empty() { String::new() } else { format!(" (with {})", takes.join(", ")) };
        lines.push(format!("\n  call = \"{}\"{with}", operation.name));
        lines.extend((!operation.help.is_empty()).then(|| format!("      {}", operation.help)));
        lines.extend(operation.takes.iter().map(|(name, help)| format!("      {name}: {help}")));
    }
    lines
}

fn takes(takes: &Takes) -> String {
    match takes {
        Takes::Choice { of } => of.join(" | "),
        Takes::Integer { min, max } | Takes::Number { min, max } => {
            [min, max].map(|bound| bound.map(|bound| bound.to_string()).unwrap_or_default()).join("..")
        }
        Takes::Boolean => "true | false".to_owned(),
        Takes::Text => "a text".to_owned(),
        Takes::Duration => "a duration".to_owned(),
    }
}

fn about_profile(profile: &Profile) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", profile.name, profile.what)];
    let (link, disk) = (&profile.link, &profile.disk);
    let figures = [
        ("cores", profile.cores.map(|cores| cores.to_string())),
        ("core speed", with_unit(profile.core_speed, " of a core of the machine that plays it")),
        ("score", with_unit(profile.score, " rounds/s of a core")),
        ("memory", profile.memory_bytes.map(show_bytes)),
        ("link", link.rate_bits_per_s.map(show_bits_per_s)),
        ("link delay", link.delay_s.map(duration::show)),
        ("link loss", with_unit(link.loss_pct, " %")),
        ("disk size", disk.size_bytes.map(show_bytes)),
        ("disk reads", with_unit(disk.read_iops, "/s")),
        ("disk writes", with_unit(disk.write_iops, "/s")),
        ("disk reading", disk.read_bytes_per_s.map(show_bytes_per_s)),
        ("disk writing", disk.write_bytes_per_s.map(show_bytes_per_s)),
        ("idle", with_unit(profile.idle_watts, " W")),
        ("under load", with_unit(profile.load_watts, " W")),
        ("price", profile.price.as_ref().map(|price| format!("{} {}", price.currency, price.amount))),
        ("lifetime", with_unit(profile.lifetime_years, " years")),
    ];
    lines.extend(figures.into_iter().filter_map(|(name, value)| Some(format!("  {name:12} {}", value?))));
    lines.push("\nvalues not listed are not limited or not known; sources of the figures:".to_owned());
    lines.extend(profile.source.lines().map(|line| format!("  {line}")));
    lines
}

fn with_unit(value: Option<f64>, unit: &str) -> Option<String> {
    value.map(|value| format!("{value}{unit}"))
}

fn about_fault(fault: &Fault) -> Vec<String> {
    let heals = match fault.heals {
        Heals::ByItself => "happens at once; it takes no `for`",
        Heals::AfterFor => "lasts for `for`, or to the end of the trial",
    };
    let mut lines = vec![format!("{}: {}", fault.name, fault.help), heals.to_owned()];
    lines.extend(fields("with", fault.takes));
    lines
}

fn about_protocol(protocol: &Protocol) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", protocol.name, protocol.help)];
    for operation in protocol.operations {
        let effect = match operation.effect {
            Effect::None => "",
            Effect::Read => " (reads)",
            Effect::Write => " (writes)",
            Effect::CompareAndSet => " (compares and writes)",
            Effect::Remove | Effect::RemoveAll => " (removes)",
            Effect::Enqueue => " (adds to a queue)",
            Effect::Dequeue => " (takes from a queue)",
            Effect::AddToSet => " (adds to a set)",
            Effect::ReadMembers => " (reads a set)",
        };
        lines.push(format!("\ncall = \"{}\": {}{effect}", operation.name, operation.help));
        lines.extend(fields("with", operation.takes));
        lines.extend(fields("answer", operation.answers));
    }
    lines
}

fn fields<'a>(of: &'a str, fields: &'a [Field]) -> impl Iterator<Item = String> + 'a {
    fields.iter().map(move |field| {
        let required = if field.required { " (required)" } else { "" };
        format!("  {of}.{}: {}{required}", field.name, field.help)
    })
}

fn columns<'a>(lines: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Vec<String> {
    let width = lines.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.map(|(name, help)| format!("{name:width$}  {help}")).collect()
}

fn unknown(what: &str, name: &str) -> Failure {
    Failure::Bad { what: format!("no {what} `{name}`"), remedy: format!("`plimsoll {what}s` lists them") }
}
