#!/usr/bin/env bash
# Runs Debian's Slurm with three nodes on this machine, for tests of fleets. Nothing is installed: all
# files are in one folder. It listens only on the loopback address. Needs root.
#   slurm.sh up FOLDER     fetches Slurm if necessary, starts it, prints variables for the environment
#   slurm.sh down FOLDER   ends it
set -euo pipefail
[ $# = 2 ] || { sed -n '2,5p' "$0" | cut -c3-; exit 2; }
mkdir -p "$2"
folder=$(realpath "$2")
root=$folder/root
libraries=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu/slurm-wlm
nodes=3

down() {
  for pid in "$folder"/run/*.pid; do
    [ -e "$pid" ] || continue
    # The process number may have been reused since.
    number=$(cat "$pid")
    if [ -e "/proc/$number/environ" ] && grep -qz "^PLIMSOLL_SLURM=$folder$" "/proc/$number/environ"; then kill -9 "$number"; fi
  done
  # Processes of their steps.
  for environ in /proc/[0-9]*/environ; do
    if grep -qz "^PLIMSOLL_SLURM=$folder$" "$environ" 2>/dev/null; then
      number=${environ%/environ}; kill -9 "${number#/proc/}" 2>/dev/null || true
    fi
  done
  rm -rf "$folder/run"
}

fetch() {
  [ ! -e "$folder/fetched" ] || return 0
  packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 libjson-c5 libyaml-0-2 liblua5.1-0 libhwloc15
    libdbus-1-3 libnuma1 libreadline8 libxnvctrl0 libltdl7)
  rm -rf "$root" "$folder/deb"
  mkdir -p "$root" "$folder/deb"
  (cd "$folder/deb" && apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}" 2>"$folder/fetch.log") ||
    { tail -n 3 "$folder/fetch.log" >&2; echo "Slurm's packages cannot be fetched; apt-get update may help" >&2; exit 1; }
  for package in "$folder"/deb/*.deb; do dpkg -x "$package" "$root"; done
  rm -rf "$folder/deb"
  touch "$folder/fetched"
}

up() {
  fetch
  down
  mkdir -p "$folder"/run/{state,bin}
  cd "$folder/run"
  # With the names that users type.
  for program in "$root"/usr/bin/s* "$root"/usr/sbin/*-wlm; do
    name=$(basename "$program")
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$program" >"bin/${name%-wlm}"
  done
  chmod 755 bin/*
  cat >slurm.conf <<CONF
ClusterName=plimsoll
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=16817
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/run/state
SlurmdSpoolDir=$folder/run/%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/%n.pid
SlurmctldLogFile=$folder/run/slurmctld.log
SlurmdLogFile=$folder/run/%n.log
PluginDir=$root/usr/lib/x86_64-linux-gnu/slurm-wlm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=60
InactiveLimit=30
$(for node in $(seq $nodes); do echo "NodeName=sn$node NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((16817 + node)) CPUs=2 State=UNKNOWN"; done)
PartitionName=load Nodes=sn[1-$nodes] Default=YES MaxTime=60 State=UP
CONF
  export SLURM_CONF=$folder/run/slurm.conf PLIMSOLL_SLURM=$folder PATH=$folder/run/bin:$PATH
  slurmctld 2>start.log || { cat start.log >&2; exit 1; }
  for node in $(seq $nodes); do slurmd -N "sn$node" -d "$root/usr/sbin/slurmstepd-wlm" 2>>start.log || { cat start.log >&2; exit 1; }; done
  for _ in $(seq 100); do
    [ "$(sinfo --noheader --format=%T --Node 2>/dev/null | grep --count idle)" = $nodes ] && break
    sleep 0.1
  done
  if [ "$(sinfo --noheader --format=%T --Node | grep --count idle)" != $nodes ]; then
    sinfo >&2; tail -n 5 ./*.log >&2; exit 1
  fi
  echo "SLURM_CONF=$SLURM_CONF PATH=$PATH"
}

case $1 in
  up) up ;;
  down) down ;;
  *) sed -n '2,5p' "$0" | cut -c3-; exit 2 ;;
esac
