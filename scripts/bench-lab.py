#!/usr/bin/env python3
"""Measures the lab: the time that 16 hosts take to come up and go down, compared with a plain `ip`
script, and how closely hosts keep to their profile. Writes bench/LAB.md. Needs root. Usage:
bench-lab.py [ROUNDS] [TURNS]
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLIMSOLL = ROOT / "target/release/plimsoll"
HOSTS = 16

# Profiles of the hosts: cores and their speed, links, disks and memory.
CPU = [(1, 0.05), (1, 0.1), (1, 0.25), (1, 0.5), (2, 0.1), (2, 0.25), (4, 0.05), (4, 0.1), (4, 0.15)]
LINKS = ["1mbit", "10mbit", "100mbit", "1gbit"]
DISKS = [100, 200, 500, 1000]
MEMORY = ["64MiB", "256MiB", "512MiB"]


def run(text, work, profiles=""):
    """Plays an experiment and returns its run folder."""
    file = work / "experiment.toml"
    file.write_text(text)
    before = set((work / "runs").glob("*"))
    environment = dict(os.environ, PLIMSOLL_PROFILES=profiles, PLIMSOLL_TARGETS=str(ROOT / "bench/targets"))
    words = [PLIMSOLL, "run", file, "--out", work / "runs", "--accept", "--plain"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{done.stderr}\n{text}")
    return (set((work / "runs").glob("*")) - before).pop()


def events(trial):
    return [json.loads(line) for line in (trial / "events.jsonl").read_text().splitlines()]


def lab_times(rounds, work):
    """Returns for each trial the seconds from the first phase to the load, and from its end to the last event."""
    folder = run(
        f"""
        title = "{HOSTS} hosts"
        asks = "How long do they take?"
        repeat = {rounds}
        [target]
        use = "echo"
        [lab]
        hosts = {HOSTS}
        [load]
        agents = {HOSTS}
        time = "500ms"
        warmup = "0s"
        [[load.cycle]]
        call = "get"
        with = {{ path = "/" }}
        """,
        work,
    )
    ups, downs = [], []
    for trial in sorted((folder / "trials").iterdir()):
        at = {event.get("phase", event["event"]): event["at_s"] for event in events(trial)}
        # The clock's zero is 50 ms after the decision to start the load.
        ups.append(-0.05 - at["starting"])
        downs.append(at["ended"] - at["stopping"])
    return ups, downs


def plain_times(rounds):
    """Returns the times of a plain script that makes the same hosts: namespaces, links and one process each."""
    up = "\n".join(
        [
            "set -e",
            "ip netns add plain-switch",
            "ip -n plain-switch link add br0 type bridge",
            "ip -n plain-switch link set br0 up",
        ]
        + [
            f"""ip netns add plain-{i}
            ip -n plain-switch link add v{i} type veth peer name eth0 netns plain-{i}
            ip -n plain-switch link set v{i} master br0 up
            ip -n plain-{i} addr add 10.83.0.{i}/24 dev eth0
            ip -n plain-{i} link set eth0 up
            ip -n plain-{i} link set lo up
            ip netns exec plain-{i} unshare --mount --pid --ipc --uts --fork --kill-child \
                {PLIMSOLL} echo --listen 10.83.0.{i}:8080 >/dev/null 2>&1 & echo $!"""
            for i in range(1, HOSTS + 1)
        ]
        + [
            f"until ip netns exec plain-{i} sh -c 'exec 3<>/dev/tcp/10.83.0.{i}/8080' 2>/dev/null"
            f" || ip netns exec plain-{i} ss -ltn | grep -q 8080; do :; done"
            for i in range(1, HOSTS + 1)
        ]
    )
    ups, downs = [], []
    for _ in range(rounds):
        begun = time.monotonic()
        made = subprocess.run(["bash", "-c", up], capture_output=True, text=True, check=True)
        ups.append(time.monotonic() - begun)
        pids = made.stdout.split()
        # `unshare` waits for its child and ignores SIGTERM.
        down = f"kill -KILL {' '.join(pids)};" + "".join(
            f'while [ -n "$(ip netns pids plain-{i})" ]; do :; done; ip netns del plain-{i};' for i in range(1, HOSTS + 1)
        )
        begun = time.monotonic()
        subprocess.run(["bash", "-c", down + "ip netns del plain-switch"], capture_output=True, check=False)
        downs.append(time.monotonic() - begun)
    return ups, downs


def profile(work, **sections):
    """Writes a profile and returns its folder."""
    folder = work / "profiles"
    folder.mkdir(exist_ok=True)
    lines = ['what = "asked for by the bench"']
    for section, figures in sections.items():
        lines += [f"[{section}]", 'source = "the bench"']
        lines += [f"{name} = {json.dumps(value)}" for name, value in figures.items()]
    (folder / "asked.toml").write_text("\n".join(lines) + "\n")
    return str(folder)


def measured(work, folder, measure, hosts=1, turns=1):
    """Returns the figures that the yardstick printed on the first host: medians over the turns."""
    done = run(
        f"""
        title = "asked against got"
        asks = "What does a host get?"
        repeat = {turns}
        [target]
        use = "yardstick"
        with = {{ measure = "{measure}" }}
        [lab]
        profile = "asked"
        hosts = {hosts}
        measure_storage = false
        # By the time the target is ready everything has been measured.
        [[fault]]
        name = "none"
        kind = "command"
        at = "0s"
        with = {{ run = "true" }}
        """,
        work,
        folder,
    )
    figures = {}
    for log in sorted(done.glob("trials/*/logs/n1.yardstick.log")):
        for line in log.read_text().splitlines():
            if line.startswith('{"figure"'):
                said = json.loads(line)
                figures.setdefault(said["figure"], []).append(said["value"])
    return {name: statistics.median(values) for name, values in figures.items()}


def asked_against_got(work, turns):
    """Returns the table's rows: figure, requested value, measured value, unit."""
    rows = []

    def row(what, asked, got, unit, shown="{:.3g}"):
        rows.append((what, shown.format(asked), shown.format(got) if got else "-", unit, got / asked if got else None))
        print(rows[-1], file=sys.stderr)

    for cores, speed in CPU:
        got = measured(work, profile(work, cpu={"cores": cores, "speed": speed}), "cpu", turns=turns)
        name = f"{cores} × {speed}"
        row(f"one thread, {name}", speed, got.get("one thread, cores"), "core")
        if cores > 1:
            row(f"all threads, {name}", cores * speed, got.get("all threads, cores"), "core")
    for rate in LINKS:
        asked = {"mbit": 1e6, "gbit": 1e9}[rate[-4:]] * float(rate[:-4])
        got = measured(work, profile(work, link={"rate": rate}), "link", hosts=2, turns=turns)
        row("link, TCP payload", asked / 1e6, got.get("link, bit/s", 0) / 1e6, "Mbit/s", "{:.4g}")
    for iops in DISKS:
        disk = {"size": "512MiB", "read_iops": iops, "write_iops": iops}
        got = measured(work, profile(work, disk=disk), "disk", turns=turns)
        row("disk writes, 4 KiB, direct", iops, got.get("disk writes, 1/s"), "1/s")
        row("synced writes, 4 KiB", iops, got.get("synced writes, 1/s"), "1/s")
    for size in MEMORY:
        asked = float(size[:-3])
        got = measured(work, profile(work, memory={"size": size}), "memory", turns=turns)
        row("memory until the kernel says no", asked, got.get("memory, bytes", 0) / (1 << 20), "MiB")
    return rows


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if os.geteuid() != 0:
        sys.exit("bench-lab.py: virtual hosts need root")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        ups, downs = lab_times(rounds, work)
        plain_ups, plain_downs = plain_times(rounds)
        rows = asked_against_got(work, turns)
    write(rounds, turns, (ups, downs), (plain_ups, plain_downs), rows)


