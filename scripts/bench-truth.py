#!/usr/bin/env python3
"""Checks the percentiles of a server that stalls for a tenth of the time. Operations come at a
steady rate and the server serves a fixed number at a time, so each operation's wait is
arithmetic. Plimsoll's percentiles are compared with it; those of its peers are shown beside
them. Writes a section of bench/RESULTS.md.
"""

import math
import time

import bench_page
import bench_peers
from bench_stage import Failed, arguments, bench, tool

RATE = 2000
# Length of an answer without a stall: so long that 1 % of it is more than the time to wake a
# thread.
DELAY_S = 0.05
# Operations served at the same time: WORKERS / DELAY_S per second, far fewer than the machine could
# serve. So the time for the backlog after a stall is arithmetic, too.
WORKERS = 180
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
WITHIN_PCT = 1

EXPERIMENT = """
title = "truth"
asks  = "What does a client wait at a server that stalls?"
[target]
url = "{url}"
[load]
agents  = {agents}
threads = 1
rate    = {rate}
time    = "{milliseconds}ms"
warmup  = "0s"
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""


class Stalls:
    """Stalls of a server. Each lasts a tenth of the period; the first begins one period after the server's first connection. The
    load contains three, so that more than a tenth of the operations wait for a stall. With fewer, p90 would only show the machine's noise."""

    def __init__(self, seconds):
        # A load that begins in the last quarter of the first period ends long after the third
        # stall's backlog is served.
        self.period_s = seconds / 2.5
        self.stall_s = self.period_s / 10
        self.seconds = seconds

    def after(self, at_s):
        """Returns the first time from `at_s` on at which the server does not stall."""
        begins_s = at_s - at_s % self.period_s
        return begins_s + self.stall_s if begins_s > 0 and at_s - begins_s < self.stall_s else at_s

    def waits_s(self, start_s):
        """Returns the waits of all operations, shortest first, of a load that begins at this time after the server's first connection. A
        request is accepted when the server does not stall, begun when a worker is free, and answered DELAY_S later or at the end of a stall."""
        served_s, waits_s = [0] * WORKERS, []
        for number in range(round(RATE * self.seconds)):
            at_s = start_s + number / RATE
            # All operations take equally long: the operation begun WORKERS before ends first.
            served_s.append(max(self.after(at_s), served_s[-WORKERS]) + DELAY_S)
            waits_s.append(self.after(served_s[-1]) - at_s)
        return sorted(waits_s)


def quantiles_us(waits_s):
    return {name: waits_s[math.ceil(part * len(waits_s)) - 1] * 1e6 for name, part in QUANTILES.items()}


def plimsoll(stage, server, stalls):
    # Half as many again as are due in a stall, so that no operation waits for an agent.
    agents = math.ceil(1.5 * RATE * (stalls.stall_s + DELAY_S))
    text = EXPERIMENT.format(url=server.url, agents=agents, rate=RATE, milliseconds=round(stalls.seconds * 1000))
    trial = stage.play(text, cpu=stage.generator_cpu)
    latency = trial.results["latency_us"]
    return {name: latency[name] for name in QUANTILES}, trial.start_unix_s - server.first_unix_s


def peers(stalls):
    """Returns the peers: for each the words in the table, and the arguments."""
    agents = math.ceil(1.5 * RATE * (stalls.stall_s + DELAY_S))
    # Number of connections that are busy at this rate without a stall.
    busy = round(RATE * DELAY_S)
    some = round(2.5 * busy)
    asked = [
        ("wrk", f"wrk, closed loop, {busy} connections", bench_peers.wrk, busy, {}),
        ("wrk2", f"wrk2, {some} connections", bench_peers.wrk, some, {"rate": RATE, "program": "wrk2"}),
        ("hey", f"hey -q, {some} connections", bench_peers.hey, some, {"rate": RATE}),
        ("oha", f"oha -q, {agents} connections", bench_peers.oha, agents, {"rate": RATE}),
        ("oha", f"oha -q --latency-correction, {agents} connections", bench_peers.oha, agents, {"rate": RATE, "corrected": True}),
    ]
    return asked


