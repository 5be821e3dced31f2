//! `plimsoll open`: the report in the user's browser.

use std::process::{Command, Stdio};

use record::folder::RunFolder;

use crate::cli;
use crate::exit::{Done, Failure};
use crate::output;

/// Programs that open a page, in the order in which they are tried.
const OPENERS: [&str; 4] = ["xdg-open", "open", "wslview", "sensible-browser"];

/// Opens a run's report.
pub fn run(arguments: &cli::Folder) -> Result<Done, Failure> {
    let page = RunFolder::at(&arguments.folder).report();
    let page = page.canonicalize().map_err(|error| Failure::Bad {
        what: format!("no report at {}: {error}", page.display()),
        remedy: "`plimsoll analyze` makes it from the records".to_owned(),
    })?;
    let opened = OPENERS.iter().any(|opener| {
        let mut command = Command::new(opener);
        command.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    });
    output::text(&format!("{}\n", page.display()))?;
    if opened {
        Ok(Done::Well)
    } else {
        Err(Failure::Bad {
            what: format!("no browser was found (tried {})", OPENERS.join(", ")),
            remedy: "open the page printed above yourself".to_owned(),
        })
    }
}
