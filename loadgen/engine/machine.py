"""What a plan needs of this machine: file descriptors and local ports. Told by `check`, raised where possible by `run`."""

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loadgen.workload.plan import Plan

OTHER_DESCRIPTORS: Final = 64  # Python, trio, epoll, output files, the simulated server's pipes
_PORT_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_PORTS: Final = (32768, 60999)  # Linux


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Numbers as they are and as the plan wants them. ``problems`` says in words what is too small and the way out.

    ``descriptors`` are those of one process; ``connections`` and ``ports`` are of the whole machine.
    """

    descriptors: int
    descriptors_soft: int
    descriptors_hard: int
    connections: int
    ports: int
    problems: tuple[str, ...]


def connections_needed(plan: Plan) -> int:
    transport = plan.transport
    if transport.connections is not None:
        return min(transport.connections, plan.max_streams)
    return -(-plan.max_streams // transport.streams_per_connection)


def assess(plan: Plan, processes: int = 1) -> Needs:
    """Compare a plan that is shared by so many processes with this machine's limits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = hard if hard != resource.RLIM_INFINITY else 1 << 30
    connections = connections_needed(plan)
    descriptors = -(-connections // processes) + OTHER_DESCRIPTORS
    ports = _local_ports()
    over_tcp = plan.target is None or plan.target.unix_path is None
    problems = []
    if descriptors > hard:
        problems.append(
            f"{descriptors} file descriptors are needed in a process and the hard limit is {hard}: "
            f"raise it (ulimit -Hn {descriptors}), use more processes, or ask for fewer streams"
        )
    if over_tcp and connections > ports:
        problems.append(
            f"{connections} connections to one address are needed and there are {ports} local ports: widen "
            "net.ipv4.ip_local_port_range, or ask for fewer connections"
        )
    return Needs(
        descriptors=descriptors, descriptors_soft=soft, descriptors_hard=hard, connections=connections, ports=ports,
        problems=tuple(problems),
    )  # fmt: skip


def raise_descriptor_limit(plan: Plan) -> None:
    """Lift the soft limit to what the plan needs, as far as the hard limit allows."""
    needs = assess(plan)
    wanted = min(max(needs.descriptors, needs.descriptors_soft), needs.descriptors_hard)
    if wanted > needs.descriptors_soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _local_ports() -> int:
    try:
        low, high = (int(part) for part in _PORT_RANGE.read_text(encoding="ascii").split())
    except (OSError, ValueError):
        low, high = _DEFAULT_PORTS
    return high - low + 1
