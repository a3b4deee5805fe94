"""Columns that several of the study's tables have."""

from sightline.exploration.answer import Column
from sightline.reproduction.arxiv_2311_03687.settings import OUT_OF_MEMORY

PLATFORM = Column(label="platform")
MODEL = Column(label="model")
ROW = Column(label="techniques")
BATCH = Column(label="batch")
FITS = Column(label="fits", values={"no": OUT_OF_MEMORY})
THROUGHPUT = Column(label="throughput", unit="tokens/s")
MEMORY = Column(label="memory", unit="B")
TIME = Column(label="time", unit="s")
