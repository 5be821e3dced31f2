//! `plimsoll export`: writes the figures of runs for other programs, as CSV, Parquet or
//! OpenMetrics, for each second or with a row for each trial; or a history for other checkers.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use analysis::LatencySeries;
use parquet::ParquetFile;
use record::folder::RunFolder;
use record::results::Trial;
use seconds::FigureSecond;

use crate::exit::{Exit, Failure};
use crate::named_files::{NamedFile, cannot_write};
use crate::{cli, output};

mod client_history;
mod csv_table;
mod openmetrics;
mod parquet;
mod seconds;

/// A trial to export.
struct ExportedTrial<'a> {
    /// Name of the run folder.
    run: String,
    folder: &'a RunFolder,
    trial: &'a Trial,
    latency: &'a LatencySeries,
}

pub fn run(arguments: &cli::Export) -> Result<Exit, Failure> {
    let mut out = ExportDestination::of(arguments.out.as_deref())?;
    let mut table = csv_table::CsvTable::default();
    let mut seconds_file = ParquetFile::new(csv_table::fields_of_seconds());
    let mut families = openmetrics::MetricFamilies::default();
    let mut folders: Vec<RunFolder> = Vec::new();
    for path in &arguments.folders {
        folders.extend(found(path)?);
    }
    if let Some(format) = arguments.history {
        out.write(&client_history::exported(format, &folders, arguments)?)?;
        out.end()?;
        return Ok(Exit::Well);
    }
    if arguments.csv && !arguments.trials {
        out.write(&csv_table::header_of_seconds()?)?;
    }
    for folder in &folders {
        let run = analysis::analyze_to_draw(folder)?;
        for (trial, latency) in run.results.trials.iter().zip(&run.latencies) {
            let name = folder.path().canonicalize().unwrap_or_else(|_| folder.path().to_path_buf());
            let name = name.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let exported = ExportedTrial { run: name, folder, trial, latency };
            if arguments.trials {
                table.add(&exported)?;
                continue;
            }
            let all = seconds::of(&exported)?;
            if arguments.csv {
                out.write(&csv_table::rows_of_seconds(&exported, &all)?)?;
            } else if arguments.parquet {
                for part in all.chunks(parquet::ROWS) {
                    out.write_bytes(&seconds_file.rows(&csv_table::columns_of_seconds(&exported, part)?))?;
                }
            } else {
                families.add(&exported, &all)?;
            }
        }
    }
    if arguments.trials && arguments.parquet {
        out.write_bytes(&table.parquet())?;
    } else if arguments.trials {
        out.write(&table.text()?)?;
    } else if arguments.parquet {
        out.write_bytes(&seconds_file.end())?;
    } else if arguments.openmetrics {
        out.write(&families.text())?;
    }
    out.end()?;
    Ok(Exit::Well)
}

fn found(path: &Path) -> Result<Vec<RunFolder>, Failure> {
    let why = match RunFolder::found_at(path) {
        Ok(folders) if !folders.is_empty() => return Ok(folders),
        Ok(_) => "is not a run folder and holds none: there is no plan.json".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    };
    Err(Failure::Bad {
        what: format!("{} {why}", path.display()),
        remedy: "give a folder that `plimsoll run` made, or one that holds several of them".to_owned(),
    })
}

/// Destination of the export.
enum ExportDestination {
    Output,
    File(PathBuf, BufWriter<NamedFile>),
}

impl ExportDestination {
    fn of(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Ok(Self::Output) };
        Ok(Self::File(path.to_path_buf(), BufWriter::new(NamedFile::create(path)?)))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        match self {
            Self::Output => output::data(text),
            Self::File(path, file) => file.write_all(text.as_bytes()).map_err(|error| cannot_write(path, error)),
        }
    }

    /// Writes bytes that are not text, which must go to a file.
    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Output => Err(Failure::Ours("Parquet on standard output".to_owned())),
            Self::File(path, file) => file.write_all(bytes).map_err(|error| cannot_write(path, error)),
        }
    }

    fn end(self) -> Result<(), Failure> {
        match self {
            Self::Output => Ok(()),
            Self::File(path, file) => {
                let file = file.into_inner().map_err(|error| cannot_write(&path, error.into_error()))?;
                file.finish(&path)
            }
        }
    }
}
