"""Secrets in params and command lines -> `***`: which keys name one, and how it is hidden in texts. Pure.

A value is a secret by its key, never by its look alone, but for passwords inside of URLs. A run is measured with the real values;
what is written holds the masked ones.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cs_input_analyzer.errors import AnalyzerError, InputFunctionError, UsageError

MASK = "***"
# Letters of a command line: Linux starts no program with a longer argument. Splitting one takes the square of its length.
LONGEST_COMMAND = 1 << 17

# A key with one of these words names a secret. Any words may come before it.
_SECRET = {
    *("password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets", "credential", "credentials"),
    *("creds", "auth", "authorization", "bearer", "apikey", "apikeys", "apitoken", "authtoken", "authkey", "accesstoken"),
    *("accesskey", "secretkey", "privatekey"),
}
_SECRET_ENDINGS = ("password", "passwd", "passphrase", "secret")
# Words that name one or not, by what stands before them and by their value.
_DOUBTFUL = {"key", "token", "pass"}
# Before `key`, `token`, `keys` and `tokens`: of an account, or of a lock.
_OF_ACCOUNTS = {
    *("api", "access", "private", "encryption", "encrypt", "decryption", "signing", "sign", "ssh", "ssl", "tls", "gpg", "pgp"),
    *("rsa", "hmac", "account", "service", "storage", "shared", "sas", "master", "admin", "root", "user", "login", "session"),
    *("refresh", "identity", "jwt", "oauth", "csrf", "personal", "deploy", "security", "client", "bot", "app", "webhook"),
    *("hf", "hub", "huggingface", "wandb", "github", "gitlab", "gh", "git", "slack", "aws", "gcp", "azure", "openai", "kaggle"),
    *("comet", "neptune", "mlflow", "clearml", "minio", "s3", "gcs", "license"),
}
# Before `key` and `token`: of a table, a feature, a text. These are the words of input functions.
_OF_DATA = {
    *("primary", "foreign", "sort", "sorting", "group", "grouping", "partition", "feature", "features", "image", "label", "dict"),
    *("cache", "index", "column", "field", "input", "output", "target", "source", "example", "shard", "row", "record", "data"),
    *("json", "yaml", "lookup", "join", "map", "split", "metric", "attention", "query", "rng", "random", "prng", "seed", "hash"),
    *("pad", "padding", "mask", "masked", "eos", "bos", "sep", "separator", "cls", "unk", "unknown", "start", "end", "begin"),
    *("stop", "special", "extra", "blank", "oov", "sentence", "audio", "video", "speech", "text", "word", "char", "subword"),
    *("prompt", "decoder", "encoder", "first", "last", "next", "prev", "previous", "new", "line", "newline", "space", "class"),
    *("max", "min", "num", "per", "total", "count", "sub", "by"),
}
# Last words that say something about a secret and are none.
_ABOUT = {
    *("file", "files", "path", "paths", "dir", "folder", "name", "names", "id", "ids", "type", "kind", "mode", "method", "size"),
    *("length", "len", "count", "num", "dim", "dims", "url", "uri", "host", "port", "user", "username", "field", "column", "index"),
    *("env", "var", "variable", "prefix", "suffix", "vocab", "scope", "scopes", "timeout", "required", "enabled", "provider"),
    *("seed", "fn", "func", "function", "format", "source", "region", "bucket", "version", "policy", "attempts", "backend"),
}
# First words of an option that takes no value, so that the next word is none of its.
_SWITCHES = {"use", "no", "enable", "disable", "with", "without", "is", "has", "skip", "require", "requires", "allow"}
_ANSWERS = {"yes", "no", "true", "false", "on", "off", "none", "null", "auto", "default"}
# Names of a query of a URL that sign it.
_SIGNATURES = {"sig", "signature", "x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature"}

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LONGEST_KEY = 200
# A piece of a name as code and data sets have them: `image`, `Image`, `conv2`.
_PIECE = re.compile(r"[A-Z]?[a-z]*[0-9]{0,2}")
_LONGEST_NAME = 40
_BETWEEN = re.compile(r"[_/.:\s-]")
# A tag of a vocabulary: `<pad>`, `[MASK]`.
_BRACKETS = (("<", ">"), ("[", "]"), ("{", "}"))
_IN_URL = re.compile(r"(?<=://)([^\s/?#:@'\"]*):([^\s/?#'\"]+)@")
_USER_OF_URL = re.compile(r"(?<=://)([^\s/?#:@'\"]{16,})@")
_IN_QUERY = re.compile(r"(?<=[?&])([A-Za-z0-9_.-]{1,64})=([^&\s#'\"]+)")
_SHORTEST_HIDDEN = 4
# What stands in every command that holds a secret: most hold none, and need not be split into words.
_HINT = re.compile("key|token|pass|pwd|secret|cred|auth|bearer|://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Secrets:
    """The values that were masked at their places, to be hidden wherever else they stand."""

    values: frozenset[str] = frozenset()

    def __or__(self, other: Secrets) -> Secrets:
        return Secrets(self.values | other.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def hide(self, text: str, *, is_prose: bool = True) -> str:
        """Return the text without these values.

        A value that reads like a plain word is hidden in prose only, and only as a whole word. Short values stay: they are parts
        of other words.
        """
        for value in sorted(self.values, key=len, reverse=True):
            if len(value) < _SHORTEST_HIDDEN or value not in text:
                continue
            if not _is_name(value):
                text = text.replace(value, MASK)
            elif is_prose and " " in text:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", MASK, text)
        return text


def is_secret(key: str, value: object) -> bool:
    """Return whether a value is a secret by its key: a dotted path of params, an option, or a variable.

    Texts are, and numbers where the key leaves no doubt. Truth values and what is missing are none.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or str(value).lower() in ("", MASK, *_ANSWERS):
        return False
    words = _words_of(key)
    if words[-3:] == ["access", "key", "id"]:  # the name of an account of a store
        del words[-1]
    if not words or words[-1] in _ABOUT:
        return False
    before, last = words[-2] if len(words) > 1 else "", words[-1]
    if any(word in _SECRET or word.endswith(_SECRET_ENDINGS) for word in words):
        return True
    if last in ("key", "token", "keys", "tokens") and before in _OF_ACCOUNTS:
        return True
    if not isinstance(value, str) or last not in _DOUBTFUL or before in _OF_DATA:
        return False
    return (last == "token" and not before and not _is_tag(value)) or not (_is_name(value) or _is_tag(value))