def stalling(stage, stalls):
    options = ["--delay", DELAY_S, "--workers", WORKERS, "--stall", stalls.stall_s, "--stall-every", stalls.period_s]
    server = stage.echo(*(f"{option:.9f}" if isinstance(option, float) else option for option in options))
    # The load begins shortly before the first stall, after its generator is ready.
    time.sleep(0.75 * stalls.period_s)
    return server


def row(words, told, truth):
    """Returns a row: milliseconds, and the largest deviation from the truth."""
    off_pct = [100 * (told[name] / truth[name] - 1) for name in QUANTILES if told[name] is not None]
    farthest = f"{max(off_pct, key=abs):+.1f} %" if off_pct else None
    return [words, *[told[name] and told[name] / 1e3 for name in QUANTILES], farthest]


def measure(stage, given):
    stalls = Stalls(given.seconds)
    server = stalling(stage, stalls)
    ours, start_s = plimsoll(stage, server, stalls)
    stage.end(server.process)
    waits_s = stalls.waits_s(start_s)
    truth = quantiles_us(waits_s)
    rows = [row("the truth", truth, truth)[:-1] + [""], row("**Plimsoll**, open loop", ours, truth)]
    absent = []
    for name, words, ask, connections, more in peers(stalls):
        if not tool(name):
            absent.append(name)
            continue
        server = stalling(stage, stalls)
        try:
            told = ask(stage, server.url, connections, given.seconds, **more)
        except Failed as failed:
            rows.append([f"{words}: failed ({str(failed).splitlines()[0]})", *[None] * (len(QUANTILES) + 1)])
            continue
        finally:
            stage.end(server.process)
        rows.append(row(f"{words}, {told.requests_per_s:.0f}/s", told.latency_us, truth))
    verdicts = []
    for name, quantile in QUANTILES.items():
        wanted = f"in truth {truth[name] / 1e3:.2f} ms"
        if ours[name] is None:
            verdicts.append(f"- p{100 * quantile:g}: {wanted}: **not measured**: too few operations")
            continue
        off_pct = 100 * (ours[name] / truth[name] - 1)
        met = "met" if abs(off_pct) <= WITHIN_PCT else "not met"
        verdicts.append(f"- p{100 * quantile:g}: {ours[name] / 1e3:.2f} ms, {wanted}: {off_pct:+.2f} %; wanted within {WITHIN_PCT} %: **{met}**")
    late_pct = 100 * sum(wait_s > 1.01 * DELAY_S for wait_s in waits_s) / len(waits_s)
    lines = [
        f"A server that answers after {DELAY_S * 1e3:g} ms, serves {WORKERS} requests at a time ({WORKERS / DELAY_S:,.0f} a second) and stalls for {stalls.stall_s:g} s every",
        f"{stalls.period_s:g} s; {RATE:,} operations/s are due for {given.seconds:g} s, in which three stalls lie. An operation that arrives in a stall waits for the rest of",
        "the stall and then for its turn, so all waits can be calculated. The time that a machine takes to carry bytes and to wake threads is",
        "neglected.",
        "",
        f"In the stalls {300 * stalls.stall_s / given.seconds:.0f} % of the operations are due, and {late_pct:.0f} % wait for a stall or for the queue after it. That is more than a tenth, so p90, p99",
        "and p99.9 are among these and can be calculated; with fewer stalls p90 would be among the slowest of the others, which differ only",
        "by the machine's noise. p50 is among the others, and equals the time of an answer.",
        "",
        *verdicts,
        "",
        *bench_page.table(["milliseconds", "p50", "p90", "p99", "p99.9", "farthest from the truth"], rows),
        "",
        "A closed loop sends few requests in a stall, so it hardly measures the stall: wrk cannot keep a rate at all (it has a",
        "closed loop only), and hey and oha keep theirs while a connection is free. Without the delay the median would be the time of a system",
        "call, whose true value is unknown. The truth is for the time of Plimsoll's load; the loads of the others begin slightly earlier",
        "or later, with the same three stalls in them.",
    ]
    if absent:
        lines += ["", f"Not installed, and so not measured: {', '.join(dict.fromkeys(absent))}."]
    if "wrk2" in absent:
        lines[-1] += " wrk2 is in no package registry; it is measured where it is on the PATH."
    bench_page.write("Truth", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=25))
