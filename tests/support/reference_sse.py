"""WHATWG HTML 9.2.6, written straight from its text, slowly: whole body in, events out. Compared with the real parser."""


def reference_events(body: bytes) -> tuple[list[tuple[str, str, str]], str, int | None]:
    """(type, data, last event ID) of each event; the last event ID string; the reconnection time."""
    text = body.decode("utf-8", "replace")
    text = text.removeprefix("\ufeff")
    lines, line, i = [], "", 0
    while i < len(text):
        if text[i] == "\r":
            lines.append(line)
            line = ""
            i += 2 if text[i + 1 : i + 2] == "\n" else 1
        elif text[i] == "\n":
            lines.append(line)
            line = ""
            i += 1
        else:
            line += text[i]
            i += 1
    # What is left in ``line`` has no end: "any pending data must be discarded".
    events = []
    data, kind, id_buffer, last_id, retry = "", "", "", "", None
    for found in lines:
        if found == "":
            last_id = id_buffer
            if data != "":
                events.append((kind or "message", data.removesuffix("\n"), last_id))
            data, kind = "", ""
            continue
        if found.startswith(":"):
            continue
        name, colon, value = found.partition(":")
        if colon and value.startswith(" "):
            value = value[1:]
        if name == "event":
            kind = value
        elif name == "data":
            data += value + "\n"
        elif name == "id" and "\0" not in value:
            id_buffer = value
        elif name == "retry" and value and all(c in "0123456789" for c in value):
            retry = int(value)
    return events, last_id, retry
