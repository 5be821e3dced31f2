//! The live server of a run: `run --watch` shows the report in a browser while the run goes on,
//! `run --serve-metrics` answers Prometheus. Both share one server. Neither a reader nor a scrape
//! delays the load, and the end of the run waits at most half a second for readers.

mod http_server;
mod run_so_far;

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
use crate::metrics_export::LiveFigures;
use crate::output;
use http_server::{Doors, HttpServer, Publisher};
use run_so_far::RunSoFar;

pub use http_server::MetricsText;

/// Minimum time between two updates of the page. It bundles the reports of the generator threads,
/// each of which reports every second.
const UPDATE: Duration = Duration::from_millis(250);
/// Minimum pause after drawing the charts.
const DRAWING: Duration = Duration::from_secs(2);
/// Minimum pause after drawing the charts, as a multiple of the CPU time that it took. So drawing
/// takes at most 1 % of a core.
const CPU_SHARE: u32 = 100;
/// Maximum size in bytes of a trial's records from which charts are drawn. Reading more would take
/// memory and disk bandwidth from the target.
const RECORDS: u64 = 64 << 20;
/// Priority of the thread that draws: the lowest, so that all other work runs first.
const NICE: i32 = 19;

/// Endpoints that the options of `run` ask for.
#[derive(Debug, Clone, Copy)]
pub struct LiveOptions {
    /// Port of the page (0: any free port); `None` if no page is served.
    pub watch: Option<u16>,
    /// Address of `/metrics`; `None` if no metrics are served.
    pub metrics: Option<SocketAddr>,
}

/// The live server. Dropping it ends the server, and lets the drawing thread end.
pub struct LiveServer {
    server: HttpServer,
    page: Option<Arc<SharedPage>>,
}

/// State of the run, shared with the thread that draws the page.
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

impl LiveServer {
    /// Starts the server, and prints the URL of the page. The plan must contain no secrets. Returns
    /// `None` if neither endpoint is wanted.
    ///
    /// # Errors
    /// If the plan has an error, the server cannot listen at an address, or a thread cannot be
    /// started.
    pub fn begin(
        wanted: LiveOptions,
        plan: impl FnOnce() -> Result<Plan, Failure>,
        figures: &Arc<Mutex<LiveFigures>>,
    ) -> Result<Option<Self>, Failure> {
        if wanted.watch.is_none() && wanted.metrics.is_none() {
            return Ok(None);
        }
        let plan = plan()?;
        let drawn = wanted.watch.map(|port| LivePage::new().map(|page| (port, page))).transpose()?;
        let shell =
            drawn.as_ref().map(|(port, page)| Ok::<_, report::Error>((*port, page.shell(&plan)?))).transpose()?;
        let hosts = plan.possible().iter().map(|trial| trial.lab.hosts.len()).max().unwrap_or(0);
        let patience = http_server::patience(hosts);
        let metrics = wanted.metrics.map(|address| (address, LiveFigures::scraped(figures)));
        let server =
            HttpServer::begin(Doors { metrics, page: shell, patience }).map_err(|error| refused(wanted, &error))?;
        if let Some(url) = &server.url {
            output::say(&format!("watch: {url}"));
        }
        let page = drawn.map(|(_, page)| draw(page, plan, server.publisher())).transpose();
        let page = page.map_err(|error| Failure::Ours(format!("cannot start a thread for the page: {error}")))?;
        Ok(Some(Self { server, page }))
    }

    /// Returns an observer that passes each event to the page, if there is one, and then to the
    /// observer behind it.
    pub fn observing(&self, behind: Box<dyn Observer>) -> Box<dyn Observer> {
        match &self.page {
            Some(page) => Box::new(PageObserver { page: Arc::clone(page), behind }),
            None => behind,
        }
    }

    /// Sets the folder whose records the page shows.
    pub fn follow(&self, folder: &RunFolder) {
        if let Some(page) = &self.page {
            page.locked().folder = Some(folder.clone());
        }
    }

    /// Sends the report of the finished run to the readers that follow the page.
    pub fn end(&self, folder: &RunFolder) {
        if self.page.is_none() || self.server.publisher().followers() == 0 {
            return;
        }
        if let Ok(report) = fs::read_to_string(folder.report()) {
            self.server.publisher().publish_report(report);
        }
    }
}

impl Drop for LiveServer {
    fn drop(&mut self) {
        if let Some(page) = &self.page {
            // The thread is not joined: it may be in the middle of drawing.
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
        remedy: "give an address of this machine and a free port, such as --serve-metrics 127.0.0.1:9464; `--watch` \
                 without a port uses a free one"
            .to_owned(),
    }
}

/// Observer that passes each event to the page, and then to the observer behind it.
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

/// Starts the thread that draws the page of the run.
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
    /// Results so far of the current trial.
    playing: Option<Trial>,
    /// Earliest time of the next drawing of the charts.
    not_before: Instant,
}

impl Artist {
    fn work(mut self) {
        // If the priority cannot be set, the thread draws at the usual priority.
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut drawn = 0;
        while self.wait() {
            // Without readers, nothing is drawn.
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

    /// Waits for [`UPDATE`] or the end of the run. Returns whether the run goes on.
    fn wait(&self) -> bool {
        let state = self.shared.locked();
        let waited = self.shared.ended.wait_timeout_while(state, UPDATE, |state| !state.is_over);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// Returns the parts of the page that need no records. If a part's template fails, the part is
    /// left out, and the page keeps the part's last state.
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

    /// Returns the charts and tables of the current trial, and the sweep charts if another trial
    /// has ended. If records cannot be read now, for example because a trial starts anew, their
    /// charts are left out, and the page keeps the last ones. Reads at most one ended trial per
    /// call.
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

/// Returns a trial's results and records so far. Returns `None` if they cannot be read now, or are
/// larger than [`RECORDS`].
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

/// Returns the CPU time that the calling thread has used.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
