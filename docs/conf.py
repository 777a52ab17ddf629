"""Sphinx configuration; `make docs` builds the site."""

import sys
from pathlib import Path
from typing import Any

import dask_rac

sys.path.append(str(Path(__file__).parent / "_extensions"))

project = "dask_rac"
author = "dask_rac developers"
copyright = author
version = release = dask_rac.__version__

extensions = [
    "commands",
    "drawings",
    "myst_parser",
    "names",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore_regex = [("py:obj", r"\w+")]  # properties: numpydoc would link to them, but they have no page
default_role = "name"  # `height` in a docstring is code, `knn_graph` a link

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings describe arguments in words
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False  # the template lists them
numpydoc_xref_param_type = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = "dask_rac"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["sidebar-nav-bs"]}
html_copy_source = html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "dask_rac"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
}


def hide_constructor(_app: Any, what: str, name: str, *_: Any) -> tuple[str, None] | None:
    """Hide the arguments of classes that only the package itself creates."""
    return ("", None) if what == "class" and name != "dask_rac.RAC" else None


def setup(app: Any) -> None:
    """Register the event."""
    app.connect("autodoc-process-signature", hide_constructor)
