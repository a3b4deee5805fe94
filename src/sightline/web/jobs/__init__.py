"""Long work of the page: in processes of its own, which tell how far they are and can be ended."""

from sightline.web.jobs.jobs import Jobs
from sightline.web.jobs.request import Job, Request

__all__ = ["Job", "Jobs", "Request"]
