"""Newline-delimited JSON read slowly, byte by byte: whole body in, complete lines out. Compared with the real parser."""


def reference_lines(body: bytes) -> list[str]:
    lines, line = [], b""
    for value in body:
        byte = bytes([value])
        if byte != b"\n":
            line += byte
            continue
        while line and line[:1] in {b" ", b"\t", b"\r"}:
            line = line[1:]
        while line and line[-1:] in {b" ", b"\t", b"\r"}:
            line = line[:-1]
        if line:
            lines.append(line.decode("utf-8", "replace"))
        line = b""
    return lines  # what is left in ``line`` has no end
