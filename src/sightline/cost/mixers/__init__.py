"""Mixers beyond softmax attention: linear attention, state spaces, sparse attention."""
