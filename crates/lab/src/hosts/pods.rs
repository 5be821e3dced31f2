//! Running Kubernetes pods as hosts. A runner enters each pod as an additional (ephemeral)
//! container in the pod's network. The runner undoes all its changes when its stream ends. A crash
//! deletes the pod; then another ready pod takes its place.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use experiment::plan::LabPods;
use record::events::HostFigures;
use runner::{Setup, VERSION};
use serde_json::json;

use super::ssh::{packed, runner_beside};
use crate::Error;
use crate::deployment_spec::DeploymentSpec;
use crate::host::{Host, HostBackend, HostFacts, HostKind, all_or_none, in_parallel};
use crate::platforms::delivery::{self, Delivery, NotDelivered};
use crate::platforms::kubernetes::{Kubectl, Pod};
use crate::session::RunnerSession;
use crate::system_program::{KeptOutput, await_end, never};

/// Time limit for adding a container to a pod and for delivering the runner to it.
const TO_ENTER: Duration = Duration::from_secs(60);
/// Time limit for the runner to be ready.
const TO_BE_READY: Duration = Duration::from_secs(30);
/// Time limit for the stream to end after its runner has undone all changes.
const TO_END: Duration = Duration::from_secs(5);
/// Interval between queries to the cluster.
const GLANCE: Duration = Duration::from_millis(200);
/// Permissions that the user needs.
const RIGHTS: &str = "permissions needed in that namespace: pods (get, list, delete), pods/ephemeralcontainers \
                      (patch), pods/attach (create)";
/// The runner's folder, inside its own container.
const FOLDER: &str = "/tmp/plimsoll-runner";

/// Id of the next added container. It makes container names unique.
static ADDED: AtomicU32 = AtomicU32::new(1);

/// The pods that a lab may use. Each belongs to at most one host.
#[derive(Debug)]
struct SelectedPods {
    kubectl: Kubectl,
    settings: LabPods,
    taken: Mutex<BTreeSet<String>>,
    delivery: Delivery,
    run: String,
    at_once: Arc<AtomicBool>,
}

/// A pod with a runner.
#[derive(Debug)]
struct PodHost {
    name: String,
    pods: Arc<SelectedPods>,
    pod: String,
    address: String,
    carrier: Option<Child>,
}

/// Adds a runner to as many ready pods as the lab has hosts.
///
/// # Errors
/// If there are too few ready pods, or a pod cannot be entered. The hosts made so far are dropped.
pub fn reach_all(build: &DeploymentSpec<'_>, settings: &LabPods, stop: &AtomicBool) -> Result<Vec<Host>, Error> {
    let stop = || stop.load(Ordering::SeqCst);
    let ledger = build.registry.ledger();
    let runner = runner_beside(&build.plimsoll);
    let (program, unpack) = packed(&runner, &ledger.scratch()?, true).unwrap_or((runner, "cat"));
    let reading = || format!("read {}", program.display());
    let pods = Arc::new(SelectedPods {
        kubectl: Kubectl::new(settings.context.as_deref(), settings.namespace.as_deref(), RIGHTS),
        settings: settings.clone(),
        taken: Mutex::default(),
        delivery: Delivery::of(&program, unpack).map_err(Error::system(reading()))?,
        run: build.registry.id().to_owned(),
        at_once: Arc::clone(&build.at_once),
    });
    let hosts = build.trial.lab.hosts.iter().filter(|host| host.is_pod).collect::<Vec<_>>();
    let ready: Vec<Pod> = pods.ready(&stop)?;
    if ready.len() < hosts.len() {
        let reason = format!(
            "the lab needs {} pods, but {} with the labels {} are ready",
            hosts.len(),
            ready.len(),
            settings.selector
        );
        return Err(Error::Host { host: "pods".to_owned(), reason });
    }
    let chosen: Vec<_> = hosts.into_iter().zip(ready).collect();
    pods.taken().extend(chosen.iter().map(|(_, pod)| pod.name().to_owned()));
    all_or_none(in_parallel(chosen, |(host, pod)| {
        let mut entered = PodHost {
            name: host.name.clone(),
            pods: Arc::clone(&pods),
            pod: pod.name().to_owned(),
            address: pod.address().to_owned(),
            carrier: None,
        };
        Ok(Host::of(&host.name, entered.enter(&stop)?, entered))
    }))
}

