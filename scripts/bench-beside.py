#!/usr/bin/env python3
"""Checks that verdicts distinguish figures that other load has spoiled from good figures. Servers
of known behaviour are measured with no other load, beside bursts, and beside a busy loop on one
core and on each core. For each figure the table has the truth, the measurement and the verdict.
A figure that is more than 5 % off is wrong. The true latency is the lowest of all runs with the
same arrivals, because other load only adds delay. All other truths are arithmetic. Needs a
machine that is otherwise idle. Writes a section of bench/TRUST.md.
"""

import collections
import json
import multiprocessing
import os
import random
import time

import bench_page
from bench_stage import ROOT, arguments, bench, free_port

SERVER = ROOT / "scripts/bench_truth_server.py"
WRONG = 0.05
# Errors up to this size are not wrong: microseconds of a median, seconds of an outage.
EXACT = {"median_latency": 200.0, "outages": 0.02}
PATHS = {"median_latency": "p50", "upper_latency": "p90", "tail_latency": "p99", "extreme_latency": "p999"}

Truth = collections.namedtuple("Truth", "load server true")


def truths(seconds):
    """Returns the servers with their loads, and the truths that follow from arithmetic and the server's log."""
    rate = lambda per_s: lambda book: {"throughput": per_s * book["ok"] / book["requests"], "counts": book["failed"]}
    stall = lambda book: rate(300)(book) | {"outages": 0.7}
    leak = lambda _: {"throughput": leaking(seconds), "counts": 0}
    at = lambda starts: f"agents = 400\nrate = {starts}"
    return {
        "M/D/1": Truth(at("{ poisson = 174 }"), "--service 0.005 --workers 1", rate(174)),
        "M/M/1": Truth(at("{ poisson = 174 }"), "--service 0.004 --workers 1 --exponential", rate(174)),
        "stall": Truth(at(300), f"--service 0.01 --window stall,{seconds / 2},{seconds / 2 + 0.7}", stall),
        "errors": Truth(at(300), f"--service 0.01 --window error,{seconds / 3},{seconds / 1.5},0.3", rate(300)),
        "leak": Truth("agents = 8", f"--service 0.005 --workers 1 --leak 0.4,{seconds}", leak),
    }


def leaking(seconds):
    """Returns the operations per second after the first one, if a linear share of 0.4 is added to the service time."""
    at_s, count = 0.0, 0
    while at_s < seconds:
        at_s += 0.005 * (1 + 0.4 * at_s / seconds)
        count += at_s > 1.0
    return count / (seconds - 1.0)


def loop(cpu):
    os.sched_setaffinity(0, {cpu})
    while True:
        pass


def bursts():
    """Uses 0.1 to 0.3 of a core in bursts of 5 to 200 ms, like a browser. Never returns."""
    chance = random.Random()
    while True:
        burst_s = chance.uniform(0.005, 0.2)
        until_s = time.monotonic() + burst_s
        while time.monotonic() < until_s:
            pass
        time.sleep(burst_s * chance.uniform(2.3, 9.0))


CPUS = sorted(os.sched_getaffinity(0))
BESIDE = {
    "next to nothing": [],
    "bursts": [(bursts, ())],
    "a loop on one core": [(loop, (CPUS[0],))],
    "a loop on each core": [(loop, (cpu,)) for cpu in CPUS],
}


def play(stage, name, truth, beside, seconds):
    """Returns a trial's figures with their verdicts, and the true figures."""
    port, book = free_port(), stage.folder / "book.json"
    text = f"""
title = "{name}"
asks  = "Is it measured as it was?"
[target]
start = "exec python3 {SERVER} {port} {truth.server} > {book}"
url   = "http://127.0.0.1:{port}/"
[load]
threads = 1
{truth.load}
time    = "{seconds}s"
warmup  = "1s"
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""
    others = [multiprocessing.Process(target=what, args=words, daemon=True) for what, words in BESIDE[beside]]
    for other in others:
        other.start()
    try:
        trial = stage.play(text).results
    finally:
        for other in others:
            other.kill()
            other.join()
    latency = trial["latency_us"]
    measured = {figure: latency[path] for figure, path in PATHS.items() if latency and latency[path]}
    measured |= {"throughput": trial["throughput"]["operations_per_s"], "counts": trial["outcomes"]["failed"]}
    outages = [one["outage"]["first_ok_s"] for one in trial["disturbances"] if one["kind"] == "outage"]
    measured["outages"] = outages[0] if len(outages) == 1 else None
    # A reason about the planted leak does not mark its figures.
    against = lambda one: [reason for reason in one.get("reasons", []) if "did not become steady" not in reason]
    trust = {one["figure"]: one["is"] if against(one) else "valid" for one in trial["verdict"]["figures"]}
    return measured, truth.true(json.loads(book.read_text())), trust, trial


def measure(stage, given):
    rows = []
    for turn in range(given.turns):
        for name, truth in truths(given.seconds).items():
            for beside in BESIDE:
                played = play(stage, name, truth, beside, given.seconds)
                rows.append((name, beside, *played[:3]))
                print(f"{turn + 1}: {name} beside {beside}: {played[3]['verdict']['is']}: {'; '.join(played[3]['verdict']['reasons'])}", flush=True)
    lines = [f"Latencies in µs, throughput per second, outages in seconds; {given.turns} rounds of {given.seconds:.0f} s.", ""]
    lines += ["| server | figure | truth | " + " | ".join(BESIDE) + " |", "|---|---|---:|" + "---|" * len(BESIDE)]
    counted = collections.Counter()
    for name in truths(given.seconds):
        own = [row for row in rows if row[0] == name]
        for figure in ["counts", "throughput", *PATHS, "outages"]:
            cells, true = [], None
            for beside in BESIDE:
                cell = []
                for _, _, measured, known, trust in [row for row in own if row[1] == beside]:
                    value = measured.get(figure)
                    seen = [row[2][figure] for row in own if row[2].get(figure) is not None]
                    true = known.get(figure, min(seen) if seen and figure in PATHS else None)
                    if true is None:
                        continue
                    off = abs(value - true) if value is not None else float("inf")
                    is_right = off <= max(WRONG * true, EXACT.get(figure, 0.0))
                    counted[is_right, trust.get(figure)] += 1
                    shown = "none" if value is None else f"{value:,.4g}"
                    cell.append(f"{shown} {trust.get(figure)}{'' if is_right else ' WRONG'}")
                cells.append(", ".join(cell))
            if true is not None:
                lines.append(f"| {name} | {figure} | {true:,.4g} | " + " | ".join(cells) + " |")
    right = sum(count for (is_right, _), count in counted.items() if is_right)
    valid = sum(count for (_, trust), count in counted.items() if trust == "valid")
    met = lambda is_met: "met" if is_met else "not met"
    wrong, good = counted[False, "valid"], counted[True, "valid"]
    lines += ["", f"Called valid, and wrong: {wrong} of {valid}; wanted at most 1 in 20: **{met(wrong <= 0.05 * valid)}**", ""]
    lines += [f"Right, and called valid: {good} of {right}; wanted at least 9 in 10: **{met(good >= 0.9 * right)}**"]
    bench_page.write("Beside other load", lines, given, bench_page.TRUST)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=8, turns=3))
