"""The one answer type: what a prediction or a measurement of any task says, under the same names."""

from sightline.profile.metrics import (
    BOUNDS,
    GENERATION,
    IDLE_PHASES,
    LEVEL_NAMES,
    LEVELS,
    SERVING,
    TASKS,
    TRAINING,
    Task,
    task_of,
)
from sightline.profile.profile import (
    BETWEEN_PASSES,
    COMMUNICATION,
    LONGEST_SAMPLE,
    MEMORY_PARTS,
    REFERENCE,
    NumbersOnDemand,
    Profile,
    Row,
    StageMemory,
    overlapped_s,
    seconds_by_limit,
)

__all__ = [
    "BETWEEN_PASSES",
    "BOUNDS",
    "COMMUNICATION",
    "GENERATION",
    "IDLE_PHASES",
    "LEVELS",
    "LEVEL_NAMES",
    "LONGEST_SAMPLE",
    "MEMORY_PARTS",
    "REFERENCE",
]
__all__ += ["SERVING", "TASKS", "TRAINING", "NumbersOnDemand", "Profile", "Row", "StageMemory", "Task"]
__all__ += ["overlapped_s", "seconds_by_limit", "task_of"]
