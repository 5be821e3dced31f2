//! The system's `ssh` program: its command lines, with the user's configuration, and the meaning of
//! its error messages.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Destination;
use crate::system_program::{CommandOutcome, last_line, never, run_within};

/// Environment variable with a configuration file for ssh, in place of the user's.
const CONFIG: &str = "PLIMSOLL_SSH_CONFIG";
/// Environment variable that scales all ssh time limits. Tests with unresponsive machines use it.
const PATIENCE: &str = "PLIMSOLL_SSH_PATIENCE";

/// Mandatory options. ssh uses the first value of an option, so these options come first.
const INSISTED: &[&str] = &[
    "BatchMode=yes",
    "LogLevel=ERROR",
    "RequestTTY=no",
    "RemoteCommand=none",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    // The remote root could use a forwarded agent to log in as the user elsewhere.
    "ForwardAgent=no",
    "GSSAPIDelegateCredentials=no",
    "ForwardX11=no",
    "Tunnel=no",
    "ControlPersist=no",
    // An unresponsive machine is noticed after 15 s.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
];

/// The ssh settings for connections to one destination.
#[derive(Debug, Clone)]
pub struct SshClient {
    destination: Destination,
    config: Option<PathBuf>,
    /// The folder in which ssh runs. The control socket's name is relative to it, because a socket
    /// path is limited to about 90 characters.
    folder: PathBuf,
    socket: String,
    connect_timeout_s: Option<u32>,
    patience: f64,
}

/// Use of the control socket by a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionRole {
    /// Opens the connection that the others share.
    Master,
    /// Uses the master's connection.
    Passenger,
    /// Opens a separate connection.
    Alone,
}

impl CommandOutcome {
    /// Whether ssh itself failed, not the remote command.
    pub fn is_ssh(&self) -> bool {
        self.status.is_some_and(|status| status.code() == Some(255))
    }
}

impl SshClient {
    /// Creates a client that runs in `folder`, with a control socket of this name there.
    pub fn new(destination: Destination, folder: &Path, socket: &str) -> Self {
        let config = std::env::var_os(CONFIG).filter(|path| !path.is_empty());
        let config = config.map(|path| std::path::absolute(&path).unwrap_or_else(|_| path.into()));
        let patience = std::env::var(PATIENCE).ok().and_then(|times| times.parse().ok());
        Self {
            destination,
            config,
            folder: folder.to_path_buf(),
            socket: socket.to_owned(),
            connect_timeout_s: None,
            patience: patience.filter(|times| (0.001..=1000.0).contains(times)).unwrap_or(1.0),
        }
    }

    /// Returns the scaled time limit.
    pub fn patience(&self, usual: Duration) -> Duration {
        usual.mul_f64(self.patience)
    }

    /// Sets the connect timeout for destinations without a configured timeout.
    pub fn with_connect_timeout(mut self, seconds: u32) -> Self {
        self.connect_timeout_s = Some(seconds);
        self
    }

    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Returns the arguments with which ssh runs `script` on the destination.
    pub fn arguments(&self, part: ConnectionRole, script: &str) -> Vec<OsString> {
        let mut arguments = self.config_arguments();
        arguments.push("-T".into());
        let (master, socket) = match part {
            ConnectionRole::Master => ("yes", self.socket.as_str()),
            ConnectionRole::Passenger => ("no", self.socket.as_str()),
            ConnectionRole::Alone => ("no", "none"),
        };
        let own = [format!("ControlMaster={master}"), format!("ControlPath={socket}")];
        let patience = self.connect_timeout_s.map(|seconds| format!("ConnectTimeout={seconds}"));
        for option in INSISTED.iter().map(|option| (*option).to_owned()).chain(own).chain(patience) {
            arguments.extend(["-o".into(), option.into()]);
        }
        arguments.extend(self.destination.arguments().into_iter().map(OsString::from));
        arguments.push(script.into());
        arguments
    }

    fn config_arguments(&self) -> Vec<OsString> {
        self.config.iter().flat_map(|path| ["-F".into(), path.into()]).collect()
    }

    fn command(&self, arguments: Vec<OsString>) -> Command {
        let mut command = Command::new("ssh");
        command.args(arguments).current_dir(&self.folder);
        // A jump host's ssh does not get BatchMode. With these variables, its prompts get no
        // answer.
        command.env("SSH_ASKPASS_REQUIRE", "force").env("SSH_ASKPASS", "false");
        command
    }

    /// Starts ssh. The ssh process ends when this program ends.
    ///
    /// # Errors
    /// The system's error; `NotFound` if there is no ssh.
    pub fn spawn(&self, part: ConnectionRole, script: &str, pipes: (Stdio, Stdio, Stdio)) -> io::Result<Child> {
        let mut command = self.command(self.arguments(part, script));
        command.stdin(pipes.0).stdout(pipes.1).stderr(pipes.2);
        linux::spawn(command)
    }

