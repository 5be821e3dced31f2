#!/usr/bin/env python3
"""Attacks Plimsoll for a long time and writes the results to bench/RELIABILITY.md: kills at random moments,
corrupted records, local attackers, hostile servers and hosts, fuzzers, a soak, and a day of records. Needs
root. `make test` has the short forms.

siege.py [--soak SECONDS] [PART…]     all parts, or some of these: kills corruptions attackers servers hosts generators fuzz soak day
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import bench_page
from bench_stage import ROOT, Failed, Stage, free_port

KILLS = 200
CORRUPTIONS = 3_000
FUZZ_INPUTS = 10_000_000
LOSSES = 30
NOTICED_S = 5
SOAK_PER_S = 5_000
SOAK_AGENTS = 64
DAY_S = 24 * 3_600
DAY_HOSTS = 16
DAY_PER_S = 5_000

PAGE = bench_page.Page(
    ROOT / "bench/RELIABILITY.md",
    [
        "Kills",
        "Corrupted records",
        "Local attackers",
        "Hostile servers",
        "Hostile hosts",
        "Lost generators",
        "Fuzzers",
        "Soak",
        "A day of records",
    ],
    """# Results of `make siege`

{counts} [docs/reliability.md](../docs/reliability.md) lists the promises and their reasons. `scripts/siege.py PART` repeats a part.
""",
)


# The same options as in the Makefile, so that all tests share one build.
WHOLE = ["--workspace", "--features", "plimsoll/scripts"]


def campaign(words, environment=None):
    """Plays tests. Returns the `name=value` pairs of their `campaign:` lines, and the number of tests that passed."""
    done = subprocess.run(
        ["cargo", "test", "--locked", *WHOLE, *words],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise Failed(f"cargo test {' '.join(words)} failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
    counted = {}
    for line in re.findall(r"campaign: (.*)$", done.stdout, flags=re.MULTILINE):
        counted.update((name, int(value)) for name, value in re.findall(r"(\w+)=(\d+)", line))
    counted["passed"] = sum(map(int, re.findall(r"test result: ok\. (\d+) passed", done.stdout)))
    if counted["passed"] == 0:
        raise Failed(f"cargo test {' '.join(words)} ran no test")
    return counted


def e2e(test, environment=None):
    return campaign(["--test", "e2e", test, "--", "--nocapture"], environment)


def met(holds):
    return "**met**" if holds else "**not met**"


def kills(_stage, _given):
    got = e2e("after_a_kill_at_any_moment", {"PLIMSOLL_TEST_KILLS": str(KILLS)})
    return "Kills", [
        f"SIGKILL at random moments of a run of 16 virtual hosts with seven kinds of faults (of the run; of a run that ends after",
        "Ctrl-C; of the run and then of `plimsoll clean`, three times). `plimsoll clean`, the machine's inventory and `plimsoll analyze` follow:",
        "",
        f"- {got['kills']} runs and {got['cleans_killed']} cleanings killed, {got['leaks']} leaks: {met(got['leaks'] == 0)}",
        f"- {got['folders']} run folders read, {got['unreadable']} unreadable: {met(got['unreadable'] == 0)}",
    ]


def corruptions(_stage, _given):
    got = e2e("damaged_run_folders", {"PLIMSOLL_TEST_CORRUPTIONS": str(CORRUPTIONS)})
    counts = ", ".join(f"{name.replace('_', ' ')} {got[name]}" for name in got if name not in ("passed", "panics", "hangs"))
    return "Corrupted records", [
        f"Records of each kind of a real run are damaged at random, then read by `analyze`, `show`, `compare`, `history` or `contents`: {counts}.",
        "",
        f"- panics: {got['panics']}: {met(got['panics'] == 0)}",
        f"- hangs: {got['hangs']}: {met(got['hangs'] == 0)}",
    ]


def attackers(_stage, _given):
    got = e2e("local_attacks")
    return "Local attackers", [
        "An unprivileged user against root's Plimsoll: planted targets, experiments and links, a forged registry, pipes.",
        "",
        f"- {got['succeeded']} of {got['attacks']} attacks succeed: {met(got['succeeded'] == 0)}",
    ]


def servers(_stage, _given):
    got = campaign(["--test", "engine", "hostile"])
    without = campaign(["--test", "engine", "hostile"], {"WITHOUT_RING": "1"})
    return "Hostile servers", [
        "Servers that answer wrongly, in pieces, without end or not at all, in the clear and by TLS. In each case every operation has an",
        "outcome, the load ends, all counts agree, and no buffer grows without bound.",
        "",
        f"- {got['passed']} tables of cases pass with io_uring, {without['passed']} with epoll: {met(got['passed'] == without['passed'])}",
    ]


def hosts(_stage, _given):
    got = e2e("hostile_hosts")
    return "Hostile hosts", [
        "A host over ssh that sends without end, sends false data, or sends nothing.",
        "",
        f"- {got['contained']} of {got['modes']} end in time and below 200 MB, and the error names the host: "
        f"{met(got['contained'] == got['modes'])}",
        f"- {got['generators_contained']} of {got['generators']} hostile generators end in time and below 200 MB: "
        f"{met(got['generators_contained'] == got['generators'])}",
    ]


def generators(_stage, _given):
    got = e2e("randomly_lost_generators", {"PLIMSOLL_TEST_LOSSES": str(LOSSES)})
    return "Lost generators", [
        "One of a fleet's three generators is killed, stopped, frozen with its host, loses its host's power or its machine's network, at a",
        "random moment: the trial is void with the reason, and nothing is left on any of the machines.",
        "",
        f"- {got['losses']} of {LOSSES} in a row: {met(got['losses'] == LOSSES)}",
        f"- the latest was noticed after {got['latest_ms'] / 1000:.1f} s (at most {NOTICED_S}): {met(got['latest_ms'] <= 1000 * NOTICED_S)}",
    ]


def fuzz(_stage, given):
    targets = sorted(path.stem for path in (ROOT / "fuzz/fuzz_targets").glob("*.rs"))
    each = -(-FUZZ_INPUTS // len(targets)) * 5 // 4
    done = subprocess.run(
        ["scripts/fuzz.sh", str(given.fuzz_s)], cwd=ROOT, env={**os.environ, "RUNS": str(each)}, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise Failed(done.stdout[-4000:] + done.stderr[-4000:])
    inputs = {name: int(count) for name, count in re.findall(r"^(\w+): nothing found in (\d+) inputs", done.stdout, flags=re.MULTILINE)}
    total = sum(inputs.values())
    return "Fuzzers", [
        *bench_page.table(["target", "inputs"], [[name, f"{count:,}"] for name, count in sorted(inputs.items())]),
        "",
        f"- {total:,} inputs in all, 0 findings; wanted {FUZZ_INPUTS:,}: {met(total >= FUZZ_INPUTS and len(inputs) == len(targets))}",
    ]


def soak(stage, given):
    port = free_port()
    text = f"""