def _words_of(key: str) -> list[str]:
    """Return the words of the last part of a dotted path, in small letters; before them that of a section of secrets, if any."""
    *sections, last = key[-_LONGEST_KEY:].split(".")
    outer = [words[-1] for section in sections if (words := _split(section)) and words[-1] in _SECRET]
    return [*outer[:1], *_split(last)]


def _split(text: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(text)]


def _is_name(value: str) -> bool:
    """Return whether a text reads like a name of code or data: `image/encoded`, `train_v2`."""
    return len(value) <= _LONGEST_NAME and all(_PIECE.fullmatch(piece) for piece in _BETWEEN.split(value))


def _is_tag(value: str) -> bool:
    return any(value.startswith(opening) and value.endswith(closing) for opening, closing in _BRACKETS) or len(value) < 3


def masked_params(params: Any) -> tuple[Any, Secrets]:
    """Return params of plain values with their secrets masked, and these."""
    found: list[str] = []
    return _masked_value("", params, found), Secrets(frozenset(found))


def _masked_value(key: str, value: Any, found: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _masked_value(f"{key}.{name}" if key else str(name), of, found) for name, of in value.items()}
    if isinstance(value, list | tuple):
        return [_masked_value(key, of, found) for of in value]
    if is_secret(key, value):
        found.append(str(value))
        return MASK
    return _masked_urls(value, found) if isinstance(value, str) else value


