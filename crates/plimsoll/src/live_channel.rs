//! The live channel of a run: `run --watch` shows the report's page while it grows, `run --serve-metrics` answers Prometheus. Both share
//! one small server. Neither a reader nor a scrape ever holds up the load or the end of the run.

mod server;
mod so_far;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use conduct::{Observer, ProgressEvent};
use experiment::plan::Plan;
use record::clock::Clock;
use record::folder::{RunFolder, TrialFolder};
use record::results::{Results, Trial};
use report::{LivePage, ReportInput};
use rustix::time::{ClockId, clock_gettime};

use crate::exit::Failure;
use crate::live_metrics::LiveFigures;
use crate::output;
use server::{Doors, LiveServer, Publisher};
use so_far::RunSoFar;

pub use server::MetricsText;

/// Least time between two updates: a second is told by each thread of the engine.
const UPDATE: Duration = Duration::from_millis(250);
/// Least time between two drawings of the charts, and least multiple of the CPU time that one takes: drawing takes at most 1 % of a core.
const DRAWING: Duration = Duration::from_secs(2);
const CPU_SHARE: u32 = 100;
/// Bytes of a trial's records up to which its charts are drawn while it runs. Reading more would take memory and disk from the target.
const RECORDS: u64 = 64 << 20;
/// Priority of the thread that draws: whatever else wants to run runs first.
const NICE: i32 = 19;

/// What `run` was asked to serve.
#[derive(Debug, Clone, Copy)]
pub struct LiveOptions {
    /// Port of the page, if there is to be one (0: any free one).
    pub watch: Option<u16>,
    /// Address of `/metrics`.
    pub metrics: Option<SocketAddr>,
}

/// The channel. Dropped, it ends, with what its readers have got until then.
pub struct LiveChannel {
    server: LiveServer,
    page: Option<Arc<SharedPage>>,
}

/// The state of the run, for the thread that draws it.
struct SharedPage {
    state: Mutex<RunState>,
    ended: Condvar,
}

struct RunState {
    run: RunSoFar,
    folder: Option<RunFolder>,
    is_over: bool,
}

