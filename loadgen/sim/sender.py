"""A sender that does nothing but send, and says when: what `loadgen calibrate` measures the generator against.

    GET or POST /?rate=20    an endless stream of events as vLLM sends them, 20 a second, evenly spaced. The text of each
                             begins with CLOCK_MONOTONIC in 19 digits, read just before its send.
    GET /late                how late the sender was against its own schedule since the last such request, and its CPU time

`python -m loadgen.sim.sender`: address on stdout, ends when stdin closes. Not for people. One plain epoll loop, for it must be
faster than what it measures: about 6 us an event against 12 and more of a client.
"""

import json
import os
import re
import select
import socket
import sys
import time
from collections import deque
from typing import Final

from loadgen.clock import NS_PER_MS, NS_PER_S

EVENT_BYTES: Final = 250
STAMP_DIGITS: Final = 19
BEFORE_STAMP: Final = (
    b'data: {"id":"chatcmpl-calibrate","object":"chat.completion.chunk","created":1700000000,"model":"calibrate",'
    b'"choices":[{"index":0,"delta":{"content":"'
)
_AFTER: Final = b'"},"logprobs":null,"finish_reason":null}]}\n\n'
_TEXT: Final = b" " * (EVENT_BYTES - len(BEFORE_STAMP) - STAMP_DIGITS - len(_AFTER))
_CHUNK: Final = b"%x\r\n%b%%0%dd%b%b\r\n" % (EVENT_BYTES, BEFORE_STAMP, STAMP_DIGITS, _TEXT, _AFTER)
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_RATE: Final = re.compile(rb"[?&]rate=(\d+)")
BACKLOG: Final = 4096


class Sender:
    """The server; ``run`` never returns by itself but for a closed stdin."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._epoll = select.epoll()
        self._peers: dict[int, socket.socket] = {}
        self._queues: dict[int, deque[tuple[int, socket.socket]]] = {}  # by gap in ns; each in the order of what is due
        self._late_ns: list[int] = []
        self._cpu_s = time.process_time()
        self._since_s = time.monotonic()

    def run(self, stdin_fd: int) -> None:
        epoll, peers = self._epoll, self._peers
        self._listener.setblocking(False)
        listener_fd = self._listener.fileno()
        epoll.register(listener_fd, select.EPOLLIN)
        epoll.register(stdin_fd, select.EPOLLIN)
        while True:
            for fd, _ in epoll.poll(self._until_due_s(), 256):
                if fd == listener_fd:
                    self._accept()
                elif fd == stdin_fd:
                    return
                else:
                    self._read(peers[fd])
            self._send_due()

    def _until_due_s(self) -> float:
        due_ns = min((queue[0][0] for queue in self._queues.values() if queue), default=None)
        return 0.05 if due_ns is None else max((due_ns - time.monotonic_ns()) / NS_PER_S, 0)

    def _send_due(self) -> None:
        now_ns = time.monotonic_ns
        for gap_ns, queue in self._queues.items():
            for _ in range(len(queue)):
                due_ns, sock = queue[0]
                at_ns = now_ns()
                if due_ns > at_ns:
                    break
                queue.popleft()
                try:
                    sock.send(_CHUNK % now_ns())
                except OSError:  # the client has left, or does not read: there is no slow client in a calibration
                    self._forget(sock)
                    continue
                self._late_ns.append(at_ns - due_ns)
                queue.append((due_ns + gap_ns, sock))

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._peers[sock.fileno()] = sock
            self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _read(self, sock: socket.socket) -> None:
        """A request fits into one read here: both ends are ours, and on one machine."""
        try:
            request = sock.recv(65_536)
        except OSError:
            request = b""
        if not request:
            self._forget(sock)
        elif b" /late " in request.partition(b"\r\n")[0]:
            body = json.dumps(self._tell_late()).encode()
            sock.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        elif match := _RATE.search(request.partition(b"\r\n")[0]):
            sock.send(_HEAD)
            gap_ns = NS_PER_S // max(int(match[1]), 1)
            self._queues.setdefault(gap_ns, deque()).append((time.monotonic_ns() + gap_ns, sock))

    def _tell_late(self) -> dict[str, float]:
        late, cpu_s, now_s = sorted(self._late_ns), time.process_time(), time.monotonic()
        told = {
            "events": float(len(late)),
            "late_p99_ms": late[int(len(late) * 0.99)] / NS_PER_MS if late else 0.0,
            "cpu_share": (cpu_s - self._cpu_s) / max(now_s - self._since_s, 1e-9),
        }
        self._late_ns, self._cpu_s, self._since_s = [], cpu_s, now_s
        return told

    def _forget(self, sock: socket.socket) -> None:
        """Its place in a queue, if any, goes with the next send, which fails."""
        if self._peers.pop(sock.fileno(), None) is not None:
            self._epoll.unregister(sock.fileno())
            sock.close()


def main() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        print(json.dumps({"url": url, "pid": os.getpid()}), flush=True)  # noqa: T201 - the parent reads it
        Sender(listener).run(sys.stdin.fileno())


if __name__ == "__main__":
    main()
