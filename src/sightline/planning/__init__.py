"""The best configuration out of many: spaces of plans, their search, and what the answer says."""
