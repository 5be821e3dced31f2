#!/usr/bin/env python3
"""Whether Plimsoll's answers can be trusted, measured: how often it sees a difference where there is none, how often it finds one that
was planted, how often an undisturbed trial is valid, and whether a search's interval holds the true capacity. Writes bench/TRUST.md.
bench-trust.py [ROUNDS] [PARTS]   ROUNDS of each live part (20); PARTS of aa,power,valid,find (all).
"""

import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLIMSOLL = ROOT / "target/dist/plimsoll"
METRIC = "throughput.operations_per_s"
AGENTS = 16
REPEATS = 5
DELAY_S = 0.001
RECORDED = 100

LOAD = f"""
[load]
agents  = {AGENTS}
threads = 1
time    = "1200ms"
warmup  = "200ms"
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""


def play(text, out):
    """Plays an experiment, and gives its run folder with its results."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "experiment.toml"
    file.write_text(text)
    before = set(out.glob("20*"))
    words = [PLIMSOLL, "run", file, "--out", out, "--accept", "--plain", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}\n{text}")
    return (set(out.glob("20*")) - before).pop(), json.loads(done.stdout)


def two_servers(delay_s):
    """One echo beside another whose answers take so long."""
    return f"""
title = "one echo beside another"
asks = "Is the second slower?"
repeat = {REPEATS}
[target]
use = "echo"
[[variant]]
name = "one"
target = {{ with = {{ delay = "{DELAY_S * 1e6:.0f}us" }} }}
[[variant]]
name = "other"
target = {{ with = {{ delay = "{delay_s * 1e6:.1f}us" }} }}
{LOAD}"""


def flagged(results):
    return [comparison for comparison in results["comparisons"] if comparison["significant"]]


def throughput(results):
    return next(comparison for comparison in results["comparisons"] if comparison["metric"] == METRIC)


