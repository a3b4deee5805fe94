"""Answers for people and programs: result keys, terminal tables, CSV, charts and the offline page."""
