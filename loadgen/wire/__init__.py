"""Bytes to messages, without I/O: SSE, HTTP/1.1 framing, content encodings."""
