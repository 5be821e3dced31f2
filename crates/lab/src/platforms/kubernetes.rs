//! Load generators as the pods of one indexed Kubernetes Job. `kubectl attach` connects to each
//! pod. Nothing is installed in the cluster. The user's own `kubectl` needs permissions in only one
//! namespace.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use experiment::plan::{Fleet, KubernetesFleet};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{GeneratorConnection, Request, no_program};
use crate::Error;
use crate::system_program::{CommandOutcome, last_line, never, run_within};

/// Label that marks the Jobs of a run.
const RUN_LABEL: &str = "plimsoll.dev/run";
/// Label that marks the pods of a Job.
const JOB_LABEL: &str = "plimsoll.dev/job";
/// Annotation in which Kubernetes stores a pod's index in its Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Name of the pod's container.
const CONTAINER: &str = "generator";
/// User id of the unprivileged user `nobody`.
const NOBODY: u32 = 65534;
/// Time after which Kubernetes removes an ended Job, seconds.
const KEPT_S: u64 = 300;
/// Time limit for an answer of the API server.
const TO_ANSWER: Duration = Duration::from_secs(30);
/// Interval between checks whether the pods run.
const GLANCE: Duration = Duration::from_millis(300);
/// Required permissions, for users who lack them.
const RIGHTS: &str =
    "permissions needed in that namespace: jobs (create, get, list, delete), pods (get, list), pods/attach (create)";

/// Requests the pods of all generators, waits until they run, and returns a connection to each.
///
/// # Errors
/// The cluster's own message.
pub(super) fn raise(fleet: &Fleet, request: &Request<'_>) -> Result<Vec<GeneratorConnection>, Error> {
    let kubectl = Kubectl::of(&fleet.kubernetes);
    let name = format!("plimsoll-{}-{}", request.run, request.number);
    let file = request.scratch.join(format!("{name}.json"));
    let text = job(&name, fleet, request).to_string();
    std::fs::write(&file, text).map_err(Error::on("write", &file))?;
    let created = kubectl.play(&["create", "--filename", &file.to_string_lossy()], request.stop)?;
    if !created.is_ok() {
        return Err(kubectl.refused(&created.errors));
    }
    let until = Instant::now() + Duration::from_secs_f64(fleet.wait_s);
    loop {
        let (pods, mut waits_for) = kubectl.pods(&name, fleet.generators, request.stop)?;
        if let Some(pods) = pods {
            return Ok(pods.into_iter().enumerate().map(|(place, pod)| kubectl.attach(fleet, place, pod)).collect());
        }
        if Instant::now() >= until {
            if waits_for.is_none() {
                waits_for = kubectl.why_no_pod(&name).or_else(|| warning(&created.errors));
            }
            let waits_for = waits_for.unwrap_or_else(|| "the cluster gives no reason".to_owned());
            return Err(Error::Platform {
                reason: format!("not all pods of the Job {name} run after {} s: {waits_for}", fleet.wait_s),
            });
        }
        if (request.stop)() {
            return Err(Error::Interrupted);
        }
        std::thread::park_timeout(GLANCE);
    }
}

/// Removes the Jobs of a run with their pods. Returns the Jobs' names.
///
/// # Errors
/// A message for the user, if the cluster was not reached.
pub fn remove(settings: &KubernetesFleet, run: &str) -> Result<Vec<String>, String> {
    let kubectl = Kubectl::of(settings);
    let selector = format!("--selector={RUN_LABEL}={run}");
    let words = ["delete", "jobs", &selector, "--ignore-not-found", "--wait=false", "--output=name"];
    let outcome = kubectl.play(&words, &never).map_err(|error| error.to_string())?;
    if !outcome.is_ok() {
        return Err(format!(
            "jobs labelled {RUN_LABEL}={run} may remain: kubectl says: {}",
            last_line(&outcome.errors)
        ));
    }
    Ok(outcome.output.lines().map(str::trim).filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect())
}

/// Returns the settings. Fills in the current context if they name none, because the current
/// context may have changed when the run's Jobs are removed.
pub fn settled(settings: &KubernetesFleet) -> KubernetesFleet {
    let mut settled = settings.clone();
    if settled.context.is_none() {
        let current = Kubectl::of(settings).play(&["config", "current-context"], &never).ok();
        let current = current.filter(CommandOutcome::is_ok).map(|outcome| outcome.output.trim().to_owned());
        settled.context = current.filter(|name| !name.is_empty());
    }
    settled
}

/// Returns a warning from the creation of the Job, such as one about pod security.
fn warning(errors: &str) -> Option<String> {
    errors.lines().find(|line| line.starts_with("Warning:")).map(ToOwned::to_owned)
}