title = "soak"
asks  = "Does anything grow?"
[target]
start = "exec {stage.plimsoll} echo --listen 127.0.0.1:{port}"
url = "http://127.0.0.1:{port}/"
[load]
agents = {SOAK_AGENTS}
rate   = {SOAK_PER_S}
time   = "{given.soak}s"
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""
    file = stage.folder / "soak.toml"
    file.write_text(text)
    runs = stage.folder / "runs"
    process, *rest = stage.launch([stage.plimsoll, "run", file, "--out", runs, "--accept", "--plain", "--json"])
    readings, over = [], threading.Event()

    def watch():
        begun = time.monotonic()
        while not over.wait(1):
            try:
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                files = len(os.listdir(f"/proc/{process.pid}/fd"))
            except OSError:
                return
            found = re.search(r"VmRSS:\s+(\d+)", status)
            if found:
                readings.append((time.monotonic() - begun, int(found[1]) / 1024, files))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = stage.collect((process, *rest))
    finally:
        over.set()
        watcher.join()
    (run,) = runs.iterdir()
    results = json.loads(done.out)
    under_load = [reading for reading in readings if 60 < reading[0] < given.soak - 5]
    if not under_load:
        raise Failed("a soak must be longer than a minute, because its first minute is left out")
    fifth = max(1, len(under_load) // 5)
    early = max(mib for _, mib, _ in under_load[:fifth])
    late = max(mib for _, mib, _ in under_load[-fifth:])
    weight = sum(path.stat().st_size for path in run.rglob("*") if path.is_file()) / 2**20
    analysis = analyzed(stage, run)
    outcomes = results["trials"][0]["outcomes"]
    return "Soak", [
        f"`plimsoll run`, {SOAK_AGENTS} agents, {SOAK_PER_S:,}/s, {given.soak} s: {outcomes['ok']:,} operations ok, "
        f"{sum(count or 0 for name, count in outcomes.items() if name != 'ok'):,} others. Verdict `{results['verdict']['is']}`.",
        "",
        f"- resident memory: at most {early:.1f} MiB in the first fifth after a minute, {late:.1f} MiB in the last; at most 10 % more: "
        f"{met(late <= early * 1.1)}",
        f"- open files: {min(files for *_, files in under_load)} to {max(files for *_, files in under_load)}",
        f"- run folder: {weight:.0f} MiB, page {(run / 'report.html').stat().st_size / 2**20:.2f} MiB",
        f"- `plimsoll analyze`: {analysis['wall_s']:.1f} s, {analysis['rss_mib']:.0f} MiB",
    ]


def analyzed(stage, run):
    """Runs `plimsoll analyze`, and returns its time and memory."""
    begun = time.monotonic()
    process = stage.start([stage.plimsoll, "analyze", run, "--json"])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    stage.processes.remove(process)
    if process.returncode not in (0, 6):
        raise Failed(f"plimsoll analyze {run} ended with {process.returncode}")
    return {
        "wall_s": time.monotonic() - begun,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "rss_mib": usage.ru_maxrss / 1024,
    }


def day(stage, _given):
    """Returns a recorded run of 16 hosts whose seconds are repeated until it lasts a day."""
    text = f"""
title = "a day"
asks  = "Can a day be analysed?"
[target]
use = "echo"
[lab]
hosts = {DAY_HOSTS}
measure_storage = false
[load]
agents = 64
rate   = {DAY_PER_S}
time   = "60s"
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""
    trial = stage.play(text)
    run = trial.folder.parent.parent
    long = stage.folder / "day"
    stage.finish([sys.executable, ROOT / "scripts/stretch-run.py", run, f"{DAY_S}s", long])
    weight = sum(path.stat().st_size for path in long.rglob("*") if path.is_file()) / 2**20
    got = analyzed(stage, long)
    page = (long / "report.html").stat().st_size / 2**20
    return "A day of records", [
        f"A minute of {DAY_PER_S:,}/s on {DAY_HOSTS} virtual hosts is recorded, and stretched to 24 h by repeating its seconds. The folder has",
        f"{weight:,.0f} MiB; `plimsoll analyze` analyses it and draws the report ({got['cpu_s']:.1f} s of CPU).",
        "",
        f"- {got['wall_s']:.1f} s, wanted under 60 s: {met(got['wall_s'] < 60)}",
        f"- {got['rss_mib']:.0f} MiB resident, wanted under 500 MB: {met(got['rss_mib'] * 2**20 < 500e6)}",
        f"- page of {page:.2f} MiB, wanted under 3 MB: {met(page * 2**20 < 3e6)}",
    ]


PARTS = {part.__name__: part for part in (kills, corruptions, attackers, servers, hosts, generators, fuzz, soak, day)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {' '.join(PARTS)}")
    parser.add_argument("--soak", type=int, default=1_800, metavar="SECONDS", help="length of the soak's load (default 1800)")
    parser.add_argument("--fuzz-s", type=int, default=300, metavar="SECONDS", help="time limit of a fuzz target (default 300)")
    given = parser.parse_args()
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part: {' '.join(unknown)}; there are {' '.join(PARTS)}")
    if os.geteuid() != 0:
        sys.exit("siege.py makes virtual hosts and plays attackers: it needs root")
    if subprocess.run(["cargo", "build", "--quiet", "--profile", "quick", "--locked", "--package", "plimsoll"], cwd=ROOT).returncode:
        sys.exit(1)
    given.plimsoll = ROOT / "target/quick/plimsoll"
    given.quick = False
    failed = []
    for name in given.parts or PARTS:
        print(f"siege: {name}", file=sys.stderr, flush=True)
        try:
            with Stage(given.plimsoll) as stage:
                title, lines = PARTS[name](stage, given)
            bench_page.write(title, lines, given, PAGE)
        except Failed as failure:
            print(f"siege: {name}: {failure}", file=sys.stderr, flush=True)
            failed.append(name)
        except KeyboardInterrupt:
            sys.exit(130)
    if failed:
        sys.exit(f"siege: failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()
