"""Names of cells: old folders must be found again, so they never change."""

from tests.sweeps.pretending import names
from tf_fedsam.sweeps.names import cell_name, short


def test_values():
    varied = {
        "lr": 10**-0.5,
        "hparams.rho": 0.05,
        "hidden_units": (50, 20),
        "replacement": True,
        "relaxed_init": None,
        "trainable": "head|norm.*",
        "client_schedule": "some/where/times.json",
        "model": "my/nets.py:tiny",
        "targets": "",
        "lr_decay": -1.0,
        "seed_like": 3,
    }
    assert cell_name("fedsam", "tfds:cats", 4, varied) == (
        "fedsam-tfds-cats-client_schedule-times-hidden_units50x20-lr0.316228-lr_decay-1-"
        "model-nets-tiny-relaxed_init-none-replacement-true-rho0.05-seed_like3-targets-none-"
        "trainable-head-norm.-seed4"
    )


def test_names_stay_when_others_are_added_or_the_order_changes(tmp_path):
    few = names(tmp_path, algos=["fedsam"], grid=["lr=0.1", "hparams.rho=0.1"])
    many = names(
        tmp_path,
        algos=["fedavg", "fedsam"],
        seeds=[1, 0],
        grid=["hparams.rho=0.2,0.1", "lr=0.3,0.1"],
    )
    assert set(few) < set(many)


def test_names_of_what_has_a_setting_of_the_same_name(tmp_path):
    assert (short("hparams.rho"), short("hparams.alpha"), short("lr")) == (
        *("rho", "hparams.alpha", "lr"),
    )
    assert names(tmp_path, algos=["fedcm"], grid=["hparams.alpha=0.5", "alpha=0.2"]) == [
        "fedcm-glyphs-alpha0.2-hparams.alpha0.5-seed0"
    ]


def test_names_of_files(tmp_path):
    own = tmp_path / "mine.py"
    own.write_text("from tf_fedsam.algorithms.fedavg import FedAvg\nclass A(FedAvg): ...\n")
    assert names(tmp_path, algos=[f"{own}:A"]) == ["mine-A-glyphs-seed0"]


def test_long_names_are_cut_and_stay_different(tmp_path):
    files = [f"{'a' * 200}{i}" for i in range(2)]
    found = names(
        tmp_path,
        algos=["fedavg"],
        datasets=["npz"],
        grid=[f"data_file={','.join(f'/data/{name}.npz' for name in files)}"],
    )
    # The digits are of the settings: they are those of folders that were made since files of
    # arrays have a least cohort.
    assert [name[-8:] for name in found] == ["9c2956ed", "82bd7418"]
    assert {len(name) for name in found} == {150}
    assert all(name.startswith("fedavg-npz-data_file-aaa") for name in found)