/// Returns the Job for the API. The Job fails if one pod fails, meets the strictest pod security
/// standard, and is removed automatically after its end.
fn job(name: &str, fleet: &Fleet, request: &Request<'_>) -> Value {
    let settings = &fleet.kubernetes;
    let labels = json!({ RUN_LABEL: request.run, JOB_LABEL: name, "app.kubernetes.io/name": "plimsoll" });
    let cpu = settings.cpu.clone().unwrap_or_else(|| fleet.threads.to_string());
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "completionMode": "Indexed",
            "completions": fleet.generators,
            "parallelism": fleet.generators,
            // One failed pod ends the Job. A pod must not be restarted during a load.
            "backoffLimit": 0,
            "activeDeadlineSeconds": request.longest.as_secs().max(1),
            "ttlSecondsAfterFinished": KEPT_S,
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "terminationGracePeriodSeconds": 2,
                    "nodeSelector": settings.nodes,
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": { "matchLabels": { JOB_LABEL: name } },
                    }],
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": NOBODY,
                        "runAsGroup": NOBODY,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "volumes": [{ "name": "tmp", "emptyDir": {} }],
                    "containers": [{
                        "name": CONTAINER,
                        "image": settings.image,
                        "command": ["sh", "-c", request.script],
                        // The container's input ends with the stream, and then the container ends.
                        "stdin": true,
                        "stdinOnce": true,
                        "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }],
                        "resources": { "requests": { "cpu": cpu, "memory": settings.memory } },
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": { "drop": ["ALL"] },
                        },
                    }],
                },
            },
        },
    })
}

/// The user's `kubectl`, with the configured context and namespace.
#[derive(Debug)]
pub struct Kubectl {
    words: Vec<String>,
    /// Required permissions, for users who lack them.
    rights: &'static str,
}

impl Kubectl {
    /// Creates a client for this context and namespace. If one is missing, the default of `kubectl`
    /// applies.
    pub fn new(context: Option<&str>, namespace: Option<&str>, rights: &'static str) -> Self {
        let context = context.map(|context| format!("--context={context}"));
        let namespace = namespace.map(|namespace| format!("--namespace={namespace}"));
        Self { words: context.into_iter().chain(namespace).collect(), rights }
    }

    /// Returns kubectl's message as an error, with the required permissions if they are missing.
    pub fn refused(&self, errors: &str) -> Error {
        let message = last_line(errors);
        // Pod security also answers `forbidden`, but more permissions would not help.
        let lacks_rights = message.contains("forbidden") && !message.contains("PodSecurity");
        let hint = if lacks_rights { format!("; {}", self.rights) } else { String::new() };
        Error::Platform { reason: format!("kubectl says: {message}{hint}") }
    }

    fn of(settings: &KubernetesFleet) -> Self {
        Self::new(settings.context.as_deref(), settings.namespace.as_deref(), RIGHTS)
    }

    /// Returns the command whose standard input and output are connected to a container of a pod.
    pub fn attached(&self, pod: &str, container: &str) -> Command {
        self.command(&["attach", "--stdin", "--quiet", "--container", container, pod])
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.args(&self.words).args(words);
        command
    }

    /// Runs kubectl to its end.
    ///
    /// # Errors
    /// If there is no `kubectl`, no answer in time, or the user wants to end.
    pub fn play(&self, words: &[&str], stop: &dyn Fn() -> bool) -> Result<CommandOutcome, Error> {
        let outcome = run_within(self.command(words), Stdio::null(), TO_ANSWER, stop);
        let outcome = outcome.map_err(|error| no_program("kubectl", &error))?;
        if outcome.status.is_none() {
            if stop() {
                return Err(Error::Interrupted);
            }
            let what = words.first().copied().unwrap_or_default();
            let reason = format!("`kubectl {what}` did not answer within {} s", TO_ANSWER.as_secs());
            return Err(Error::Platform { reason });
        }
        Ok(outcome)
    }

    /// Returns the pods of a Job in the order of their index, once all run. Before that, returns
    /// the reason why a pod waits.
    fn pods(
        &self,
        job: &str,
        wanted: u32,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Option<Vec<PodPlace>>, Option<String>), Error> {
        let pods = self.selected(&format!("{JOB_LABEL}={job}"), stop)?;
        let (mut running, mut waits_for) = (BTreeMap::new(), None);
        for pod in pods {
            match pod.state() {
                PodState::Runs(index, place) => drop(running.insert(index, place)),
                PodState::Waits(why) => drop(waits_for.get_or_insert(why)),
                PodState::Failed(reason) => return Err(Error::Platform { reason }),
            }
        }
        let is_whole = running.len() == wanted as usize;
        Ok((is_whole.then(|| running.into_values().collect()), waits_for.flatten()))
    }

