//! Tests of what is found, hidden and put back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;

use super::*;

const FILE: &str = r#"
secret = ["x-tenant", "body"]
[target]
url = "http://me:hunter2@localhost:8080"
[[load.cycle]]
call = "post" # not 'Bearer s3cr3t-t0ken' again
with = { path = "/", header.authorization = 'Bearer s3cr3t-t0ken', header.x-tenant = "acme", body = "{{\"pin\": 1234}}" }
[[load.cycle]]
call = "get"
with = { path = "/get", header.cookie = "sid={sid}", header.x-api-key = "{env:KEY}", header.accept = "acme" }
expect = { "header.set-cookie" = "sid=0123456789" }
"#;

fn source(text: &str) -> Source {
    Source { name: "x.toml".to_owned(), text: text.to_owned() }
}

#[test]
fn a_secret_is_hidden_where_it_stands_in_the_file_and_in_its_comments() {
    let hidden = Secrets::of(&source(FILE), &[]).hidden_file(&source(FILE));
    for secret in ["s3cr3t-t0ken", "hunter2", "1234}", "0123456789", "x-tenant = \"acme\""] {
        assert!(!hidden.contains(secret), "{secret} in {hidden}");
    }
    for kept in
        ["sid={sid}", "{env:KEY}", "header.accept = \"acme\"", "[redacted header.authorization]", "[redacted body]"]
    {
        assert!(hidden.contains(kept), "no {kept} in {hidden}");
    }
    assert!(syntax::parse(&Arc::new(source(&hidden))).1.is_empty(), "it is a file still: {hidden}");
}

#[test]
fn a_value_that_a_set_replaces_is_hidden_too() {
    let sets = ["load.cycle.post.with.header.authorization='Bearer an0ther-one'".to_owned()];
    let secrets = Secrets::of(&source(FILE), &sets);
    assert!(!secrets.hidden_file(&source(FILE)).contains("s3cr3t-t0ken"));
    assert!(!secrets.hidden_set(0, &sets[0]).contains("an0ther-one"), "{}", secrets.hidden_set(0, &sets[0]));
    assert!(!secrets.hidden("sent: Bearer an0ther-one").contains("an0ther-one"));
}

#[test]
fn a_short_secret_is_hidden_where_it_is_given_and_no_other_word_is() {
    let secrets = Secrets::of(&source(FILE), &[]);
    let mut plan =
        json!({ "title": "acme", "with": { "header.x-tenant": "acme" }, "url": "http://me:hunter2@localhost:8080" });
    secrets.hide(&mut plan);
    assert_eq!(plan["title"], "acme");
    assert_eq!(plan["with"]["header.x-tenant"], "[redacted header.x-tenant]");
    assert_eq!(plan["url"], "http://[redacted target.url login]localhost:8080");
}

#[test]
fn what_was_hidden_is_put_back_or_named() {
    let secrets = Secrets::of(&source(FILE), &[]);
    let plan =
        json!({ "with": { "header.authorization": "Bearer s3cr3t-t0ken", "body": "{{\"pin\": 1234}}" }, "agents": 4 });
    let mut hidden = plan.clone();
    secrets.hide(&mut hidden);
    assert_eq!(missing(&hidden), ["body", "header.authorization"]);
    assert!(missing(&plan).is_empty());
    secrets.restore(&mut hidden);
    assert_eq!(hidden, plan);
}

#[test]
fn two_secrets_of_one_name_are_told_apart() {
    let text = "[[load.cycle]]\nwith = { header.cookie = \"first-one\" }\n[[load.cycle]]\nwith = { header.cookie = \"second-one\" }";
    let secrets = Secrets::of(&source(text), &[]);
    let plan = json!(["first-one", "second-one"]);
    let mut hidden = plan.clone();
    secrets.hide(&mut hidden);
    assert_ne!(hidden[0], hidden[1]);
    secrets.restore(&mut hidden);
    assert_eq!(hidden, plan);
}

#[test]
fn a_secret_that_names_no_value_is_a_problem() {
    let (base, _) = syntax::parse(&Arc::new(source("secret = [\"x-tokn\"]\n[target]\nurl = \"http://h\"")));
    let mut problems = Vec::new();
    check_names(&base, &mut problems);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].what.contains("`x-tokn`"));
}

#[test]
fn secrets_are_not_printed_for_debugging() {
    let printed = format!("{:?}", Secrets::of(&source(FILE), &[]));
    assert!(printed.contains("header.authorization") && !printed.contains("s3cr3t"), "{printed}");
}
