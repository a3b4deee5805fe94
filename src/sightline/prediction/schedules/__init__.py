"""Pipeline schedules: closed forms, the small simulations they are tested against, and the timeline."""
