"""What a scenario of any task is answered with."""

from typing import TypeAlias

from sightline.generation_profile import GenerationProfile
from sightline.operator_profile import OperatorProfile
from sightline.profile import Profile

Answer: TypeAlias = Profile | OperatorProfile | GenerationProfile
