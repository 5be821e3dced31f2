"""The cluster as its boards tell it: what a node, a test and an audit ask, and the audits themselves."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

DAEMONS = [f"pacemaker-{name}" for name in ("based", "fenced", "execd", "attrd", "schedulerd", "controld")]
PROGRAMS = ["corosync", "pacemakerd", *DAEMONS]


def ask(host, port, line, within):
    """A board's answer to a line."""
    with socket.create_connection((host, port), timeout=min(within, 5)) as board:
        board.settimeout(within)
        board.sendall(line.encode() + b"\n")
        return board.makefile().readline().strip()


class Failed(Exception):
    """A test or an audit: why it did not pass."""


class Cluster:
    """All nodes. What is asked of many is asked of all at once."""

    def __init__(self):
        # Each node's program writes it into the host's own /run.
        with open("/run/board.json") as file:
            board = json.load(file)
        self.me, self.port, self.peers = board["name"], board["port"], board["peers"]
        self.names = list(self.peers)

    def tell(self, name, line, within=600):
        """The text of an `ok`; anything else is a failure."""
        answer = self.ask(name, line, within)
        if answer.split(" ")[0] not in ("ok", "yes"):
            raise Failed(f"{name}, {line.split(' ')[0]}: {answer}")
        return answer.partition(" ")[2]

    def ask(self, name, line, within=600):
        try:
            return ask(self.peers[name], self.port, line, within) or "error no answer"
        except OSError as error:
            return f"error the board of {name} does not answer: {error}"

    def all(self, work, names=None):
        """What `work` gives for each node, by name."""
        names = self.names if names is None else names
        with ThreadPoolExecutor(len(names) or 1) as pool:
            return dict(zip(names, pool.map(work, names)))

    def wait(self, condition, names=None, within=240, every=0.5):
        """Seconds until a condition holds on all of these nodes."""
        began, left = time.monotonic(), list(self.names if names is None else names)
        while True:
            answers = self.all(lambda name: self.ask(name, condition, 60), left)
            left = [name for name in left if answers[name] != "yes"]
            passed = time.monotonic() - began
            if not left:
                return passed
            if passed > within:
                raise Failed(f"not {condition} after {within} s: " + "; ".join(f"{name}: {answers[name]}" for name in left[:4]))
            time.sleep(every)

    def facts(self):
        return {name: json.loads(text) for name, text in self.all(lambda name: self.tell(name, "facts", 60)).items()}


def partitions(facts):
    """Nodes that are up, by what each takes for the membership."""
    found = {}
    for name, fact in facts.items():
        if "dc" in fact:
            found.setdefault(tuple(fact["members"]), []).append(name)
    return found


def one_dc(facts):
    """One DC in each partition, and the same membership everywhere in it."""
    for members, names in partitions(facts).items():
        if sorted(names) != sorted(members):
            yield f"{','.join(names)} take {','.join(members) or 'nobody'} for the members"
        dcs = {facts[name]["dc"] for name in names}
        if len(dcs) != 1 or None in dcs:
            yield f"of {','.join(names)} the DC is {', '.join(map(str, dcs))}"


def same_cib(facts):
    """The CIB is identical on all nodes of a partition."""
    for names in partitions(facts).values():
        digests = {}
        for name in names:
            digests.setdefault(facts[name]["cib"], []).append(name)
        if len(digests) > 1:
            yield "the CIB differs: " + " against ".join(
                f"{','.join(same)} ({'.'.join(facts[same[0]]['cib_version'] or ['none'])})" for same in digests.values())


def one_place(facts):
    """Each resource is started on exactly one node: in what the cluster says, and where agents did start it."""
    for members, names in partitions(facts).items():
        if not facts[names[0]]["quorate"]:
            continue
        for resource, where in facts[names[0]]["running"].items():
            # The agent leaves a file behind where it started the resource; that of fencing does not.
            really = [name for name, fact in facts.items() if resource in fact["began"]]
            if len(where) != 1 or (resource != "fencing" and really != where):
                yield f"{resource} is started on {','.join(where) or 'no node'}, and really runs on {','.join(really) or 'none'}"


def no_cores(facts):
    """No program has left a core file."""
    for name, fact in facts.items():
        if fact["cores"]:
            yield f"{name} has {', '.join(fact['cores'])}"


def clean_stop(facts):
    """A node that is stopped has left no shared memory behind."""
    for name, fact in facts.items():
        if not fact["programs"] and fact["shared_memory"]:
            yield f"{name} is down and has {', '.join(fact['shared_memory'])}"


AUDITS = {audit.__name__: audit for audit in (one_dc, same_cib, one_place, no_cores, clean_stop)}


def audit(cluster, names=tuple(AUDITS), tries=10):
    """What is wrong. Nodes are asked one after the other while the cluster moves on: only what is so again and again counts."""
    for attempt in range(tries):
        facts = cluster.facts()
        wrong = [f"{name}: {why}" for name in names for why in AUDITS[name](facts)]
        if not wrong:
            return []
        time.sleep(0.5)
    return wrong
