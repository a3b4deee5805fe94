"""The findings and tables of the talk."""
