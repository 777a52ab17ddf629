"""From facts to one HTML page that needs nothing else: no network, no file beside it.

Whatever a user has named passes two gates: `shown`, which makes visible what is not, and Jinja's autoescaping. Numbers
for scripts stand in blocks of JSON, which no browser executes; scripts run by their hash alone.
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

from dask_rac.report.facts import ReportFacts
from dask_rac.report.slider import slider_of
from dask_rac.report.words import shown

if TYPE_CHECKING:
    from dask_rac.pictures.picture import Picture

GENERATOR = '<meta name="generator" content="dask_rac '
"""By what a report is known as one of ours."""

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""BokehJS makes style elements as it draws, whose contents nobody knows before."""

PLACES = {"dendrogram": "tree", "heights": "cut", "sizes": "cut"}
"""The section of each picture; others tell how the run went."""


def make_html(facts: ReportFacts) -> str:
    """The report as HTML."""
    slider = slider_of(facts)
    scripts = [*(_bokeh_scripts() if facts.pictures else ()), _asset("report.js")]
    figures = {picture.name: _figure(picture) for picture in facts.pictures}
    return _template().render(
        facts=facts,
        slider=slider,
        sections=_sections(facts),
        figures=figures,
        slider_data=_json(slider.data) if slider else None,
        style=Markup(_asset("report.css")),
        scripts=[Markup(script) for script in scripts],
        policy=POLICY.format(scripts=" ".join(map(_source_hash, scripts))),
        generator=Markup(GENERATOR),
        version=version("dask-rac"),
    )


def _sections(facts: ReportFacts) -> dict[str, list[Picture]]:
    """Which pictures go where."""
    found: dict[str, list[Picture]] = {"tree": [], "cut": [], "run": []}
    for picture in facts.pictures:
        found[PLACES.get(picture.name, "run")].append(picture)
    return found


def _figure(picture: Picture) -> Markup:
    """A picture as JSON that BokehJS draws."""
    from dask_rac.pictures.page import figure_json  # noqa: PLC0415 - Bokeh is an extra

    return Markup(figure_json(picture.figure))


def _json(value: Any) -> Markup:
    """Numbers for our script."""
    from dask_rac.pictures.page import as_json  # noqa: PLC0415 - as above

    return Markup(as_json(value))


@cache
def _bokeh_scripts() -> tuple[str, ...]:
    """BokehJS."""
    from dask_rac.pictures.page import resources  # noqa: PLC0415 - as above

    return tuple(script.replace("</script", "<\\/script") for script in resources().js_raw)


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text("utf-8")


def _source_hash(script: str) -> str:
    """A script as a content policy knows it."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


@cache
def _template() -> Template:
    """The page without facts."""
    environment = Environment(
        autoescape=True, finalize=_finalized, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("report.html.j2"))


def _finalized(value: Any) -> Any:
    """What a template puts in: texts of users as they can be seen, ours as they are."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else shown(value)
