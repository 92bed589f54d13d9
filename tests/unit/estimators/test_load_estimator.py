"""Estimators come back from a folder with the same predictions to the bit, and nothing in it is run."""

import json
import pickle
from hashlib import sha256

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold
from torch import nn

import multirel.estimators
from multirel.data import make_related_tasks
from multirel.estimators import load_estimator
from multirel.estimators._averaging import average_models
from multirel.estimators._load_estimator import ESTIMATORS
from multirel.estimators._network_images import BackboneModel
from multirel.estimators._saved_files import _checksum
from multirel.exceptions import SavedModelError

DEEP = {"hidden_sizes": (4,), "max_epochs": 2}


def rows(n_classes=None, seed=0):
    return make_related_tasks(3, 30, 5, n_classes=n_classes, seed=seed)


def make(name, **settings):
    if name.endswith("CV"):
        settings = {"grid": {"strength": [0.1, 1.0]}, "cv": 2, **settings}
    if name.startswith("SharedNetwork"):
        settings = {"max_epochs": 2, **settings}
    return ESTIMATORS[name](random_state=0, **settings)


def outputs(estimator, X, **tasks):
    names = ("predict", "predict_proba", "decision_function")
    return [getattr(estimator, name)(X, **tasks) for name in names if hasattr(estimator, name)]


def assert_comes_back(estimator, folder, X, *, network=None, **tasks):
    estimator.save(folder)
    back = load_estimator(folder, network=network)
    assert type(back) is type(estimator)
    for one, other in zip(outputs(estimator, X, **tasks), outputs(back, X, **tasks), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    return back


def same_settings(one, other):
    return {k: repr(v) for k, v in one.get_params().items()} == {
        k: repr(v) for k, v in other.get_params().items()
    }


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_comes_back(tmp_path, name: str):
    data = rows(None if "Regressor" in name else 3)
    estimator = make(name).fit(data.X, data.y, tasks=data.tasks)
    back = assert_comes_back(estimator, tmp_path, data.X, tasks=data.tasks)
    assert same_settings(estimator, back)
    lost = {n for n in vars(estimator) if n.endswith("_")} - set(vars(back))
    assert lost <= {"prior_"}
    if hasattr(estimator, "coef_"):
        np.testing.assert_array_equal(back.coef_, estimator.coef_)
        np.testing.assert_array_equal(back.intercept_, estimator.intercept_)
    if hasattr(estimator, "task_correlation_"):
        np.testing.assert_array_equal(back.task_correlation_, estimator.task_correlation_)
    expected = estimator.score(data.X, data.y, tasks=data.tasks)
    assert back.score(data.X, data.y, tasks=data.tasks) == expected


@pytest.mark.parametrize("name", ["SingleTask", "Pooled", "MeanRegularized", "DMTL", "MRN"])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor", "ClassifierCV"])
def test_networks_come_back(tmp_path, name: str, kind: str):
    data = rows(None if kind == "Regressor" else 3)
    estimator = make(name + kind, **DEEP).fit(data.X, data.y, tasks=data.tasks)
    back = assert_comes_back(estimator, tmp_path, data.X, tasks=data.tasks)
    assert isinstance(back.network_, nn.Module)


def test_averages_of_networks_come_back(tmp_path):
    data = rows(3)
    estimator = make(
        "MRNClassifierCV",
        hidden_sizes=((), (4,)),
        max_epochs=2,
        grid={"strength": [0.1, 0.2]},
        cv=[(np.arange(60), np.arange(60, 90))] * 2,
        selection="average",
        scoring=None,
    )
    estimator.fit(data.X, data.y, tasks=data.tasks)
    estimator.averaged_ = np.arange(4)
    each = [
        make("MRNClassifier", hidden_sizes=sizes, max_epochs=2).fit(
            data.X, data.y, tasks=data.tasks
        )
        for sizes in ((), (4,))
    ]
    estimator.best_estimator_.model_ = average_models(
        [one.model_ for one in each], sizes=[3, 3, 3], is_logistic=True
    )
    assert_comes_back(estimator, tmp_path, data.X, tasks=data.tasks)


def test_averages_behind_one_backbone_come_back_with_one(tmp_path):
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(12, 6)).requires_grad_(False)
    images = np.random.default_rng(0).random((40, 3, 2, 2)).astype(np.float32)
    labels, tasks = np.arange(40) % 2, np.arange(40) // 14
    grid = {"strength": [1.0, 1.001]}
    estimator = make(
        "MRNClassifierCV", backbone=backbone, grid=grid, selection="average", **DEEP
    ).fit(images, labels, tasks=tasks)
    assert len(estimator.averaged_) == 2
    back = assert_comes_back(
        estimator, tmp_path, images, network=nn.Sequential(*backbone), tasks=tasks
    )
    assert isinstance(back.model_, BackboneModel)
    names = load_file(tmp_path / "model.safetensors")
    assert len([name for name in names if "backbone" in name]) == 2


