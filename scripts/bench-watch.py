#!/usr/bin/env python3
"""Measures the cost of `run --watch`: the throughput of a load that takes the whole machine, with
200 readers of the page, half of which never read, compared with the same load without `--watch`.
The two are played in turns; `plimsoll compare` gives the ratio and its interval. The goal is
less than 2 %. Takes 4 minutes on a machine that is otherwise idle. Exits with 1 if the interval
reaches 2 %.
"""

import collections
import json
import os
import re
import selectors
import socket
import sys
import time

from bench_stage import Failed, arguments, bench

READERS, STOPPED = 200, 100
MOST_PCT = 2.0
EXPERIMENT = """
title = "what watching costs"
asks  = "How many operations per second does a load make that takes all of the machine?"
[target]
use  = "echo"
with = {{ delay = "1ms" }}
[load]
agents = 64
time   = "{seconds}s"
warmup = "1s"
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""


class Readers:
    """Connections that read the live page. Stopped readers send the request and never read."""

    def __init__(self, url):
        self.host, self.path = re.fullmatch(r"http://([^/]+)(/.*)", url).groups()
        self.selector = selectors.DefaultSelector()
        self.stopped = [self.connected() for _ in range(STOPPED)]
        self.seen = collections.Counter()
        for _ in range(READERS - STOPPED):
            self.selector.register(self.connected(), selectors.EVENT_READ)

    def connected(self):
        host, port = self.host.split(":")
        reader = socket.create_connection((host, int(port)), 10)
        request = f"GET {self.path}events HTTP/1.1\r\nHost: {self.host}\r\nAccept-Encoding: gzip\r\n\r\n"
        reader.sendall(request.encode())
        return reader

    def read(self, seconds):
        for key, _ in self.selector.select(seconds):
            piece = key.fileobj.recv(1 << 16)
            self.seen["bytes"] += len(piece)
            self.seen["pieces"] += 1
            if not piece:
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
                self.seen["ended"] += 1

    def close(self):
        for reader in self.stopped + [key.fileobj for key in self.selector.get_map().values()]:
            reader.close()


def play(stage, file, out, is_watched):
    words = [stage.plimsoll, "run", file, "--out", out, "--accept", "--plain", *(["--watch"] if is_watched else [])]
    launched = stage.launch(words)
    process, _, files, _ = launched
    readers = None
    while process.poll() is None:
        if readers:
            readers.read(0.2)
            continue
        time.sleep(0.05)
        # The program writes at the offset that a read would move.
        said = os.pread(files[1].fileno(), 1 << 16, 0).decode(errors="replace")
        found = re.search(r"^watch: (\S+)\n", said, re.MULTILINE) if is_watched else None
        readers = Readers(found[1]) if found else None
    stage.processes.remove(process)
    if process.returncode != 0 or (is_watched and readers is None):
        raise Failed(f"{words} ended with {process.returncode}: {os.pread(files[1].fileno(), 1 << 16, 0).decode()}")
    if readers:
        readers.close()
        print(f"  readers: {readers.seen['bytes']:,} bytes in {readers.seen['pieces']:,} pieces, {readers.seen['ended']} to the end", file=sys.stderr)


def measure(stage, given):
    file = stage.folder / "experiment.toml"
    file.write_text(EXPERIMENT.format(seconds=given.seconds))
    folders = {is_watched: stage.folder / ("watched" if is_watched else "alone") for is_watched in (False, True)}
    for turn in range(given.turns):
        for is_watched in (False, True) if turn % 2 == 0 else (True, False):
            print(f"turn {turn + 1} of {given.turns}: {folders[is_watched].name}", file=sys.stderr)
            play(stage, file, folders[is_watched], is_watched)
    words = [stage.plimsoll, "compare", folders[False], folders[True], "--metric", "throughput.operations_per_s", "--json", "--accept"]
    compared = json.loads(stage.finish(words).out)
    one = next(one for one in compared["comparisons"] if one["metric"] == "throughput.operations_per_s")
    low, high = one["ci95"]
    is_met = low > 1 - MOST_PCT / 100
    print(
        f"{READERS} readers, {STOPPED} of them stopped: {one['b_value']:,.0f} operations/s beside {one['a_value']:,.0f} without; "
        f"ratio {one['ratio']:.4f}, 95 % interval {low:.4f} to {high:.4f}, {given.turns} turns of {given.seconds:g} s. "
        f"Wanted less than {MOST_PCT:g} %: {'met' if is_met else 'not shown'}"
    )
    if not is_met:
        sys.exit(1)


bench(measure, arguments(__doc__, seconds=10, turns=8))
