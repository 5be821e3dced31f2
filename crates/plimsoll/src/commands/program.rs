//! Commands about the program itself: the echo target, a host's runner and a generator, which other
//! processes of Plimsoll start; completion scripts; and the manual page.

use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::CommandFactory as _;
use fleet::generator::GeneratorError;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::cli::{self, Cli, EchoProtocol};
use crate::exit::{Exit, Failure};
use crate::{named_files, output};

/// Serves as the echo target until a signal stops it. Then prints a line of JSON for each period in
/// which it answered with errors or not at all, for comparison with its clients' measurements.
pub fn echo(arguments: &cli::Echo) -> Result<Exit, Failure> {
    let protocol = match arguments.protocol {
        EchoProtocol::Http => echo::ServedProtocol::Http,
        EchoProtocol::Vsns => echo::ServedProtocol::Vsns,
    };
    let options = echo::Options {
        listen: arguments.listen,
        protocol,
        delay_s: arguments.delay,
        workers: arguments.workers,
        work: arguments.work,
        stall_s: arguments.stall,
        stall_every_s: arguments.stall_every,
        errors_for_s: arguments.errors_for,
        errors_every_s: arguments.errors_every,
        error_status: arguments.error_status,
        body_bytes: arguments.body_bytes,
        ..echo::Options::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::file("cannot listen for signals"))?;
    }
    let book = echo::serve(&options, &stop)?;
    for echo::Errors { first_unix_s, last_unix_s, answers } in book.errors {
        let line = serde_json::json!({
            "errors": answers, "first_unix_s": first_unix_s, "last_unix_s": last_unix_s,
        });
        output::text(&format!("{line}\n"))?;
    }
    for echo::Stall { first_unix_s, last_unix_s } in book.stalls {
        let line = serde_json::json!({ "stall": 1, "first_unix_s": first_unix_s, "last_unix_s": last_unix_s });
        output::text(&format!("{line}\n"))?;
    }
    Ok(Exit::Well)
}

/// Serves as a host's runner until its input ends. Sends failures as messages to the process that
/// started the runner.
pub fn runner(arguments: &cli::Runner) -> ExitCode {
    ExitCode::from(runner::serve_standard_streams(arguments.inside))
}

/// Serves as a generator, which plays its part of a load, until its input ends.
pub fn generator(arguments: &cli::GeneratorCommand) -> Result<Exit, Failure> {
    let served = match &arguments.socket {
        Some(socket) => UnixStream::connect(socket)
            .and_then(|stream| Ok((BufReader::new(stream.try_clone()?), stream)))
            .map_err(GeneratorError::from)
            .and_then(|(input, output)| fleet::generator::serve_tethered(input, output)),
        None => fleet::generator::serve_standard_streams(),
    };
    served.map(|()| Exit::Well).map_err(|error| Failure::Bad {
        what: format!("this generator cannot continue: {error}"),
        remedy: "it is started by `plimsoll run` where an experiment has [fleet], and not by hand".to_owned(),
    })
}

/// Prints the completion script for a shell.
pub fn completions(arguments: &cli::Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "plimsoll", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Well)
}

/// Prints the manual page, or writes a page for each command into a folder.
pub fn man(arguments: &cli::Man) -> Result<Exit, Failure> {
    if let Some(folder) = &arguments.out {
        named_files::make_folder(folder)?;
        // Any user can guess the names of the files in the folder.
        named_files::refuse_for_root(folder)?;
        let written = clap_mangen::generate_to(Cli::command(), folder);
        written.map_err(Failure::file(format!("cannot write into {}", folder.display())))?;
        return Ok(Exit::Well);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Failure::file("cannot make the manual page"))?;
    output::data(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Well)
}