@pytest.mark.parametrize("n_features", [5, 200])
def test_averages_of_linear_models_come_back(tmp_path, n_features: int):
    data = make_related_tasks(3, 30, n_features, seed=0)
    estimator = make("MRNRegressorCV", selection="average", grid={"strength": [1.0, 1.1, 1.2]})
    estimator.fit(data.X, data.y, tasks=data.tasks)
    back = assert_comes_back(estimator, tmp_path, data.X, tasks=data.tasks)
    np.testing.assert_array_equal(back.coef_, estimator.coef_)
    np.testing.assert_array_equal(
        back.cv_results_["mean_test_score"], estimator.cv_results_["mean_test_score"]
    )
    assert back.cv_results_["params"] == estimator.cv_results_["params"]


@pytest.mark.parametrize(
    "names",
    [["a", "b"], [1, 2], [0.0, 2.0], [True, False], ["a", 1]],
    ids=str,
)
def test_labels_of_any_type_come_back(tmp_path, names):
    data = rows(2)
    y = np.empty(len(data), dtype=object)
    y[:] = [names[int(label)] for label in data.y]
    if len({type(name) for name in names}) == 1:
        y = np.array(y.tolist())
    estimator = make("MRNClassifier").fit(data.X, y, tasks=data.tasks)
    back = assert_comes_back(estimator, tmp_path, data.X, tasks=data.tasks)
    assert [type(c) for c in back.classes_] == [type(c) for c in estimator.classes_]


@pytest.mark.parametrize(
    "names", [["a", "b", "c"], [1, 2, 3], [0.5, 1.5, 2.5], ["a", 1, 2.5]], ids=str
)
def test_names_of_tasks_of_any_type_come_back(tmp_path, names):
    data = rows()
    tasks = np.empty(len(data), dtype=object)
    tasks[:] = [names[data.task_names.index(name)] for name in data.tasks]
    estimator = make("MRNRegressor").fit(data.X, data.y, tasks=tasks)
    back = assert_comes_back(estimator, tmp_path, data.X, tasks=tasks)
    assert back.tasks_.tolist() == estimator.tasks_.tolist()


@pytest.mark.parametrize(
    "name",
    ["MRNClassifier", "MRNClassifierCV", "RMTLClassifier", "MTRLRegressor", "PooledRegressor"],
)
def test_tasks_that_were_added_come_back(tmp_path, name: str):
    data = rows(None if "Regressor" in name else 2)
    new = data.tasks == data.task_names[2]
    estimator = make(name).fit(data.X[~new], data.y[~new], tasks=data.tasks[~new])
    assert estimator.add_task(data.X[new], data.y[new], name=data.task_names[2]) is estimator
    back = assert_comes_back(estimator, tmp_path, data.X, tasks=data.tasks)
    assert back.tasks_.tolist() == list(data.task_names)


def test_a_column_per_task_comes_back(tmp_path):
    data = rows()
    wide = np.random.default_rng(0).standard_normal((len(data), 3))
    wide[::2, 1] = np.nan
    estimator = make("MRNRegressor").fit(data.X, wide)
    back = assert_comes_back(estimator, tmp_path, data.X)
    assert back.predict(data.X).shape == wide.shape


def test_tasks_with_their_own_classes_come_back(tmp_path):
    data = rows(3)
    y = np.char.add(data.tasks.astype(str), data.y.astype(str))
    for settings in ({}, DEEP):
        estimator = make("SingleTaskClassifier", **settings).fit(data.X, y, tasks=data.tasks)
        back = assert_comes_back(estimator, tmp_path, data.X, tasks=data.tasks)
        assert isinstance(back.classes_, list)


def test_tasks_of_two_kinds_come_back(tmp_path):
    data = rows(2)
    estimator = make("MRNClassifier", kinds={data.task_names[0]: "regression"}, **DEEP)
    estimator.fit(data.X, data.y.astype(float), tasks=data.tasks)
    estimator.save(tmp_path)
    back = load_estimator(tmp_path)
    expected = estimator.predict(data.X, tasks=data.tasks)
    assert back.predict(data.X, tasks=data.tasks).tolist() == expected.tolist()


def test_tasks_without_labels_come_back(tmp_path):
    data = rows()
    y = data.y.copy()
    y[data.tasks == data.task_names[1]] = np.nan
    estimator = make("MRNRegressor").fit(data.X, y, tasks=data.tasks)
    back = assert_comes_back(estimator, tmp_path, data.X, tasks=data.tasks)
    assert np.isnan(back.task_correlation_[1]).all()


@pytest.mark.parametrize("settings", [{}, DEEP], ids=str)
@pytest.mark.parametrize("is_frozen", [True, False])
def test_backbones_of_the_users_own_need_a_module(tmp_path, settings, is_frozen: bool):
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(12, 6))
    backbone.requires_grad_(not is_frozen)
    images = np.random.default_rng(0).random((30, 3, 2, 2)).astype(np.float32)
    labels, tasks = np.arange(30) % 2, np.arange(30) % 3
    estimator = make("MRNClassifier", backbone=backbone, **{"max_epochs": 1, **settings})
    estimator.fit(images, labels, tasks=tasks)
    other = nn.Sequential(nn.Flatten(), nn.Linear(12, 6))
    assert_comes_back(estimator, tmp_path, images, network=other, tasks=tasks)
    with pytest.raises(ValueError, match="`network` must be given where the backbone was a module"):
        load_estimator(tmp_path)
    with pytest.raises(SavedModelError, match="whose parts fit together"):
        load_estimator(tmp_path, network=nn.Sequential(nn.Flatten(), nn.Linear(12, 7)))


