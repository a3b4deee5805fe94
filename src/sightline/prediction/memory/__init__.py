"""The memory ledger of a training step."""
