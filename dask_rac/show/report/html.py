"""From facts to one self-contained HTML page: it needs no network and no other file.

Text from users passes two gates: `escaped`, which escapes invisible characters, and Jinja's autoescaping. Numbers for
scripts are in blocks of JSON, which no browser executes; the content policy admits scripts by their hash only.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dask_rac.show.report.facts import ReportFacts
from dask_rac.show.report.slider import slider_of
from dask_rac.show.report.words import escaped, path_lines

if TYPE_CHECKING:
    from dask_rac.show.pictures.picture import Picture

GENERATOR = '<meta name="generator" content="dask_rac '
"""Identifies a file as a report of dask_rac."""

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""BokehJS creates style elements while it draws, so their hashes cannot be known in advance."""

PLACES = {"heights": "cut", "sizes": "cut"}
"""The section of each picture; all others go to "run"."""


def make_html(facts: ReportFacts) -> str:
    """Return the report as HTML."""
    slider = slider_of(facts)
    scripts = [*(_bokeh_scripts() if facts.pictures else ()), _asset("tree.js"), _asset("report.js")]
    figures = {picture.name: _figure(picture) for picture in facts.pictures}
    return _template().render(
        facts=facts,
        slider=slider,
        sections=_sections(facts),
        figures=figures,
        slider_data=_json(slider.data) if slider else None,
        tree_data=_json({**facts.tree.data, "paths": path_lines(facts.run)}) if facts.tree else None,
        style=Markup(_asset("report.css") + _asset("tree.css")),
        scripts=[Markup(script) for script in scripts],
        policy=POLICY.format(scripts=" ".join(map(_source_hash, scripts))),
        generator=Markup(GENERATOR),
        version=version("dask-rac"),
    )


def _sections(facts: ReportFacts) -> dict[str, list[Picture]]:
    """Assign pictures to sections."""
    sections: dict[str, list[Picture]] = {"cut": [], "run": []}
    for picture in facts.pictures:
        sections[PLACES.get(picture.name, "run")].append(picture)
    return sections


def _figure(picture: Picture) -> Markup:
    """Return a picture as JSON for BokehJS."""
    from dask_rac.show.pictures.standalone import figure_json  # noqa: PLC0415 - Bokeh is an extra

    return Markup(figure_json(picture.figure))


def _json(value: Any) -> Markup:
    """Return numbers as JSON for report.js."""
    from dask_rac.show.pictures.standalone import embedded_json  # noqa: PLC0415 - as above

    return Markup(embedded_json(value, ascii_only=False))


@cache
def _bokeh_scripts() -> tuple[str, ...]:
    """Return the scripts of BokehJS."""
    from dask_rac.show.pictures.standalone import resources  # noqa: PLC0415 - as above

    return tuple(script.replace("</script", "<\\/script") for script in resources().js_raw)


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text("utf-8")


def _source_hash(script: str) -> str:
    """Return the hash of a script as a content policy writes it."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


@cache
def _template() -> Template:
    """Return the page template."""
    environment = Environment(
        autoescape=True, finalize=_finalized, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("report.html.j2"))


def _finalized(value: Any) -> Any:
    """Escape invisible characters in a value, unless it is markup of our own."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else escaped(value)
