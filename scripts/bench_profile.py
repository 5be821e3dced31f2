"""Profile of a generator's CPU time, from samples of its stacks during a load: its own code,
sending, the server's side of the kernel within sending, receiving, and waiting. This module must
not measure speed, because sampling takes CPU time."""

import collections
import re
import subprocess
import time

from bench_stage import tool

# Seconds of a load before sampling begins, and samples per second.
SETTLING_S = 1.0
SAMPLES_PER_S = 3000
# The first kind that matches a frame of the stack is the sample's kind. The softirq of a send comes
# before the send.
KINDS = [
    ("the server's input and its waking, within a send (softirq)", r"(__)?do_softirq|handle_softirqs"),
    ("sending: system call and TCP", r"io_send|__sys_sendto|__sys_sendmsg|ksys_write|io_write"),
    ("receiving: system call and TCP", r"io_recv|__sys_recvfrom|__sys_recvmsg|ksys_read|io_read|io_poll_task_func"),
    ("epoll_ctl", r"do_epoll_ctl|__x64_sys_epoll_ctl"),
    ("waiting: epoll_wait or the ring's", r"do_epoll_wait|ep_poll|io_cqring_wait|__schedule"),
    ("the rest of the kernel", r"entry_SYSCALL_64_after_hwframe|asm_.*|do_syscall_64|ret_from_fork"),
]
# Kinds that every generator needs: the first three.
NEEDED = [name for name, _ in KINDS[:3]]
OWN = "its own code"


def shares(stage, thread, play):
    """Returns the shares of samples in all threads with this name during the load, and the result of the load. The shares are None if
    `perf` is missing or may not sample."""
    if not tool("perf"):
        return None, play()
    data = stage.folder / "perf.data"
    words = ["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", SAMPLES_PER_S, "-C", stage.generator_cpu]
    words += ["-D", round(SETTLING_S * 1000), "-o", data, "--", "sleep", 60]
    sampler = stage.start(words)
    time.sleep(0.2)
    came = play()
    stage.end(sampler)
    told = subprocess.run(["perf", "script", "-i", str(data), "--comms", thread, "-F", "ip,sym"], capture_output=True, text=True)
    data.unlink(missing_ok=True)
    counts = collections.Counter(map(kind, stacks(told.stdout)))
    total = sum(counts.values())
    return ({name: count / total for name, count in counts.items()} if total else None), came


def stacks(text):
    """Yields the function names of each stack."""
    for paragraph in text.split("\n\n"):
        names = [line.split(maxsplit=1)[1] for line in paragraph.splitlines() if len(line.split(maxsplit=1)) == 2]
        if names:
            yield [re.sub(r"\+0x[0-9a-f]+$|\.(part|isra|constprop)\.\d+", "", name) for name in names]


def kind(stack):
    for name, pattern in KINDS:
        if any(re.fullmatch(pattern, function) for function in stack):
            return name
    return OWN


def needed_us(parts, whole_us):
    """Returns the microseconds of a request for a generator that only sends and receives."""
    return sum(parts.get(name, 0) for name in NEEDED) * whole_us


def rows(of):
    """Returns a row for each kind of work: microseconds of a request, by generator. `of` has each generator's shares and time of a request."""
    names = [OWN, *(name for name, _ in KINDS)]
    return [[name, *[parts.get(name, 0) * whole_us for parts, whole_us in of.values()]] for name in names]
