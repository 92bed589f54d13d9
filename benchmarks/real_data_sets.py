"""Real data of several tasks, read from a folder that is not part of the package."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

MOST_ROWS = 2000
SIDE = 16
OMNIGLOT_SIDE = 28


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Rows of several tasks, and how methods are compared on them."""

    X: np.ndarray
    y: np.ndarray
    tasks: np.ndarray
    metric: str
    fraction: float
    hidden_sizes: tuple[int, ...] = ()


def school(folder: Path) -> DataSet:
    """Exam scores of 139 schools; the constant column is left out."""
    with np.load(folder / "school" / "school.npz") as file:
        features = file["X"][:, :-1].astype(np.float64)
        return DataSet(
            X=features, y=file["y"].astype(np.float64), tasks=file["task"],
            metric="explained-variance", fraction=0.3,
        )  # fmt: skip


def landmine(folder: Path) -> DataSet:
    """Mines in 29 fields."""
    with np.load(folder / "landmine" / "landmine.npz") as file:
        return DataSet(X=file["X"], y=file["y"], tasks=file["task"], metric="roc-auc", fraction=0.3)


def surf(folder: Path) -> DataSet:
    """Square roots of SURF counts of Office-Caltech: 4 tasks, 10 classes, 800 features."""
    with np.load(folder / "office-caltech10" / "surf_l10_800.npz") as file:
        counts = np.sqrt(file["X"].astype(np.float64))
        tasks = file["task_names"][file["task"]]
        return DataSet(X=counts, y=file["y"], tasks=tasks, metric="accuracy", fraction=0.1)


def digits(folder: Path) -> DataSet:
    """Digits of three sources as images of 16 × 16, at most 2000 of each."""
    images, labels, tasks = [], [], []
    for name, side in (("mnist", 28), ("usps", 16), ("optdigits", 8)):
        with np.load(folder / "digits" / f"{name}.npz") as file:
            x, y = file["X"], file["y"]
        chosen = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
        x = x[chosen].astype(np.float32)
        x = (255 * x / x.max()).reshape(-1, side, side)
        images.append(np.stack([_resized(image, SIDE) for image in x]))
        labels.append(y[chosen].astype(np.int64))
        tasks.append(np.full(len(chosen), name))
    return DataSet(
        X=np.concatenate(images) / 255, y=np.concatenate(labels), tasks=np.concatenate(tasks),
        metric="accuracy", fraction=0.05,
    )  # fmt: skip


def omniglot(folder: Path) -> DataSet:
    """Characters of 8 alphabets, each with its own classes, as images of 28 × 28."""
    with np.load(folder / "omniglot-small" / "omniglot_small.npz") as file:
        ink = np.unpackbits(file["X"], axis=1)[:, :11025].reshape(-1, 105, 105)
        y, tasks, names = file["y"], file["task"], file["task_names"]
    images = np.stack([_resized(255.0 * image, OMNIGLOT_SIDE) for image in ink])
    # Classes are numbered anew in every alphabet: the name makes them different.
    labels = np.array([f"{names[t]} {c}" for t, c in zip(tasks, y, strict=True)])
    return DataSet(
        X=images / 255, y=labels, tasks=names[tasks], metric="accuracy", fraction=0.2, hidden_sizes=(128,)
    )  # fmt: skip


def _resized(image: np.ndarray, side: int) -> np.ndarray:
    picture = Image.fromarray(image.astype(np.float32), mode="F")
    return np.asarray(picture.resize((side, side), Image.Resampling.BOX)).ravel()


DATA_SETS: dict[str, Callable[[Path], DataSet]] = {
    "school": school,
    "landmine": landmine,
    "surf": surf,
    "digits": digits,
    "omniglot": omniglot,
}


def train_rows(data: DataSet, *, seed: int) -> np.ndarray:
    """A mask of training rows: of every class of every task, or of every task where y is a number."""
    rng = np.random.default_rng(seed)
    mask = np.zeros(len(data.y), dtype=bool)
    is_number = data.y.dtype.kind == "f"
    for task in np.unique(data.tasks):
        mine = data.tasks == task
        groups = [mine] if is_number else [mine & (data.y == c) for c in np.unique(data.y[mine])]
        for group in groups:
            rows = rng.permutation(np.flatnonzero(group))
            mask[rows[: max(1, round(data.fraction * len(rows)))]] = True
    return mask
