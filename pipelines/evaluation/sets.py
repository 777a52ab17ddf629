"""The six data sets of the paper, as it states them, and the runs on their stand-ins."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

MINUTES = 120
"""Minutes of a quiet machine with two cores for which the sizes are given; all grow with their square root."""


@dataclass(frozen=True)
class Reported:
    """What the paper's tables say of a data set; edges are counted from both ends, 0 stands for not stated."""

    nodes: int
    edges: float
    machines: int = 0
    cpus: int = 0
    """CPUs of each machine."""
    merges: int = 0
    rounds: int = 0
    time: float = 0.0
    """Merge time, that of WEB88M being 1."""

    @property
    def cost(self) -> float:
        """Merge time times CPUs, per merge."""
        return self.time * self.machines * self.cpus / self.merges

    @property
    def edge_cost(self) -> float:
        """Merge time times CPUs, per edge."""
        return self.time * self.machines * self.cpus / self.edges


REPORTED = {
    "SIFT1B": Reported(10**9, 720e9, 200, 16, 490 * 10**6, 182, 2.0),
    "SIFT1M": Reported(10**6, 1e12, 200, 8, 10**6, 124, 32.0),
    "SIFT200K": Reported(200_000, 40e9, 120, 4, 200_000, 112, 9.0),
    "WEB88M": Reported(88 * 10**6, 392e9, 80, 16, 69 * 10**6, 170, 1.0),
    "News20": Reported(18_846, 355e6),
    "RCV1": Reported(23_149, 0.5e9),
}


@dataclass(frozen=True)
class Job:
    """One run, which clusters the stand-in of a data set by complete linkage."""

    name: str
    of: str
    """The data set, a key of REPORTED."""
    most: int
    """Nodes for MINUTES; never more than the data set has."""
    kind: str
    """The generator: "sift" or "documents"."""
    graph: str = ""
    """A graph of "neighbours" or of a "radius"; all pairs if empty."""
    engine: str = ""
    """For all pairs."""
    terms: int = 0
    """Of documents: terms, and words per document."""
    length: int = 0
    limit: int = 10**9
    """Nodes that fit in memory."""

    def nodes(self, minutes: float) -> int:
        """Return the number of nodes for a number of minutes, in round figures."""
        wanted = self.most * sqrt(minutes / MINUTES)
        digits = int(10 ** max(0, len(str(int(wanted))) - 2))
        return min(REPORTED[self.of].nodes, self.limit, max(60, round(wanted / digits) * digits))

    def edges(self, nodes: int) -> int:
        """Return the pairs of all nodes, each counted once."""
        return nodes * (nodes - 1) // 2


JOBS = {
    job.name: job
    for job in (
        Job("news20", "News20", 75_000, "documents", engine="matrix", terms=130_107, length=220),
        Job("rcv1", "RCV1", 75_000, "documents", engine="matrix", terms=47_236, length=105),
        Job("sift30k", "SIFT200K", 100_000, "sift", engine="matrix", limit=30_000),
        Job("sift200k", "SIFT200K", 650_000, "sift", engine="certain"),
        Job("web88m", "WEB88M", 200_000, "documents", "radius", terms=100_000, length=150),
        Job("sift1b", "SIFT1B", 500_000, "sift", "radius"),
        Job("sift1b_knn", "SIFT1B", 500_000, "sift", "neighbours"),
        Job("sift1m", "SIFT1M", 700_000, "sift", engine="certain"),
    )
}
"""In the order in which they run: those that take longest come last."""

NEIGHBOURS = 30
"""Of a graph of mutual neighbours, as in pipelines/sift1b.yaml."""
