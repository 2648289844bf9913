"""Studies: many methods, folds and settings compared by one protocol."""

from .entries import Entry, ScoreFiles, parse_entry
from .folds import DataSet
from .results import StudyResults
from .study import Study

__all__ = ["DataSet", "Entry", "ScoreFiles", "Study", "StudyResults", "parse_entry"]
