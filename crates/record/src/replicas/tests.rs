//! Tests of the records of replicas, whole and cut off.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::scratch::Scratch;

fn held(value: &str, version: Option<&str>) -> Held {
    Held { value: value.to_owned(), version: version.map(str::to_owned) }
}

fn replicas() -> Vec<Replica> {
    let table =
        |records: &[(&str, Held)]| records.iter().map(|(key, held)| ((*key).to_owned(), held.clone())).collect();
    let two = table(&[("a", held("{\"party\": \"x\"}\n", Some("2"))), ("records", held("", None))]);
    vec![
        Replica { member: "n1".to_owned(), holds: Ok(two) },
        Replica { member: "n2".to_owned(), holds: Err("hook `audit` failed: exit 7".to_owned()) },
        Replica { member: "n3".to_owned(), holds: Ok(Table::new()) },
    ]
}

#[test]
fn what_was_written_is_read() {
    let folder = Scratch::new("replicas");
    let path = folder.path("replicas.jsonl");
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
    assert_eq!(read(&folder.path("none")).unwrap(), Records::default());
}

#[test]
fn wherever_it_was_cut_off_nobody_seems_to_hold_less() {
    let folder = Scratch::new("replicas");
    let path = folder.path("replicas.jsonl");
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
fn what_is_broken_in_the_middle_is_an_error() {
    let folder = Scratch::new("replicas");
    let path = folder.path("replicas.jsonl");
    std::fs::write(
        &path,
        "{\"member\":\"n1\",\"records\":1}\n{\"member\":\"n1\"}\n{\"member\":\"n2\",\"records\":0}\n",
    )
    .unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("replicas.jsonl:2: "));
}
