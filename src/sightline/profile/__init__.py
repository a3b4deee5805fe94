"""The one answer type: what a prediction or a measurement of any task says, under the same names."""

from sightline.profile.metrics import BOUNDS, GENERATION, IDLE_PHASES, TASKS, TRAINING, Task, task_of
from sightline.profile.profile import Profile
from sightline.profile.rows import BETWEEN_PASSES, MEMORY_PARTS, NumbersOnDemand, Row, StageMemory

__all__ = ["BETWEEN_PASSES", "BOUNDS", "GENERATION", "IDLE_PHASES", "MEMORY_PARTS", "TASKS", "TRAINING"]
__all__ += ["NumbersOnDemand", "Profile", "Row", "StageMemory", "Task", "task_of"]
