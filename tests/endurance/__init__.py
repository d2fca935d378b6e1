"""The harness that attacks cbcl by itself: `make endure`, or the short of it in CI."""
