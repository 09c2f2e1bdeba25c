"""One run in several generator processes: split the plan, run the shares, merge what they gathered."""
