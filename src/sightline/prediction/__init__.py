"""Predictions: training steps, memory ledgers, schedules, energy and money."""

from sightline.prediction.predict import predict

__all__ = ["predict"]
