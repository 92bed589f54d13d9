"""Weight files, data and photographs that are no part of multirel; tests read them where they are."""

import csv
import os
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

__all__ = ["find_photograph", "find_shared", "open_office_images"]

BESIDE_THE_CHECKOUT = Path(__file__).parents[3] / "shared"

PHOTOGRAPHS = {
    "china.jpg": ("sklearn", "scikit-learn", "datasets/images"),
    "flower.jpg": ("sklearn", "scikit-learn", "datasets/images"),
    "chelsea.png": ("skimage", "scikit-image", "data"),
    "coffee.png": ("skimage", "scikit-image", "data"),
    "rocket.jpg": ("skimage", "scikit-image", "data"),
    "motorcycle_left.png": ("skimage", "scikit-image", "data"),
}
"""Photographs that other packages bring: the module, the package and the folder."""


def find_shared(path: str) -> Path:
    """Return a path in the folder of shared data, or skip the test."""
    folder = Path(os.environ.get("MULTIREL_SHARED") or BESIDE_THE_CHECKOUT)
    if not (folder / path).exists():
        pytest.skip(f"the shared data is absent: there is no {folder / path}")
    return folder / path


def find_photograph(name: str) -> Path:
    """Return the path of a photograph that scikit-learn or scikit-image brings, or skip the test."""
    module, package, folder = PHOTOGRAPHS[name]
    spec = find_spec(module)
    path = None if spec is None else Path(str(spec.origin)).parent / folder / name
    if path is None or not path.is_file():
        pytest.skip(f"{package}, which brings the photograph {name}, is absent")
    return path


def open_office_images(task: str) -> tuple[list[Image.Image], list[int]]:
    """Return the photographs of one task of Office-Caltech and the labels of their classes."""
    folder = find_shared("data/office-caltech10")
    with (folder / "images.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["task_name"] == task]
    images = []
    with tarfile.open(folder / "images.tar") as archive:
        for row in rows:
            stored = archive.extractfile(row["path"])
            with Image.open(stored) as image:
                images.append(image.convert("RGB"))
    return images, [int(row["label"]) for row in rows]
