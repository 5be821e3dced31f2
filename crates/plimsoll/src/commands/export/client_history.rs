//! History of a trial's audited keys in the formats of other checkers: Jepsen's edn, Elle's
//! registers, and the logs that Porcupine's tests read.

use analysis::client_history::{ClientHistory, KeyOperations};
use linearizability::{
    Access, Operation, Status, operations_to_edn, operations_to_elle, operations_to_porcupine, separate_processes,
};
use record::events::HistoryEntry;
use record::folder::RunFolder;
use record::lines;

use crate::cli;
use crate::exit::Failure;

/// Returns the history of the trial and key that the arguments name.
pub fn exported(format: cli::HistoryFormat, folders: &[RunFolder], arguments: &cli::Export) -> Result<String, Failure> {
    let (folder, trial) = one_trial(folders, arguments.trial.as_deref())?;
    let path = folder.trial(&trial).history();
    let history = lines::read::<HistoryEntry>(&path).map_err(analysis::Error::from)?.items;
    let clients = ClientHistory::of(&history);
    let keys = clients.keys.iter().filter(|key| key.is_checkable());
    let keys: Vec<_> = keys.filter(|key| arguments.key.as_ref().is_none_or(|name| key.name() == *name)).collect();
    if keys.is_empty() {
        let key = arguments.key.as_ref().map_or_else(String::new, |key| format!(" `{key}`"));
        return Err(Failure::Bad {
            what: format!("{} has no audited key{key} that clients wrote and read", path.display()),
            remedy: "audit steps that write keys and steps that read them; operations must not be retried".to_owned(),
        });
    }
    if format == cli::HistoryFormat::Porcupine && keys.len() > 1 {
        return Err(Failure::Bad {
            what: format!("the format has one key, and the trial has {}", keys.len()),
            remedy: format!("name one with --key, such as --key {}", keys[0].name()),
        });
    }
    let begun = keys.iter().filter_map(|key| first_write(key));
    let mut operations: Vec<Operation> =
        begun.chain(keys.iter().flat_map(|key| key.operations.iter().copied())).collect();
    separate_processes(&mut operations);
    let text = match format {
        cli::HistoryFormat::Jepsen => Some(operations_to_edn(&operations)),
        cli::HistoryFormat::Elle => operations_to_elle(&operations),
        cli::HistoryFormat::Porcupine => operations_to_porcupine(&operations),
    };
    text.ok_or_else(|| Failure::Bad {
        what: "the format has no removals of keys; Porcupine's has no comparisons with an absent key either".to_owned(),
        remedy: "use --history jepsen, or name with --key a key without such operations".to_owned(),
    })
}

/// Returns a write, before all operations, of the value that a key had before the load. The models
/// of other checkers begin with an absent key.
fn first_write(key: &KeyOperations<'_>) -> Option<Operation> {
    let value = key.older_value()?;
    let first = key.operations.iter().min_by_key(|operation| operation.start_ns)?;
    let start_ns = first.start_ns.saturating_sub(2);
    Some(Operation {
        start_ns,
        end_ns: Some(start_ns + 1),
        access: Access::Write { value },
        status: Status::Applied,
        version: None,
        ..*first
    })
}

/// Returns the only trial, or the trial of that id.
fn one_trial<'a>(folders: &'a [RunFolder], wanted: Option<&str>) -> Result<(&'a RunFolder, String), Failure> {
    let mut all = Vec::new();
    for folder in folders {
        let ids = folder.trial_ids().map_err(analysis::Error::List)?;
        all.extend(ids.into_iter().filter(|id| wanted.is_none_or(|wanted| id == wanted)).map(|id| (folder, id)));
    }
    match all.len() {
        1 => Ok(all.remove(0)),
        0 => Err(Failure::Bad {
            what: wanted.map_or("there is no trial".to_owned(), |id| format!("there is no trial {id}")),
            remedy: "the folder `trials` of the run folder has the trials' ids".to_owned(),
        }),
        count => Err(Failure::Bad {
            what: format!("a history is of one trial, and there are {count}"),
            remedy: "give one run folder, and name the trial, such as --trial 001".to_owned(),
        }),
    }
}
