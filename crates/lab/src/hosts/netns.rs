//! Virtual hosts on this machine: namespaces of their own, wired by a switch, each with a runner as its init.

pub(crate) mod keeper;
mod machine;
mod needs;
mod switch;
mod volume;
mod wiring;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use experiment::plan;

use super::{Host, Kind};
use crate::Error;
use crate::attended::Attended;
use crate::doctor::Links;
use crate::everywhere::{all_or_none, at_once};
use crate::ground::Ground;
use crate::placement::Placement;
use crate::registry::Ledger;
use crate::runner::{self, Bind, Envelope, Isolation, Setup, VERSION, Wiring, groups};
use crate::site::Build;
use machine::{TARGET, Virtual};
use switch::Switch;
use volume::Volume;
use wiring::Cables;

/// The table's entry.
pub static KIND: Kind =
    Kind { name: "netns", help: "a virtual host on this machine, with a profile's limits; needs root" };

/// Where a host's private folders are inside.
const DATA: &str = "/run/plimsoll/data";

/// Makes all hosts of the lab, in its order, and the ground that the clients stand on. If one cannot be made, none is left.
pub(super) fn raise(
    build: &Build<'_>,
    placement: &Placement,
    ledger: &Arc<Ledger>,
    stop: &AtomicBool,
) -> Result<(Vec<Box<dyn Host>>, Ground), Error> {
    let envelopes = &placement.envelopes;
    let cables = can_make(build.trial, envelopes)?;
    let site = Site::of(build, &cables, ledger)?;
    ledger.grouped()?;
    // Where there are none, the hosts that need them say so.
    let _ = groups::make_top(ledger.id(), envelopes.len());
    let switch = Arc::new(Switch::make(cables, &site.plimsoll, &site.scratch, ledger, &build.at_once)?);
    let hosts: Vec<_> = envelopes.iter().enumerate().collect();
    let mut machines = all_or_none(at_once(hosts, |(index, envelope)| {
        if stop.load(Ordering::SeqCst) {
            return Err(Error::Interrupted);
        }
        let mut machine = site.lay_out(index, envelope, &switch, ledger)?;
        machine.session = Some(machine.start()?);
        Ok(machine)
    }))?;
    let plugged: Vec<_> = machines.iter().filter_map(|one| Some((one.index, one.kept.as_ref()?.pid()))).collect();
    switch.plug(&plugged).map_err(|error| lost(&mut machines).unwrap_or(error))?;
    let hosts = all_or_none(at_once(machines, |machine| {
        let session = machine.session.clone();
        session.map_or(Ok(()), |session| machine.wire(&session))?;
        let name = machine.setup.host.clone();
        Attended::raise(&name, Box::new(machine))
    }))?;
    switch.route_clients()?;
    let notices = needs::notices(build.trial, placement, &site.scratch);
    let (network, cpus) = (Some(switch.network()?), placement.generator_cpus.clone());
    let ground = Ground { network, switch: Some(switch.session()), cpus, notices };
    Ok((hosts.into_iter().map(|host| Box::new(host) as Box<dyn Host>).collect(), ground))
}

/// Whether all that the hosts need is there; how they would be wired.
pub(super) fn can_make(trial: &plan::Trial, envelopes: &[Envelope]) -> Result<Cables, Error> {
    needs::check(trial, envelopes)?;
    Cables::plan(&trial.lab, needs::loses_packets(trial, envelopes))
}

/// Debian's packages of programs that the hosts are made with, and this machine has not.
pub(super) fn lacking(trial: &plan::Trial, envelopes: &[Envelope]) -> Result<Vec<&'static str>, Error> {
    needs::lacking(trial, envelopes)
}

/// The same for the hosts of any lab.
pub(super) fn lacking_for_any() -> Vec<&'static str> {
    needs::lacking_for_any()
}

/// What links can be made like on this machine: tried, and gone with the try. Needs root.
pub(crate) fn what_links_can_be() -> Links {
    needs::what_links_can_be()
}

