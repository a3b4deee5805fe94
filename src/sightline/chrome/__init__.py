"""Predicted steps and generations as Chrome traces, for Perfetto: modules nested in passes, communication apart."""
