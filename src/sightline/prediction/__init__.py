"""Predictions: training steps, memory ledgers, schedules, energy and money, and single operators."""

from sightline.prediction.answer import predict

__all__ = ["predict"]
