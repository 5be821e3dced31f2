#!/usr/bin/env python3
"""Makes a long run from a short one, by repeating its records as the recorder would write them in a long load.

    scripts/stretch-run.py RUN_FOLDER 24h NEW_FOLDER

The recorded load is repeated up to the wanted length. The records before the load, and the drain after it, do
not change. Slots of outcomes are as wide as in a load of that length (see docs/formats.md). Events of the load,
including faults, are not repeated. The plan has the new length. Such a run is no measurement: it checks that the
records of a night can be analysed.
"""

import csv
import json
import pathlib
import shutil
import sys

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Records with a later time belong to the load, and others to its preparation.
LOAD = 0.0


def seconds(text):
    """Returns the seconds of a text such as 24h."""
    return float(text[:-1]) * UNITS[text[-1]]


def slot_us(load_s):
    """Returns the width of the slots of outcomes.csv in a load of this length, as in the conductor."""
    return next(us for us, most_s in ((1_000, 200), (10_000, 2_000), (100_000, 100_000), (1_000_000, float("inf"))) if load_s <= most_s)


def at_text(at_us):
    """Formats microseconds as the recorder writes seconds."""
    return repr(at_us / 1e6)


def repeated_rows(source, target, column, period_us, wanted_us):
    """Returns the rows of a CSV file. Repeats rows in the load; rows at other times appear once."""
    with open(source, newline="") as file:
        rows = list(csv.reader(file))
    head, rows = rows[0], rows[1:]
    at = head.index(column)
    timed = [(round(float(row[at]) * 1e6), row) for row in rows]
    lead = [row for time, row in timed if time <= 0]
    load = [(time, row) for time, row in timed if 0 < time <= period_us]
    tail = [(time, row) for time, row in timed if time > period_us]
    # The parts of each row around its time are formatted once.
    parts = [(time, ",".join(row[:at]) + ("," if at else ""), "".join("," + cell for cell in row[at + 1 :]) + "\n") for time, row in load]
    with open(target, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(lead)
        for begin in range(0, wanted_us, period_us):
            file.write("".join(f"{before}{at_text(begin + time)}{after}" for time, before, after in parts if begin + time <= wanted_us))
        for time, row in tail:
            row[at] = at_text(wanted_us - period_us + time)
            writer.writerow(row)


def repeated_slots(source, target, period_us, wanted_us):
    """Returns the slots of outcomes.csv, repeated and with the width for a load of this length."""
    wide = slot_us(wanted_us / 1e6)
    with open(source, newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = ("ok", "failed", "timeout", "wrong")
    load, tail = {}, {}
    for row in rows:
        at = round(float(row["at_s"]) * 1e6)
        sums = (load if at < period_us else tail).setdefault(at // wide, [0] * 4)
        for index, kind in enumerate(kinds):
            sums[index] += int(row[kind])
    per_period = period_us // wide
    with open(target, "w") as file:
        file.write("at_s,slot_s," + ",".join(kinds) + "\n")
        line = lambda number, sums: f"{at_text(number * wide)},{at_text(wide)}," + ",".join(map(str, sums)) + "\n"
        for begin in range(0, wanted_us // wide, per_period):
            file.writelines(line(begin + number, sums) for number, sums in sorted(load.items()))
        for number, sums in sorted(tail.items()):
            file.write(line(wanted_us // wide - per_period + number, sums))


def repeated_log(source, target, period_us, wanted_us):
    """Returns the intervals of load.hlog, repeated."""
    head, load, tail = [], [], []
    with open(source) as file:
        for line in file:
            if not line.startswith("Tag="):
                head.append(line)
                continue
            tag, start, rest = line.split(",", 2)
            at = round(float(start) * 1e6)
            (load if at < period_us else tail).append((tag, at, rest))
    with open(target, "w") as file:
        file.writelines(head)
        for begin in range(0, wanted_us, period_us):
            file.writelines(f"{tag},{(begin + at) / 1e6:.3f},{rest}" for tag, at, rest in load)
        for tag, at, rest in tail:
            file.write(f"{tag},{(wanted_us - period_us + at) / 1e6:.3f},{rest}")


def moved_events(source, target, period_us, wanted_us):
    """Returns the events. Events at the end of the load and later are moved."""
    longer_s = (wanted_us - period_us) / 1e6
    with open(source) as file, open(target, "w") as new:
        for line in file:
            event = json.loads(line)
            if event["at_s"] >= period_us / 1e6 - 0.5:
                event["at_s"] += longer_s
            new.write(json.dumps(event) + "\n")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, wanted_us, target = pathlib.Path(sys.argv[1]), round(seconds(sys.argv[2]) * 1e6), pathlib.Path(sys.argv[3])
    plan = json.loads((source / "plan.json").read_text())
    target.mkdir(parents=True)
    for name in ("experiment.toml", "environment.json", "ending.json"):
        if (source / name).exists():
            shutil.copy(source / name, target / name)
    for trial in plan["trials"]:
        records, new = source / "trials" / trial["id"], target / "trials" / trial["id"]
        period_us = int(trial["load"]["time_s"]) * 1_000_000
        if period_us == 0 or wanted_us % period_us:
            sys.exit(f"{sys.argv[2]} is not a multiple of the {period_us / 1e6:.0f} s of trial {trial['id']}")
        (new / "logs").mkdir(parents=True)
        repeated_log(records / "load.hlog", new / "load.hlog", period_us, wanted_us)
        repeated_slots(records / "outcomes.csv", new / "outcomes.csv", period_us, wanted_us)
        for name in ("attempts.csv", "samples.csv", "generator.csv"):
            repeated_rows(records / name, new / name, "at_s", period_us, wanted_us)
        moved_events(records / "events.jsonl", new / "events.jsonl", period_us, wanted_us)
        for name in ("history.jsonl", "replicas.jsonl"):
            if (records / name).exists():
                shutil.copy(records / name, new / name)
        trial["load"]["time_s"] = wanted_us / 1e6
    (target / "plan.json").write_text(json.dumps(plan, indent=2))


main()
