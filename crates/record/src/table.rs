//! CSV files with a header line, for the rows of [`crate::rows`].

use std::io;
use std::marker::PhantomData;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checked_file::{LineFile, ReadError, Records, open_lines};

/// Writes rows. Rows go to the kernel on [`CsvWriter::flush`], or when the buffer is full.
#[derive(Debug)]
pub struct CsvWriter<T> {
    file: LineFile,
    rows: PhantomData<fn(&T)>,
}

impl<T: Serialize + Default> CsvWriter<T> {
    /// Creates a file with its header line; empties an existing file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut writer = Self { file: LineFile::create(path)?, rows: PhantomData };
        writer.write_header()?;
        Ok(writer)
    }

    /// Opens a file for appending; creates it with its header if missing. Removes a last row that
    /// was cut off.
    pub fn append(path: &Path) -> io::Result<Self> {
        let mut writer = Self { file: LineFile::append(path)?, rows: PhantomData };
        if writer.file.is_empty() {
            writer.write_header()?;
        }
        Ok(writer)
    }

    /// Adds a row.
    pub fn write(&mut self, row: &T) -> io::Result<()> {
        self.file.write(&lines_of(row, false)?)
    }

    /// Passes all data to the kernel. After that, a SIGKILL of this process loses nothing.
    ///
    /// # Errors
    /// If the file cannot be written. The buffered rows are lost then; the file still ends in a
    /// whole row.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn write_header(&mut self) -> io::Result<()> {
        let mut header = lines_of(&T::default(), true)?;
        let end = header.iter().position(|&byte| byte == b'\n').map_or(header.len(), |at| at + 1);
        header.truncate(end);
        self.file.write(&header)?;
        self.file.flush()
    }
}

/// Writes each row as soon as `rows` returns it. The first row creates the file, so there is no
/// file if there are no rows.
pub fn write_all<T: Serialize + Default>(path: &Path, rows: impl IntoIterator<Item = T>) -> io::Result<()> {
    let mut writer: Option<CsvWriter<T>> = None;
    for row in rows {
        let writer = match &mut writer {
            Some(writer) => writer,
            none => none.insert(CsvWriter::create(path)?),
        };
        writer.write(&row)?;
        writer.flush()?;
    }
    Ok(())
}

fn lines_of<T: Serialize>(row: &T, with_header: bool) -> io::Result<Vec<u8>> {
    let mut csv = csv::WriterBuilder::new().has_headers(with_header).from_writer(Vec::new());
    csv.serialize(row).map_err(io::Error::other)?;
    csv.into_inner().map_err(|error| error.into_error())
}

/// Reads a file of rows. Columns are found by name, and unknown columns are ignored. A missing file
/// has no rows. A last row that was cut off is dropped, and [`Records::torn`] is set.
///
/// # Errors
/// If the file cannot be read, or a row other than the last one is broken.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Records<T>, ReadError> {
    let mut items = Vec::new();
    let torn = visit(path, |row| items.push(row))?;
    Ok(Records { items, torn })
}

/// Reads a file of rows as [`read`] does and passes them to `take` one by one, in file order, so
/// that a long file need not fit into memory. Returns whether the last row was cut off and dropped.
///
/// # Errors
/// The errors of [`read`]. `take` has already received the rows before the error.
pub fn visit<T: DeserializeOwned>(path: &Path, mut take: impl FnMut(T)) -> Result<bool, ReadError> {
    let Some(lines) = open_lines(path)? else { return Ok(false) };
    // A file without even a header was cut off when it was created.
    let mut torn = lines.torn || lines.length == 0;
    let mut reader = csv::ReaderBuilder::new().from_reader(lines.reader);
    let mut rows = reader.deserialize();
    while let Some(row) = rows.next() {
        match row {
            Ok(row) => take(row),
            Err(error) => {
                if let csv::ErrorKind::Io(_) = error.kind() {
                    return Err(ReadError::Io { path: path.to_path_buf(), source: error.into() });
                }
                let line = error.position().map_or(1, |position| usize::try_from(position.line()).unwrap_or(0));
                if rows.next().is_some() || torn {
                    return Err(ReadError::Line { path: path.to_path_buf(), line, reason: reason(&error) });
                }
                torn = true;
            }
        }
    }
    Ok(torn)
}

fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} columns: expected {expected_len}, as in the header")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;
    use crate::rows::{Attempts, GeneratorSecond, OutcomeSlot, Sample};

    fn samples() -> Vec<Sample> {
        let host = Sample {
            at_s: -1.0,
            host: "this machine".into(),
            cpu_user_pct: Some(12.5),
            memory_used_bytes: Some(u64::MAX),
            ..Sample::default()
        };
        let process = Sample {
            at_s: 1.25,
            host: "n,1".into(),
            process: "ser\"ver".into(),
            cpu_iowait_pct: Some(0.0),
            ..Sample::default()
        };
        vec![host, process]
    }

    fn written<T: Serialize + Default>(scratch: &TestDir, rows: &[T]) -> std::path::PathBuf {
        let path = scratch.join("rows.csv");
        let mut writer = CsvWriter::create(&path).unwrap();
        for row in rows {
            writer.write(row).unwrap();
        }
        writer.flush().unwrap();
        path
    }

    #[test]
    fn missing_values_stay_distinct_from_zero() {
        let scratch = TestDir::new();
        let path = written(&scratch, &samples());
        assert_eq!(read::<Sample>(&path).unwrap(), Records { items: samples(), torn: false });
    }

    #[test]
    fn a_file_without_rows_has_its_header() {
        let scratch = TestDir::new();
        let path = written::<OutcomeSlot>(&scratch, &[]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "at_s,slot_s,ok,failed,timeout,wrong\n");
        assert_eq!(read::<OutcomeSlot>(&path).unwrap(), Records::default());
    }

    #[test]
    fn columns_missing_in_older_files_are_read_as_empty() {
        let scratch = TestDir::new();
        let path = scratch.join("samples.csv");
        // A header from before `cpu_throttled_pct` and `oom_kills`, which are between these
        // columns.
        let older = "at_s,host,process,cpu_user_pct,cpu_system_pct,cpu_iowait_pct,cpu_steal_pct,cpu_strangers_pct,\
                 run_delay_pct,load1,load5,load15,io_wait_threads,memory_used_bytes,memory_available_bytes,rss_bytes,\
                 disk_read_bytes,disk_write_bytes,net_rx_bytes,net_tx_bytes,psi_cpu_some_pct,psi_io_some_pct,\
                 psi_memory_some_pct,threads,fds\n\
                 0.25,local,,6.0,1.5,0.5,0.25,1.5,,1.0,0.5,0.25,0,2147483648,6442450944,,0,40960,60000,60000,1.25,,,,\n";
        std::fs::write(&path, older).unwrap();
        let wanted = Sample {
            at_s: 0.25,
            host: "local".into(),
            cpu_user_pct: Some(6.0),
            cpu_system_pct: Some(1.5),
            cpu_iowait_pct: Some(0.5),
            cpu_steal_pct: Some(0.25),
            cpu_strangers_pct: Some(1.5),
            load1: Some(1.0),
            load5: Some(0.5),
            load15: Some(0.25),
            io_wait_threads: Some(0),
            memory_used_bytes: Some(2_147_483_648),
            memory_available_bytes: Some(6_442_450_944),
            disk_read_bytes: Some(0),
            disk_write_bytes: Some(40960),
            net_rx_bytes: Some(60000),
            net_tx_bytes: Some(60000),
            psi_cpu_some_pct: Some(1.25),
            ..Sample::default()
        };
        assert_eq!(read::<Sample>(&path).unwrap(), Records { items: vec![wanted], torn: false });
    }

    #[test]
    fn appending_writes_one_header() {
        let scratch = TestDir::new();
        let path = scratch.join("rows.csv");
        let row = Attempts { at_s: 1.0, operation: "save".into(), result: "connection closed, reset".into(), count: 3 };
        for _ in 0..2 {
            CsvWriter::append(&path).unwrap().write(&row).unwrap();
        }
        assert_eq!(read::<Attempts>(&path).unwrap().items, [row.clone(), row]);
    }

    #[test]
    fn a_file_cut_off_at_any_byte_is_readable_up_to_there() {
        let scratch = TestDir::new();
        let rows: Vec<_> = (1..=4)
            .map(|thread| GeneratorSecond {
                at_s: f64::from(thread),
                thread,
                late_us_p99: Some(12.5),
                ..Default::default()
            })
            .collect();
        let path = written(&scratch, &rows);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            let records = read::<GeneratorSecond>(&path).unwrap();
            assert_eq!(records.items, rows[..lines.saturating_sub(1)], "cut at {cut}");
            assert_eq!(records.torn, cut == 0 || whole[cut - 1] != b'\n', "cut at {cut}");
        }
    }

    #[test]
    fn columns_are_found_by_name_and_unknown_columns_ignored() {
        let scratch = TestDir::new();
        let path = scratch.join("rows.csv");
        std::fs::write(&path, "moon,host,at_s\nfull,n1,2.5\nnew,n2,3\n").unwrap();
        let hosts: Vec<_> = read::<Sample>(&path).unwrap().items.into_iter().map(|row| (row.host, row.at_s)).collect();
        assert_eq!(hosts, [("n1".to_owned(), 2.5), ("n2".to_owned(), 3.0)]);
    }

    #[test]
    fn a_broken_row_is_torn_at_the_end_and_an_error_elsewhere() {
        let scratch = TestDir::new();
        let path = scratch.join("rows.csv");
        std::fs::write(&path, "at_s,operation,result,count\n1,save,ok,5\n2,save,ok,many\n").unwrap();
        let records = read::<Attempts>(&path).unwrap();
        assert_eq!((records.items.len(), records.torn), (1, true));
        for (content, says) in [
            ("at_s,operation,result,count\n1,save,ok,5\n2,save,ok,many\n3,save,ok,5\n", "rows.csv:3: "),
            (
                "at_s,operation,result,count\n1,save\n2,save,ok,7\n",
                "rows.csv:2: 2 columns: expected 4, as in the header",
            ),
        ] {
            std::fs::write(&path, content).unwrap();
            let message = read::<Attempts>(&path).unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        }
    }
}
