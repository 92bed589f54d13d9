"""Settings of every test run: checked annotations, one thread per worker, repeatable examples."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers that each start a thread per core slow one another down.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import jaxtyping
import pytest
import torch
from hypothesis import HealthCheck, settings

import tests.annotations

jaxtyping.install_import_hook("multirel", f"{tests.annotations.__name__}.check")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)

# The first call of a compiled or imported function is slow, so deadlines would be flaky.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=500)
settings.load_profile("default")

EXEMPT_EXTRAS = ("torchvision", "timm")
"""Extras that `--extras-must-run` lets skip: their wheels do not import beside a CPU build of torch."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--extras-must-run",
        action="store_true",
        help="fail tests that skip because an optional package is not installed",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    return _without_missing_extra(report, item.config)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    report = yield
    return _without_missing_extra(report, collector.config)


def _without_missing_extra(report, config: pytest.Config):
    """Return the report of a test, failed if an extra that must run was missing."""
    if not (config.getoption("--extras-must-run") and report.skipped):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    # The words of `pytest.importorskip`.
    if "could not import" in reason and not any(f"'{name}" in reason for name in EXEMPT_EXTRAS):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} must run, but it skipped: {reason}"
    return report
