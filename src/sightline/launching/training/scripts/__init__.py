"""Training scripts that are copied next to a launch; nothing of Sightline runs them."""
