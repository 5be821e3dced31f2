#!/usr/bin/env python3
"""check-porcupine.py PLIMSOLL: plays a cluster of etcd twice with this binary, and compares the
verdicts of Porcupine (github.com/anishathalye/porcupine, in Go) on the exported keys with
Plimsoll's. Reads are linearizable while the leader is killed; then a leader that is cut off answers
from old data. Porcupine's own tests read the logs, so its parser and its model of etcd are checked
as well. Needs root, etcd, Go and the network.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = "github.com/anishathalye/porcupine@v1.3.1"
# Tests of Porcupine that read a log. The first passes if the log is linearizable, the second if not.
LINEARIZABLE, VIOLATED = "002", "000"
EXPERIMENT = """
title = "etcd for Porcupine"
asks  = "are its answers those of a single copy?"
[target]
use  = "etcd"
with = {{ heartbeat = "50ms", election = "500ms" }}
[lab]
hosts           = 3
measure_storage = false
[load]
agents   = 9
time     = "7s"
timeout  = "1s"
think    = "10ms"
warmup   = "0s"
failover = "next"
[[load.cycle]]
name  = "read"
call  = "get"
with  = {{ key = "k{{uniform:0..2}}", consistency = "{reads}" }}
audit = true
[[load.cycle]]
call  = "put"
with  = {{ key = "k{{seq%3}}", value = "{{agent}}-{{seq}}" }}
audit = true
[[load.cycle]]
call  = "get"
with  = {{ key = "k{{seq%3}}" }}
keep  = {{ seen = "answer.value" }}
audit = true
[[load.cycle]]
call  = "cas"
with  = {{ key = "k{{seq%3}}", from = "{{seen}}", value = "{{agent}}-{{seq}}-cas" }}
audit = true
[[fault]]
name = "lost"
kind = "{fault}"
on   = "leader"
at   = "2s"
for  = "2500ms"
"""


def said(words, **more):
    """Returns the standard output of a program."""
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def porcupine(folder):
    """Returns a copy of Porcupine's sources that can be changed."""
    found = json.loads(said(["go", "mod", "download", "-json", MODULE], cwd=folder))
    copy = folder / "porcupine"
    shutil.copytree(found["Dir"], copy, copy_function=shutil.copyfile)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def is_linearizable(sources, log):
    """Returns Porcupine's verdict on a log."""
    for test in (LINEARIZABLE, VIOLATED):
        (sources / f"test_data/jepsen/etcd_{test}.log").write_text(log)
    tests = ["go", "test", "-v", "-count=1", "-run", f"TestEtcdJepsen({LINEARIZABLE}|{VIOLATED})$", "."]
    told = subprocess.run(tests, cwd=sources, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    passed = [f"--- PASS: TestEtcdJepsen{test} " in told for test in (LINEARIZABLE, VIOLATED)]
    if passed[0] == passed[1]:
        sys.exit(f"Porcupine cannot read the log:\n{told}")
    return passed[0]


def compared(plimsoll, sources, folder, reads, fault):
    """Plays the cluster. Returns the number of keys, and of those that Plimsoll and Porcupine refuse."""
    folder.mkdir()
    experiment = folder / "etcd.toml"
    experiment.write_text(EXPERIMENT.format(reads=reads, fault=fault))
    runs = folder / "runs"
    told = said([plimsoll, "run", experiment, "--out", runs, "--json", "--accept"])
    consistency = json.loads(told)["trials"][0]["consistency"]
    (run,) = runs.iterdir()
    refused = 0
    for key in (f"k{number}" for number in range(3)):
        log = said([plimsoll, "export", run, "--history", "porcupine", "--key", key])
        is_right = is_linearizable(sources, log)
        refused += not is_right
        print(f"{reads} {key}: {len(log.splitlines())} events, {'linearizable' if is_right else 'NOT linearizable'}", flush=True)
    return consistency["linearizable"], consistency["not_linearizable"], refused


def main():
    plimsoll = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sources = porcupine(folder)
        for reads, fault, expected in [("linearizable", "kill", "yes"), ("serializable", "partition", "no")]:
            verdict, violated, refused = compared(plimsoll, sources, folder / reads, reads, fault)
            print(f"{reads} reads: Plimsoll says {verdict} and refuses {violated or 0} keys, Porcupine {refused}")
            if (verdict, violated or 0) != (expected, refused):
                sys.exit(f"expected the same from both, and the verdict {expected}")


main()
