"""The nouns that every layer shares: outcomes, event classes, stamp qualities, and the record of one finished stream.

Plain data without behaviour beyond what follows from the data itself.
"""

from dataclasses import dataclass, field
from enum import IntEnum, IntFlag, StrEnum


class Outcome(StrEnum):
    """How a stream ended. Every stream ends as exactly one of these."""

    COMPLETED = "completed"  # 2xx, no error event, a finish for every choice, the end mark, complete framing
    ABORTED = "aborted"  # left by the workload's own abort policy
    DROPPED = "dropped"  # the limit was full and the workload says drop
    REJECTED = "rejected"  # 429 or 503: the target's own admission control
    HTTP_ERROR = "http_error"  # any other status that is not 2xx
    PROVIDER_ERROR = "provider_error"  # an error inside a 200
    TRUNCATED = "truncated"  # ended without finish, end mark or complete framing
    PROTOCOL_ERROR = "protocol_error"  # bytes that HTTP, SSE or the dialect forbid
    CONNECT_ERROR = "connect_error"
    TLS_ERROR = "tls_error"
    RESET = "reset"  # RST from the peer
    GOAWAY = "goaway"  # HTTP/2: the connection was closed over the stream
    TIMEOUT_CONNECT = "timeout_connect"
    TIMEOUT_FIRST_TOKEN = "timeout_first_token"  # noqa: S105 - not a password
    TIMEOUT_IDLE = "timeout_idle"
    TIMEOUT_TOTAL = "timeout_total"
    CUT = "cut"  # the run ended first


class EventClass(IntFlag):
    """What an event of a token stream is; one event may be several (the last text often carries the finish)."""

    NONE = 0
    ANSWER = 1  # visible output text, non-empty
    REASONING = 2  # reasoning text, non-empty
    TOOL = 4  # tool-call output
    EMPTY = 8  # made by generated tokens, but without text
    PRELUDE = 16  # before any token: role, filter results, progress
    HEARTBEAT = 32  # ping events (SSE comments never become events)
    FINISH = 64  # a choice has its finish reason
    USAGE = 128
    META = 256
    ERROR = 512
    END = 1024  # the dialect's end mark, `[DONE]`
    MALFORMED = 2048  # not what the dialect may send

    OUTPUT = ANSWER | REASONING | TOOL  # carries generated output: TTFT and ITL are about these


class StampQuality(IntEnum):
    """How well the arrival of an event is known."""

    EXACT = 0  # kernel stamp, alone or last in its read
    BOUNDED = 1  # older event in a read: between the last poll of its socket and the read's kernel stamp
    USER = 2  # the program's own clock: no kernel stamp to be had


class Metric(StrEnum):
    """Every latency metric, by the name it has in summary.json, SLO rules, .hlog tags and file names."""

    TTFT = "ttft"
    SERVICE_TTFT = "service_ttft"
    FIRST_EVENT = "first_event"
    FIRST_ANSWER = "first_answer"
    HEADERS = "headers"
    CONNECT = "connect"
    TLS = "tls"
    ITL = "itl"
    TPOT = "tpot"
    E2E = "e2e"
    QUEUE = "queue"
    STALL = "stall"
    ABORT_TO_SERVER_STOP = "abort_to_server_stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts as the server reported them; None where it said nothing."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(slots=True, kw_only=True)
class StreamRecord:
    """All that is known of one finished stream. Stamps are run-clock nanoseconds, None when never reached.

    ``intended_ns`` is when the load shape wanted the stream; latencies count from there.
    ``started_ns`` is when its task began to act on it, ``slot_ns`` when the limiter let it in, ``sent_ns`` just before
    the last byte of the request was handed to the kernel. ``quality`` counts output events by StampQuality.
    """

    stream: int
    phase: int
    intended_ns: int
    variant: str = ""
    request: int = 0  # index in the workload's mix
    outcome: Outcome = Outcome.CUT
    detail: str = ""  # the reason in words: what was expected, what came
    measured: bool = True  # False: warm-up, its values are in no metric

    started_ns: int | None = None
    slot_ns: int | None = None
    connection_ns: int | None = None  # has a connection (new or reused): the wait for one ends here
    connect_start_ns: int | None = None
    connect_ns: int | None = None  # TCP (or unix) connection established; None on a reused connection
    tls_ns: int | None = None
    dial_lag_ns: int = 0  # the generator's own delay inside the connect
    sent_ns: int | None = None
    head_ns: int | None = None
    first_byte_ns: int | None = None
    first_event_ns: int | None = None
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    end_ns: int = 0

    status: int | None = None
    events: int = 0  # all dispatched events but heartbeats
    output_events: int = 0
    heartbeats: int = 0
    bytes_in: int = 0
    reads: int = 0  # reads that held events
    merged_reads: int = 0  # of them, those that held several
    usage: Usage | None = None
    finish_reason: str = ""
    stall_ns: int | None = None  # longest gap between output events
    itl_p50_ns: int | None = None
    itl_p99_ns: int | None = None
    bunched_events: int = 0
    burst_events: int = 0  # the largest burst
    quality: list[int] = field(default_factory=lambda: [0, 0, 0])
    reused: bool = False  # ran on a connection that had carried a stream before
    retried: bool = False  # sent again on another connection: the first one had not begun to work on it
    connection: int = -1
    backend: str = ""  # who served it, by the header that target.backend_header names
    left_open: bool = False  # the peer sent its end mark but did not end the message
