#!/usr/bin/env python3
"""Measures what the check of clients' histories costs: operations per second of a real three-member
etcd under 50 agents in a closed loop, without audit, with every operation audited, and with the
check beside the load. All loads are played on the same three members, which keep their leader: the
rates of two clusters differ by more than the check costs. Writes a section of bench/RESULTS.md.
"""

import json
import math
import statistics
import sys
import time
import urllib.request

import bench_page
from bench_ratios import in_turns, middle
from bench_stage import PATIENCE_S, Failed, arguments, bench, free_port, tool

# Wanted ratio of operations per second to those without audit.
WANTED = 0.95
PLAIN, AUDITED, CHECKED = "without audit", "audited", "audited and checked beside the load"
MEMBERS, AGENTS, KEYS = 3, 50, 1000
# 97.5 % quantiles of Student's distribution, by degrees of freedom from 1.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]
EXPERIMENT = """
title = "etcd"
asks  = "What does the check cost?"
[target]
urls = {urls}
[load]
agents   = {agents}
time     = "{milliseconds}ms"
warmup   = "{warmup_ms}ms"
timeout  = "5s"
{load}
[[load.cycle]]
call  = "put"
with  = {{ key = "{play}-{{uniform:1..{keys}}}", value = "{{agent}}-{{seq}}" }}
audit = {audit}
[[load.cycle]]
call  = "get"
with  = {{ key = "{play}-{{uniform:1..{keys}}}" }}
audit = {audit}
"""


def cluster(stage):
    """Starts three members of etcd. Returns their URLs."""
    program = tool("etcd")
    if program is None:
        raise Failed("etcd is not installed: scripts/need.sh target:etcd")
    ports = [free_port(place) for place in range(2 * MEMBERS)]
    clients, peers = ([f"http://127.0.0.1:{port}" for port in part] for part in [ports[:MEMBERS], ports[MEMBERS:]])
    members = ",".join(f"m{number}={peer}" for number, peer in enumerate(peers))
    for number, (client, peer) in enumerate(zip(clients, peers)):
        words = [program, "--name", f"m{number}", "--data-dir", stage.folder / f"m{number}", "--logger", "zap", "--initial-cluster", members]
        words += ["--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer]
        stage.start([*words, "--initial-advertise-peer-urls", peer, "--log-outputs", stage.folder / f"m{number}.log"])
    for client in clients:
        wait_until_ready(client)
    return [f"etcd{client.removeprefix('http')}" for client in clients]


def wait_until_ready(client):
    """Waits until a member knows its leader."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{client}/health", timeout=1) as answer:
                if json.load(answer)["health"] == "true":
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise Failed(f"etcd at {client} is not ready")


def played(audit, load):
    """Returns a function that plays the load and returns its figures."""

    def play(stage, urls, seconds):
        milliseconds = round(seconds * 1000)
        # Keys of its own: what an earlier load wrote is not in this load's history.
        text = EXPERIMENT.format(
            urls=json.dumps(urls),
            agents=AGENTS,
            keys=KEYS,
            play=stage.played,
            milliseconds=milliseconds,
            warmup_ms=milliseconds // 5,
            audit=audit,
            load=load,
        )
        trial = stage.play(text)
        results = trial.results
        if not results["throughput"]["operations_per_s"]:
            raise Failed(f"etcd answered nothing: {results['verdict']}")
        outcomes, found = results["outcomes"], results["consistency"]
        beside = found.get("checked_beside") or {}
        return {
            "per_s": results["throughput"]["operations_per_s"],
            "cpu_us": 1e6 * (trial.process_cpu_s("generator", seconds) or math.nan) / trial.operations,
            "failed": sum(outcomes[name] for name in ["failed", "timeout", "wrong"]),
            "linearizable": found["linearizable"],
            "most_waiting": beside.get("most_waiting"),
            "gave_up": beside.get("gave_up"),
        }

    return play


SETTINGS = {
    PLAIN: played("false", ""),
    AUDITED: played("true", ""),
    CHECKED: played("true", "stop_at_violation = true"),
}


def interval(ratios):
    """Returns the geometric mean of the ratios and its 95 % interval, None with a single ratio."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), None
    t = STUDENT[min(len(logs) - 1, len(STUDENT)) - 1]
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))


def measure(stage, given):
    urls = cluster(stage)
    # Fills the caches of the members.
    SETTINGS[PLAIN](stage, urls, given.seconds)
    turns = in_turns(SETTINGS, given.turns, stage, urls, given.seconds)
    verdicts, rows = [], []
    for setting in [AUDITED, CHECKED]:
        ratios = [turn[setting]["per_s"] / turn[PLAIN]["per_s"] for turn in turns]
        mean, around = interval(ratios)
        verdict = "**met**" if mean >= WANTED else "**not met**"
        verdicts.append([setting, f"**{mean:.3f}**", around and f"{around[0]:.3f}–{around[1]:.3f}", f"≥ {WANTED}", verdict])
        print(f"{setting}: {' '.join(f'{ratio:.3f}' for ratio in ratios)}", file=sys.stderr, flush=True)
    for setting in SETTINGS:
        mine = [turn[setting] for turn in turns]
        said = sorted({turn["linearizable"] for turn in mine} | {turn["gave_up"] for turn in mine if turn["gave_up"]})
        waited = max((turn["most_waiting"] for turn in mine if turn["most_waiting"] is not None), default=None)
        cpu_us = middle(turn["cpu_us"] for turn in mine)
        rows.append([setting, middle(turn["per_s"] for turn in mine), cpu_us, sum(turn["failed"] for turn in mine), ", ".join(said), waited])
    lines = [
        f"{given.turns} turns of {given.seconds:g} s each, in alternating order: {AGENTS} agents write and read {KEYS:,} keys of the same three",
        "members of etcd on this machine, as fast as it answers. The interval is that of the mean of the turns' ratios, at 95 %.",
        "",
        *bench_page.table(["operations per second, over those without audit", "mean", "95 % interval", "wanted", ""], verdicts),
        "",
        *bench_page.table(["", "operations/s", "generator's CPU, µs an operation", "not ok", "linearizable", "most operations that waited for the check"], rows),
    ]
    bench_page.write("Checked histories", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=20, turns=8))
