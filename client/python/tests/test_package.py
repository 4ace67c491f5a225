"""The published package."""

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import feedfilter

ROOT = Path(__file__).parent.parent


def test_what_is_built(tmp_path: Path) -> None:
    # Debian lacks a package that hatchling needs only for editable installs: skip the check.
    build = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check"]
    built = subprocess.run(
        [*build, "--outdir", str(tmp_path), str(ROOT)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    [source] = tmp_path.glob("*.tar.gz")
    [wheel] = tmp_path.glob("*.whl")  # built from the source distribution
    base = f"feedfilter-{feedfilter.__version__}"
    assert (source.name, wheel.name) == (f"{base}.tar.gz", f"{base}-py3-none-any.whl")
    with tarfile.open(source) as archive:
        names = archive.getnames()
    assert {f"{base}/{n}" for n in ("LICENSE", "README.md", "tests/test_core.py")} <= set(names)
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive_of_wheel:
        archive_of_wheel.extractall(site)
    files = {str(f.relative_to(ROOT / "src")) for f in (ROOT / "src").rglob("*.py*")}
    files = {name for name in files if not name.endswith(".pyc")}
    assert files | {"feedfilter/py.typed"} == {
        str(f.relative_to(site)) for f in site.glob("feedfilter/**/*") if f.is_file()
    }
    program = """if True:
        import json, sys
        sys.path.insert(0, sys.argv[1])
        import feedfilter, importlib.metadata
        about = importlib.metadata.metadata("feedfilter")
        with feedfilter.Client("http://127.0.0.1:1"):
            print(json.dumps([feedfilter.__file__, about["Version"], about["Requires-Python"]]))
    """
    run = [sys.executable, "-I", "-c", program, str(site)]
    imported = subprocess.run(run, capture_output=True, text=True)
    assert imported.returncode == 0, imported.stderr
    assert json.loads(imported.stdout) == [
        str(site / "feedfilter" / "__init__.py"),
        feedfilter.__version__,
        ">=3.9",
    ]


def test_licence_is_that_of_the_project() -> None:
    of_project = ROOT.parent.parent / "LICENSE"
    if of_project.exists():  # not in a source distribution
        assert (ROOT / "LICENSE").read_bytes() == of_project.read_bytes()
