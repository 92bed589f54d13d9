"""What all classifiers say about rows: classes, scores and probabilities."""

import numpy as np
import pytest

from multirel.estimators import MRNClassifier, SingleTaskClassifier

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
TASKS = np.repeat(["a", "b", "c"], 20)
WEIGHTS = RNG.standard_normal((3, 3))
NUMBER = np.repeat([0, 1, 2], 20)
SCORES = np.einsum("nf,nf->n", X, WEIGHTS[NUMBER])
BINARY = np.where(SCORES > 0, "yes", "no")
THREE = np.digitize(SCORES, [-0.7, 0.7])


def fitted(y, **settings):
    tasks = settings.pop("tasks", TASKS)
    return SingleTaskClassifier(**settings).fit(X, y, tasks=tasks)


def test_two_classes_have_one_score_and_two_probabilities():
    estimator = fitted(BINARY)
    scores = estimator.decision_function(X, tasks=TASKS)
    probabilities = estimator.predict_proba(X, tasks=TASKS)
    assert scores.shape == (60,)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-scores)))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(estimator.predict_log_proba(X, tasks=TASKS), np.log(probabilities))
    expected = np.where(scores > 0, "yes", "no")
    np.testing.assert_array_equal(estimator.predict(X, tasks=TASKS), expected)
    assert estimator.multi_class_ == "binary"
    assert estimator.notes_ == ()


def test_more_classes_have_a_score_each():
    estimator = fitted(THREE)
    scores = estimator.decision_function(X, tasks=TASKS)
    probabilities = estimator.predict_proba(X, tasks=TASKS)
    assert scores.shape == probabilities.shape == (60, 3)
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, expected)
    np.testing.assert_array_equal(estimator.predict(X, tasks=TASKS), scores.argmax(axis=1))
    assert estimator.multi_class_ == "softmax"


def test_the_squared_loss_has_no_probabilities():
    estimator = fitted(THREE, loss="squared")
    assert not hasattr(estimator, "predict_proba")
    assert not hasattr(estimator, "predict_log_proba")
    assert estimator.multi_class_ == "one-vs-rest"
    assert "3 classes are told apart one-vs-rest" in estimator.notes_[0]
    with pytest.raises(AttributeError, match="predict_proba") as error:
        estimator.predict_proba(X)
    assert "needs loss='logistic': got 'squared'. Use `decision_function`" in str(
        error.value.__cause__
    )


def test_overlapping_but_different_classes_are_shared_and_a_line_says_so(capsys):
    y = np.where((TASKS == "a") & (THREE == 2), 1, THREE)
    estimator = fitted(y, verbose=True)
    assert estimator.classes_.tolist() == [0, 1, 2]
    assert "all 3 classes are shared by all tasks" in estimator.notes_[0]
    assert "SingleTaskClassifier: Tasks have different classes" in capsys.readouterr().err


def test_where_it_is_meant_that_classes_are_shared_nothing_is_said():
    y = np.where((TASKS == "a") & (THREE == 2), 1, THREE)
    assert fitted(y, classes="shared").notes_ == ()


def test_predictions_of_all_tasks_have_a_column_each():
    y = np.stack([BINARY] * 2, axis=1).astype(object)
    y[::2, 0] = None
    estimator = fitted(y, tasks=None)
    predicted = estimator.predict(X)
    assert predicted.shape == (60, 2)
    assert estimator.predict_proba(X).shape == (60, 2, 2)
    assert estimator.decision_function(X).shape == (60, 2)
    for task in (0, 1):
        np.testing.assert_array_equal(estimator.predict(X, tasks=[task] * 60), predicted[:, task])
    right = [np.mean(predicted[1::2, 0] == y[1::2, 0]), np.mean(predicted[:, 1] == y[:, 1])]
    assert estimator.score(X, y) == pytest.approx(np.mean(right))


