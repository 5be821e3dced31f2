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
        patience: 1.0,
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
    play(command, Stdio::null(), within, &never).unwrap()
}

#[test]
fn nothing_of_the_user_is_handed_on_to_a_host() {
    // A user who forwards everything to everybody, in the configuration and before it is asked for.
    for part in [Part::Master, Part::Passenger, Part::Alone] {
        let words = words(&client("pi1"), part);
        for option in [
            "BatchMode=yes",
            "ForwardAgent=no",
            "GSSAPIDelegateCredentials=no",
            "ForwardX11=no",
            "PermitLocalCommand=no",
            "ClearAllForwardings=yes",
            "Tunnel=no",
        ] {
            assert!(words.contains(&format!(" -o {option} ")), "{option} in {words}");
        }
        assert!(!words.contains(" -A") && words.contains(" -T "), "{words}");
    }
}

#[test]
fn of_what_a_program_writes_the_beginning_and_the_end_are_kept_however_much_it_is() {
    let script = "echo first; head -c 3000000000 /dev/zero; echo last; echo bad >&2; exit 255";
    let outcome = shell(script, Duration::from_secs(600));
    let note = "\n… 2 GB more, not kept\n";
    assert!(
        outcome.output.starts_with("first\n") && outcome.output.contains(note) && outcome.output.ends_with("last\n")
    );
    // A zero is shown as six characters.
    assert!(outcome.output.len() <= 2 * 6 * KEPT_BYTES + note.len(), "{}", outcome.output.len());
    assert_eq!(outcome.errors, "bad\n");
    assert!(outcome.is_ssh() && !outcome.is_ok());
}

#[test]
fn what_a_program_writes_can_be_shown() {
    let outcome = shell("printf '\\033]0;owned\\007\\n' >&2", Duration::from_secs(60));
    assert_eq!(outcome.errors, "\\u{1b}]0;owned\\u{7}\n");
}

#[test]
fn whoever_wants_an_end_does_not_wait_for_a_program() {
    let mut command = Command::new("sleep");
    command.arg("1000");
    let outcome = play(command, Stdio::null(), Duration::from_secs(1000), &|| true).unwrap();
    assert!(outcome.status.is_none());
}

#[test]
fn who_does_not_end_in_time_is_killed() {
    let outcome = shell("echo begun; exec sleep 1000", Duration::from_millis(300));
    assert!(outcome.status.is_none() && !outcome.is_ok());
}
