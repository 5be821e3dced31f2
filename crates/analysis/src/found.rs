//! Run folders that a user names, for what looks at several: which there are, and when their trials began. It must not read results.

use std::path::Path;

use record::ReadError;
use record::events::What;
use record::folder::RunFolder;
use record::lines;

use crate::Error;

/// The run folder at `path`, or those that lie in it; `hint` says what to give instead.
pub(crate) fn found(path: &Path, hint: &str) -> Result<Vec<RunFolder>, Error> {
    let nothing = |what: String| Error::Incomparable { what, hint: hint.to_owned() };
    let folders = RunFolder::found_at(path).map_err(|error| nothing(format!("{}: {error}", path.display())))?;
    if folders.is_empty() {
        return Err(nothing(format!("{} is not a run folder and holds none: there is no plan.json", path.display())));
    }
    Ok(folders)
}

/// When a trial's load began, by the calendar; `None` if it never did.
pub(crate) fn started_unix_s(folder: &RunFolder, id: &str) -> Result<Option<f64>, ReadError> {
    let events = lines::read_events(&folder.trial(id).events())?.items;
    Ok(events.iter().find_map(|event| match event.what {
        What::Clock { unix_s } => Some(unix_s),
        _ => None,
    }))
}