def masked_places(params: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the places where params hold a mask instead of a secret: the keys and places in lists, and the form for `--set`."""
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), params)]
    while pending:
        place, value = pending.pop()
        if isinstance(value, Mapping):
            pending += [((*place, name), of) for name, of in value.items()]
        elif isinstance(value, list | tuple):
            pending += [((*place, index), of) for index, of in enumerate(value)]
        elif isinstance(value, str) and (value == MASK or f":{MASK}@" in value or f"={MASK}" in value):
            yield place, ".".join(map(str, place))


def masked_command(text: str) -> tuple[str, Secrets]:
    """Return a command line with its secrets masked, and these. One without any stays as it is, letter for letter."""
    if _HINT.search(text) is None:
        return text, Secrets()
    words, is_readable = _split_command(text)
    masked, secrets = masked_words(words)
    if masked == words:
        return text, secrets
    return (shlex.join if is_readable else " ".join)(masked), secrets


def _split_command(text: str) -> tuple[list[str], bool]:
    """Return the words of a command line, and whether a shell could read it."""
    if len(text) <= LONGEST_COMMAND:
        with contextlib.suppress(ValueError):  # an open quote
            return shlex.split(text), True
    return text.split(), False


def masked_words(words: Sequence[str]) -> tuple[list[str], Secrets]:
    """Return the words of a command with their secrets masked, and these: `--api-key X`, `--token=X`, `KEY=X`, URLs."""
    found: list[str] = []
    masked: list[str] = []
    option = ""
    for word in words:
        if option and not word.startswith("-") and is_secret(option, word):
            found.append(word)
            masked.append(MASK)
        else:
            masked.append(_masked_word(word, found))
        name = word.lstrip("-") if word.startswith("--") and "=" not in word else word if word.lower() == "bearer" else ""
        option = "" if name and _split(name)[:1] and _split(name)[0] in _SWITCHES else name
    return masked, Secrets(frozenset(found))


def masked_options(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command that hold a mask, each with the option or variable that it is the value of."""
    found = []
    for before, word in zip(("", *words), words, strict=False):
        if MASK in word:
            name, equals, _ = word.partition("=")
            found.append(name if equals else before if before.startswith("-") else word)
    return tuple(found)


def _masked_word(word: str, found: list[str]) -> str:
    name, equals, value = word.partition("=")
    if re.search(r"\s|://", name):  # no option and no variable
        equals = ""
    if equals and is_secret(name.lstrip("-"), value):
        found.append(value)
        return f"{name}={MASK}"
    if re.search(r"\s", word) and _split_command(word)[0] != [word]:  # a command inside of a word, as that of --train-command
        masked, secrets = masked_command(word)
        found += secrets.values
        return masked
    if equals and ("=" in value or "," in value):  # --export=A=1,API_KEY=2
        return f"{name}={','.join(_masked_word(part, found) for part in value.split(','))}"
    return _masked_urls(word, found)


def _masked_urls(text: str, found: list[str]) -> str:
    """Return the text with the passwords and signatures of its URLs masked."""
    if "://" not in text:
        return text

    def password(match: re.Match[str]) -> str:
        if match[2] != MASK:
            found.append(match[2])
        return f"{match[1]}:{MASK}@"

    def query(match: re.Match[str]) -> str:
        if match[2] == MASK or not (match[1].lower() in _SIGNATURES or is_secret(match[1], match[2])):
            return match[0]
        found.append(match[2])
        return f"{match[1]}={MASK}"

    def user(match: re.Match[str]) -> str:
        if _is_name(match[1]):
            return match[0]
        found.append(match[1])
        return f"{MASK}@"

    return _IN_QUERY.sub(query, _USER_OF_URL.sub(user, _IN_URL.sub(password, text)))


def hide_in(error: AnalyzerError, secrets: Secrets) -> None:
    """Take the secrets out of what an error says: its message, its lines and the traceback of the user's function."""
    error.args = tuple(secrets.hide(part) if isinstance(part, str) else part for part in error.args)
    if isinstance(error, InputFunctionError):
        error.details = secrets.hide(error.details)
    if isinstance(error, UsageError):
        error.lines = tuple(map(secrets.hide, error.lines))
