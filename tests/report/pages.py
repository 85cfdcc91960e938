"""A page taken apart, for tests of what is in it."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


class Page(HTMLParser):
    """Every tag with its attributes, the text outside scripts, the scripts; complains of tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.text += data

    @property
    def kinds(self) -> list[str | None]:
        """What each script is: the run, and our own."""
        return [attributes.get("id") for tag, attributes in self.tags if tag == "script"]

    def attribute(self, name: str) -> list[str | None]:
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def shape(page: Page) -> list[tuple[str, list[str]]]:
    # Where a line may break depends on the text, and whether a name fits into its block of a picture.
    return [(tag, sorted(given)) for tag, given in page.tags if tag not in ("wbr", "text") and given.get("class") != "word"]
