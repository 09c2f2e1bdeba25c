"""Recognises an event that differs from an earlier one in its text only, without parsing it again.

A server sends thousands of events that are equal but for the token. Once one of them was parsed in full, its bytes before
and after the text are kept; a later event that begins and ends with the same bytes and has nothing but plain characters
between is the same JSON with another non-empty string, so it has the same classes and leaves every parser where it was.
Anything else (an escape, a quote, a line end, another field, two events in a read, half of one, no kernel stamp) is not
recognised and takes the full way.

Why it exists: at 20,000 events/s over 1,000 streams framing, SSE and JSON cost more through cache misses than through work.
This touches one object a stream and took 1,000 streams x 20 events/s from 26 to 18 us an event (benchmarks/README.md).
"""

import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final

# What may stand in a JSON string without ending it, escaping, or ending an SSE line. Bytes of UTF-8 sequences included.
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]+').fullmatch
MAX_EVENT_BYTES: Final = 4096  # longer ones are rare, and comparing them is no gain


Span = tuple[int, int]


class Repeat:
    """The bytes around the text of one event, and where arrivals of such events go.

    ``outputs`` takes the arrival of an event alone in its read, ``gap`` the time since the one before it, ``several`` reads
    of more than one (events, at_ns, since_ns). ``body_bytes`` were taken so far, ``wire_bytes`` with what framed them.
    """

    __slots__ = ("_after", "_after_size", "_before", "_before_size", "_gap", "_outputs", "_several", "body_bytes", "wire_bytes")

    def __init__(
        self,
        before: bytes,
        after: bytes,
        *,
        outputs: "array[int]",
        gap: Callable[[int], None],
        several: Callable[[int, int, int], None],
    ) -> None:
        self.body_bytes = 0
        self.wire_bytes = 0
        self._before, self._before_size = before, len(before)
        self._after, self._after_size = after, len(after)
        self._outputs = outputs
        self._gap = gap
        self._several = several

    def matches(self, data: bytes, begin: int, end: int) -> bool:
        """``data[begin:end]`` is one such event."""
        return (
            data.startswith(self._before, begin)
            and data.endswith(self._after, begin, end)
            and _PLAIN(data, begin + self._before_size, end - self._after_size) is not None
        )

    def take(self, data: bytes, begin: int, end: int, at_ns: int) -> bool:
        """``data``, a whole read with kernel stamp ``at_ns`` whose body is ``data[begin:end]``: if that is one such event.

        False: it is something else, and nothing was taken.
        """
        if not self.matches(data, begin, end):
            return False
        outputs = self._outputs
        self._gap(at_ns - outputs[-1])
        outputs.append(at_ns)
        self.body_bytes += end - begin
        self.wire_bytes += len(data)
        return True

    def take_several(self, data: bytes, spans: Sequence[Span], at_ns: int, since_ns: int) -> bool:
        """The same of a read whose body stands in ``spans``, an event each."""
        if not spans or not all(self.matches(data, begin, end) for begin, end in spans):
            return False
        self._several(len(spans), at_ns, since_ns)
        self.body_bytes += sum(end - begin for begin, end in spans)
        self.wire_bytes += len(data)
        return True


def text_edges(body: bytes, keys: Iterable[bytes]) -> Span | None:
    """Where the text of one whole event begins and ends, if it is plain; None if there is none that can be told.

    ``keys`` are the bytes that may stand just before it, the opening quote included.
    """
    if len(body) > MAX_EVENT_BYTES:
        return None
    for key in keys:
        found = body.find(key)
        if found >= 0:
            begin = found + len(key)
            end = body.find(b'"', begin)
            if end > begin and _PLAIN(body, begin, end):
                return begin, end
    return None
