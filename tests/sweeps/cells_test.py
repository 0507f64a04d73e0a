"""Which cells a sweep has, and what is refused."""

import pytest

from tests.sweeps.pretending import cells_of, complete, names, yaml_file
from tf_fedsam.errors import InputError
from tf_fedsam.sweeps import cells as making
from tf_fedsam.sweeps.description import describe


def test_product_with_hyper_parameters_only_where_they_exist(tmp_path):
    """2 learning rates; 2 radii for two of three methods; 2 seeds: (2 + 4 + 4) x 2."""
    cells, num_same = cells_of(
        tmp_path,
        algos=["fedavg", "fedsam", "mofedsam"],
        seeds=[3, 4],
        grid=["lr=0.03,0.1", "hparams.rho=0.05,0.1"],
        fixed={"rounds": 7},
    )
    assert (len(cells), num_same) == (20, 0)
    assert [cell.name for cell in cells][:4] == [
        "fedavg-glyphs-lr0.03-seed3",
        "fedavg-glyphs-lr0.1-seed3",
        "fedsam-glyphs-lr0.03-rho0.05-seed3",
        "fedsam-glyphs-lr0.03-rho0.1-seed3",
    ]
    assert [cell.seed for cell in cells] == [3] * 10 + [4] * 10
    third = cells[2]
    assert third.config.given == {
        "algo": "fedsam",
        "dataset": "glyphs",
        "seed": 3,
        "rounds": 7,
        "lr": 0.03,
        "hparams": {"rho": 0.05},
    }
    assert third.run.path == tmp_path / "out" / third.name
    assert third.varied == {"lr": 0.03, "hparams.rho": 0.05}
    assert (third.resolved.lr, third.resolved.hparams["rho"]) == (0.03, 0.05)
    assert all(cell.rounds == 7 for cell in cells)


def test_what_is_said_for_some_replaces_what_is_said_for_all(tmp_path):
    content = {
        "algos": ["fedavg", "fedsam", "fedprox"],
        "datasets": ["glyphs", "mnist"],
        "settings": {"lr_decay": 0.99, "hparams": {"rho": 0.3}},
        "grid": {"lr": [0.01, 0.02]},
        "per_dataset": {"mnist": {"settings": {"lr_decay": 0.98, "lr": 0.5}}},
        "per_algo": {
            "fedsam": {"grid": {"hparams.rho": [0.1, 0.2], "lr": [0.7]}},
            "fedprox": {"settings": {"lr": 0.9}},
        },
    }
    found = {
        (cell.algo, cell.dataset, s.lr, s.lr_decay, s.hparams.get("rho"))
        for cell in cells_of(tmp_path, content)[0]
        for s in [cell.resolved]
    }
    assert found == {
        ("fedavg", "glyphs", 0.01, 0.99, None),
        ("fedavg", "glyphs", 0.02, 0.99, None),
        ("fedavg", "mnist", 0.5, 0.98, None),
        ("fedsam", "glyphs", 0.7, 0.99, 0.1),
        ("fedsam", "glyphs", 0.7, 0.99, 0.2),
        ("fedsam", "mnist", 0.7, 0.98, 0.1),
        ("fedsam", "mnist", 0.7, 0.98, 0.2),
        ("fedprox", "glyphs", 0.9, 0.99, None),
        ("fedprox", "mnist", 0.9, 0.98, None),
    }


def test_what_is_given_beside_a_file_wins(tmp_path):
    file = yaml_file(
        tmp_path,
        "{algos: [fedavg, fedsam], seeds: [0, 1], settings: {rounds: 9, lr_decay: 1},"
        " grid: {lr: [0.1, 0.2]}, per_algo: {fedavg: {settings: {batch_size: 5}}}}",
    )
    (cell,) = cells_of(
        tmp_path, file, algos=["fedsam"], seeds=["5"], grid=["lr=0.4"], fixed={"rounds": 2}
    )[0]
    assert cell.name == "fedsam-glyphs-lr0.4-seed5"
    assert (cell.config.rounds, cell.config.lr_decay) == (2, 1.0)


def test_settings_that_go_together(tmp_path):
    file = yaml_file(
        tmp_path,
        """
        algos: [fedavg]
        grid:
          split: [{partition: iid}, {partition: dirichlet, alpha: 0.6}]
          relaxed_init: [null, 0.1]
        """,
    )
    assert names(tmp_path, file) == [
        f"fedavg-glyphs-{split}-relaxed_init{beta}-seed0"
        for split in ("partition-iid", "alpha0.6-partition-dirichlet")
        for beta in ("-none", "0.1")
    ]


