"""Settings of the documentation site; ``make docs`` builds it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import linrank

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "linrank"
author = "the linrank developers"
copyright = f"{author}; BSD-3-Clause"
version = release = linrank.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "command_line",  # the last four are in _ext
    "mathml",
    "public_names",
    "root_pages",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "gallery/*.py", "gallery/*.ipynb"]
suppress_warnings = [
    "config.cache",  # sphinx-gallery's settings hold a function, which is not kept between builds
]
nitpicky = True
nitpick_ignore = [
    # There is no network at build time, and so no inventory of other projects.
    ("py:class", "sklearn.base.BaseEstimator"),
]

# Pages -------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
html_math_renderer = "mathml"  # of _ext/mathml.py
myst_heading_anchors = 4

# API reference -----------------------------------------------------------------------------------

autosummary_generate = True
autodoc_typehints = "none"  # the sections on parameters name the types
autodoc_preserve_defaults = True
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False  # the template of classes lists them
default_role = "soft"  # of _ext/public_names.py: a link if there is such a name, and otherwise code

# Gallery -----------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "within_subsection_order": "gallery_order.reading_order",  # in _ext
    "backreferences_dir": "api/backreferences",
    "doc_module": ("linrank",),
    "inspect_global_variables": True,
    "matplotlib_animations": False,
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "parallel": 2,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
}
# A picture is written to a file, and never shown.
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

# Look --------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "linrank"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_search_summary = False  # a page that was opened from a file may not fetch other files
html_context = {"default_mode": "auto"}  # light or dark, as the system of the reader
html_sidebars = {"index": [], "gallery/index": [], "search": []}
html_theme_options = {
    "logo": {"text": "linrank"},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "show_nav_level": 1,
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
