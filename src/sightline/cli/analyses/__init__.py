"""Commands that look into an answer or vary it: what bounds it, what it depends on, what hardware would bring."""