def test_the_same_settings_are_one_cell(tmp_path):
    cells, num_same = cells_of(tmp_path, algos=["fedavg"], grid=["lr=0.1,1e-1,none,0.2"])
    assert [cell.name for cell in cells] == [
        "fedavg-glyphs-lr0.1-seed0",  # also the default
        "fedavg-glyphs-lr0.2-seed0",
    ]
    assert num_same == 2


def test_options_only_where_the_model_has_them(tmp_path):
    grid = ["model=mlp;cnn", "model_options.dense_dropout=0.1,0.2", "hidden_units=50,20;10"]
    with pytest.raises(InputError) as error:
        names(tmp_path, algos=["fedavg"], grid=grid)
    assert "hidden_units is for model=mlp" in str(error.value)
    assert names(tmp_path, algos=["fedavg"], grid=grid[:2]) == [
        "fedavg-glyphs-model-mlp-seed0",
        "fedavg-glyphs-dense_dropout0.1-model-cnn-seed0",
        "fedavg-glyphs-dense_dropout0.2-model-cnn-seed0",
    ]
    assert names(tmp_path, algos=["fedavg"], grid=grid[2:]) == [
        "fedavg-glyphs-hidden_units50x20-seed0",
        "fedavg-glyphs-hidden_units10-seed0",
    ]
    # A model that is fixed for all cells decides, too.
    assert names(tmp_path, algos=["fedavg"], grid=grid[1:2], fixed={"model": "cnn"}) == [
        "fedavg-glyphs-dense_dropout0.1-seed0",
        "fedavg-glyphs-dense_dropout0.2-seed0",
    ]


def test_texts_are_typed_by_what_they_are_for(tmp_path):
    """A number for FedSAM's radius, a whole number, true or false, a text, a list."""
    grid = ["hparams.rho=1", "batch_size=5", "diagnostics=false", "targets=0.5", "hidden_units=7"]
    (cell,) = cells_of(tmp_path, algos=["fedsam"], grid=grid)[0]
    found = [cell.config.get(name.partition("=")[0]) for name in grid]
    assert found == [1.0, 5, False, "0.5", (7,)]
    assert isinstance(found[0], float)


def test_lists_and_numbers_can_stand_for_texts(tmp_path):
    settings = {"targets": [0.5, 0.6], "probes": "none"}
    (cell,) = cells_of(tmp_path, {"algos": ["fedavg"], "settings": settings})[0]
    assert (cell.config.targets, cell.config.probes) == ("0.5,0.6", "none")
    (cell,) = cells_of(tmp_path, {"algos": ["fedavg"], "settings": {"targets": 0.5}})[0]
    assert cell.config.targets == "0.5"


def test_devices_of_cells_that_have_none(tmp_path):
    for settings, expected in (
        ({}, "cpu:3"),
        ({"devices": None}, "cpu:3"),
        ({"devices": "cpu:2"}, "cpu:2"),
    ):
        described = describe({"algos": ["fedavg"], "settings": settings}, out="x")
        assert making.make(described, "cpu:3")[0][0].resolved.devices == expected


def test_a_run_that_stopped_early_is_complete(tmp_path):
    (cell,) = cells_of(tmp_path, algos=["fedavg"], fixed={"rounds": 9, "stop_at": 0.4})[0]
    complete(cell.run.path, cell.resolved, rounds=4)
    assert cell.is_complete()
    (other,) = cells_of(tmp_path, algos=["fedavg"], fixed={"rounds": 9, "stop_at": 0.8})[0]
    assert other.run.path == cell.run.path
    assert not other.is_complete()


def test_a_run_whose_export_is_gone(tmp_path):
    """Begun again while there is a checkpoint to write it from; else its results count."""
    (cell,) = cells_of(tmp_path, algos=["fedavg"], fixed={"rounds": 2})[0]
    complete(cell.run.path, cell.resolved, rounds=2)
    assert cell.is_complete()
    (cell.run.path / "final_weights.npz").unlink()
    assert cell.is_complete()
    cell.run.checkpoints.mkdir()
    (cell.run.checkpoints / "checkpoint-00000002.json").write_text("{}")
    assert cell.run.has_checkpoints()
    assert not cell.is_complete()


