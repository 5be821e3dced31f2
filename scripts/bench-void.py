#!/usr/bin/env python3
"""Checks that a generator reports when it cannot keep its rate. With a twentieth of a core and
50,000 operations/s the verdict must be `void`; with a whole core and a tenth of that rate it
must be `valid`. The first check needs root, for a control group with a quota. The second may be
tried again, because a shared machine is late now and then. Writes a section of bench/RESULTS.md.
"""

import contextlib
import os
import pathlib

import bench_page
from bench_stage import arguments, bench

RATE = 50_000
HEALTHY_RATE = 5_000
QUOTA = 0.05
PERIOD_US = 100_000
# Maximum number of tries of a healthy generator. A starved generator must not need a second try.
TRIES = 3
TREE = pathlib.Path("/sys/fs/cgroup")

EXPERIMENT = """
title = "asked for {rate} operations/s"
asks  = "Does the generator know that it is too slow?"
[target]
{target}
[load]
agents  = {agents}
threads = 1
rate    = {rate}
time    = "{milliseconds}ms"
drain   = "2s"
warmup  = "500ms"
[[load.cycle]]
call = "get"
with = {{ path = "/" }}
"""


@contextlib.contextmanager
def quota(cores):
    """Returns a control group with a quota of this number of cores, or None if none can be made."""
    is_v1 = (TREE / "cpu/cpu.shares").exists()
    group = (TREE / "cpu" if is_v1 else TREE) / f"bench-quota-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        allowed_us = round(cores * PERIOD_US)
        if is_v1:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(allowed_us))
        else:
            (group / "cpu.max").write_text(f"{allowed_us} {PERIOD_US}")
    except OSError:
        group.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        # Its processes move to the group above, because only an empty group can be removed.
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


def line(words, trial, wanted, before=()):
    """Describes a trial's verdict, whether it is the expected one, and the verdicts of earlier tries."""
    verdict, generator = trial.results["verdict"], trial.results["generator"]
    met = "met" if wanted(verdict["is"], generator["limit"]) else "not met"
    tries = f", at try {len(before) + 1} of at most {TRIES}; before: {', '.join(map(said, before))}" if before else ""
    reasons = "; ".join(verdict["reasons"][:2])
    return f"- {words}: `{verdict['is']}`, limit `{generator['limit']}`{tries}: **{met}**{f' ({reasons})' if reasons else ''}"


def said(trial):
    """Describes a verdict in a few words."""
    verdict, late_us = trial.results["verdict"], trial.results["generator"]["late_us_p99"]
    late = "lateness not measured" if late_us is None else f"lateness {late_us / 1e3:.1f} ms"
    return f"`{verdict['is']}` ({', '.join([*verdict['rules'], late])})"


def measure(stage, given):
    load = {"milliseconds": round(given.seconds * 1000)}
    lines = []
    with quota(QUOTA) as group:
        words = f"{QUOTA:.0%} of a core, asked for {RATE:,} operations/s; wanted `void`, by `cpu` or `lateness`"
        if group is None:
            lines.append(f"- {words}: **not measured**: no control group with a quota can be made (as root it can)")
        else:
            # A server that the run starts would be in the group, too.
            target = f'url = "{stage.echo().url}"'
            text = EXPERIMENT.format(target=target, rate=RATE, agents=1000, **load)
            trial = stage.play(text, cpu=stage.generator_cpu, group=group)
            lines.append(line(words, trial, lambda verdict, limit: verdict == "void" and limit in ["cpu", "lateness"]))
    text = EXPERIMENT.format(target=stage.own_echo(), rate=HEALTHY_RATE, agents=100, **load)
    trials = [stage.play(text, cpu=stage.generator_cpu)]
    while trials[-1].results["verdict"]["is"] != "valid" and len(trials) < TRIES:
        trials.append(stage.play(text, cpu=stage.generator_cpu))
    words = f"a core of its own, asked for {HEALTHY_RATE:,} operations/s; wanted `valid`"
    lines.append(line(words, trials[-1], lambda verdict, _: verdict == "valid", before=trials[:-1]))
    bench_page.write("A generator that is too slow", lines, given)


if __name__ == "__main__":
    bench(measure, arguments(__doc__, seconds=10))
