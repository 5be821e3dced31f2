//! `replicas.jsonl`: the data of every member after the load, read from each member separately.
//!
//! A member's first line gives the number of the member's records, which follow, one per line. If a
//! member has fewer lines than that, the file was cut off.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checked_file::{ReadError, Records};
use crate::lines::{self, JsonLinesWriter};

/// Value and version that a member holds under a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicaValue {
    /// The value, as clients write it.
    pub value: String,
    /// Version that the target itself gives to the value, if it reports one. Replicas must agree on
    /// versions too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// All data of a member, by key (`SPACE/KEY` if the protocol has spaces).
pub type ReplicaContents = BTreeMap<String, ReplicaValue>;

/// A member and the data that was read from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Name of the member's host.
    pub member: String,
    /// The member's data, or the reason why the data is unknown.
    pub holds: Result<ReplicaContents, String>,
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum ReplicaLine {
    Record {
        member: String,
        key: String,
        #[serde(flatten)]
        held: ReplicaValue,
    },
    Failed {
        member: String,
        failed: String,
    },
    Asked {
        member: String,
        records: u64,
    },
}

/// Writes the file; replaces an existing file.
pub fn write(path: &Path, replicas: &[Replica]) -> io::Result<()> {
    let mut writer = JsonLinesWriter::create(path)?;
    for Replica { member, holds } in replicas {
        match holds {
            Err(failed) => writer.write(&ReplicaLine::Failed { member: member.clone(), failed: failed.clone() })?,
            Ok(table) => {
                writer.write(&ReplicaLine::Asked { member: member.clone(), records: table.len() as u64 })?;
                for (key, held) in table {
                    let line = ReplicaLine::Record { member: member.clone(), key: key.clone(), held: held.clone() };
                    writer.write(&line)?;
                }
            }
        }
    }
    writer.flush()
}

/// Reads the file. Without a file, there are no members. A member with missing lines counts as
/// failed, because the lines may contain data that a check would report as lost.
///
/// # Errors
/// If the file cannot be read, or is broken elsewhere than at its end.
pub fn read(path: &Path) -> Result<Records<Replica>, ReadError> {
    let lines = lines::read::<ReplicaLine>(path)?;
    // Replicas, each with the number of records that its first line gives.
    let mut found: Vec<(Replica, u64)> = Vec::new();
    for line in lines.items {
        match line {
            ReplicaLine::Asked { member, records } => {
                found.push((Replica { member, holds: Ok(ReplicaContents::new()) }, records))
            }
            ReplicaLine::Failed { member, failed } => found.push((Replica { member, holds: Err(failed) }, 0)),
            ReplicaLine::Record { member, key, held } => {
                let known = found.iter_mut().rev().find(|(replica, _)| replica.member == member);
                if let Some(Replica { holds: Ok(table), .. }) = known.map(|(replica, _)| replica) {
                    table.insert(key, held);
                }
            }
        }
    }
    for (replica, told) in &mut found {
        if let Ok(table) = &replica.holds
            && (table.len() as u64) < *told
        {
            replica.holds = Err(format!("its records were cut off after {} of {told}", table.len()));
        }
    }
    Ok(Records { items: found.into_iter().map(|(replica, _)| replica).collect(), torn: lines.torn })
}

#[cfg(test)]
mod tests {
    use fixture::TestDir;

    use super::*;

    fn held(value: &str, version: Option<&str>) -> ReplicaValue {
        ReplicaValue { value: value.to_owned(), version: version.map(str::to_owned) }
    }

    fn replicas() -> Vec<Replica> {
        let records = [("a", held("{\"party\": \"x\"}\n", Some("2"))), ("records", held("", None))];
        let records = records.map(|(key, held)| (key.to_owned(), held));
        vec![
            Replica { member: "n1".to_owned(), holds: Ok(ReplicaContents::from(records)) },
            Replica { member: "n2".to_owned(), holds: Err("hook `audit` failed: exit 7".to_owned()) },
            Replica { member: "n3".to_owned(), holds: Ok(ReplicaContents::new()) },
        ]
    }

    #[test]
    fn replicas_are_read_back() {
        let folder = TestDir::new();
        let path = folder.join("replicas.jsonl");
        write(&path, &replicas()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = r#"{"member":"n1","records":2}
{"member":"n1","key":"a","value":"{\"party\": \"x\"}\n","version":"2"}
{"member":"n1","key":"records","value":""}
{"member":"n2","failed":"hook `audit` failed: exit 7"}
{"member":"n3","records":0}
"#;
        assert_eq!(text, expected);
        assert_eq!(read(&path).unwrap(), Records { items: replicas(), torn: false });
        assert_eq!(read(&folder.join("none")).unwrap(), Records::default());
    }

    #[test]
    fn a_truncated_file_never_shows_fewer_records() {
        let folder = TestDir::new();
        let path = folder.join("replicas.jsonl");
        write(&path, &replicas()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            for replica in read(&path).unwrap().items {
                let known = replicas().into_iter().find(|known| known.member == replica.member).unwrap();
                if replica != known {
                    assert!(replica.holds.unwrap_err().starts_with("its records were cut off after "), "at {length}");
                }
            }
        }
    }

    #[test]
    fn a_broken_line_in_the_middle_is_an_error() {
        let folder = TestDir::new();
        let path = folder.join("replicas.jsonl");
        std::fs::write(
            &path,
            "{\"member\":\"n1\",\"records\":1}\n{\"member\":\"n1\"}\n{\"member\":\"n2\",\"records\":0}\n",
        )
        .unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("replicas.jsonl:2: "));
    }
}
