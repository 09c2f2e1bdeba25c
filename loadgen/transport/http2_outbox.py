"""The sending side of one HTTP/2 connection: one task that writes whatever has gathered, in as few writes as possible.

Streams only queue frames and wake it, so that a hundred requests made in one turn of the event loop leave in one write.
Bodies wait here for the peer's windows; they take turns, a frame each.
"""

from collections.abc import Callable
from typing import Final

import trio
from h2.connection import H2Connection

from loadgen.clock import Clock
from loadgen.transport.link import Link

BATCH_BYTES: Final = 256 * 1024  # of bodies at a time: credits, PING and RST_STREAM frames wait behind no more than that
FAREWELL_S: Final = 1.0  # a GOAWAY is worth so long a wait for a peer that does not read
# What a peer may make us owe it in acknowledgements before it reads them; a thousand PINGs are 17 KB.
MAX_OWED_BYTES: Final = 1 << 20


class Sending:
    """One request on its way out. ``at_ns`` is set when its last byte was handed over, None if that never happens."""

    __slots__ = ("at_ns", "over", "rest")

    def __init__(self, body: bytes) -> None:
        self.rest = memoryview(body)
        self.at_ns: int | None = None
        self.over = trio.Event()


class Outbox:
    """``run`` must be running. ``credits`` gives the WINDOW_UPDATE frames that are due; it is asked before each write."""

    def __init__(
        self, h2: H2Connection, link: Link, clock: Clock, credits_: Callable[[], bytes], on_broken: Callable[[str], None]
    ) -> None:
        self._h2 = h2
        self._link = link
        self._clock = clock
        self._credits = credits_
        self._on_broken = on_broken
        self._control = bytearray()  # frames of h2 that were collected, to know how many there are
        self._bodies: dict[int, Sending] = {}
        self._leaving: list[Sending] = []  # their last byte is in the next write
        self._awake = trio.Event()
        self._scope = trio.CancelScope()
        self._finishing = False
        self.over = trio.Event()  # nothing will be written any more

    @property
    def has_bodies(self) -> bool:
        return bool(self._bodies)

    def sends(self, stream: int) -> bool:
        """A part of its body is still here."""
        return stream in self._bodies

    @property
    def overwhelmed(self) -> bool:
        """The peer makes us answer and does not read the answers. Asked after frames that h2 answers."""
        self._control += self._h2.data_to_send()
        return len(self._control) > MAX_OWED_BYTES

    def wake(self) -> None:
        self._awake.set()

    def queue(self, stream: int, body: bytes) -> Sending:
        """A request whose HEADERS were given to h2; without a body they carried END_STREAM."""
        sending = Sending(body)
        if body:
            self._bodies[stream] = sending
        else:
            self._leaving.append(sending)
        self.wake()
        return sending

    def drop(self, stream: int) -> None:
        """The stream is over: what is left of its body is not sent."""
        sending = self._bodies.pop(stream, None)
        if sending is not None:
            sending.over.set()

    def finish(self) -> None:
        """Write what h2 has, a GOAWAY mostly, and end; the link is closed then."""
        self._finishing = True
        self._release_all()
        self._scope.deadline = trio.current_time() + FAREWELL_S
        self.wake()

    def stop(self) -> None:
        """Write nothing more."""
        self._finishing = True
        self._release_all()
        self._scope.cancel()

    async def run(self) -> None:
        """Write until ``finish``, ``stop``, or the link breaks; closes the link in the end."""
        try:
            with self._scope:
                await self._write()
        finally:
            self._link.close()
            self.over.set()

    async def _write(self) -> None:
        while True:
            batch = self._collect()
            if not batch:
                if self._finishing:
                    return
                self._awake = trio.Event()
                await self._awake.wait()
                continue
            leaving, self._leaving = self._leaving, []
            try:
                at_ns = await self._link.send_all(batch, self._clock)
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                for sending in leaving:
                    sending.over.set()
                if not self._finishing:
                    self._on_broken(str(error) or "the connection broke")
                return
            for sending in leaving:
                sending.at_ns = at_ns
                sending.over.set()

    def _collect(self) -> bytes:
        if not self._finishing:
            self._add_bodies()
        self._control += self._h2.data_to_send()
        batch = self._credits() + bytes(self._control)
        self._control.clear()
        return batch

    def _add_bodies(self) -> None:
        """As much of the bodies as the peer's windows allow, at most a batch; streams take turns."""
        h2, left = self._h2, BATCH_BYTES
        moved = True
        while moved and left > 0 and self._bodies and h2.outbound_flow_control_window > 0:
            moved = False
            for stream, sending in list(self._bodies.items()):
                size = min(h2.local_flow_control_window(stream), h2.max_outbound_frame_size, len(sending.rest))
                if size <= 0:
                    continue
                last = size == len(sending.rest)
                h2.send_data(stream, bytes(sending.rest[:size]), end_stream=last)
                sending.rest = sending.rest[size:]
                moved = True
                left -= size
                if last:
                    del self._bodies[stream]
                    self._leaving.append(sending)

    def _release_all(self) -> None:
        for sending in (*self._bodies.values(), *self._leaving):
            sending.over.set()
        self._bodies.clear()
        self._leaving.clear()
