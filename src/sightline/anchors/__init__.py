"""Anchors in every form that people have them in: stored runs, files, saved names, profiles; and answers with them."""
