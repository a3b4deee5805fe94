"""Generation: passes of an engine priced, put together by its scheduling, and answered as one profile."""
