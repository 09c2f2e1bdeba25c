"""junit.xml: one test case a rule, for CI systems that gate on test results.

Where the measurement itself cannot be believed (invalid), was not finished (interrupted) or found nothing (unreachable), every
rule is an error, whatever its value was: no rule of such a run may look green.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from loadgen.report.words import format_slo_bound, format_slo_value

NO_MEASUREMENT: Final = frozenset({"invalid", "interrupted", "unreachable"})
# What XML 1.0 cannot hold, not even escaped (its production 2, Char); a peer's words may have it.
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, summary: Mapping[str, Any]) -> None:
    """The evaluated rules of ``summary`` as a JUnit file."""
    path.write_bytes(build_junit(summary))


def build_junit(summary: Mapping[str, Any]) -> bytes:
    """One suite, named as the workload. Its time is the whole run's; a rule takes no time of its own."""
    rules = summary["slo"]
    unusable = summary["verdict"] in NO_MEASUREMENT
    failures = 0 if unusable else sum(not rule["ok"] for rule in rules)
    figures = {
        "name": summary["name"],
        "tests": str(len(rules)),
        "failures": str(failures),
        "errors": str(len(rules) if unusable else 0),
        "skipped": "0",
        "time": f"{summary['duration_s']:.3f}",
    }
    root = ET.Element("testsuites", _clean(figures))
    suite = ET.SubElement(root, "testsuite", _clean({**figures, "timestamp": summary["started_at"].partition(".")[0]}))
    for rule in rules:
        name = f"{rule['variant']}: {rule['rule']}" if "variant" in rule else rule["rule"]
        case = ET.SubElement(suite, "testcase", _clean({"classname": summary["name"], "name": name, "time": "0"}))
        found = f"was {format_slo_value(rule)}, must be {format_slo_bound(rule)}"
        if unusable:
            _add(case, "error", summary["verdict"], f"{summary['verdict']}: {summary['verdict_reason']}", found)
        elif not rule["ok"]:
            _add(case, "failure", "slo", found, f"{rule['rule']}: {found}")
    ET.indent(root, " ")
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _add(case: ET.Element, tag: str, kind: str, message: str, text: str) -> None:
    ET.SubElement(case, tag, _clean({"type": kind, "message": message})).text = _NOT_XML.sub("\ufffd", text)


def _clean(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: _NOT_XML.sub("\ufffd", value) for name, value in attributes.items()}
