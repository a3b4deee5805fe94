"""The best model for some compute: laws of the loss, a prediction of its speed, and trainings that are known."""
