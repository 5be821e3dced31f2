#!/usr/bin/env python3
# Holds the totals of a run's load.hlog, as an independent reader sees them, against its analysis.json.
# usage: check_hlog.py RUN_FOLDER

import collections
import json
import pathlib
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

# Nothing of a trial lasts longer than this: ns in a day.
DAY_NS = 86_400 * 10**9


def intervals(path):
    """Lines of the log that hold a histogram, told by a payload of base64 (HISTF…)."""
    return sum("HISTF" in line for line in path.read_text().splitlines())


def totals(path):
    """Tag to the count of all its intervals, and how many intervals were read."""
    counts = collections.Counter()
    read = 0
    reader = HistogramLogReader(str(path), HdrHistogram(1, DAY_NS, 3))
    while (histogram := reader.get_next_interval_histogram()) is not None:
        counts[histogram.get_tag()] += histogram.get_total_count()
        read += 1
    reader.close()
    return counts, read


def differences(folder, trial):
    """What does not agree, in words."""
    log = folder / "trials" / trial["id"] / "load.hlog"
    counts, read = totals(log)
    if read == 0 or read != intervals(log):
        yield f"{log}: {read} of {intervals(log)} intervals could be read"
    expected = {}
    for name, operation in trial["operations"].items():
        for outcome, count in operation["outcomes"].items():
            expected[f"{name}/{outcome}/latency"] = count
        expected[f"{name}/ok/service"] = (operation["service_us"] or {"count": 0})["count"]
    latencies = {tag for tag in counts if tag.endswith("/latency")}
    for tag in sorted(expected.keys() | latencies):
        if counts[tag] != expected.get(tag, 0):
            yield f"{tag}: {counts[tag]} in load.hlog, {expected.get(tag, 0)} in analysis.json"
    for outcome, count in trial["outcomes"].items():
        in_log = sum(counts[tag] for tag in latencies if tag.split("/")[1] == outcome)
        if in_log != count:
            yield f"{outcome}: {in_log} in load.hlog, {count} in analysis.json"


def main():
    folder = pathlib.Path(sys.argv[1])
    results = json.loads((folder / "analysis.json").read_text())
    wrong = [line for trial in results["trials"] for line in differences(folder, trial)]
    operations = sum(sum(trial["outcomes"].values()) for trial in results["trials"])
    if not results["trials"] or operations == 0:
        wrong.append("no operations: nothing was checked")
    for line in wrong:
        print(line)
    verdict = "FAILED" if wrong else "ok"
    print(f"check_hlog {verdict}: {results['title']}: {operations} operations in load.hlog and in analysis.json")
    sys.exit(bool(wrong))


main()
