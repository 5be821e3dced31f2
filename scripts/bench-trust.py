#!/usr/bin/env python3
"""Measures whether Plimsoll's answers can be trusted. `plimsoll selfcheck --long` checks Plimsoll
against its own server. Here it is checked against servers in another language, which record what
they did: every row of the table must be right, or marked by the verdict. Further measurements:
how often an undisturbed open loop is valid, how often paired comparisons find a tenth more work,
how often they find a difference that does not exist, the same while other programs take CPU now
and then, and whether searches find known loads. Writes sections of bench/TRUST.md.
"""

import heapq
import json
import math
import random
import subprocess
import sys
import threading
import time

import bench_page
from bench_stage import ROOT, Failed, arguments, bench, free_port

SERVER = ROOT / "scripts/bench_truth_server.py"
# Allowed error of times.
WITHIN_S = 0.010
# Time that carrying bytes and waking threads may add.
CARRIED_S = 0.001
# Rounds of the server's loop for each request, and the factor for a tenth more.
WORK = 20_000
MORE = 1.1
TURNS = 5


def experiment(stage, title, load, server):
    words = f"exec taskset --cpu-list {stage.server_cpu} python3 {SERVER}"
    port = free_port()
    return f"""
title = "{title}"
asks  = "Is it measured as it was?"
[target]
start = "{words} {port} {server}"
url   = "http://127.0.0.1:{port}/"
[load]
threads = 1
{load}
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""


class Row:
    """A load on a server, and the expected results."""

    def __init__(self, about, load, server, *asked):
        self.about, self.load, self.server, self.asked = about, load, server, asked


def figure(name, path, truth, off):
    """Returns the check that a figure of the results is within a tolerance. If `off` is a pair, it is the tolerance below and above."""

    def hold(trial, book):
        value = trial
        for key in path.split("."):
            value = value and value.get(key)
        low, high = off if isinstance(off, tuple) else (off, off)
        return name, f"{truth:g}", value, value is not None and truth - low <= value <= truth + high

    return hold


def failed(trial, book):
    measured = trial["outcomes"]["failed"]
    return "failed", str(book["failed"]), measured, measured == book["failed"]


def began_and_ended(kind, gap_s, by="outage"):
    """Returns the check that a disturbance begins and ends as the server recorded."""

    def hold(trial, book):
        noted = book["windows"][kind]
        truth = [noted["first_unix_s"] - book["zero_s"], noted["last_unix_s"] - book["zero_s"]]
        found = [one for one in trial["disturbances"] if one["kind"] == by]
        said = f"{truth[0]:.3f}–{truth[1]:.3f} s"
        if len(found) != 1:
            return kind, said, f"{len(found)} disturbances", False
        at_s, first_ok_s = found[0]["at_s"], found[0]["outage"]["first_ok_s"]
        ends = [at_s, at_s + (first_ok_s or 0.0)]
        off = [ends[0] - truth[0], ends[1] - truth[1]]
        is_right = -WITHIN_S - gap_s <= off[0] <= WITHIN_S and -WITHIN_S <= off[1] <= WITHIN_S + gap_s
        return kind, said, f"{ends[0]:.3f}–{ends[1]:.3f} s", is_right

    return hold


def slow(from_s, until_s):
    """Returns the check that a slow period begins and ends within two seconds of the planted one. It is found by the second."""

    def hold(trial, book):
        found = [one for one in trial["disturbances"] if one["kind"] == "slow"]
        said = f"slow {from_s}–{until_s} s"
        seen = ", ".join(f"from {one['at_s']:.1f} s" for one in found)
        return "slow", said, seen or "nothing", len(found) == 1 and abs(found[0]["at_s"] - from_s) < 2

    return hold


def unsteady(trial, book):
    steady = trial["steady"]
    change = steady.get("throughput_change_pct"), steady.get("latency_change_pct")
    return "steady", "no", f"{steady['is']}, change {change}", steady["is"] is False


def calm(trial, book):
    return "disturbances", "0", len(trial["disturbances"]), not trial["disturbances"]


OPEN = "agents = 800\nrate = 400\ntime = \"{}s\"\nwarmup = \"1s\""
CLOSED = "agents = {}\ntime = \"{}s\"\nwarmup = \"1s\""
GAP_S = 1 / 400

TABLE = [
    Row("capacity, 1 worker of 5 ms, 8 agents", CLOSED.format(8, 10), "--service 0.005 --workers 1",
        figure("throughput", "throughput.operations_per_s", 200, 2), figure("p50", "latency_us.p50", 40_000, (100, 1_000)), calm),
    Row("400/s on 200/s", "agents = 8000\nrate = 400\ntime = \"10s\"\nwarmup = \"0s\"\ntimeout = \"30s\"\ndrain = \"30s\"",
        "--service 0.005 --workers 1", figure("throughput", "throughput.operations_per_s", 200, 4), unsteady),
    Row("503 for 2.3 s at 400/s", OPEN.format(14), "--window error,5,7.3", began_and_ended("error", GAP_S), failed),
    Row("503 for 2.3 s, 8 agents", CLOSED.format("8\nthink = \"4ms\"", 14), "--window error,5,7.3", began_and_ended("error", 0.005), failed),
    Row("30 % 503 for 4 s", OPEN.format(14), "--window error,5,9,0.3", failed),
    Row("2 % always, and 503 for 2.3 s", OPEN.format(14), "--background 0.02 --window error,5,7.3", began_and_ended("error", 3 * GAP_S), failed),
    Row("503 from 2 to 4 s, warm-up detected", OPEN.format(14).replace('"1s"', '"auto"'), "--window error,2,4",
        began_and_ended("error", GAP_S), failed),
    Row("stands still for 1.5 s at 400/s", OPEN.format(14), "--window stall,5,6.5", began_and_ended("stall", GAP_S), failed),
    Row("stands still for 0.3 s at 400/s", OPEN.format(14), "--window stall,5,5.3", began_and_ended("stall", GAP_S), failed),
    Row("breaks connections off for 2 s", OPEN.format(14), "--window reset,5,7", began_and_ended("reset", GAP_S), failed),
    Row("20 ms more for 5 of 20 s", OPEN.format(20), "--service 0.002 --window slow,8,13,0.020", slow(8, 13)),
    Row("half the throughput for 5 of 20 s, 8 agents", CLOSED.format(8, 20), "--service 0.005 --window slow,8,13,0.005", slow(8, 13)),
    Row("a quarter less over 30 s, 8 agents, warm-up given", CLOSED.format(8, 30), "--service 0.005 --leak 0.333,30", unsteady),
    Row("latency from 4 to 10 ms over 30 s", OPEN.format(30), "--service 0.004 --leak 1.5,30", unsteady),
    Row("nothing at all", OPEN.format(14), "--service 0.002", failed, calm),
]


def book_of(trial):
    """Returns the server's record, with the Unix time of the load's start."""
    for log in sorted((trial.folder / "logs").glob("*.log")):
        for line in log.read_text().splitlines():
            if line.startswith("{"):
                return {**json.loads(line), "zero_s": trial.start_unix_s}
    raise Failed(f"the server has recorded nothing in {trial.folder}/logs")


def table(stage, given):
    rows, wrong, marked = [], 0, 0
    for row in TABLE:
        trial = stage.play(experiment(stage, row.about, row.load, row.server))
        book, verdict = book_of(trial), trial.results["verdict"]
        for asked in row.asked:
            name, truth, measured, is_right = asked(trial.results, book)
            came = "right" if is_right else "wrong" if verdict["is"] == "valid" else "marked"
            wrong, marked = wrong + (came == "wrong"), marked + (came == "marked")
            shown = f"{measured:g}" if isinstance(measured, float) else measured
            rows.append([row.about, name, truth, shown, f"{verdict['is']} {' '.join(verdict['rules'])}".strip(), came])
            print(" | ".join(str(cell) for cell in rows[-1]), file=sys.stderr, flush=True)
    met = "met" if wrong == 0 else "not met"
    return [
        f"The servers are in Python (`scripts/bench_truth_server.py`) and record their actions. Of {len(rows)} truths, {len(rows) - wrong - marked} were measured right, "
        f"{marked} not right but marked by the verdict, and {wrong} wrong; wanted 0: **{met}**",
        "",
        *bench_page.table(["load and server", "asked", "truth", "measured", "verdict", ""], rows),
    ]


def open_loops(stage, given):
    valid, reasons, rounds = 0, {}, given.rounds or 20
    load = 'agents = 64\nrate = 400\ntime = "15s"\nwarmup = "1s"'
    for number in range(rounds):
        trial = stage.play(experiment(stage, "undisturbed", load, "--service 0.002"))
        verdict = trial.results["verdict"]
        valid += verdict["is"] == "valid"
        for rule in verdict["rules"]:
            reasons[rule] = reasons.get(rule, 0) + 1
        print(f"{number + 1}: {verdict['is']} {verdict['reasons']}", file=sys.stderr, flush=True)
    met = "met" if valid >= 0.9 * rounds else "not met"
    return [f"Of {rounds} undisturbed open loops of 15 s, **{valid}** were `valid`; wanted nine of ten: **{met}**"] + [
        f"- `{rule}`: {count}" for rule, count in sorted(reasons.items())
    ]


def pair(stage, number, which, work):
    """Plays two experiments in turn with `compare --play`. Returns its result for each figure."""
    load = 'agents = 4\ntime = "6s"\nwarmup = "1s"'
    folder = stage.folder / f"{which}-{number}"
    folder.mkdir()
    files = []
    for side, rounds in zip(["base", "candidate"], [WORK, work]):
        files.append(folder / f"{side}.toml")
        files[-1].write_text(experiment(stage, "so much work", load, f"--work {rounds}"))
    words = [stage.plimsoll, "compare", "--play", *files, "--turns", TURNS, "--out", folder / "runs", "--json", "--accept"]
    done = stage.finish(words)
    return json.loads(done.out)


def throughput(compared):
    return next(one for one in compared["comparisons"] if one["metric"] == "throughput.operations_per_s")


def pairs_of(stage, rounds, prefix):
    """Returns how often a tenth more work is found, and how often a difference is found although the work is the same."""
    found, flagged, shown, detectable, undecided = 0, 0, [], [], 0
    for number in range(rounds):
        more = throughput(pair(stage, number, f"{prefix}-more", round(WORK * MORE)))
        same = pair(stage, number, f"{prefix}-same", WORK)
        is_found = more["significant"] and more["ratio"] is not None and more["ratio"] < 1
        found += bool(is_found)
        undecided += more["p"] is None
        flagged += any(one["significant"] for one in same["comparisons"])
        shown.append(more["ratio"])
        detectable.append(throughput(same)["detectable_pct"])
        print(f"{prefix} {number + 1}: {more['ratio']} {more['p_adjusted']} pairs {more['pairs']}, same {throughput(same)['ratio']}, "
              f"{[one['metric'] for one in same['comparisons'] if one['significant']]}", file=sys.stderr, flush=True)
    seen = sorted(100 * (1 - ratio) for ratio in shown if ratio is not None)
    sizes = sorted(pct for pct in detectable if pct is not None)
    middle = lambda values: f"{values[len(values) // 2]:.1f} %" if values else "–"
    return found, flagged, middle(seen), middle(sizes), undecided


def pairs(stage, given):
    rounds = given.rounds or 10
    found, flagged, seen, sizes, _ = pairs_of(stage, rounds, "quiet")
    met = "met" if found >= 0.8 * rounds and flagged <= max(1, 0.1 * rounds) else "not met"
    return [
        f"`plimsoll compare --play` with {TURNS} turns of 6 s, on a server in Python. With a tenth more work for each request, the difference was found in **{found}** of {rounds} "
        f"(median {seen} less throughput, −9.1 % at most). With the same work, a difference was found in any figure in **{flagged}** of {rounds}. A change "
        f"of {sizes} can be shown (median). Wanted 8 of 10 and at most 1: **{met}**",
    ]


class Hog:
    """A busy loop that is on and off in turn, on any CPU."""

    def __init__(self, stage):
        self.stage, self.ends = stage, threading.Event()
        self.thread = threading.Thread(target=self.come_and_go)

    def come_and_go(self):
        while not self.ends.is_set():
            hog = self.stage.start(["sh", "-c", "while :; do :; done"])
            self.ends.wait(4)
            self.stage.end(hog)
            self.ends.wait(9)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def hog(stage, given):
    rounds = given.rounds or 10
    with Hog(stage):
        found, flagged, seen, sizes, undecided = pairs_of(stage, rounds, "hog")
    met = "met" if flagged <= max(1, 0.1 * rounds) else "not met"
    return [
        f"The same while a busy loop runs for 4 s of every 13 s. A tenth more work was found in **{found}** of {rounds} ({undecided} had too few trials that "
        f"are not void; median {seen}). With the same work, a difference was found in **{flagged}** of {rounds}. A change of {sizes} can be shown (median). If "
        f"no difference is found, the comparison prints how large a change would have to be. Wanted at most 1: **{met}**",
    ]


class Edge:
    """A service with a known highest load. The load is found with the same service in virtual time, with trials of the same length and random starts."""

    TRIAL_S, WARMUP_S = 1.5, 0.3
    # Trials of a load, of which half hold at the edge.
    TRIALS = 1500

    def __init__(self, about, server, limit, served, over):
        self.about, self.server, self.limit = about, server, limit
        # Of a random generator and times of arrival: whether the limit holds.
        self.served = served
        self.low, self.high = over

    def truth(self, carried_s):
        """Returns the edge in virtual time. Moving bytes and waking threads takes no time there, so the time that they take here is subtracted from the limit."""
        low, high = self.low, self.high
        while high / low > 1.003:
            rate = (low * high) ** 0.5
            draws = map(random.Random, range(self.TRIALS))
            held = sum(self.served(chance, arrivals(chance, rate, self.TRIAL_S), carried_s) for chance in draws)
            low, high = (rate, high) if held > self.TRIALS / 2 else (low, rate)
        return (low * high) ** 0.5


def arrivals(chance, rate, until_s):
    at_s, times = 0.0, []
    while (at_s := at_s + chance.expovariate(rate)) < until_s:
        times.append(at_s)
    return times


def queue(workers, service, p99_s):
    """Returns the check that p99 is below a limit, for this number of workers and random service times."""

    def hold(chance, times, carried_s):
        free_s, latencies = [0.0] * workers, []
        for at_s in times:
            done_s = max(heapq.heappop(free_s), at_s) + service(chance)
            heapq.heappush(free_s, done_s)
            if at_s >= Edge.WARMUP_S:
                latencies.append(done_s - at_s)
        return sorted(latencies)[math.ceil(0.99 * len(latencies)) - 1] < p99_s - carried_s

    return hold


def bucket(rate, burst, share):
    """Returns the check that the share of requests without a token is below a limit."""

    def hold(_, times, _carried_s):
        tokens, filled_s, failed = burst, 0.0, 0
        for at_s in times:
            tokens, filled_s = min(burst, tokens + rate * (at_s - filled_s)), at_s
            if tokens >= 1:
                tokens -= 1
            else:
                failed += at_s >= Edge.WARMUP_S
        return failed < share * sum(at_s >= Edge.WARMUP_S for at_s in times)

    return hold


P99 = '{ metric = "latency_us.p99", below = "20ms" }'
FAILED = '{ metric = "failed_pct", below = 1 }'
EDGES = [
    Edge("bucket, 800/s, 20 at once, 1 % may fail", "--bucket 800,20", FAILED, bucket(800, 20, 0.01), (300, 1200)),
    Edge("knee: four workers of 4 ms", "--service 0.004 --workers 4", P99, queue(4, lambda _: 0.004, 0.020), (300, 1200)),
    Edge("one worker, 1 ms at random (M/M/1)", "--service 0.001 --workers 1 --exponential", P99,
         queue(1, lambda chance: chance.expovariate(1000), 0.020), (300, 1200)),
    Edge("one worker, 1 ms (M/D/1)", "--service 0.001 --workers 1", P99, queue(1, lambda _: 0.001, 0.020), (300, 1200)),
]
UNLIMITED = Edge("no limit: 5 ms, 8 agents", "--service 0.005", P99, None, (0, 0))


def search(stage, edge, number, agents):
    """Returns the result of a search for the edge."""
    load = (f'agents = {agents}\nrate = 300\ntime = "{Edge.TRIAL_S:g}s"\nwarmup = "{Edge.WARMUP_S:g}s"\n[find]\nhighest = "load.rate"\n'
            f"while = [{edge.limit}]\nprecision_pct = 10")
    text = experiment(stage, edge.about, load, f"{edge.server} --seed 0")
    return stage.play(f"seed = {number + 1}\n{text}").safe_loads[0]


def carried(stage):
    """Returns the latency that this machine adds by moving bytes and waking threads, seconds: the latency of an idle server above its service time."""
    load = 'agents = 64\nrate = 300\ntime = "4s"\nwarmup = "1s"'
    trial = stage.play(experiment(stage, "nothing to wait for", load, "--service 0.001"))
    return max(0.0, trial.results["latency_us"]["p50"] / 1e6 - 0.001)


def search_often(stage, edge, rounds):
    """Returns a row of the table: how often the interval contains the truth, and whether that meets the goal."""
    if edge is UNLIMITED:
        ours = 0
        for number in range(rounds):
            found = search(stage, edge, number, 8)
            ours += found["limited_by"].startswith("the generator") and found["ci95"][1] is None
            print(f"{edge.about} {number + 1}: {found['value']} {found['ci95']} {found['limited_by']}", file=sys.stderr, flush=True)
        return [edge.about, "none", f"**{ours}** of {rounds} say that the generator is the limit", "", ""], ours >= 0.9 * rounds
    carried_s = carried(stage)
    truth, held, widths, trials = edge.truth(carried_s), 0, [], []
    print(f"{edge.about}: {1e6 * carried_s:.0f} us are added by this machine", file=sys.stderr, flush=True)
    for number in range(rounds):
        found = search(stage, edge, number, 256)
        low, high = found["ci95"]
        held += (low is None or low <= truth) and (high is None or truth <= high) and found["value"] is not None
        widths.append(100 * (high - low) / found["value"] if low and high else float("inf"))
        trials.append(len(found["steps"]))
        print(f"{edge.about} {number + 1}: {truth:.0f} in {found['ci95']}? {len(found['steps'])} trials, {found['limited_by']}",
              file=sys.stderr, flush=True)
    middle = lambda values: sorted(values)[len(values) // 2]
    row = [edge.about, f"{truth:.0f}", f"**{held}** of {rounds}", f"{middle(widths):.1f} %", middle(trials)]
    return row, held >= 0.9 * rounds


# What was found of each server, so that one of them can be played again alone.
SEARCHED = ROOT / "target/bench-searches.json"


def searches(stage, given):
    rounds = given.rounds or 20
    known = json.loads(SEARCHED.read_text()) if SEARCHED.exists() and not given.quick else {}
    for edge in [*EDGES, UNLIMITED]:
        if given.server in edge.about:
            known[edge.about] = search_often(stage, edge, rounds)
            if not given.quick:
                SEARCHED.write_text(json.dumps(known))
    found = [known[edge.about] for edge in [*EDGES, UNLIMITED] if edge.about in known]
    rows, is_met = [row for row, _ in found], len(found) == len(EDGES) + 1 and all(met for _, met in found)
    return [
        f"Searches with `[find]`, trials of {Edge.TRIAL_S:g} s with random starts and different seeds, on servers in Python. The truth is the load at which half of such "
        "trials meet the limit in virtual time. Before that, the excess of latency over service time on this machine (its median at 300/s) is subtracted from the limit. Wanted: the interval contains the truth in nine of ten, and on the server without a limit the generator is named as the limit: "
        f"**{'met' if is_met else 'not met'}**",
        "",
        *bench_page.table(["server", "truth, 1/s", "interval holds it", "its width, median", "trials, median"], rows),
    ]


def selfcheck(stage, given):
    table = stage.folder / "table.md"
    words = [stage.plimsoll, "selfcheck", "--markdown", table, "--out", stage.folder / "selfcheck", "--plain"]
    more = [] if given.rounds else ["--long"]
    done = subprocess.run([*words, *more], stdout=subprocess.DEVNULL, cwd=ROOT)
    if done.returncode not in (0, 5, 6):
        raise Failed(f"plimsoll selfcheck ended with {done.returncode}")
    met = {0: "met", 5: "not met", 6: "not measured"}[done.returncode]
    return [*table.read_text().splitlines(), "", f"Wanted: all right: **{met}**"]


def statistics(stage, given):
    table = stage.folder / "statistics.md"
    words = [stage.plimsoll, "selfcheck", "--statistics", "--markdown", table, "--out", stage.folder / "statistics"]
    more = [] if given.rounds else ["--long"]
    done = subprocess.run([*words, *more], stdout=subprocess.DEVNULL, cwd=ROOT)
    if done.returncode not in (0, 5):
        raise Failed(f"plimsoll selfcheck --statistics ended with {done.returncode}")
    return [*table.read_text().splitlines(), "", f"Wanted: every goal met: **{'met' if done.returncode == 0 else 'not met'}**"]


PARTS = {
    "selfcheck": ("Known truths", selfcheck),
    "statistics": ("Coverage and error rates", statistics),
    "table": ("Servers in another language", table),
    "open-loops": ("Open loops", open_loops),
    "pairs": ("Pairs", pairs),
    "hog": ("Pairs beside something that comes and goes", hog),
    "searches": ("Searches on five servers", searches),
}


def measure(stage, given):
    for name in given.parts.split(","):
        title, part = PARTS[name]
        begun_s = time.monotonic()
        lines = part(stage, given)
        print(f"{name}: {time.monotonic() - begun_s:.0f} s", file=sys.stderr, flush=True)
        bench_page.write(title, lines, given, bench_page.TRUST)


def more(parser):
    parser.add_argument("--parts", default=",".join(PARTS), help="only these parts, separated by commas")
    parser.add_argument("--server", default="", help="search only on servers with this text in their name; other rows keep their earlier results")
    parser.add_argument("--rounds", type=int, help="rounds of each repeated part; the page is not written")


if __name__ == "__main__":
    given = arguments(__doc__, seconds=6, more=more)
    given.quick = given.quick or given.rounds is not None
    bench(measure, given)