/// The host that was lost while it was being made, if one was: it cannot be wired, and that is not the switch's fault.
fn lost(machines: &mut [Virtual]) -> Option<Error> {
    let lost = machines.iter_mut().find_map(|one| one.kept.as_mut()?.has_ended().then_some(&one.setup.host))?;
    Some(Error::HostLost { host: lost.clone(), reason: "its runner ended while it was being made".to_owned() })
}

/// What all hosts of a lab are made from.
struct Site<'a> {
    build: &'a Build<'a>,
    /// This program, on the machine.
    plimsoll: PathBuf,
    /// The target's folder, on the machine.
    target: Option<PathBuf>,
    /// The run's private folder.
    scratch: PathBuf,
    hosts_file: String,
    /// For each host, what it is told of its cables.
    wirings: Vec<Wiring>,
}

impl<'a> Site<'a> {
    fn of(build: &'a Build<'a>, cables: &Cables, ledger: &Ledger) -> Result<Self, Error> {
        let find = |path: &Path| path.canonicalize().map_err(Error::system(format!("find {}", path.display())));
        let plimsoll = match build.plimsoll.canonicalize() {
            Ok(path) => path,
            // Named as it was called, and found in PATH.
            Err(_) => std::env::current_exe().map_err(Error::system("find this program"))?,
        };
        let target = build.folder.filter(|folder| !folder.as_os_str().is_empty()).map(find).transpose()?;
        Ok(Self {
            build,
            plimsoll,
            target,
            scratch: find(&ledger.scratch()?)?,
            hosts_file: cables.hosts_file(),
            wirings: cables.wirings(),
        })
    }

    /// Makes what a host needs outside of it, and says what it is to be.
    fn lay_out(
        &self,
        index: usize,
        envelope: &Envelope,
        switch: &Arc<Switch>,
        ledger: &Arc<Ledger>,
    ) -> Result<Virtual, Error> {
        let name = self.build.trial.lab.hosts.get(index).map(|host| host.name.clone()).unwrap_or_default();
        let folder = self.scratch.join("hosts").join(&name);
        make_folder(&folder.join("tmp"), 0o1777)?;
        make_folder(&folder.join("data"), 0o755)?;
        let volume = if needs::needs_volume(self.build.trial, envelope) {
            Some(Volume::make(&folder.join("volume"), &envelope.disk, ledger)?)
        } else {
            None
        };
        let isolation = Isolation {
            is_switch: false,
            hosts_file: self.hosts_file.clone(),
            binds: self.binds(&folder, volume.is_none()),
            volume: volume.as_ref().map(|volume| runner::Volume {
                file: volume.file().to_path_buf(),
                device: volume.device().to_path_buf(),
                at: PathBuf::from(DATA),
            }),
        };
        let setup = Setup {
            version: VERSION.to_owned(),
            host: name,
            run: ledger.id().to_owned(),
            folder: PathBuf::from(DATA),
            isolation: Some(isolation),
            envelope: envelope.clone(),
        };
        let wiring = self.wirings.get(index).cloned().unwrap_or_default();
        Ok(Virtual {
            index,
            plimsoll: self.plimsoll.clone(),
            setup,
            address: wiring.interfaces.first().map(|first| first.address.to_string()).unwrap_or_default(),
            wiring,
            target: self.target.clone(),
            folder,
            volume,
            switch: Arc::clone(switch),
            ledger: Arc::clone(ledger),
            at_once: Arc::clone(&self.build.at_once),
            kept: None,
            session: None,
        })
    }

    fn binds(&self, folder: &Path, data: bool) -> Vec<Bind> {
        let bind = |from: PathBuf, to: &str, writable| Bind { from, to: PathBuf::from(to), writable };
        let mut binds =
            vec![bind(folder.join("tmp"), "/tmp", true), bind(self.plimsoll.clone(), keeper::PROGRAM, false)];
        binds.extend(data.then(|| bind(folder.join("data"), DATA, true)));
        binds.extend(self.target.clone().map(|target| bind(target, TARGET, false)));
        binds
    }
}

/// Made by a mode of its own, whatever this program was started with.
fn make_folder(path: &Path, mode: u32) -> Result<(), Error> {
    let made = fs::create_dir_all(path).and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)));
    made.map_err(Error::system(format!("make {}", path.display())))
}

#[cfg(test)]
mod tests;
