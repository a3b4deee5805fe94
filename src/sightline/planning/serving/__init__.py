"""The best plan to serve a load: layouts ranked by their steady loop, the best of them simulated."""