def test_all_wrong_cells_at_once(tmp_path):
    with pytest.raises(InputError) as error:
        cells_of(
            tmp_path,
            algos=["fedavg", "fedsm", "fedsam"],
            seeds=["0", "-1"],
            grid=["lr=0.1,x", "hparams.rh=1,2", "no_such=1"],
        )
    text = str(error.value)
    assert text.startswith("The sweep cannot run; nothing was started.\n- ")
    assert "Unknown algorithm 'fedsm'. Did you mean 'fedsam'" in text
    assert "Unknown hyper-parameter of any of fedavg, fedsm, fedsam: 'rh'" in text
    assert "Unknown setting 'no_such'" in text


def test_where_it_is_wrong(tmp_path):
    with pytest.raises(InputError) as error:
        cells_of(tmp_path, algos=["fedavg", "fedsam"], seeds=[0, -1], grid=["lr=0.1,x"])
    assert str(error.value).splitlines()[1:] == [
        "- lr must be a number. Received: 'x'.",
        "  in fedavg-glyphs-lr-x-seed0, fedsam-glyphs-lr-x-seed0, fedavg-glyphs-lr-x-seed-1, "
        "fedsam-glyphs-lr-x-seed-1",
        "- seed must be at least 0. Received: -1.",
        "  in fedavg-glyphs-lr0.1-seed-1, fedsam-glyphs-lr0.1-seed-1",
    ]
    told = error.value.with_flags().splitlines()
    assert told[1::2] == [
        "- --lr must be a number. Received: 'x'.",
        "- --seed must be at least 0. Received: -1.",
    ]
    assert told[2::2] == str(error.value).splitlines()[2::2]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"algos": ["fedavg"], "grid": ["hparams.rho=1"]}, "There is no hyper-parameter of"),
        ({"algos": ["fedsam"], "grid": ["hparams.rho=-1"]}, "rho must be"),
        ({"algos": ["fedsam"], "grid": ["hparams.rho=x"]}, "rho must be a number. Received: 'x'"),
        ({"algos": ["fedavg"], "grid": ["batch_size=0"]}, "batch_size must be"),
        ({"algos": ["fedsam"], "grid": ["hparams.beta=@qu2022"]}, "beta for mofedsam"),
        ({"algos": ["fedavg"], "datasets": ["emnits"]}, "Did you mean 'emnist'"),
        (
            {"algos": ["fedavg"], "grid": ["model=mlp", "model_options.norm=group"]},
            "Unknown option of any of mlp: 'norm'",
        ),
        (
            {"algos": ["fedavg"], "grid": ["lr=0.1,0.1000001"]},
            "would have the same folder. Received: algo=fedavg, lr=0.1 and algo=fedavg, "
            "lr=0.1000001. Use",
        ),
        (
            {"algos": ["fedavg", "fedsam"], "fixed": {"hparams.rho": 0.1}},
            "There is no hyper-parameter of fedavg. Received: hparams.rho. Remove it.\n"
            "  in fedavg-glyphs-seed0",
        ),
        (
            {
                "algos": ["fedavg"],
                "seeds": range(101),
                "grid": [f"lr={','.join(map(str, range(100)))}"],
            },
            "The sweep would have 10,100 cells",
        ),
    ],
)
def test_refused(tmp_path, options, part):
    with pytest.raises(InputError) as error:
        cells_of(tmp_path, **options)
    assert part in str(error.value)


def test_values_tuned_for_one_method_are_said(tmp_path):
    options = {"algos": ["fedavg", "mofedsam"]}
    (note,) = making.tuned_notes(cells_of(tmp_path, **options)[0])
    assert note.startswith("glyphs brings hparams.beta=0.3 for mofedsam")
    set_by_user = cells_of(tmp_path, **options, grid=["hparams.beta=0.1,0.3"])[0]
    assert making.tuned_notes(set_by_user) == []


def test_a_users_own_file_is_read_again(tmp_path):
    """Between two sweeps of a notebook it gets a hyper-parameter."""
    own = tmp_path / "mine.py"
    text = (
        "import dataclasses\nfrom tf_fedsam.algorithms.fedavg import FedAvg\n"
        "class A(FedAvg):\n    @dataclasses.dataclass(frozen=True)\n"
        "    class Hparams:\n        first: float = 0.1\n"
    )
    own.write_text(text)
    assert names(tmp_path, algos=[f"{own}:A"], grid=["hparams.first=1"]) == [
        "mine-A-glyphs-first1-seed0"
    ]
    own.write_text(text + "        second: float = 0.2\n")
    assert names(tmp_path, algos=[f"{own}:A"], grid=["hparams.second=1"]) == [
        "mine-A-glyphs-second1-seed0"
    ]
