#!/usr/bin/env python3
"""Compares the speed of the load engine with wrk, oha and hey: requests per second of the
generator's CPU, with everything recorded, against the built-in server and against nginx.
Generator and server have a CPU each. Writes a section of bench/RESULTS.md.
"""

import statistics
import sys

import bench_nginx
import bench_page
import bench_peers
import bench_profile
from bench_stage import arguments, bench

CONNECTIONS = [64, 1000]
# Wanted ratio of Plimsoll's requests per CPU-second to each peer's.
WANTED = {"light": {"wrk": 1.5, "oha": 2.0}, "nginx": {"wrk": 1.25, "oha": 1.6}}
SERVERS = {"light": "the built-in server", "nginx": "nginx"}

# The first operations' latency includes connecting, but not in wrk. So this time is left out of
# p99, and of no other figure.
CONNECTING_MS = 500
EXPERIMENT = """
title = "speed"
asks  = "How fast is the generator?"
[target]
url = "{url}"
[load]
agents  = {connections}
threads = 1
time    = "{milliseconds}ms"
warmup  = "{warmup_ms}ms"
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""


LOCATION = 'location / { return 200 "Hello, world!\\n"; }'


def plimsoll(stage, url, connections, seconds):
    """Plays a turn. Returns the figures that peers have, with the CPU time of the whole process and of the engine."""
    load = {"connections": connections, "milliseconds": round(seconds * 1000), "warmup_ms": CONNECTING_MS}
    text = EXPERIMENT.format(url=url, **load)
    trial = stage.play(text, cpu=stage.generator_cpu)
    outcomes, latency = trial.results["outcomes"], trial.results["latency_us"] or {}
    return {
        "per_s": trial.operations / seconds,
        "requests": trial.operations,
        "cpu_s": trial.engine_cpu_s,
        "process_cpu_s": trial.process_cpu_s("generator", seconds),
        "p99_us": latency.get("p99"),
        "mean_us": latency.get("mean"),
        "little_us": connections / trial.operations * seconds * 1e6 if trial.operations else None,
        "failed": sum(outcomes[name] for name in ["failed", "timeout", "wrong"]),
    }


def peer(ask, stage, url, connections, seconds):
    told = ask(stage, url, connections, seconds)
    return {
        "per_s": told.requests_per_s,
        "requests": told.requests,
        "cpu_s": told.cpu_s,
        "process_cpu_s": told.cpu_s,
        "p99_us": told.latency_us["p99"],
        "mean_us": told.latency_us["mean"],
        "little_us": connections / told.requests_per_s * 1e6 if told.requests_per_s else None,
        "failed": told.failed,
    }


def per_cpu_s(turn, whole=False):
    cpu_s = turn["process_cpu_s" if whole else "cpu_s"]
    return turn["requests"] / cpu_s if cpu_s else None


def median(figures):
    known = [figure for figure in figures if figure is not None]
    return statistics.median(known) if known else None


def ratios(turns, name, whole=False):
    """Returns Plimsoll's value divided by the peer's, for each turn that has both."""
    pairs = [(per_cpu_s(turn["Plimsoll"], whole), per_cpu_s(turn[name])) for turn in turns]
    return sorted(ours / theirs for ours, theirs in pairs if ours and theirs)


def judged(server, connections, turns, peers):
    """Returns a row for each ratio that has a goal, and one for p99."""
    where = f"{SERVERS[server]}, {connections} connections"
    rows = []
    for name, wanted in WANTED[server].items():
        row = [where, f"requests per CPU s, over {name}'s"]
        of_engine = ratios(turns, name) if name in peers else []
        if not of_engine:
            rows.append([*row, None, None, None, f"≥ {wanted}", "**not measured**"])
            continue
        of_process = ratios(turns, name, whole=True)
        value = statistics.median(of_engine)
        rows.append(
            [
                *row,
                f"**{value:.2f}**",
                f"{of_engine[0]:.2f}–{of_engine[-1]:.2f}",
                statistics.median(of_process) if of_process else None,
                f"≥ {wanted}",
                "**met**" if value >= wanted else "**not met**",
            ]
        )
    pairs = [(turn["Plimsoll"]["p99_us"], turn["wrk"]["p99_us"]) for turn in turns if "wrk" in turn]
    quotients = sorted(ours / theirs for ours, theirs in pairs if ours is not None and theirs)
    row = [where, "p99, over wrk's of the same turn"]
    if not quotients:
        return [*rows, [*row, None, None, None, "≤ 1", "**not measured**"]]
    value, above = statistics.median(quotients), sum(quotient > 1 for quotient in quotients)
    verdict = "**met**" if value <= 1 else "**not met**"
    told = f"{verdict}, above in {above} of {len(quotients)} turns"
    return [*rows, [*row, f"**{value:.2f}**", f"{quotients[0]:.2f}–{quotients[-1]:.2f}", None, "≤ 1", told]]


def tabled(turns, names):
    heads = ["", "requests/s", "CPU s", "requests per CPU s", "all its threads", "p99, µs", "mean, µs", "by Little", "failed"]
    rows = []
    for name in names:
        of = [turn[name] for turn in turns]
        figures = [median(turn[figure] for turn in of) for figure in ["per_s", "cpu_s"]]
        figures += [median(map(per_cpu_s, of)), median(per_cpu_s(turn, whole=True) for turn in of)]
        figures += [median(turn[figure] for turn in of) for figure in ["p99_us", "mean_us", "little_us"]]
        figures += [sum(turn["failed"] for turn in of)]
        rows.append([name, *figures])
    lines = bench_page.table(heads, rows)
    each = bench_page.table(
        ["requests per CPU s, by turn", *names],
        [[str(number), *[per_cpu_s(turn[name]) for name in names]] for number, turn in enumerate(turns, 1)],
    )
    return [*lines, "", *each]


def turns_of(stage, given, url, connections, peers):
    """Plays the turns of all generators one after the other. Each round begins with another generator."""
    contestants = {"Plimsoll": plimsoll}
    for name, ask in peers.items():
        contestants[name] = lambda *load, ask=ask: peer(ask, *load)
    names = list(contestants)
    turns = []
    for number in range(given.turns):
        turn = {}
        for place in range(len(names)):
            name = names[(number + place) % len(names)]
            turn[name] = contestants[name](stage, url, connections, given.seconds)
        turns.append(turn)
        told = ", ".join(f"{name} {bench_page.shown(per_cpu_s(turn[name]))}" for name in names)
        print(f"{connections} connections, turn {number + 1}: {told}", file=sys.stderr, flush=True)
    return turns


def profile(stage, url, seconds, wrk):
    """Returns where the time of a request goes in Plimsoll and in wrk, and the limit of their ratio."""
    connections, of = CONNECTIONS[0], {}
    for name, thread, play in [
        ("Plimsoll", "load-0", lambda: plimsoll(stage, url, connections, seconds)),
        ("wrk", "wrk", lambda: peer(wrk, stage, url, connections, seconds)),
    ]:
        parts, turn = bench_profile.shares(stage, thread, play)
        if not parts or not turn["requests"]:
            return ["Where the time goes was not measured: there is no `perf`, or it may not sample."]
        of[name] = (parts, 1e6 * turn["cpu_s"] / turn["requests"])
    needed_us, whole_us = bench_profile.needed_us(*of["Plimsoll"]), of["wrk"][1]
    return [
        f"Where a request's time goes, microseconds of CPU at {connections} connections against the built-in server, by {bench_profile.SAMPLES_PER_S}",
        "samples a second (`perf`, stacks; sampling itself costs some):",
        "",
        *bench_page.table(["", *of], [*bench_profile.rows(of), ["together", *(whole for _, whole in of.values())]]),
        "",
        "A generator that did nothing but send and receive, without a look at what came, would still spend the kernel's first three rows:",
        f"{needed_us:.2f} µs in ours, of wrk's {whole_us:.2f}: a quotient of {whole_us / needed_us:.2f} is what this kernel leaves to be had here.",
    ]


def measure(stage, given):
    peers = bench_peers.there()
    if stage.server_cpu == stage.generator_cpu:
        print("warning: server and generator share the only CPU, so the figures mean little", file=sys.stderr)
    verdicts, details, profiled = [], [], []
    for server in SERVERS:
        running = stage.echo() if server == "light" else bench_nginx.start(stage, LOCATION)
        if running is None:
            verdicts.append([SERVERS[server], "not installed", None, None, None, None, "**not measured**"])
            continue
        for connections in CONNECTIONS:
            turns = turns_of(stage, given, running.url, connections, peers)
            verdicts += judged(server, connections, turns, peers)
            details += ["", f"### {SERVERS[server]}, {connections} connections", "", *tabled(turns, ["Plimsoll", *peers])]
        if server == "light" and "wrk" in peers:
            profiled = profile(stage, running.url, given.seconds, peers["wrk"])
        stage.end(running.process)
    # The interval from the least to the greatest of n pairs holds the median with probability 1 - 2^(1-n) (sign test).
    sure = f", which hold the median with {100 * (1 - 2 ** (1 - given.turns)):.0f} % confidence" if given.turns > 1 else ""
    heads = ["", "Plimsoll's", "median", "least–greatest", "all its threads", "wanted", ""]
    lines = [
        "Requests per second of the generator's CPU time, Plimsoll against its peers: closed loop, HTTP/1.1 with keep-alive, one thread, no",
        "think time; Plimsoll with every operation recorded and its status checked. Generator and server are pinned",
        f"to a CPU each. All generators take turns, {given.turns} of {given.seconds:g} s each; a ratio compares the two in the same turn. The table has the median of the",
        f"turns, the least and the greatest{sure}.",
        "",
        *bench_page.table(heads, verdicts),
        "",
        "Plimsoll's CPU time is that of its engine's threads, as wrk's is of its only one; *all its threads* counts those that record and",
        "sample during the load as well (analysis and report follow the load). For the peers it is the whole process. p99 is the value that each",
        f"reports: for wrk that of `wrk --latency`; Plimsoll's is without the first {CONNECTING_MS} ms, because it counts connecting as",
        "latency and wrk does not. *By Little*: in a closed loop without think time the mean latency is the connections by the throughput,",
        "independent of the tool (Little's law). If a tool reports less, it did not count part of the time: wrk's clock starts",
        "only when it writes to the connection.",
        "",
        *profiled,
        *details,
        "",
        bench_peers.versions(),
    ]
    bench_page.write("Speed", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=4, turns=7))
