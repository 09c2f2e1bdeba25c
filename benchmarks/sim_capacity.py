"""How many streams the simulated server carries on one core, and how late its tokens leave.

    python benchmarks/sim_capacity.py [STREAMS] [SECONDS] [GAP_MS]

Starts the server pinned to core 0 and reads it with a small epoll client pinned to the last core. Prints one JSON line:

* ``server_cpu_share``: CPU time of the server / the time in which it sends tokens (1.0 is a full core);
* ``server_us_per_token``: the same per token sent;
* ``late_ms``: sent stamps of the server's log minus the moments that the script gives (arrival, TTFT, n gaps). The schedule
  is absolute, so lateness must not grow with n: compare ``late_ms_last_tenth``, the last tenth of each stream;
* ``agree``: what the client read are the stamps of the log.
"""

import json
import os
import re
import select
import socket
import statistics
import sys
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import trio

from loadgen.sim.process import open_sim_process
from loadgen.sim.schedule import plan_events
from loadgen.workload.sim_script import SimScript

STAMP = re.compile(rb'"mono_ns":(\d+)')
TTFT_S = 2.0  # long enough for every stream to be open before the first token


async def main(streams: int, seconds: float, gap_ms: int) -> None:
    script = SimScript.model_validate({
        "ttft": f"{TTFT_S:g}s", "itl": f"{gap_ms}ms", "max_batch": streams, "kv": {"blocks": streams * 1_000},
    })  # fmt: skip
    tokens = round(seconds * 1_000 / gap_ms)
    async with open_sim_process(script) as sim:
        os.sched_setaffinity(sim.pid, {0})
        os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
        received, cpu_s = read_streams(sim.url, sim.pid, streams, tokens)
        with urlopen(f"{sim.url}/sim/streams?last={streams}") as answer:  # noqa: ASYNC210 - nothing else runs here
            log = json.load(answer)
    late = [
        [at - s["arrived_ns"] - due for at, due in zip(s["sent_ns"], plan_events(script, 0, 1, tokens), strict=True)]
        for s in log
    ]
    report: dict[str, Any] = {
        "late_ms": spread(list(chain.from_iterable(late))),
        "late_ms_last_tenth": spread([value for values in late for value in values[-len(values) // 10 :]]),
        "agree": sorted(received) == sorted(s["sent_ns"] for s in log),
    }
    report |= {"streams": streams, "tokens": sum(map(len, received)), "server_cpu_share": round(cpu_s / seconds, 3)}
    report["server_us_per_token"] = round(cpu_s * 1e6 / report["tokens"], 1)
    print(json.dumps(report))


def read_streams(url: str, pid: int, streams: int, tokens: int) -> tuple[list[list[int]], float]:
    """Open all streams, read them to their end: the stamps of each, and the server's CPU time meanwhile."""
    parts = urlsplit(url)
    body = b'{"stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}' % tokens
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    poll = select.epoll()
    socks: dict[int, socket.socket] = {}
    raw: dict[int, list[bytes]] = {}
    for _ in range(streams):
        sock = socket.create_connection((parts.hostname, parts.port))
        sock.sendall(request)
        sock.setblocking(False)
        socks[sock.fileno()], raw[sock.fileno()] = sock, []
        poll.register(sock, select.EPOLLIN)
    cpu = cpu_seconds(pid)
    left = streams
    while left:
        for fd, _ in poll.poll():
            data = socks[fd].recv(65_536)
            raw[fd].append(data)
            if not data or data.endswith(b"0\r\n\r\n"):
                poll.unregister(fd)
                left -= 1
    cpu_s = cpu_seconds(pid) - cpu
    for sock in socks.values():
        sock.close()
    return [[int(s) for s in STAMP.findall(b"".join(parts))] for parts in raw.values()], cpu_s


def spread(values_ns: list[int]) -> dict[str, float]:
    cuts = statistics.quantiles(values_ns, n=1_000)
    return {name: round(ns / 1e6, 3) for name, ns in (("p50", cuts[499]), ("p99", cuts[989]), ("p999", cuts[998]))}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    arguments = [*map(float, sys.argv[1:]), *(1_000, 8, 50)[len(sys.argv) - 1 :]]
    trio.run(main, int(arguments[0]), arguments[1], int(arguments[2]))
