"""Serving measured: a load client for OpenAI-compatible servers, and engines that are started for it."""
