"""Megatron-LM's ``pretrain_gpt.py``: a plan and a model as its arguments, and such a command read back."""
