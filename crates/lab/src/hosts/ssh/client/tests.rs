//! Tests of the command line that ssh gets, and of playing a program to its end.
#![allow(clippy::unwrap_used)]

use super::*;

fn client(text: &str) -> Client {
    let destination = Destination::read(text).unwrap();
    Client {
        destination,
        config: Some("/c/config".into()),
        folder: "/tmp".into(),
        socket: "s1".to_owned(),
        connect_timeout_s: None,
    }
}

fn words(client: &Client, part: Part) -> String {
    let arguments = client.arguments(part, "exec true");
    arguments.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_destination_comes_after_every_option() {
    let words = words(&client("pi@pi1:2222"), Part::Passenger);
    assert!(words.starts_with("-F /c/config -T -o BatchMode=yes "), "{words}");
    assert!(words.ends_with(" -p 2222 -- pi@pi1 exec true"), "{words}");
}

#[test]
fn one_connection_carries_the_others() {
    let client = client("pi1");
    assert!(words(&client, Part::Master).contains("-o ControlMaster=yes -o ControlPath=s1 "));
    assert!(words(&client, Part::Passenger).contains("-o ControlMaster=no -o ControlPath=s1 "));
    assert!(words(&client, Part::Alone).contains("-o ControlMaster=no -o ControlPath=none "));
}

#[test]
fn the_users_patience_holds_where_there_is_one() {
    assert!(!words(&client("pi1"), Part::Master).contains("ConnectTimeout"));
    assert!(words(&client("pi1").with_connect_timeout(10), Part::Master).contains("-o ConnectTimeout=10 "));
}

fn shell(script: &str, within: Duration) -> Outcome {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    play(command, Stdio::null(), within).unwrap()
}

#[test]
fn what_a_program_writes_is_kept_however_much_it_is() {
    let outcome = shell("head -c 300000 /dev/zero; echo bad >&2; exit 255", Duration::from_secs(60));
    assert_eq!((outcome.output.len(), outcome.errors.as_str()), (300_000, "bad\n"));
    assert!(outcome.is_ssh() && !outcome.is_ok());
}

#[test]
fn who_does_not_end_in_time_is_killed() {
    let outcome = shell("echo begun; exec sleep 1000", Duration::from_millis(300));
    assert!(outcome.status.is_none() && !outcome.is_ok());
}
