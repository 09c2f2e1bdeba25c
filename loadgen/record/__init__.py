"""What was measured: HDR histograms, intervals, metrics, SLO rules, the run journal, the summary."""
