#!/usr/bin/env python3
"""Mutation test: draws mutants of the statistics and of the verdict with a given seed, and runs the unit tests of `analysis` on each.

Mutants are listed by cargo-mutants, which is installed under target/tools if it is missing. Each one is applied in a copy of the checkout.
A mutant is caught if a unit test fails or runs out of time; it is missed if all pass; one that does not compile is replaced by the next.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATE = "crates/analysis"
FILES = ["stats/**/*.rs", "comparisons.rs", "audit.rs", "faults.rs", "verdict/**/*.rs", "generator.rs"]
# Time limit, because a mutant may loop forever.
TIMEOUT_S = 300


def cargo_mutants():
    """Returns the path of cargo-mutants. Installs it if it is missing."""
    found = shutil.which("cargo-mutants")
    tool = ROOT / "target/tools/cargo-mutants"
    if not found and not (tool / "bin/cargo-mutants").exists():
        subprocess.run(["cargo", "install", "cargo-mutants", "--locked", "--debug", "--root", tool], check=True)
    return found or tool / "bin/cargo-mutants"


def listed():
    """Returns all mutants of the files, in the order of the files."""
    chosen = [word for pattern in FILES for word in ("--file", f"{CRATE}/src/{pattern}")]
    words = [cargo_mutants(), "mutants", "--list", "--json", "--diff", "--package", "plimsoll-analysis", *chosen]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    return [one for one in json.loads(done.stdout) if "/tests" not in one["file"]]


def tested(copy, mutant, target):
    """Runs the unit tests on a mutant in a copy of the checkout. Returns `caught`, `missed` or `unviable`."""
    path = copy / mutant["file"]
    before = path.read_text()
    subprocess.run(["patch", "--silent", "-p0", path], input=mutant["diff"], text=True, check=True)
    test = ["cargo", "test", "--quiet", "--package", "plimsoll-analysis", "--lib"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "RUST_BACKTRACE": "0"}
    try:
        if ended(["nice", *test, "--no-run"], copy, environment):
            return "unviable"
        return "caught" if ended(["nice", *test], copy, environment, TIMEOUT_S) else "missed"
    finally:
        path.write_text(before)


def ended(words, folder, environment, timeout_s=None):
    """Runs a command and returns its exit code. After the time limit, ends the command and all processes that it started, and returns 1."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = subprocess.Popen(words, cwd=folder, env=environment, start_new_session=True, **quiet)
    try:
        return started.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return 1
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="seed of the random choice")
    parser.add_argument("--mutants", type=int, default=60, help="number of mutants to test")
    given = parser.parse_args()
    mutants = listed()
    random.Random(given.seed).shuffle(mutants)
    counts = {"caught": 0, "missed": 0, "unviable": 0}
    lines = []
    with tempfile.TemporaryDirectory(prefix="plimsoll-mutants-") as folder:
        copy = Path(folder) / "checkout"
        ignored = shutil.ignore_patterns("target", "runs", ".git")
        shutil.copytree(ROOT, copy, ignore=ignored, symlinks=True)
        for mutant in mutants:
            if counts["caught"] + counts["missed"] == given.mutants:
                break
            result = tested(copy, mutant, ROOT / "target/mutants/build")
            counts[result] += 1
            lines.append(f"{result}: {mutant['name']}")
            print(lines[-1], flush=True)
    of = counts["caught"] + counts["missed"]
    lines.append(f"{counts['caught']} of {of} caught, of {len(mutants)} mutants, seed {given.seed}; {counts['unviable']} did not compile")
    print(lines[-1])
    (ROOT / "target/mutants/report.txt").write_text("\n".join(lines) + "\n")
    return 0 if counts["missed"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