impl SharedPage {
    fn locked(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveChannel {
    /// Listens at what was asked for, and prints the URL of the page. The plan must be without secrets. Returns `None` if nothing was asked
    /// for.
    ///
    /// # Errors
    /// If an address cannot be listened at.
    pub fn begin(wanted: LiveOptions, plan: Plan, figures: &Arc<Mutex<LiveFigures>>) -> Result<Option<Self>, Failure> {
        if wanted.watch.is_none() && wanted.metrics.is_none() {
            return Ok(None);
        }
        let drawn = wanted.watch.map(|port| LivePage::new().map(|page| (port, page))).transpose()?;
        let shell =
            drawn.as_ref().map(|(port, page)| Ok::<_, report::Error>((*port, page.shell(&plan)?))).transpose()?;
        let hosts = plan.possible().iter().map(|trial| trial.lab.hosts.len()).max().unwrap_or(0);
        let patience = server::patience(hosts);
        let metrics = wanted.metrics.map(|address| (address, LiveFigures::scraped(figures)));
        let server =
            LiveServer::begin(Doors { metrics, page: shell, patience }).map_err(|error| refused(wanted, &error))?;
        if let Some(url) = &server.url {
            output::say(&format!("watch: {url}"));
        }
        let page = drawn.map(|(_, page)| draw(page, plan, server.publisher())).transpose();
        let page = page.map_err(|error| Failure::Ours(format!("no thread for the page: {error}")))?;
        Ok(Some(Self { server, page }))
    }

    /// An observer that the page is told by, before the one behind it.
    pub fn observing(&self, behind: Box<dyn Observer>) -> Box<dyn Observer> {
        match &self.page {
            Some(page) => Box::new(PageObserver { page: Arc::clone(page), behind }),
            None => behind,
        }
    }

    /// Has the page draw the records in this folder.
    pub fn follow(&self, folder: &RunFolder) {
        if let Some(page) = &self.page {
            page.locked().folder = Some(folder.clone());
        }
    }

    /// Sends the report of the run that has ended to those that follow it.
    pub fn end(&self, folder: &RunFolder) {
        if self.page.is_none() || self.server.publisher().followers() == 0 {
            return;
        }
        if let Ok(report) = fs::read_to_string(folder.report()) {
            self.server.publisher().publish_report(report);
        }
    }
}

impl Drop for LiveChannel {
    fn drop(&mut self) {
        if let Some(page) = &self.page {
            // Nobody waits for that thread: it may be in the middle of drawing.
            page.locked().is_over = true;
            page.ended.notify_all();
        }
    }
}

fn refused(wanted: LiveOptions, error: &io::Error) -> Failure {
    let asked = match (wanted.metrics, wanted.watch) {
        (Some(address), None | Some(0)) => format!("--serve-metrics {address}"),
        (Some(address), Some(port)) => format!("--serve-metrics {address} --watch={port}"),
        (None, port) => format!("--watch={}", port.unwrap_or_default()),
    };
    Failure::Bad {
        what: format!("{asked}: {error}"),
        remedy: "name an address of this machine and a free port, such as --serve-metrics 127.0.0.1:9464; `--watch` takes a free port by itself"
            .to_owned(),
    }
}

/// Tells the page, and then the one behind it.
struct PageObserver {
    page: Arc<SharedPage>,
    behind: Box<dyn Observer>,
}

impl Observer for PageObserver {
    fn tell(&mut self, event: &ProgressEvent<'_>) {
        let unix_s = Clock::starting_in(Duration::ZERO).unix_s();
        self.page.locked().run.tell(event, unix_s);
        self.behind.tell(event);
    }
}

/// Starts the thread that draws the run's page for those that follow it.
fn draw(page: LivePage, plan: Plan, publisher: Publisher) -> io::Result<Arc<SharedPage>> {
    let state = RunState { run: RunSoFar::of(plan), folder: None, is_over: false };
    let shared = Arc::new(SharedPage { state: Mutex::new(state), ended: Condvar::new() });
    let artist = Artist {
        page,
        publisher,
        shared: Arc::clone(&shared),
        ended: Vec::new(),
        playing: None,
        not_before: Instant::now(),
    };
    thread::Builder::new().name("live-page".to_owned()).spawn(move || artist.work())?;
    Ok(shared)
}

/// State of the thread that draws.
struct Artist {
    page: LivePage,
    publisher: Publisher,
    shared: Arc<SharedPage>,
    /// Results of the trials that have ended.
    ended: Vec<Trial>,
    /// Results so far of the trial that is played.
    playing: Option<Trial>,
    /// The charts are not drawn before.
    not_before: Instant,
}

impl Artist {
    fn work(mut self) {
        // Without it, the thread competes like any other.
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut drawn = 0;
        while self.wait() {
            // What nobody sees is not drawn.
            if self.publisher.followers() == 0 {
                continue;
            }
            let (run, folder) = {
                let state = self.shared.locked();
                (state.run.clone(), state.folder.clone())
            };
            let mut parts = Vec::new();
            if let Some(folder) = folder.filter(|_| Instant::now() >= self.not_before) {
                let begun = cpu_time();
                parts.extend(self.charts(&run, &folder));
                self.not_before = Instant::now() + DRAWING.max((cpu_time().saturating_sub(begun)) * CPU_SHARE);
            } else if run.version == drawn {
                continue;
            }
            drawn = run.version;
            parts.extend(self.words(&run));
            self.publisher
                .publish(parts.into_iter().map(|(name, part)| (name, output::without_secrets(&part).into_owned())));
        }
    }

    /// Waits a little. Returns whether the run goes on.
    fn wait(&self) -> bool {
        let state = self.shared.locked();
        let waited = self.shared.ended.wait_timeout_while(state, UPDATE, |state| !state.is_over);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// What takes no reading. A part that cannot be filled, which is a fault of ours, stays as it was.
    fn words(&self, run: &RunSoFar) -> Vec<(&'static str, String)> {
        let judged: Vec<Trial> = self.ended.iter().chain(&self.playing).cloned().collect();
        let parts = [
            ("verdict", self.page.verdict(&run.phase(), &judged)),
            ("figures", self.page.figures(&run.figures())),
            ("faults", self.page.faults(&run.faults())),
            ("plan", self.page.plan(run.trials(), &judged)),
        ];
        parts.into_iter().filter_map(|(name, part)| Some((name, part.ok()?))).collect()
    }

    /// Charts and tables of the trial that is played, from its records so far, and of those that have ended. What cannot be read now, such as
    /// records that are being removed because a trial starts anew, stays as it was.
    fn charts(&mut self, run: &RunSoFar, folder: &RunFolder) -> Vec<(&'static str, String)> {
        let mut parts = Vec::new();
        let missing = run.ended().find(|trial| self.ended.iter().all(|known| known.id != trial.id));
        if let Some((read, _)) = missing.and_then(|trial| so_far(run, trial, &folder.trial(&trial.id))) {
            self.ended.push(read);
            let results = Results { trials: self.ended.clone(), title: run.plan.title.clone(), ..Results::default() };
            parts.extend(self.page.sweep(&results, &run.plan).ok().map(|part| ("sweep", part)));
        }
        let Some(trial) = run.playing() else { return parts };
        let Some((read, series)) = so_far(run, trial, &folder.trial(&trial.id)) else { return parts };
        let results = Results { trials: vec![read.clone()], ..Results::default() };
        self.playing = Some(read).filter(|read| read.ended.is_none());
        let input = ReportInput { trials: vec![series], ..ReportInput::without_records(&results, &run.plan) };
        parts.extend(self.page.trial(&input).ok().map(|part| ("charts", part)));
        parts
    }
}

/// A trial's results and records so far; `None` if they cannot be read now, or are too large to be read beside a load.
fn so_far(
    run: &RunSoFar,
    planned: &experiment::plan::Trial,
    folder: &TrialFolder,
) -> Option<(Trial, report::TrialSeries)> {
    let sizes = fs::read_dir(folder.path()).ok()?.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
    if sizes.sum::<u64>() > RECORDS {
        return None;
    }
    let (trial, latency) = analysis::trial_so_far(&run.plan, planned, folder).ok()?;
    Some((trial, report::read_series(folder, &latency).ok()?))
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
