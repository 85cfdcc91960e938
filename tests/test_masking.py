"""What is a secret, and what is none: a key decides, and the words of input functions are no secrets."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from cs_input_analyzer.errors import InputFunctionError, UsageError
from cs_input_analyzer.masking import MASK, Secrets, hide_in, is_secret, masked_command, masked_params, masked_places, masked_words
from cs_input_analyzer.model.params import filled

FIRES = [
    *(("api_key", "SECRET123"), ("apiKey", "x" * 20), ("API_KEY", "abc"), ("api-key", "abc"), ("apikey", 12345)),
    *(("token", "TOKSECRET"), ("train_input.token", "TOKSECRET"), ("hf_token", "hf_abc"), ("access_token", "abc")),
    *(("use_auth_token", "hf_AbCdEf"), ("WANDB_API_KEY", "0123abcd"), ("auth_token", "abc"), ("refresh_token", "word")),
    *(("password", "hunter2"), ("db_password", 1234), ("dbpassword", "a b"), ("passwd", "x"), ("passphrase", "x"), ("pwd", "x")),
    *(("secret", "word"), ("client_secret", "word"), ("aws_secret_access_key", "wJalr"), ("aws_access_key_id", "AKIA123")),
    *(("credentials", "abc"), ("credential", "abc"), ("auth", "user:pass"), ("http_auth", "abc"), ("authorization", "Basic abc")),
    *(
        ("secrets.wandb", "word"),
        ("credentials.value", "word"),
        ("key", "SECRET123"),
        ("key", "3fa9c01b77de"),
        ("foo_key", "A1B2C3D4"),
    ),
    *(("foo_token", "eyJhbGciOi"), ("private_key", "word"), ("ssh_key", "word"), ("api_keys", "word"), ("pass", "S3cr3tPass")),
]
SILENT = [
    *(
        ("keys", "abcDEF123"),
        ("tokenizer", "bert-base-uncased"),
        ("tokenizer_path", "/x"),
        ("monkey", "ABC123DEF"),
        ("max_tokens", 512),
    ),
    *(("num_tokens", 512), ("num_tokens", "512"), ("tokens_per_sample", 128), ("primary_key", "ID"), ("sort_key", "A1B2C3D4")),
    *(("feature_key", "image"), ("key", "image/encoded"), ("key", "image"), ("image_key", "JPEG"), ("label_key", "LABEL")),
    *(("mask_token", "[MASK]"), ("pad_token", "<pad>"), ("eos_token", "</s>"), ("token", "<|endoftext|>"), ("unk_token", "UNK")),
    *(("pad_token_id", 0), ("mask_token_id", 103), ("token_type", "word"), ("token_ids", "input_ids"), ("token_file", "/a/token")),
    *(
        ("author", "Ada Lovelace"),
        ("authors", "A1B2C3D4"),
        ("keyword", "A1B2C3D4"),
        ("keypoints", "A1B2C3D4"),
        ("keep", "A1B2C3D4"),
    ),
    *(("compass", "A1B2C3D4"), ("passes", "A1B2C3D4"), ("bypass", "A1B2C3D4"), ("num_passes", 3), ("secretary", "A1B2C3D4")),
    *(("api_key_file", "/x"), ("password_file", "/x"), ("secret_name", "lab"), ("auth_url", "https://x/y"), ("auth_type", "basic")),
    *(("use_auth", True), ("token", None), ("token", ""), ("password", ""), ("auth", "none"), ("use_auth_token", "true")),
    *(("batch_size", 256), ("data_dir", "/data/A1B2C3D4"), ("seed", 1234), ("name", "A1B2C3D4"), ("rng_key", "A1B2C3D4")),
    *(
        ("credentials.username", "ada"),
        ("auth.url", "https://x"),
        ("auth_dataset.image", "A1B2C3D4"),
        ("token", ["a"]),
        ("", "abc"),
    ),
]


@pytest.mark.parametrize(("key", "value"), FIRES)
def test_the_value_of_such_a_key_is_a_secret(key: str, value: object) -> None:
    assert is_secret(key, value)


@pytest.mark.parametrize(("key", "value"), SILENT)
def test_the_value_of_such_a_key_is_none(key: str, value: object) -> None:
    assert not is_secret(key, value)


def test_params_are_masked_at_every_depth_and_keep_their_shape() -> None:
    params = {
        "train_input": {"batch_size": 256, "token": "TOKSECRET", "tokenizer": "bert", "eos_token": "</s>"},
        "servers": [{"host": "a", "password": "p1"}, {"host": "b", "password": 1234}],
        "api_keys": ["one", "two"],
        "url": "https://ada:pw1234@store/x?sig=Zm9v&n=1",
        7: {"secret": "word"},
    }
    masked, secrets = masked_params(params)
    assert masked == {
        "train_input": {"batch_size": 256, "token": MASK, "tokenizer": "bert", "eos_token": "</s>"},
        "servers": [{"host": "a", "password": MASK}, {"host": "b", "password": MASK}],
        "api_keys": [MASK, MASK],
        "url": f"https://ada:{MASK}@store/x?sig={MASK}&n=1",
        7: {"secret": MASK},
    }
    assert secrets.values == {"TOKSECRET", "p1", "1234", "one", "two", "pw1234", "Zm9v", "word"}
    assert masked_params(masked) == (masked, Secrets())
    places = {name for _, name in masked_places(masked)}
    assert places == {
        "train_input.token",
        "servers.0.password",
        "servers.1.password",
        "api_keys.0",
        "api_keys.1",
        "url",
        "7.secret",
    }


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        ("x --api-key ABC --n 3", "x --api-key '***' --n 3"),
        ("x --token=ABCDEFGH", "x '--token=***'"),
        ("x --set train_input.token=TOKSECRET", "x --set 'train_input.token=***'"),
        ("WANDB_API_KEY=abc python run.py", "'WANDB_API_KEY=***' python run.py"),
        ("KEY=A1B2C3D4 python run.py", "'KEY=***' python run.py"),
        (
            "x --sbatch-args '--export=ALL,API_KEY=abc --time=1'",
            "x --sbatch-args ''\"'\"'--export=ALL,API_KEY=***'\"'\"' --time=1'",
        ),
        ("x --train-command 'python run.py --password pw'", "x --train-command 'python run.py --password '\"'\"'***'\"'\"''"),
        ("curl -H 'Authorization: Bearer abc'", "curl -H 'Authorization: Bearer '\"'\"'***'\"'\"''"),
        ("x s3://ada:pw@host/x", "x 's3://ada:***@host/x'"),
        ("git clone https://ghp_A1B2C3D4E5F6G7@host/x", "git clone 'https://***@host/x'"),
    ],
)
def test_a_command_is_masked_and_stays_one_command(command: str, masked: str) -> None:
    found, secrets = masked_command(command)
    assert found == masked
    assert secrets
    assert len(shlex.split(found)) == len(shlex.split(command))


@pytest.mark.parametrize(
    "command",
    [
        "cs_input_analyzer analyze data.py:f --set train_input.batch_size=3 --key image",
        "x --use-auth-token run.py",
        "x --tokenizer bert --max-tokens 3 --num-keys 4",
        "x --token --verbose",
        "x   'spaces stay'  as they  are",
        "x 'open quote",
        "x 'a\u2003b' 'c\u00a0d'",
        "x ssh://git@host/y https://host:8080/x?page=2",
        "",
    ],
)
def test_a_command_without_a_secret_stays_letter_for_letter(command: str) -> None:
    assert masked_command(command) == (command, Secrets())


def test_a_value_is_hidden_wherever_it_stands_but_not_inside_of_other_words() -> None:
    secrets = Secrets(frozenset({"TOKSECRET", "train", "abc"}))
    assert secrets.hide("ValueError: 'TOKSECRET' of train is wrong") == f"ValueError: '{MASK}' of {MASK} is wrong"
    assert secrets.hide("a training") == "a training"
    assert secrets.hide("train") == "train"  # a word of ours may be the same
    assert secrets.hide("the train", is_prose=False) == "the train"
    assert secrets.hide("abc") == "abc"
    assert Secrets().hide("anything") == "anything"


def test_an_error_says_no_secret() -> None:
    secrets = masked_words(["--set", "a.token=TOKSECRET"])[1]
    failed = InputFunctionError("bad TOKSECRET", "line 3: f('TOKSECRET')")
    hide_in(failed, secrets)
    assert (str(failed), failed.details) == (f"bad {MASK}", f"line 3: f('{MASK}')")
    wrong = UsageError("one TOKSECRET")
    wrong.lines = ("two TOKSECRET",)
    hide_in(wrong, secrets)
    assert (str(wrong), wrong.lines) == (f"one {MASK}", (f"two {MASK}",))


@pytest.mark.parametrize(
    ("given", "missing"),
    [({}, ("a.token", "url")), ({"a.token": "x"}, ("url",)), ({"a.token": "x", "url": "https://u:p@h", "b": 1}, ())],
)
def test_what_was_masked_can_be_given_again(given: dict[str, Any], missing: tuple[str, ...]) -> None:
    text = json.dumps({"a": {"token": MASK, "n": 1}, "url": f"https://u:{MASK}@h", "b": 2})
    found, used, left = filled(text, given)
    assert set(left) == set(missing)
    assert used == set(given) & {"a.token", "url"}
    params = json.loads(found or "")
    assert params["b"] == 2
    assert all(params["a"]["token"] == value for key, value in given.items() if key == "a.token")


def test_params_without_a_mask_stay_the_very_text() -> None:
    for text in (None, '{"b":   2}'):
        assert filled(text, {"b": 3}) == (text, frozenset(), ())
