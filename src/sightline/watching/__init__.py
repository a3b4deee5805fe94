"""A training job while it runs: measured against its prediction, step by step, and planned again when it departs."""

from typing import TYPE_CHECKING

from sightline.on_demand import names_on_demand

if TYPE_CHECKING:
    from sightline.watching.stream import WatchRecord, read, read_one
    from sightline.watching.watch import TrainerCallback, Watch, watch
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "sightline.watching.stream": "WatchRecord read read_one",
            "sightline.watching.watch": "TrainerCallback Watch watch",
        },
    )

__all__ = ["TrainerCallback", "Watch", "WatchRecord", "read", "read_one", "watch"]
