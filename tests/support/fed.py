"""A connection whose bytes are fed by hand, and its one exchange."""

from array import array

from loadgen.clock import SystemClock
from loadgen.dialect import Dialect
from loadgen.record.timeline import Timeline
from loadgen.transport.exchange import Exchange
from loadgen.transport.http1 import Http1Connection
from loadgen.transport.link import ByteSink


class NoLink:
    def attach(self, sink: ByteSink) -> None:
        pass


class Listener:
    def on_head(self) -> None: ...

    def on_first_token(self) -> None: ...

    def on_tokens(self) -> None: ...

    def on_end(self) -> None: ...

    def on_released(self) -> None: ...


class Fed:
    """``connection.feed`` it; ``gaps`` and ``widths`` are what the recorder would get."""

    def __init__(self, dialect: Dialect) -> None:
        self.gaps, self.widths = array("q"), array("q")
        self.exchange = Exchange(dialect, dialect.reader(), Timeline(self.gaps.append, self.widths.append), Listener())
        self.connection = Http1Connection(NoLink(), 0, SystemClock())  # type: ignore[arg-type]
        self.connection._exchange = self.exchange  # as after a request
