"""Where workers are, as TF_CONFIG says it: every usual form is understood, everything else refused in words."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import places
from helpers.errors import ClusterError
from helpers.places import Place

TWO = ["10.0.0.1:4711", "10.0.0.2:4711"]


def config(worker=TWO, kind="worker", index=0, **jobs) -> str:
    return json.dumps({"cluster": {**jobs, "worker": worker}, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("text", "addresses", "index"),
    [
        (config(), TWO, 0),
        (config(index=1), TWO, 1),
        (config(index="1"), TWO, 1),
        (config(chief=["boss:80"], kind="chief"), ["boss:80", *TWO], 0),
        (config(chief=["boss:80"], index=1), ["boss:80", *TWO], 2),
        (config(["alone:65535"]), ["alone:65535"], 0),
        (config(["[::1]:4711", "gpu-1.cs.example_x:1"]), ["[::1]:4711", "gpu-1.cs.example_x:1"], 0),
    ],
)
def test_every_usual_form_of_tf_config_gives_the_place(text, addresses, index):
    """A chief comes before all workers, as TensorFlow counts them."""
    assert places.read(text) == Place(tuple(addresses), index)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "TF_CONFIG is not set"),
        (" \n", "TF_CONFIG is not set"),
        ("{'cluster': {}}", "is not JSON: \"{'cluster"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "no 'cluster'"),
        ('{"cluster": {"worker": ["a:1"]}}', "no 'task'"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}}', "no 'index'"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"index": 0}}', "no 'type'"),
        ('{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}', "no 'worker'"),
        (config({"0": "a:1"}), "no 'worker', or it is of the wrong kind"),
        (config("a:1"), "no 'worker'"),
        (config(chief="a:1"), "no 'chief'"),
        (config(chief=["a:1", "b:1"]), "one chief at most"),
        (config(kind="chief"), "of a job of the cluster"),
        (config(kind="evaluator"), "of a job of the cluster"),
        (config(ps=["a:1"]), r"Only the jobs chief and worker .* \['ps', 'worker'\]"),
        (config(evaluator=["a:1"]), "Only the jobs chief and worker"),
        (config(index=None), "no 'index'"),
        (config(index=1.0), "no 'index'"),
        (config(index=True), "no worker True"),
        (config(index="one"), "no worker 'one'"),
        (config(index=-1), "no worker -1"),
        (config(index=2), "no worker 2 of 2: the first has index 0"),
        (config(chief=["a:1"], index=2), "no worker 2 of 2"),
        (config([]), "no worker 0 of 0"),
        (config(["a:1", "A:1"]), r"twice in \['a:1', 'A:1'\]"),
        (config(chief=["a:1"], worker=["a:1"]), "twice"),
        (config([4711]), "4711 is not the address"),
        (config(["a"]), "'a' is not the address"),
        (config(["a:"]), "'a:' is not the address"),
        (config([":1"]), "':1' is not the address"),
        (config(["a:0"]), "'a:0' is not the address"),
        (config(["a:65536"]), "'a:65536' is not the address"),
        (config(["a:b"]), "'a:b' is not the address"),
        (config(["::1:4711"]), r"'::1:4711' is not the address .*\[IPv6\]:port"),
        (config(["http://a:80"]), "is not the address"),
        (config(["a:1\n"]), "is not the address"),
    ],
)
def test_a_wrong_tf_config_is_refused_in_words(text, words):
    """What is wrong, what it should look like, and what to do."""
    with pytest.raises(ClusterError, match=words) as caught:
        places.read(text)

    assert places.EXAMPLE in str(caught.value)
    assert "Set it for each worker before it starts" in str(caught.value)
    assert len(str(caught.value)) < 700


def test_the_example_in_the_error_is_accepted():
    """Nobody is sent from one error to the next."""
    assert places.read(places.EXAMPLE) == Place(tuple(TWO), 0)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["worker", "chief", "a:1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=50)
@given(
    st.one_of(
        st.text(),
        st.builds(config, ANY_JSON, ANY_JSON, ANY_JSON),
        st.builds(config, kind=st.sampled_from(["worker", "chief"]), index=st.integers(), chief=ANY_JSON),
        st.builds(config, st.lists(st.text())),
    )
)
def test_any_text_is_a_place_or_one_kind_of_error(text):
    """Nothing else may come out of `read`."""
    try:
        assert places.read(text).own
    except ClusterError:
        pass


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:1", True),
        ("127.8.8.8:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("LocalHost:1", True),
        ("0.0.0.0:1", False),
        ("10.0.0.1:1", False),
        ("[fe80::1]:1", False),
        ("localhost.example.org:1", False),
        ("127.example.org:1", False),
    ],
)
def test_loopback_is_what_only_this_machine_can_reach(address, expected):
    """A name that only begins like one is none."""
    assert places.is_loopback(address) is expected
