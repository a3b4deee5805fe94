"""A calibration as JSON says it."""

from typing import TYPE_CHECKING, Any

from sightline.profile.results import stamped

if TYPE_CHECKING:
    from sightline.calibration.from_tables import Calibration


def calibration_to_dict(calibration: "Calibration", path: str | None = None) -> dict[str, Any]:
    """Return everything a calibration says."""
    fit = calibration.fit
    return stamped(
        {
            "device": calibration.device,
            "part": calibration.part,
            "source": calibration.source,
            "evidence": "calibrated",
            "constants": fit.constants,
            "rows": fit.rows,
            "covered": calibration.covered,
            "residuals": fit.residuals,
            "file": path,
        }
    )
