"""The examples of README.md run, or at least compile."""

import ast
import re
from pathlib import Path

BLOCK = re.compile(r"```python\n(.*?)```", re.S)
URL = "http://127.0.0.1:8080"


def test_examples(url: str) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    first, second = BLOCK.findall(text)
    assert URL in first
    names: dict[str, object] = {}
    exec(first.replace(URL, url).replace("timeout=0.2", "timeout=10"), names)
    assert names["feed"] is not None
    names["client"].close()  # type: ignore[attr-defined]
    compile(second, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