def test_what_cannot_be_written_is_refused_and_leaves_the_old_model(tmp_path):
    data = rows()
    estimator = make("MRNRegressorCV").fit(data.X, data.y, tasks=data.tasks)
    estimator.save(tmp_path)
    other = make("MRNRegressorCV", cv=KFold(2)).fit(data.X, data.y, tasks=data.tasks)
    with pytest.raises(TypeError, match="`cv` must be made of numbers, .* save `best_estimator_`"):
        other.save(tmp_path)
    assert load_estimator(tmp_path).cv == 2
    other.best_estimator_.save(tmp_path)
    assert load_estimator(tmp_path).strength == other.best_params_["strength"]


def test_an_estimator_that_is_not_fitted_is_not_saved(tmp_path):
    for name in ("MRNRegressor", "MRNRegressorCV"):
        with pytest.raises(NotFittedError):
            make(name).save(tmp_path)
    assert not list(tmp_path.iterdir())


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was read",))


def test_pickles_in_the_folder_are_never_read(tmp_path):
    data = rows()
    make("MRNRegressor").fit(data.X, data.y, tasks=data.tasks).save(tmp_path)
    for name in ("model.pkl", "model.pickle", "model.joblib", "model.pt", "data.pkl"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    load_estimator(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(SavedModelError):
        load_estimator(tmp_path)


@pytest.fixture
def saved(tmp_path):
    """A folder, and a function that changes what is in it and makes the checksums fit."""
    data = rows(2)
    make("MRNClassifier").fit(data.X, data.y, tasks=data.tasks).save(tmp_path)

    def change(tensors=None, code=None):
        path = tmp_path / "model.safetensors"
        if tensors is not None:
            found = load_file(path)
            tensors(found)
            save_file(found, path)
        description = json.loads((tmp_path / "model.json").read_text())
        if code is not None:
            code(description["estimator"])
        description.pop("checksum")
        description["tensors"] = sha256(path.read_bytes()).hexdigest()
        description["checksum"] = _checksum(description)
        (tmp_path / "model.json").write_text(json.dumps(description))
        return tmp_path

    return change


def test_a_folder_with_new_checksums_and_no_change_is_read(saved):
    load_estimator(saved())


WEIGHTS = "model_.weights.0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t[WEIGHTS].fill_(float("nan")),
            "'weights.0' of the model holds NaN or infinity",
        ),
        (lambda t: t.update({WEIGHTS: torch.zeros(1, 4)}), "fit together"),
        (lambda t: t.pop(WEIGHTS), "they differ in weights.0"),
        (lambda t: t.pop("model_.intercepts.1"), "they differ in intercepts.1"),
        (
            lambda t: [
                t.update({f"model_.weights.{k}": torch.zeros(1, 6).double()}) for k in range(3)
            ],
            "weights of shape .1, 6. are not those of 1 outputs and 5 features",
        ),
    ],
    ids=["nan", "shape", "missing", "intercept", "features"],
)
def test_tensors_that_do_not_fit_are_refused(saved, change, message: str):
    folder = saved(tensors=change)
    with pytest.raises(SavedModelError, match=message):
        load_estimator(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update({"class": "Popen"}), "'Popen' is no estimator of multirel"),
        (lambda c: c.update({"class": "os.system"}), "'os.system' is no estimator of multirel"),
        (lambda c: c["settings"].update(power=1), "other settings: they differ in power"),
        (lambda c: c["settings"].pop("strength"), "other settings: they differ in strength"),
        (
            lambda c: c["learned"].update(__class__=1),
            "'__class__' is nothing that an estimator learns",
        ),
        (lambda c: c["learned"].update(fit=1), "'fit' is nothing that an estimator learns"),
        (lambda c: c["learned"].pop("tasks_"), "fit together"),
        (lambda c: c["learned"].update(tasks_=["a"]), "the model has 3 tasks where 1 have names"),
        (lambda c: c["model"].update(form="code"), "expected the form"),
        (lambda c: c.pop("settings"), "fit together"),
        (lambda c: c.clear(), "fit together"),
    ],
    ids=range(11),
)
def test_descriptions_that_do_not_fit_are_refused(saved, change, message: str):
    folder = saved(code=change)
    with pytest.raises(SavedModelError, match=message):
        load_estimator(folder)


def test_every_estimator_can_be_loaded():
    public = {n for n in multirel.estimators.__all__ if n.endswith(("fier", "ssor", "CV"))}
    assert public <= set(ESTIMATORS)
