//! What every member holds, asked of each by itself with the target's hook `audit`, of all at
//! the same time.

use std::time::Duration;

use record::replicas::{Held, Replica, Table};
use serde_json::Value;

use super::Site;
use super::layout::HookHost;
use crate::hooks::{AUDIT_BYTES, Hook};
use crate::hosts::{Host, on_all};
use crate::plain_text;

/// The hook's name.
const AUDIT: &str = "audit";
/// Time limit of the hook. A slow core may need seconds for tens of thousands of records.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of asking a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What it holds.
    pub replica: Replica,
    /// Whether it runs; if not, there is no use in asking it again.
    pub is_up: bool,
}

impl Site {
    /// Whether the target can say what its members hold.
    #[must_use]
    pub fn can_audit(&self) -> bool {
        self.hooks.contains_key(AUDIT) && !self.hook_hosts.is_empty()
    }

    /// Asks every member that is up what it holds; of the others, why they were not. Empty without the hook.
    pub fn audit(&mut self) -> Vec<Told> {
        if !self.can_audit() {
            return Vec::new();
        }
        self.look();
        let places = self.hook_hosts.clone();
        let mut asked: Vec<Option<Result<Hook, String>>> = self.hosts.iter().map(|_| None).collect();
        for place in &places {
            if let Some(asked) = asked.get_mut(place.host) {
                *asked = Some(self.question(place));
            }
        }
        let answers = on_all(&mut self.hosts, |index, host| {
            Ok(asked.get(index).and_then(Option::as_ref).map(|hook| ask(hook.as_ref(), host)))
        });
        let mut answers: Vec<_> = answers.into_iter().map(Some).collect();
        let of_place = |place: &HookHost| {
            let member = self.hosts.get(place.host).map(|host| host.name().to_owned()).unwrap_or_default();
            let holds = match answers.get_mut(place.host).and_then(Option::take) {
                Some(Ok(Some(holds))) => holds,
                Some(Err(error)) => Err(error.to_string()),
                Some(Ok(None)) | None => Err("nobody asked it".to_owned()),
            };
            let is_up = asked.get(place.host).is_some_and(|asked| matches!(asked, Some(Ok(_))));
            Told { replica: Replica { member, holds }, is_up }
        };
        places.iter().map(of_place).collect()
    }

    /// The hook for one member, or why it need not be asked.
    fn question(&self, place: &HookHost) -> Result<Hook, String> {
        if !self.hosts.get(place.host).is_some_and(|host| host.is_up()) {
            return Err("its host is down".to_owned());
        }
        let mut here = self.posts.iter().filter(|post| post.host == place.host && post.member.is_some());
        if let Some(post) = here.find(|post| post.process.is_none()) {
            return Err(format!("its process `{}` does not run", post.start.role));
        }
        let hook = self.hook_at(place, AUDIT, PATIENCE).ok_or("there is no hook")?;
        Ok(Hook { answer_bytes: AUDIT_BYTES, ..hook })
    }
}

fn ask(hook: Result<&Hook, &String>, host: &dyn Host) -> Result<Table, String> {
    let hook = hook.map_err(Clone::clone)?;
    let answer = if host.session().is_some() { hook.ask_on(host) } else { hook.ask() };
    table(answer.map_err(|error| error.to_string())?)
}

/// `{"records": {"KEY": "VALUE" | {"value": "VALUE", "version": "VERSION"}}}`
fn table(answer: Value) -> Result<Table, String> {
    let Value::Object(mut answer) = answer else { return Err("its answer is not an object".to_owned()) };
    let Some(Value::Object(records)) = answer.remove("records") else {
        return Err("its answer has no object `records`".to_owned());
    };
    let held = |(key, value): (String, Value)| match held(value) {
        Some(held) => Ok((key, held)),
        None => {
            let key = plain_text::line(&key);
            Err(format!("its record `{key}` is neither a text nor {{\"value\": TEXT, \"version\": TEXT}}"))
        }
    };
    records.into_iter().map(held).collect()
}

