//! The `plimsoll` program: parses the command line, runs a command and returns an exit code. This
//! is the only crate that prints. It prints in the module `output`.

mod catalog;
mod cli;
mod commands;
mod exit;
mod live_server;
mod load_so_far;
mod metrics_export;
mod named_files;
mod output;
mod packed;
mod placement_text;
mod progress;
mod signals;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    exit::guarded(play)
}

fn play() -> ExitCode {
    signals::report_full_files();
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let asked = match Cli::try_parse() {
        Ok(asked) => asked,
        Err(error) => match commands::hit::said_of_options(&error, &words) {
            Some(said) => return exit::code(Err(exit::Failure::Problems(format!("plimsoll: {said}\n")))),
            None => error.exit(),
        },
    };
    let done = match asked.command {
        Command::Hit(arguments) => commands::hit::run(&arguments),
        Command::Run(arguments) => commands::run::run(&arguments),
        Command::Check(arguments) => commands::experiments::check(&arguments),
        Command::Analyze(arguments) => commands::folders::analyze(&arguments),
        Command::Show(arguments) => commands::folders::show(&arguments),
        Command::Compare(arguments) => commands::folders::compare(&arguments),
        Command::History(arguments) => commands::folders::history(&arguments),
        Command::Contents(arguments) => commands::folders::contents(&arguments),
        Command::Export(arguments) => commands::export::run(&arguments),
        Command::Audit(arguments) => commands::audit::run(&arguments),
        Command::Open(arguments) => commands::folders::open(&arguments),
        Command::Doctor(arguments) => commands::machine::doctor(&arguments),
        Command::Selfcheck(arguments) => commands::selfcheck::run(&arguments),
        Command::Experiments(arguments) => commands::lists::experiments(&arguments),
        Command::New(arguments) => commands::experiments::new(&arguments),
        Command::Targets(arguments) => commands::lists::targets(&arguments),
        Command::Profiles(arguments) => commands::lists::profiles(&arguments),
        Command::Profile(arguments) => commands::machine::measure_profile(&arguments),
        Command::Faults(arguments) => commands::lists::faults(&arguments),
        Command::Protocols(arguments) => commands::lists::protocols(&arguments),
        Command::Install(arguments) => commands::install::run(&arguments),
        Command::Clean => commands::machine::clean(),
        Command::Schema(arguments) => commands::experiments::schema(&arguments),
        Command::Completions(arguments) => commands::program::completions(&arguments),
        Command::Man(arguments) => commands::program::man(&arguments),
        Command::Echo(arguments) => commands::program::echo(&arguments),
        Command::Generator(arguments) => commands::program::generator(&arguments),
        Command::Runner(arguments) => return commands::program::runner(&arguments),
    };
    exit::code(done)
}
