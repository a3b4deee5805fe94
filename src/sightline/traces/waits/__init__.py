"""What a device waits for: its host, other ranks, other stages."""