    /// Runs a script on the destination to its end. Ends it early once `stop` returns true.
    ///
    /// # Errors
    /// Like [`Self::spawn`].
    pub fn run(
        &self,
        part: ConnectionRole,
        script: &str,
        input: Stdio,
        within: Duration,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<CommandOutcome> {
        run_within(self.command(self.arguments(part, script)), input, self.patience(within), stop)
    }

    /// Runs `ssh -G`, which prints the options that apply to the destination.
    ///
    /// # Errors
    /// Like [`Self::spawn`].
    pub fn resolve(&self) -> io::Result<CommandOutcome> {
        let mut arguments = self.config_arguments();
        arguments.push("-G".into());
        arguments.extend(self.destination.arguments().into_iter().map(OsString::from));
        run_within(self.command(arguments), Stdio::null(), Duration::from_secs(10), &never)
    }
}

// ssh's error messages in words for the user, with the remedy if one is known. Pure.

/// Explains why ssh could not connect. `errors` is ssh's standard error output.
#[must_use]
pub fn unreached(errors: &str, destination: &Destination) -> String {
    let by_hand = destination.by_hand();
    let says = |text: &str| errors.contains(text);
    let what = if says("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        "its host key has changed: the host was reinstalled, or someone intercepts the connection; if the new key is \
         right, remove the old one with `ssh-keygen -R`"
            .to_owned()
    } else if says("Host key verification failed") {
        format!("its host key is not known on this machine: log in once by hand with `ssh {by_hand}`")
    } else if says("Permission denied (") {
        format!(
            "it refuses a login without a password: copy your key there with `ssh-copy-id {by_hand}`, or add it to \
             your ssh agent"
        )
    } else {
        "cannot connect".to_owned()
    };
    format!("{what}; ssh says: {}; `ssh -v {by_hand}` shows more", last_line(errors))
}

/// Explains why this program does not run on the host. `errors` is the attempt's standard error.
#[must_use]
pub fn does_not_run(errors: &str) -> String {
    match errors.split('`').nth(1).and_then(|rest| rest.split('\'').next()).filter(|name| name.starts_with("GLIBC_")) {
        Some(version) => format!(
            "its C library is too old for this build of Plimsoll ({version} is missing): build Plimsoll on the lab's \
             oldest system"
        ),
        None => format!("Plimsoll was copied to the host but does not run there: {}", last_line(errors)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> SshClient {
        let destination = Destination::read(text).unwrap();
        SshClient {
            destination,
            config: Some("/c/config".into()),
            folder: "/tmp".into(),
            socket: "s1".to_owned(),
            connect_timeout_s: None,
            patience: 1.0,
        }
    }

    fn words(client: &SshClient, part: ConnectionRole) -> String {
        let arguments = client.arguments(part, "exec true");
        arguments.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_destination_comes_after_every_option() {
        let words = words(&client("pi@pi1:2222"), ConnectionRole::Passenger);
        assert!(words.starts_with("-F /c/config -T -o BatchMode=yes "), "{words}");
        assert!(words.ends_with(" -p 2222 -- pi@pi1 exec true"), "{words}");
    }

    #[test]
    fn one_connection_carries_the_others() {
        let client = client("pi1");
        assert!(words(&client, ConnectionRole::Master).contains("-o ControlMaster=yes -o ControlPath=s1 "));
        assert!(words(&client, ConnectionRole::Passenger).contains("-o ControlMaster=no -o ControlPath=s1 "));
        assert!(words(&client, ConnectionRole::Alone).contains("-o ControlMaster=no -o ControlPath=none "));
    }

    #[test]
    fn a_connect_timeout_is_set_only_on_request() {
        assert!(!words(&client("pi1"), ConnectionRole::Master).contains("ConnectTimeout"));
        assert!(
            words(&client("pi1").with_connect_timeout(10), ConnectionRole::Master).contains("-o ConnectTimeout=10 ")
        );
    }

    #[test]
    fn nothing_is_forwarded_to_a_host() {
        // A user who forwards everything to every host, in the configuration.
        for part in [ConnectionRole::Master, ConnectionRole::Passenger, ConnectionRole::Alone] {
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

    mod complaint {
        use super::*;

        fn words(errors: &str) -> String {
            unreached(errors, &Destination::read("pi@pi1:2222").unwrap())
        }

        #[test]
        fn each_cause_has_its_remedy() {
            let changed = "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\nHost key verification failed.\r\n";
            assert!(words(changed).contains("ssh-keygen -R"));
            let unknown = words("Host key verification failed.\r\n");
            assert!(
                unknown.contains("not known on this machine") && unknown.contains("`ssh -p 2222 pi@pi1`"),
                "{unknown}"
            );
            assert!(words("pi@pi1: Permission denied (publickey).\r\n").contains("ssh-copy-id"));
        }

        #[test]
        fn unknown_errors_are_quoted() {
            let refused = words("banner\r\nssh: connect to host pi1 port 2222: Connection refused\r\n\r\n");
            assert!(
                refused.contains("cannot connect; ssh says: ssh: connect to host pi1 port 2222: Connection refused;")
            );
            assert!(refused.contains("`ssh -v -p 2222 pi@pi1`"), "{refused}");
            assert!(words("").contains("ssh says: nothing"));
        }

        #[test]
        fn an_old_c_library_is_named() {
            let old = "/x/plimsoll: /lib/libc.so.6: version `GLIBC_2.39' not found (required by /x/plimsoll)\n";
            assert!(does_not_run(old).contains("(GLIBC_2.39 is missing)"));
            assert!(does_not_run("sh: 1: /x/plimsoll: not found\n").ends_with("sh: 1: /x/plimsoll: not found"));
            assert!(does_not_run("sh: `x' is odd\n").ends_with("sh: `x' is odd"));
        }
    }
}
