"""The simulated inference server: a test target with known truth."""