impl SelectedPods {
    fn taken(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ready pods that belong to no host, sorted by name.
    fn ready(&self, stop: &dyn Fn() -> bool) -> Result<Vec<Pod>, Error> {
        let mut pods = self.kubectl.selected(&self.settings.selector, stop)?;
        let taken = self.taken();
        pods.retain(|pod| pod.is_ready() && !taken.contains(pod.name()));
        pods.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(pods)
    }

    /// Waits for the next ready pod, and reserves it.
    fn next(&self, stop: &dyn Fn() -> bool) -> Result<Pod, Error> {
        let until = Instant::now() + Duration::from_secs_f64(self.settings.wait_s);
        loop {
            let mut ready = self.ready(stop)?;
            if !ready.is_empty() {
                let pod = ready.remove(0);
                // Another host may have taken the pod meanwhile.
                if self.taken().insert(pod.name().to_owned()) {
                    return Ok(pod);
                }
                continue;
            }
            if stop() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= until {
                let reason = format!(
                    "no other pod with the labels {} was ready within {} s",
                    self.settings.selector, self.settings.wait_s
                );
                return Err(Error::Host { host: "pods".to_owned(), reason });
            }
            std::thread::park_timeout(GLANCE);
        }
    }
}

impl PodHost {
    fn failed(&self, reason: impl std::fmt::Display) -> Error {
        Error::Host { host: self.name.clone(), reason: format!("pod {}: {reason}", self.pod) }
    }

    /// Adds a container with a runner to the pod.
    fn enter(&mut self, stop: &dyn Fn() -> bool) -> Result<Arc<RunnerSession>, Error> {
        let container = format!("plimsoll-{}-{}", self.pods.run, ADDED.fetch_add(1, Ordering::Relaxed));
        // Omits `targetContainerName`, so that the container has its own process namespace. The
        // runner then outlives a restart of the pod's own container, and can still heal faults.
        let patch = json!({ "spec": { "ephemeralContainers": [{
            "name": container,
            "image": self.pods.settings.image,
            "command": ["sh", "-c", self.pods.delivery.script("runner")],
            "stdin": true,
            "stdinOnce": true,
            "securityContext": { "runAsUser": 0, "runAsNonRoot": false, "capabilities": { "add": ["NET_ADMIN"] } },
        }] } });
        let words = ["patch", "pod", &self.pod, "--subresource=ephemeralcontainers", "--patch", &patch.to_string()];
        let patched = self.pods.kubectl.play(&words, stop)?;
        if !patched.is_ok() {
            return Err(self.failed(not_let_in(&self.pods.kubectl.refused(&patched.errors).to_string())));
        }
        let until = Instant::now() + TO_ENTER;
        self.await_container(&container, until, stop)?;

        let (errors, held) = KeptOutput::pipe().map_err(Error::system("read the output of kubectl"))?;
        let mut command = self.pods.kubectl.attached(&self.pod, &container);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(held);
        let mut carrier = linux::spawn(command).map_err(|error| self.failed(format!("kubectl: {error}")))?;
        let sent = self.pods.delivery.send(&mut carrier, &errors, until, stop);
        let output = carrier.stdout.take();
        self.carrier = Some(carrier);
        let input = sent.map_err(|error| match error {
            NotDelivered::Stopped => Error::Interrupted,
            NotDelivered::System(error) => self.failed(error),
            NotDelivered::Ended(said) => self.failed(format!("the stream ended: {said}")),
            NotDelivered::Waited => self.failed(format!("the runner did not start within {} s", TO_ENTER.as_secs())),
        })?;
        let output = output.ok_or_else(|| self.failed("kubectl was started without pipes"))?;
        let setup = Setup {
            version: VERSION.to_owned(),
            host: self.name.clone(),
            run: self.pods.run.clone(),
            folder: PathBuf::from(FOLDER),
            is_reached_aside: true,
            ..Setup::default()
        };
        RunnerSession::open(Box::new(input), Box::new(output), &setup, TO_BE_READY, &self.pods.at_once).map_err(
            |error| match delivery::last_words(&errors) {
                Some(said) => self.failed(format!("{error}; its last output: \"{said}\"")),
                None => error,
            },
        )
    }