def test_the_score_is_the_average_of_the_tasks_accuracies():
    estimator = fitted(BINARY)
    weight = np.linspace(0, 1, 60)
    right = estimator.predict(X, tasks=TASKS) == BINARY
    expected = [np.average(right[TASKS == t], weights=weight[TASKS == t]) for t in "abc"]
    found = estimator.score(X, BINARY, tasks=TASKS, sample_weight=weight)
    assert found == pytest.approx(np.mean(expected))


class TestOwnClassesAndKinds:
    """Without a network they are refused, so that a model is put in its place here."""

    class Model:
        is_one_vs_rest = False

        def scores(self, x, task):
            return np.asarray(x)

    def fitted(self, classes_of, kinds=None):
        estimator = SingleTaskClassifier(hidden_sizes=(4,))
        estimator.tasks_ = np.array(["a", "b"])
        estimator.was_wide_, estimator.n_features_in_, estimator.notes_ = False, 2, ()
        estimator.classes_of_, estimator.classes_ = classes_of, list(classes_of)
        estimator.has_own_classes_ = True
        estimator.kinds_ = kinds or ("classification",) * 2
        estimator.model_ = self.Model()
        return estimator

    def test_each_task_predicts_its_own_classes(self):
        estimator = self.fitted((np.array(["u", "v"]), np.array(["x", "y", "z"])))
        estimator.n_features_in_ = 3
        scores = np.array([[2.0, -np.inf, -np.inf], [1.0, 2.0, 3.0]])
        assert estimator.predict(scores[:, :3].clip(-9), tasks=["a", "b"]).tolist() == ["v", "z"]
        probabilities = estimator.predict_proba(scores.clip(-9), tasks=["a", "b"])
        assert probabilities.shape == (2, 3)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        np.testing.assert_allclose(probabilities[0, 1], 1 / (1 + np.exp(-2)))
        assert probabilities[0, 2] == 0
        decided = estimator.decision_function(scores.clip(-9), tasks=["a", "b"])
        np.testing.assert_allclose(decided, [[0, 2, -np.inf], [1, 2, 3]])

    def test_numbers_stand_beside_classes(self):
        estimator = self.fitted((np.array(["u", "v"]), None), ("classification", "regression"))
        predicted = estimator.predict(np.array([[2.0, 0], [7.0, 0]]), tasks=["a", "b"])
        assert predicted.tolist() == ["v", 7.0]
        assert predicted.dtype == object
        probabilities = estimator.predict_proba(np.array([[2.0, 0], [7.0, 0]]), tasks=["a", "b"])
        assert np.isnan(probabilities[1]).all()
        assert not np.isnan(probabilities[0]).any()

    def test_scores_of_different_kinds_are_not_averaged(self):
        estimator = self.fitted((np.array(["u", "v"]), None), ("classification", "regression"))
        with pytest.raises(
            ValueError, match="must be of tasks that all predict classes: got 'b' with kinds"
        ):
            estimator.score(np.zeros((1, 2)), ["u"], tasks=["a"])

    def test_a_task_without_classes_predicts_nothing(self):
        estimator = self.fitted((np.array(["u", "v"]), np.array([])))
        assert estimator.predict(np.zeros((1, 2)), tasks=["a"]).tolist() == ["u"]
        with pytest.raises(
            ValueError, match="where classes are per task: got 'b', which has none. Leave"
        ):
            estimator.predict(np.zeros((1, 2)), tasks=["b"])


def test_methods_that_relate_tasks_with_own_classes_need_a_hidden_layer():
    y = np.where(TASKS == "a", BINARY, np.char.add(BINARY, "!"))
    y[TASKS == "c"] = np.char.add(BINARY[TASKS == "c"], "?")
    with pytest.raises(
        ValueError, match=r"`hidden_sizes` must have a layer.*Use `hidden_sizes=\(256,\)`"
    ):
        MRNClassifier().fit(X, y, tasks=TASKS)


def test_notes_are_those_of_the_last_fit():
    estimator = fitted(THREE, loss="squared")
    assert estimator.fit(X, BINARY, tasks=TASKS).notes_ == ()
