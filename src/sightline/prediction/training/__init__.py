"""A training step: passes of blocks, stages, replicas, update - priced and put together."""
