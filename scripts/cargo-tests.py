#!/usr/bin/env python3
"""cargo-tests.py CARGO-TEST-OPTION…: plays tests. Many of them hold real clusters under real load against the clock, on whatever
machine this is; with AGAIN=N in the environment up to N that failed are played once more, each alone, and it is said loudly which.
More than N, one that fails twice, or a test program that did not end by itself, is a failure. It must not play anything a third time.
"""

import os
import pathlib
import re
import subprocess
import sys

CARGO = ["cargo", "test", "--quiet"]


def main():
    os.chdir(pathlib.Path(__file__).parents[1])
    again = int(os.environ.get("AGAIN") or 0)
    if again == 0:
        os.execvp(CARGO[0], [*CARGO, *sys.argv[1:]])
    code, printed = shown([*CARGO, "--no-fail-fast", *sys.argv[1:]])
    if code == 0:
        return 0
    failed = failures(printed)
    if not failed or sum(map(len, failed.values())) > again:
        print(f"cargo-tests: not played again: more than {again} tests failed, or something else did", file=sys.stderr)
        return code
    names = [name for tests in failed.values() for name in tests]
    print(f"cargo-tests: failed, and now played again alone: {', '.join(names)}", file=sys.stderr)
    for target, tests in failed.items():
        code, printed = shown([*CARGO, *target.split(), "--", "--exact", "--test-threads=1", *tests])
        if code != 0 or f"{len(tests)} passed; 0 failed" not in printed:
            return code or 1
    print(f"cargo-tests: PASSED ONLY WHEN PLAYED AGAIN, worth a look: {', '.join(names)}", file=sys.stderr)
    return 0


def shown(command):
    """The exit code, and what was printed, which is shown as it comes."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as cargo:
        lines = []
        for line in cargo.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return cargo.returncode, "".join(lines)


def failures(printed):
    """The names of the failed tests by target, in the words of cargo's options; nothing if not every failed target named its own."""
    summary = re.search(r"^error: \d+ targets? failed:\n((?: +`.+`\n?)+)", printed, re.MULTILINE)
    targets = re.findall(r"`(.+)`", summary[1]) if summary else []
    # Each target's last list before its result: what a test printed may look like one.
    lists = re.findall(r"^failures:\n((?: {4}\S+\n)+)\ntest result: FAILED", printed, re.MULTILINE)
    return dict(zip(targets, map(str.split, lists))) if len(targets) == len(lists) else {}


try:
    sys.exit(main())
except KeyboardInterrupt:
    sys.exit(130)
