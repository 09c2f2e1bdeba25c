"""The simulated server as a child process: script on the first line of stdin, address on stdout, ends with its parent.

Not for people; they have `loadgen serve`.
"""

import gc
import json
import os
import sys

import trio

from loadgen.sim.listen import open_listeners
from loadgen.sim.server import SimServer
from loadgen.workload.sim_script import SimScript


async def _main() -> None:
    async with trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as stdin:
        line = bytearray()
        while not line.endswith(b"\n"):
            data = await stdin.receive_some()
            if not data:
                return  # the parent died first
            line += data
        server = SimServer(SimScript.from_json(line.decode()))
        listeners, url = await open_listeners("127.0.0.1", 0)
        gc.freeze()  # what is loaded by now is never garbage; full collections need not look at it
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, listeners)
            print(json.dumps({"url": url, "pid": os.getpid()}), flush=True)  # noqa: T201 - the parent reads it
            while await stdin.receive_some():
                pass
            nursery.cancel_scope.cancel()  # the parent closed our stdin, or died


if __name__ == "__main__":
    trio.run(_main)