fn held(value: Value) -> Option<Held> {
    match value {
        Value::String(value) => Some(Held { value, version: None }),
        Value::Object(mut record) => {
            let Value::String(value) = record.remove("value")? else { return None };
            let version = match record.remove("version") {
                None | Some(Value::Null) => None,
                Some(Value::String(version)) => Some(version),
                Some(Value::Number(version)) => Some(version.to_string()),
                Some(_) => return None,
            };
            record.is_empty().then_some(Held { value, version })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use experiment::manifest::Manifest;
    use serde_json::json;

    use super::*;
    use crate::fixture::hosts::Lab;
    use crate::fixture::{Adjust as _, Bench, manifest, server};

    /// A proxy, and members that serve it.
    fn target() -> Manifest {
        let mut manifest = manifest(vec![server("server"), server("proxy").after("server")]);
        manifest.about.service = "proxy.service".to_owned();
        manifest.about.members = "server".to_owned();
        manifest.hooks.insert("audit".to_owned(), "hooks/audit".to_owned());
        manifest
    }

    fn held(value: &str, version: Option<&str>) -> Held {
        Held { value: value.to_owned(), version: version.map(str::to_owned) }
    }

    fn one(key: &str, value: &str) -> Result<Table, String> {
        Ok(Table::from([(key.to_owned(), held(value, None))]))
    }

    #[test]
    fn a_record_is_a_text_or_a_value_with_its_version() {
        let read = |records: Value| table(json!({ "records": records, "more": 1 }));
        assert_eq!(read(json!({ "a": "x" })), one("a", "x"));
        let whole = read(
            json!({ "a": { "value": "x", "version": "2" }, "b": { "value": "y", "version": 3 }, "c": { "value": "" } }),
        );
        let expected = [("a", held("x", Some("2"))), ("b", held("y", Some("3"))), ("c", held("", None))];
        assert_eq!(whole, Ok(expected.map(|(key, held)| (key.to_owned(), held)).into()));
        for bad in [
            json!(1),
            json!(null),
            json!(["x"]),
            json!({}),
            json!({ "value": 1 }),
            json!({ "value": "x", "verison": "1" }),
        ] {
            let error = read(json!({ "k": bad })).unwrap_err();
            assert!(error.starts_with("its record `k` is neither a text nor "), "{bad}: {error}");
        }
        assert_eq!(table(json!({})).unwrap_err(), "its answer has no object `records`");
        assert_eq!(table(json!({ "records": [] })).unwrap_err(), "its answer has no object `records`");
    }

    #[test]
    fn every_member_that_is_up_is_asked_by_itself_and_nobody_else() {
        let bench = Bench::new();
        // The one on n3 cannot answer.
        let script = r#"echo "$PLIMSOLL_NAME" >> asked
[ "$PLIMSOLL_NAME" = n3 ] && { echo "tables are not loaded" >&2; exit 7; }
printf '{"records": {"at": "%s", "of": "%s"}}' "$PLIMSOLL_HOST" "$PLIMSOLL_NAMES""#;
        bench.folder.script("hooks/audit", script);
        let lab = Lab::new(&bench, &["proxy", "server", "server", "server"]);
        let mut site = lab.up(&target()).unwrap();
        assert!(site.can_audit());
        // Of n4 the process is gone, with the host still there.
        let post = site.post_of("n4", None).unwrap();
        site.signal(post, rustix::process::Signal::KILL, true).unwrap();
        crate::fixture::until("it is down", || {
            site.posts[post].process.is_none() || {
                site.look();
                false
            }
        });
        let [two, three, four] = site.audit().try_into().unwrap();
        assert_eq!(
            [&two, &three, &four].map(|told| (told.replica.member.as_str(), told.is_up)),
            [("n2", true), ("n3", true), ("n4", false)]
        );
        let expected =
            [("at", "127.0.0.2"), ("of", "n2,n3,n4")].map(|(key, value)| (key.to_owned(), held(value, None)));
        assert_eq!(two.replica.holds, Ok(expected.into()));
        assert_eq!(three.replica.holds.unwrap_err(), "hook `audit` failed: exit status: 7: tables are not loaded");
        assert_eq!(four.replica.holds.unwrap_err(), "its process `server` does not run");
        let mut asked: Vec<String> =
            std::fs::read_to_string(bench.folder.join("asked")).unwrap().lines().map(str::to_owned).collect();
        asked.sort();
        assert_eq!(asked, ["n2", "n3"]);

        lab.strings[1].is_lost.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(site.audit()[0].replica.holds.clone().unwrap_err(), "its host is down");
    }

    #[test]
    fn without_the_hook_nobody_is_asked() {
        let bench = Bench::new();
        let mut manifest = target();
        manifest.hooks.clear();
        let mut site = Lab::new(&bench, &["", ""]).up(&manifest).unwrap();
        assert_eq!((site.can_audit(), site.audit()), (false, Vec::new()));
    }

    /// 50,000 records of 200 quotes, which take 400 bytes of JSON, on a single line.
    const LARGE: &str = r#"awk 'BEGIN { v = ""; for (i = 0; i < 200; i++) v = v "\\\""; printf "{\"records\": {";
for (i = 0; i < 50000; i++) printf "%s\"k%d\": \"%s\"", i ? ", " : "", i, v; print "}}" }'"#;

    #[test]
    fn a_large_table_is_taken_whole() {
        let bench = Bench::new();
        bench.folder.script("hooks/audit", LARGE);
        let mut site = Lab::new(&bench, &[""]).up(&target()).unwrap();
        let table = site.audit().remove(0).replica.holds.unwrap();
        assert_eq!((table.len(), table["k49999"].value.len()), (50_000, 200));
        // Others are cut as before.
        let hook = site.hook_at(&site.hook_hosts[0].clone(), "audit", PATIENCE).unwrap();
        assert_eq!(hook.ask().unwrap_err().to_string(), "hook `audit` failed: its answer is longer than 8 MiB");
    }
}
