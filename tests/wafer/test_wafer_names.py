"""Names as people write them: one is found, several are asked about, near ones are named, and nothing is guessed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wafer_model import WaferModelError
from wafer_model.catalogue import BUILDERS, build_network
from wafer_model.names import find_name
from wafer_model.systems import find_system

NAMES = tuple(BUILDERS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("gptj", "gptj_6b"),
        ("GPT-J", "gptj_6b"),
        ("gpt-j 6B", "gptj_6b"),
        ("fcmnist", "fc_mnist"),
        ("bert-l", "bert_large"),
        ("GPT-3XL", "gpt3_xl"),
        ("ResNet-50", "resnet50"),
        ("resnet", "resnet50"),
        ("llama3", "llama3_8b"),
        ("u-net", "unet"),
    ],
)
def test_a_network_is_found_by_the_name_that_people_use(typed: str, meant: str) -> None:
    assert find_name(typed, NAMES, "network") == meant


@pytest.mark.parametrize(
    ("typed", "candidates"),
    [
        ("gpt2", "gpt2_small, gpt2_medium, gpt2_large, gpt2_xl"),
        ("T5", "t5_small, t5_base, t5_large"),
        ("bert", "bert_base, bert_large"),
        ("llama", "llama_7b, llama3_8b"),
    ],
)
def test_of_several_the_user_is_asked(typed: str, candidates: str) -> None:
    with pytest.raises(WaferModelError, match=rf"^which network is '{typed}'\? {candidates}$"):
        build_network(typed)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("berrt_large", "did you mean .*bert_large"),
        ("mnist", "did you mean .*fc_mnist"),
        ("llama2_7b", "did you mean .*llama_7b"),
        ("resnet5", "did you mean .*resnet50"),
        *((typed, "did you mean") for typed in ("gpt3.5", "gpt3_1", "gpt3_6", "esm2_3")),  # no number is taken for a longer one
        *((typed, "one of fc_mnist, .*or a YAML file") for typed in ("", "--", "zzz", "数据")),
    ],
)
def test_a_near_miss_is_not_taken_but_named_and_what_is_like_no_name_lists_all(typed: str, message: str) -> None:
    with pytest.raises(WaferModelError, match=rf"unknown network '{typed}': {message}"):
        build_network(typed)


@given(st.sampled_from(NAMES), st.sampled_from(["-", "_", " "]), st.booleans())
def test_signs_and_case_between_the_words_do_not_matter(name: str, sign: str, is_upper: bool) -> None:
    typed = name.replace("_", sign)
    assert find_name(typed.upper() if is_upper else typed, NAMES, "network") == name


@given(st.one_of(st.text(max_size=20), st.builds(lambda name, length: name[:length], st.sampled_from(NAMES), st.integers(1, 20))))
def test_whatever_is_typed_the_answer_is_a_network_that_begins_so_or_a_message(typed: str) -> None:
    try:
        found = find_name(typed, NAMES, "network")
    except WaferModelError:
        return
    plain_name, plain = (re.sub("[^a-z0-9]", "", text.lower()) for text in (found, typed))
    assert plain
    assert plain_name.startswith(plain)


@pytest.mark.parametrize("name", ["CS-1", "CS-2", "CS-3"])
def test_every_system_has_fewer_usable_cores_and_says_how_its_peaks_were_worked_out(name: str) -> None:
    system = find_system(name)
    assert system.io_bytes_per_s == 150e9  # 1.2 Tb/s
    assert system.usable_cores < system.cores
    assert system.peak_origin


def test_systems_follow_the_same_rule() -> None:
    assert find_system("cs2").name == "CS-2"
    with pytest.raises(WaferModelError, match=r"which system is 'cs'\? CS-1, CS-2, CS-3"):
        find_system("cs")
