"""One file per output."""