    fn await_container(&self, container: &str, until: Instant, stop: &dyn Fn() -> bool) -> Result<(), Error> {
        loop {
            let pods = self.pods.kubectl.selected(&self.pods.settings.selector, stop)?;
            let pod = pods.iter().find(|pod| pod.name() == self.pod).ok_or_else(|| self.failed("the pod is gone"))?;
            if pod.runs_added(container).map_err(|reason| self.failed(reason))? {
                return Ok(());
            }
            if stop() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= until {
                return Err(self.failed(format!("the added container did not run within {} s", TO_ENTER.as_secs())));
            }
            std::thread::park_timeout(GLANCE);
        }
    }

    /// Waits for the stream that carried the runner. The stream's input is already closed.
    fn release(&mut self) {
        if let Some(mut carrier) = self.carrier.take() {
            let within = if self.pods.at_once.load(Ordering::SeqCst) { Duration::ZERO } else { TO_END };
            // A stream that does not end in time is killed.
            let _: Result<_, io::Error> = await_end(&mut carrier, within, &never);
            delivery::end(&mut carrier);
        }
    }
}

impl Drop for PodHost {
    fn drop(&mut self) {
        self.release();
    }
}

/// Adds a remedy to the cluster's refusal of a runner.
fn not_let_in(reason: &str) -> String {
    if reason.contains("PodSecurity") {
        return format!(
            "{reason}; faults of the network need NET_ADMIN: label the namespace pod-security.kubernetes.io/enforce=privileged"
        );
    }
    reason.to_owned()
}

impl HostBackend for PodHost {
    fn facts(&self) -> HostFacts {
        HostFacts {
            kind: HostKind::Remote,
            addresses: vec![self.address.clone()],
            plimsoll: PathBuf::from("plimsoll"),
            figures: HostFigures::default(),
        }
    }

    fn bring(&self, _session: &RunnerSession, _target: &Path) -> Result<PathBuf, Error> {
        Err(self.failed("a running target has no folder to copy"))
    }

    fn boot(&mut self) -> Result<Arc<RunnerSession>, Error> {
        let at_once = Arc::clone(&self.pods.at_once);
        let stop = move || at_once.load(Ordering::SeqCst);
        let pod = self.pods.next(&stop)?;
        (self.pod, self.address) = (pod.name().to_owned(), pod.address().to_owned());
        self.enter(&stop)
    }

    fn crash(&mut self) -> Result<(), Error> {
        let words = ["delete", "pod", &self.pod, "--grace-period=0", "--force", "--wait=false"];
        let deleted = self.pods.kubectl.play(&words, &never)?;
        self.release();
        if deleted.is_ok() {
            Ok(())
        } else {
            Err(self.failed(not_let_in(&self.pods.kubectl.refused(&deleted.errors).to_string())))
        }
    }

    fn close(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_refusals_come_with_a_remedy() {
        let security = "violates PodSecurity \"baseline:latest\": must not include \"NET_ADMIN\"";
        assert!(not_let_in(security).contains("enforce=privileged"));
        let kubectl = Kubectl::new(None, None, RIGHTS);
        let message = |errors: &str| not_let_in(&kubectl.refused(errors).to_string());
        assert!(message("pods \"x\" is forbidden").contains("pods/ephemeralcontainers (patch)"));
        let both = message(&format!("pods \"x\" is forbidden: {security}"));
        assert!(both.contains("enforce=privileged") && !both.contains("permissions needed"), "{both}");
        assert_eq!(not_let_in("no route"), "no route");
    }
}
