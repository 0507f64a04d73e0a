"""Curves of a comparison in matplotlib."""

import numpy as np
import pytest

import tf_fedsam
from tests.comparison.fake_runs import make_run, make_sweep
from tests.report.pages import last_accuracy
from tf_fedsam import looks
from tf_fedsam.errors import InputError


@pytest.fixture
def folder(tmp_path):
    return make_sweep(tmp_path / "runs", ("fedavg", "fedsam"), 2, probe_every=5)


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_a_line_is_the_mean_over_seeds(folder, tmp_path):
    figure = tf_fedsam.compare(folder).plot()
    (axes,) = figure.axes
    found = lines(axes)
    assert set(found) == {"FedAvg", "FedSAM"}
    mean = np.mean([last_accuracy(folder / f"fedavg-{seed}") for seed in (0, 1)])
    assert found["FedAvg"].get_ydata()[-1] == pytest.approx(mean)
    assert found["FedAvg"].get_xdata().tolist() == list(range(1, 21))
    assert len(axes.collections) == 2  # a band each
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(found)
    assert found["FedSAM"].get_color() == looks.line("fedsam")["color"]
    assert found["FedAvg"].get_color() == looks.line("fedavg")["color"]
    assert found["FedSAM"].get_marker() != found["FedAvg"].get_marker()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("round", "Test accuracy")
    figure.savefig(tmp_path / "a.png")
    assert axes.yaxis.get_major_formatter()(0.5) == "50%"


def test_other_numbers_over_other_costs(folder):
    (axes,) = tf_fedsam.compare(folder).plot("flatness_distance", over="bytes").axes
    line = lines(axes)["FedAvg"]
    assert line.get_xdata()[-1] == pytest.approx(20 * 6 * 0.8)  # 20 rounds of 6 models, in MB
    assert axes.get_yscale() == "log"
    assert axes.get_xlabel() == "MB sent, down and up"
    (axes,) = tf_fedsam.compare(folder).plot("client_train_accuracy_std").axes
    assert axes.get_ylabel() == "Client train accuracy std"


def test_problems_have_axes_of_their_own(folder, tmp_path):
    for rounds in (3, 4):
        make_run(folder / f"r{rounds}", algo="_Own", rounds=rounds)
    comparison = tf_fedsam.compare(folder)
    figure = comparison.plot()
    assert [axes.get_title() for axes in figure.axes] == [
        comparison.title(section) for section in comparison.sections
    ]
    (legend,) = [a.get_legend() for a in figure.axes if "3 rounds" in a.get_title()]
    assert [text.get_text().strip() for text in legend.get_texts()] == ["_Own"]
    figure.savefig(tmp_path / "a.png")


def test_styles_tell_all_series_apart(tmp_path):
    for i in range(12):
        make_run(tmp_path / f"{i}", algo="fedsam", hparams={"rho": i}, rounds=3, plain=True)
    comparison = tf_fedsam.compare(tmp_path)
    (axes,) = comparison.plot().axes
    looks_of = {
        (ln.get_color(), str(ln._unscaled_dash_pattern), ln.get_marker()) for ln in axes.lines
    }
    assert len(looks_of) == 12
    assert len(comparison.plot(max_curves=3).axes[0].lines) == 3


def test_numbers_that_the_logs_do_not_have(folder):
    comparison = tf_fedsam.compare(folder)
    with pytest.raises(InputError, match="Did you mean 'test_accuracy'"):
        comparison.plot("test_acuracy")
    with pytest.raises(InputError, match="Expected one of: bytes, gradient_evaluations"):
        comparison.plot(over="energy")


def test_long_labels_are_below_the_axes(tmp_path):
    for name in ("one", "two"):
        make_run(tmp_path / name, algo="fedsam", hparams={"rho": name * 10}, plain=True)
    figure = tf_fedsam.compare(tmp_path).plot()
    figure.savefig(tmp_path / "a.png")
    (axes,) = figure.axes
    legend = axes.get_legend().get_window_extent()
    assert legend.y1 < axes.get_window_extent().y0
    assert legend.y0 >= 0
    assert figure.get_figheight() > 4
