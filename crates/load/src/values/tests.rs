//! Values: every placeholder, and that a value can be written again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Names without slots or feeds.
pub fn names() -> Names<'static> {
    Names { slots: &[], feeds: &[], program: None, own: BTreeMap::new() }
}

/// A source without slots or feeds.
pub fn source(agent: u64, seq: u64) -> Source<'static> {
    Source { agent, seq, draw: 99, slots: &[], kept: 0, feeds: &[], rows: &[] }
}

fn written(template: &Template, source: &Source<'_>) -> String {
    let mut out = Vec::new();
    template.write(source, &mut out);
    String::from_utf8(out).unwrap()
}

fn compile(text: &str) -> Template {
    Template::compile(text, 0, &names()).unwrap()
}

#[test]
fn numbers_and_texts() {
    let cases = [
        ("plain", "plain"),
        ("", ""),
        ("{agent}-{seq}", "3-12"),
        ("{seq%10}", "2"),
        ("{seq-20}", "0"),
        ("{seq+1}/{agent+100}", "13/103"),
        ("{{{seq}}}", "{12}"),
        ("{uniform:5..5}", "5"),
        ("{zipf:8..8}", "8"),
    ];
    for (text, expected) in cases {
        assert_eq!(written(&compile(text), &source(3, 12)), expected, "{text}");
    }
    assert_eq!(written(&compile("{seq}"), &source(1, u64::MAX)), u64::MAX.to_string());
}

#[test]
fn random_values_differ_by_operation_and_argument_but_not_by_writing() {
    let first = Template::compile("{bytes:20} {uniform:1..1000000}", 0, &names()).unwrap();
    let second = Template::compile("{bytes:20} {uniform:1..1000000}", 1, &names()).unwrap();
    let (now, later) = (source(1, 1), Source { draw: 100, ..source(1, 1) });
    assert_eq!(written(&first, &now), written(&first, &now));
    assert_ne!(written(&first, &now), written(&second, &now));
    assert_ne!(written(&first, &now), written(&first, &later));
}

#[test]
fn slots() {
    let slots = vec!["a".to_owned(), "b".to_owned()];
    let own = BTreeMap::from([("mine", compile("<{seq}>"))]);
    let names = Names { slots: &slots, feeds: &[], program: None, own };
    let template = Template::compile("{a}+{b}", 0, &names).unwrap();
    let kept = [b"left".to_vec(), b"right".to_vec()];
    let full = Source { slots: &kept, kept: 3, ..source(1, 7) };
    let half = Source { kept: 1, ..full };
    assert_eq!(written(&template, &full), "left+right");
    assert_eq!(written(&template, &half), "left+");
    assert!(template.is_filled(&full) && !template.is_filled(&half));
    let alone = Template::compile("{b}", 0, &names).unwrap();
    assert_eq!(alone.as_slot(&full), Some(&b"right"[..]));
    assert_eq!(written(&Template::compile("{mine}", 0, &names).unwrap(), &full), "<7>");
    let missing = Template::compile("{c}", 0, &names).unwrap_err();
    assert!(missing.contains("`c`"), "{missing}");
}

#[test]
fn feed_rows() {
    let folder = std::env::temp_dir().join(format!("plimsoll-feed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("users.csv"), "name,mail\nann,a@x\n\"b,ob\",b@x\n").unwrap();
    std::fs::write(folder.join("empty.csv"), "name\n").unwrap();
    let plan = |file: &str| experiment::plan::Feed { name: "users".into(), file: file.into(), random: false };
    let feed = Feed::read(&plan("users.csv"), &folder);
    let empty = Feed::read(&plan("empty.csv"), &folder);
    let missing = Feed::read(&plan("none.csv"), &folder);
    std::fs::remove_dir_all(&folder).unwrap();
    let feeds = [feed.unwrap()];
    let names = Names { slots: &[], feeds: &feeds, program: None, own: BTreeMap::new() };
    let template = Template::compile("{feed.users.mail}:{feed.users.name}", 0, &names).unwrap();
    assert_eq!(written(&template, &Source { feeds: &feeds, rows: &[0], ..source(1, 1) }), "a@x:ann");
    assert_eq!(written(&template, &Source { feeds: &feeds, rows: &[1], ..source(1, 1) }), "b@x:b,ob");
    assert!(Template::compile("{feed.users.age}", 0, &names).unwrap_err().contains("name, mail"));
    assert!(Template::compile("{feed.cities.name}", 0, &names).is_err());
    assert!(empty.is_err() && missing.is_err());
}

#[test]
fn the_environment_is_read_once() {
    let template = compile("{env:PATH}");
    assert_eq!(template.as_constant(), Some(std::env::var("PATH").unwrap().as_bytes()));
    assert!(Template::compile("{env:NO_SUCH_VARIABLE_HERE}", 0, &names()).is_err());
}

#[test]
fn fixed_lengths() {
    assert_eq!(compile("ab{bytes:10}").fixed_length(), Some(12));
    assert_eq!(compile("ab{seq}").fixed_length(), None);
}
