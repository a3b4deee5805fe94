"""Memory of a training step: what each stage keeps, its peak, and how far predictions of it spread."""