def recombined(folders, number, work):
    """A comparison of pairs drawn from recorded runs, in which chance decides which of a pair is whose."""
    chance = random.Random(number)
    pairs = []
    for folder in folders:
        trials = json.loads((folder / "plan.json").read_text())["trials"]
        by_repeat = {}
        for trial in trials:
            by_repeat.setdefault(trial["repeat"], []).append((folder, trial))
        pairs += by_repeat.values()
    made = work / f"recorded-{number}"
    (made / "trials").mkdir(parents=True)
    plan = json.loads((folders[0] / "plan.json").read_text())
    plan["trials"] = []
    for repeat, pair in enumerate(chance.sample(pairs, REPEATS), 1):
        names = chance.sample(plan["variants"], 2)
        for (folder, trial), variant in sorted(zip(pair, names), key=lambda one: plan["variants"].index(one[1])):
            id = f"{len(plan['trials']) + 1:03}"
            plan["trials"].append({**trial, "id": id, "variant": variant, "repeat": repeat})
            shutil.copytree(folder / "trials" / trial["id"], made / "trials" / id)
    for name in ["experiment.toml", "environment.json", "ending.json"]:
        shutil.copy(folders[0] / name, made / name)
    (made / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run([PLIMSOLL, "analyze", made, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    shutil.rmtree(made)
    return json.loads(done.stdout)


def same_against_same(rounds, work):
    played = [play(two_servers(DELAY_S), work / f"aa-{number}") for number in range(rounds)]
    live = [results for _, results in played]
    recorded = [recombined([folder for folder, _ in played], number, work) for number in range(RECORDED)]
    comparisons = len(live[0]["comparisons"])
    lines = [
        f"Of {rounds} live runs of `echo` beside itself ({REPEATS} pairs of 1.2 s, {comparisons} figures compared in each), "
        f"**{sum(bool(flagged(results)) for results in live)}** had a difference flagged in any figure. Of {RECORDED} comparisons made of "
        f"{REPEATS} pairs drawn from all their recorded trials, with chance deciding which trial of a pair is whose, "
        f"**{sum(bool(flagged(results)) for results in recorded)}** had.",
    ]
    return lines, live


def planted(rounds, work, live):
    """Each round plants what the round of the same number before it said could be shown."""
    found, planted_pct, seen = 0, [], []
    for number in range(rounds):
        before = throughput(live[number])
        pct = before["detectable_pct"]
        # In a closed loop throughput is agents by latency: so much more of it takes that much of the rate.
        latency_s = AGENTS / before["a_value"]
        more_s = latency_s * (1 / (1 - pct / 100) - 1)
        _, results = play(two_servers(DELAY_S + more_s), work / f"power-{number}")
        comparison = throughput(results)
        planted_pct.append(pct)
        seen.append(100 * (1 - comparison["ratio"]))
        found += comparison["significant"] and comparison["ratio"] < 1
    return [
        f"Of {rounds} slowdowns of `echo`, each as large as the smallest difference of throughput that the comparison before it printed as "
        f"detectable (median {statistics.median(planted_pct):.2f} %, {min(planted_pct):.2f}–{max(planted_pct):.2f} %), **{found}** were found. "
        f"Measured slowdown: median {statistics.median(seen):.2f} % ({min(seen):.2f}–{max(seen):.2f} %).",
    ]


def undisturbed(rounds, work):
    text = f"""
title = "undisturbed"
asks = "Is it valid?"
repeat = {rounds}
[target]
use = "echo"
with = {{ delay = "{DELAY_S * 1e6:.0f}us" }}
{LOAD.replace('"1200ms"', '"6s"').replace('"200ms"', '"auto"')}"""
    _, results = play(text, work / "valid")
    valid = [trial for trial in results["trials"] if trial["verdict"]["is"] == "valid"]
    reasons = sorted({reason for trial in results["trials"] for reason in trial["verdict"]["reasons"]})
    lines = [f"Of {rounds} undisturbed trials of 6 s on `echo`, **{len(valid)}** were `valid`."]
    return lines + [f"- {reason}" for reason in reasons]


def searches(rounds, work):
    held, rows = 0, []
    for number in range(rounds):
        chance = random.Random(number)
        workers, delay_us = chance.randint(2, 6), chance.choice([1500, 2000, 2500, 3000])
        truth = workers / (delay_us * 1e-6)
        start = truth * chance.uniform(0.3, 0.9)
        text = f"""
title = "a known capacity"
asks = "How much does it carry?"
[target]
use = "echo"
with = {{ delay = "{delay_us}us", workers = {workers} }}
[load]
agents  = 64
rate    = {start:.0f}
threads = 1
time    = "1500ms"
warmup  = "300ms"
drain   = "500ms"
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
[find]
highest       = "load.rate"
while         = [{{ metric = "latency_us.p90", below = {3 * delay_us + 5000} }}]
precision_pct = 5
"""
        _, results = play(text, work / f"find-{number}")
        line = results["safe_load"]
        low, high = line["ci95"]
        inside = low is not None and high is not None and low <= truth <= high
        held += inside
        rows.append((truth, line["value"], low, high, len(line["steps"]), line["limited_by"], inside))
    lines = [
        f"Of {rounds} searches on an `echo` of known capacity (2 to 6 workers, 1.5 to 3 ms each; trials of 1.5 s), **{held}** gave an "
        "interval that holds the truth.",
        "",
        "| truth, 1/s | found | interval | trials | |",
        "|---|---|---|---|---|",
    ]
    shown = lambda figure: "–" if figure is None else f"{figure:.0f}"
    for truth, value, low, high, trials, _, inside in rows:
        lines.append(
            f"| {truth:.0f} | {shown(value)} | {shown(low)}–{shown(high)} | {trials} | {'' if inside else 'missed'} |"
        )
    return lines


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    parts = sys.argv[2].split(",") if len(sys.argv) > 2 else ["aa", "power", "valid", "find"]
    lines = ["# Whether the answers can be trusted, measured", "", "Written by `make bench`.", ""]

    def part(title, body):
        lines.extend([f"## {title}", "", *body, ""])
        print("\n".join([title, *body, ""]), file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        if "aa" in parts or "power" in parts:
            body, live = same_against_same(rounds, work)
            part("The same against the same", body)
        if "power" in parts:
            part("Planted slowdowns", planted(rounds, work, live))
        if "valid" in parts:
            part("Undisturbed", undisturbed(rounds, work))
        if "find" in parts:
            part("Searches for a known capacity", searches(rounds, work))
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
    lines += [f"{os.cpu_count()} × {cpu}, Linux {os.uname().release}, {time.strftime('%F', time.gmtime())}.", ""]
    if set(parts) == {"aa", "power", "valid", "find"}:
        (ROOT / "bench/TRUST.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
