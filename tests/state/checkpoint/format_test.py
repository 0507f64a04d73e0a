"""Manifests that somebody made."""

import contextlib

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.state.checkpoint.saving import expected, forge, load, save
from tf_fedsam.state.checkpoint import CheckpointError, CheckpointWriter


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/passwd", "../saved/server-00000003.bin", "server-00000003.bin/../x", "..", "",
     "server-00000003.bin\n", "server-0000000٣.bin", "sub/server-00000003.bin", None, 3],
)  # fmt: skip
@pytest.mark.parametrize("role", ["server", "clients"])
def test_a_manifest_never_leads_out_of_the_folder(saved, name, role):
    folder, (_, second, _) = saved
    original = (folder / "server-00000003.bin").read_bytes()
    (folder.parent / "x").write_bytes(original)

    def change(body):
        entry = body["server"] if role == "server" else body["clients"][0]
        entry["name"] = name
        return body

    forge(folder / "checkpoint-00000003.json", change)
    warnings = []
    assert load(folder, warnings.append) == expected(second)
    assert "checkpoint-00000003.json: it " in warnings[0]
    with CheckpointWriter(folder, keep=1) as writer:
        save(writer, second)
    assert (folder.parent / "x").read_bytes() == original


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4) | st.sampled_from(["float32", "weights", "server-00000002.bin"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)  # fmt: skip


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_forged_manifests_never_crash(saved, data):
    folder, _ = saved
    path = folder / "checkpoint-00000003.json"
    original = path.read_bytes()

    def change(node):
        below = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(below))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            change(node[key])
        elif data.draw(st.booleans()):
            node[key] = data.draw(JSON)
        else:
            del node[key]
        return node

    forge(path, change)
    try:
        # What is forged with care loads, as what it says; else the one before or an explanation.
        with contextlib.suppress(CheckpointError):
            assert load(folder, lambda message: None)[0]["round"] >= 0
    finally:
        path.write_bytes(original)


def test_deep_and_huge_json_is_torn(saved):
    folder, (_, second, _) = saved
    for text in ("[" * 10**5, "1" * 10**4, '{"checkpoint": 1e999, "sha256": ""}', "null", "[]"):
        (folder / "checkpoint-00000003.json").write_text(text)
        warnings = []
        assert load(folder, warnings.append) == expected(second)
        assert "torn or corrupted" in warnings[0]


def test_a_checkpoint_of_another_format_is_refused(saved):
    folder, _ = saved
    forge(folder / "checkpoint-00000003.json", lambda body: {**body, "format": "something else"})
    with pytest.raises(CheckpointError, match="has an unknown format"):
        load(folder)