    /// Returns all pods with these labels.
    ///
    /// # Errors
    /// The cluster's own message.
    pub fn selected(&self, labels: &str, stop: &dyn Fn() -> bool) -> Result<Vec<Pod>, Error> {
        let selector = format!("--selector={labels}");
        let outcome = self.play(&["get", "pods", &selector, "--output=json"], stop)?;
        if !outcome.is_ok() {
            return Err(self.refused(&outcome.errors));
        }
        let list: PodList = serde_json::from_str(&outcome.output)
            .map_err(|error| Error::Platform { reason: format!("kubectl did not print a list of pods: {error}") })?;
        Ok(list.items)
    }

    /// Returns the reason why a Job has no pods, if the user may read events.
    fn why_no_pod(&self, job: &str) -> Option<String> {
        let selector = format!("--field-selector=involvedObject.name={job},type=Warning");
        let words = ["get", "events", &selector, "--output=jsonpath={.items[*].message}"];
        let outcome = self.play(&words, &never).ok().filter(CommandOutcome::is_ok)?;
        Some(outcome.output.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn attach(&self, fleet: &Fleet, place: usize, pod: PodPlace) -> GeneratorConnection {
        let number = u32::try_from(place + 1).unwrap_or(u32::MAX);
        let command = self.attached(&pod.name, CONTAINER);
        GeneratorConnection {
            name: fleet.name(number),
            place: format!("the pod {} on node {}", pod.name, pod.node),
            command,
        }
    }
}

/// Location of a generator.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PodPlace {
    name: String,
    node: String,
}

/// State of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PodState {
    /// The pod runs. Contains the pod's index in the Job, from 0.
    Runs(u32, PodPlace),
    /// The pod does not run yet. Contains the cluster's reason, if there is one.
    Waits(Option<String>),
    /// The pod will never run.
    Failed(String),
}

#[derive(Debug, Deserialize)]
struct PodList {
    items: Vec<Pod>,
}

/// The parts of the API's pod object that are used here.
#[derive(Debug, Deserialize)]
pub struct Pod {
    metadata: PodMetadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Deserialize)]
