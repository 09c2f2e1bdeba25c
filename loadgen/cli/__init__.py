"""The commands and their exit codes."""
