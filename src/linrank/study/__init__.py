"""Studies: many methods, folds and settings compared by one protocol."""

from .folds import DataSet
from .protocol import Entry, ScoreFiles, parse_entry
from .results import StudyResults
from .study import Study

__all__ = ["DataSet", "Entry", "ScoreFiles", "Study", "StudyResults", "parse_entry"]