struct PodMetadata {
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// Time of the deletion request, if the pod is being deleted.
    #[serde(default, rename = "deletionTimestamp")]
    deleted: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    message: String,
    reason: String,
    conditions: Vec<PodCondition>,
    container_statuses: Vec<ContainerStatus>,
    ephemeral_container_statuses: Vec<ContainerStatus>,
    #[serde(rename = "podIP")]
    pod_ip: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodCondition {
    r#type: String,
    status: String,
    message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    name: String,
    state: ContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    running: Option<Value>,
    waiting: Option<WaitingReason>,
    terminated: Option<WaitingReason>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WaitingReason {
    reason: String,
    message: String,
}

impl WaitingReason {
    fn words(&self) -> String {
        if self.message.is_empty() { self.reason.clone() } else { format!("{}: {}", self.reason, self.message) }
    }
}

/// Kubernetes' reasons for a waiting container that will never start.
const FINAL: &[&str] = &[
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];

impl Pod {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    pub fn address(&self) -> &str {
        &self.status.pod_ip
    }

    /// Whether the pod serves: it is ready, and no one has requested its deletion.
    pub fn is_ready(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        let is_ready = conditions.any(|condition| condition.r#type == "Ready" && condition.status == "True");
        is_ready && self.metadata.deleted.is_none()
    }

    /// Whether a container that was added to the running pod runs. Fails if it will never run.
    pub fn runs_added(&self, container: &str) -> Result<bool, String> {
        let Some(status) = self.status.ephemeral_container_statuses.iter().find(|one| one.name == container) else {
            return Ok(false);
        };
        if let Some(ended) = &status.state.terminated {
            return Err(format!("the container in the pod {} ended: {}", self.name(), ended.words()));
        }
        match &status.state.waiting {
            Some(waiting) if FINAL.contains(&waiting.reason.as_str()) => {
                Err(format!("the container in the pod {} waits: {}", self.name(), waiting.words()))
            }
            _ => Ok(status.state.running.is_some()),
        }
    }

    fn state(&self) -> PodState {
        let name = &self.metadata.name;
        let container = self.status.container_statuses.first().map(|container| &container.state);
        if let Some(ended) = container.and_then(|state| state.terminated.as_ref()) {
            return PodState::Failed(format!(
                "the pod {name} ended before Plimsoll connected to it: {}",
                ended.words()
            ));
        }
        if self.status.phase == "Failed" || self.status.phase == "Succeeded" {
            let why = WaitingReason { reason: self.status.reason.clone(), message: self.status.message.clone() };
            return PodState::Failed(format!("the pod {name} ended before Plimsoll connected to it: {}", why.words()));
        }
        if let Some(waiting) = container.and_then(|state| state.waiting.as_ref()) {
            let why = format!("the pod {name} waits: {}", waiting.words());
            return if FINAL.contains(&waiting.reason.as_str()) {
                PodState::Failed(why)
            } else {
                PodState::Waits(Some(why))
            };
        }
        let index = self.metadata.annotations.get(INDEX).and_then(|index| index.parse().ok());
        if let (Some(index), true) = (index, container.is_some_and(|state| state.running.is_some())) {
            return PodState::Runs(index, PodPlace { name: name.clone(), node: self.spec.node_name.clone() });
        }
        let unscheduled =
            self.status.conditions.iter().find(|one| one.r#type == "PodScheduled" && one.status == "False");
        PodState::Waits(unscheduled.map(|one| format!("the pod {name} has no node: {}", one.message)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn pod(text: &str) -> PodState {
        serde_json::from_str::<Pod>(text).unwrap().state()
    }

    #[test]
    fn a_pod_that_runs_is_known_by_its_number_and_node() {
        let state =
            pod(r#"{"metadata": {"name": "p-2-x", "annotations": {"batch.kubernetes.io/job-completion-index": "2"}},
                "spec": {"nodeName": "kn1"},
                "status": {"phase": "Running", "containerStatuses": [{"state": {"running": {"startedAt": "now"}}}]}}"#);
        assert_eq!(state, PodState::Runs(2, PodPlace { name: "p-2-x".into(), node: "kn1".into() }));
    }

    #[test]
    fn a_waiting_pod_quotes_the_clusters_reason() {
        let unscheduled = pod(r#"{"metadata": {"name": "p"}, "status": {"phase": "Pending", "conditions":
                [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu."}]}}"#);
        assert_eq!(
            unscheduled,
            PodState::Waits(Some("the pod p has no node: 0/3 nodes are available: 3 Insufficient cpu.".into()))
        );
        let pulling = pod(
            r#"{"metadata": {"name": "p"}, "status": {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}}"#,
        );
        assert_eq!(pulling, PodState::Waits(Some("the pod p waits: ErrImagePull".into())));
        assert_eq!(pod(r#"{"metadata": {"name": "p"}}"#), PodState::Waits(None));
    }

    #[test]
    fn permanent_pod_failures_are_final() {
        let image = pod(r#"{"metadata": {"name": "p"}, "status": {"containerStatuses":
                [{"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "image \"x\" is not present"}}}]}}"#);
        assert_eq!(image, PodState::Failed("the pod p waits: ErrImageNeverPull: image \"x\" is not present".into()));
        let ended = pod(
            r#"{"metadata": {"name": "p"}, "status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "Error"}}}]}}"#,
        );
        assert!(matches!(ended, PodState::Failed(why) if why.contains("ended before Plimsoll connected to it: Error")));
    }

    #[test]
    fn a_job_has_requests_a_deadline_and_no_retries() {
        let mut fleet = Fleet { generators: 3, threads: 2, ..Fleet::default() };
        fleet.kubernetes.nodes.insert("pool".to_owned(), "load".to_owned());
        let request = Request {
            run: "abc-1",
            number: 4,
            script: "true",
            longest: Duration::from_secs(90),
            scratch: Path::new("/s"),
            stop: &never,
        };
        let job = job("plimsoll-abc-1-4", &fleet, &request);
        let at = |pointer: &str| job.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}")).clone();
        assert_eq!(
            (at("/spec/completions"), at("/spec/parallelism"), at("/spec/backoffLimit")),
            (3.into(), 3.into(), 0.into())
        );
        assert_eq!(at("/spec/activeDeadlineSeconds"), 90);
        assert_eq!(at("/metadata/labels/plimsoll.dev~1run"), "abc-1");
        assert_eq!(at("/spec/template/spec/nodeSelector/pool"), "load");
        let container = at("/spec/template/spec/containers/0");
        assert_eq!(container["resources"], serde_json::json!({ "requests": { "cpu": "2", "memory": "256Mi" } }));
        assert_eq!(container["command"], serde_json::json!(["sh", "-c", "true"]));
        assert_eq!((&container["stdin"], &container["stdinOnce"]), (&true.into(), &true.into()));
    }

    #[test]
    fn a_forbidden_operation_lists_the_needed_rights() {
        let kubectl = Kubectl::of(&KubernetesFleet::default());
        let error =
            kubectl.refused("Error from server (Forbidden): jobs.batch is forbidden: User \"x\" cannot create\n");
        assert!(error.to_string().contains("pods/attach (create)"), "{error}");
        assert!(
            !kubectl.refused("error: no context exists with the name: \"x\"\n").to_string().contains("pods/attach")
        );
    }
}
