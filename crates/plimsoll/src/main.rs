//! The binary: words of the command line in, words and an exit code out. The only room that prints, in `output`; it must not
//! measure, judge or decide how anything is done.

mod catalog;
mod cli;
mod commands;
mod examined;
mod exit;
mod output;
mod placing;
mod progress;
mod signals;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    exit::guarded(play)
}

fn play() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Hit(arguments) => commands::hit::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Analyze(arguments) => commands::analyze::run(&arguments),
        Command::Show(arguments) => commands::show::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::History(arguments) => commands::history::run(&arguments),
        Command::Contents(arguments) => commands::contents::run(&arguments),
        Command::Open(arguments) => commands::open::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::New(arguments) => commands::new::run(&arguments),
        Command::Targets(arguments) => commands::lists::targets(&arguments),
        Command::Profiles(arguments) => commands::lists::profiles(&arguments),
        Command::Profile(arguments) => commands::profile::run(&arguments),
        Command::Faults(arguments) => commands::lists::faults(&arguments),
        Command::Protocols(arguments) => commands::lists::protocols(&arguments),
        Command::Install(arguments) => commands::install::run(&arguments),
        Command::Clean => commands::clean::run(),
        Command::Schema(arguments) => commands::schema::run(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments),
        Command::Man => commands::man::run(),
        Command::Echo(arguments) => commands::echo::run(&arguments),
        Command::Runner(arguments) => return commands::runner::run(&arguments),
    };
    exit::code(done)
}
