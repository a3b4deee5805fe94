"""A prediction as a Chrome trace, for Perfetto (ui.perfetto.dev) or ``chrome://tracing``."""

from sightline.profile import GENERATION, Profile


def chrome_trace(profile: Profile) -> str:
    """Return the JSON text of the trace of a predicted training step or generation."""
    if profile.task is GENERATION:
        from sightline.report.chrome.generation import generation_trace

        return generation_trace(profile)
    from sightline.report.chrome.training import training_trace

    return training_trace(profile)
