"""Tables and figures of Chapelle & Keerthi 2010: Efficient algorithms for ranking with SVMs."""

from __future__ import annotations

from benchmarks.tools import Sections

TITLE = "Chapelle & Keerthi 2010: Efficient algorithms for ranking with SVMs"
ABOUT = "Tables and figures of the paper beside the figures that linrank finds."
SECTIONS: Sections = {}