def write(rounds, turns, ours, plain, rows):
    median = statistics.median
    lines = [
        "# The lab, measured",
        "",
        "Written by `make bench`.",
        "",
        f"## {HOSTS} hosts of `echo`, up and down",
        "",
        f"Median of {rounds}. A host of Plimsoll has its own namespaces, mounts, control groups, runner and server, and is ready to",
        "answer. A host of the script has its own namespace, link and the same server.",
        "",
        "| | Plimsoll | an `ip` script | ratio |",
        "|---|---|---|---|",
    ]
    for name, index in [("up", 0), ("down", 1)]:
        us, them = median(ours[index]), median(plain[index])
        spread = f"{min(ours[index]):.2f}–{max(ours[index]):.2f}"
        lines.append(f"| {name} | {us:.2f} s ({spread}) | {them:.2f} s | {us / them:.1f} |")
    lines += [
        "",
        "## Asked against got",
        "",
        f"Medians of {turns}, measured within the host by a program that does not know the limits (`bench/targets/yardstick`).",
        "",
        "| what | asked | got | | got / asked |",
        "|---|---|---|---|---|",
    ]
    for what, asked, got, unit, ratio in rows:
        lines.append(f"| {what} | {asked} | {got} | {unit} | {f'{ratio:.2f}' if ratio else ''} |")
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
    lines += ["", f"{os.cpu_count()} × {cpu}, Linux {os.uname().release}, {time.strftime('%F', time.gmtime())}.", ""]
    text = "\n".join(lines)
    (ROOT / "bench/LAB.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
