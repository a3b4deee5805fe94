"""Answers as compact text, with colour on a terminal."""
