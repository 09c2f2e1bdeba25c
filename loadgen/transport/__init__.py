"""Trio I/O: dialing, TLS, the receive loop with kernel stamps, HTTP/1.1 exchanges, connection pools."""
