"""JSON pointers (RFC 6901): where a value stands in a JSON document, such as ``/choices/0/delta/content``."""

import re
from dataclasses import dataclass
from typing import Any, Final

from loadgen.errors import shorten

_INDEX: Final = re.compile(r"0|[1-9][0-9]*")  # section 4: no leading zeros
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")


@dataclass(frozen=True, slots=True)
class Pointer:
    """``parts`` are unescaped; there are none in the pointer ``""``, which is the whole document."""

    text: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return self.text

    def find(self, document: Any) -> Any:
        """The value that stands there; None where there is none."""
        for part in self.parts:
            match document:
                case dict():
                    document = document.get(part)
                case list():
                    index = parse_index(part)
                    document = document[index] if index is not None and index < len(document) else None
                case _:
                    return None
        return document

    def put(self, document: dict[str, Any], value: Any) -> None:
        """Set the value there. Objects that are missing on the way are made; ``-`` is behind the last item of a list.

        Raises ValueError where something else stands in the way.
        """
        if not self.parts:
            raise ValueError("must name a place within the body, such as /prompt")
        here: Any = document
        for depth, part in enumerate(self.parts):
            last = depth == len(self.parts) - 1
            match here:
                case dict():
                    here[part] = value if last else here.get(part, {})
                    here = here[part]
                case list():
                    index = len(here) if part == "-" else parse_index(part)
                    if index is None or index > len(here):
                        raise ValueError(f"{self._before(depth)} is a list of {len(here)}: {shorten(part)} is no place in it")
                    if index == len(here):
                        here.append({})
                    if last:
                        here[index] = value
                    here = here[index]
                case _:
                    raise ValueError(f"{self._before(depth)} is no object and no list, nothing can be put into it")

    def _before(self, depth: int) -> str:
        return "".join(f"/{_escape(part)}" for part in self.parts[:depth])


def parse_pointer(text: str) -> Pointer:
    """Raises ValueError with what to write instead."""
    if text and not text.startswith("/"):
        words = re.sub(r"\[(\d+)\]", r".\1", text.lstrip("$#").lstrip("./")).replace("/", ".").split(".")
        meant = "".join(f"/{_escape(word)}" for word in words if word)
        hint = f"; did you mean {meant}?" if meant else ""
        raise ValueError(
            f"must be a JSON pointer, which begins with a slash, such as /choices/0/text, got {shorten(text)}{hint}"
        )
    if found := _BAD_ESCAPE.search(text):
        raise ValueError(f"has a ~ at character {found.start() + 1} that is neither ~0 (a tilde) nor ~1 (a slash)")
    return Pointer(text, tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]))


def parse_index(part: str) -> int | None:
    """The index that a part is in a list; None when it is none."""
    return int(part) if _INDEX.fullmatch(part) and len(part) < 10 else None


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
