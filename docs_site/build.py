"""Builds the docs as a site: collects the pages, derives the navigation from the lists, runs Zensical.

The pages are copied with their paths, so that their links hold in the repository and on the site. The
sections of the navigation are those of docs/README.md, and the decisions those of docs/decisions/README.md.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / ".headwater" / "docs"
STYLE = Path(__file__).parent / "style.css"
OUTSIDE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md")
"""Pages outside docs/."""
TEMPLATE = "docs/decisions/0000-template.md"
Nav = list[dict[str, Any]]

_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#]+)\) \|(.*)\|$", re.M)
_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
_CODE = re.compile(r"^```.*?^```$", re.M | re.S)
_FEATURES = (
    "content.code.copy",
    "navigation.footer",
    "navigation.indexes",
    "navigation.tabs",
    "navigation.top",
    "search.highlight",
    "toc.follow",
)
_PALETTES = (
    ("(prefers-color-scheme)", "default", "lucide/sun-moon", "Use light colours"),
    ("(prefers-color-scheme: light)", "default", "lucide/sun", "Use dark colours"),
    ("(prefers-color-scheme: dark)", "slate", "lucide/moon", "Follow the system"),
)


def pages() -> list[str]:
    """Return the paths of all pages."""
    inside = (path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return [*OUTSIDE, *sorted(inside)]


def linked_files(page: str) -> set[str]:
    """Return the files that a page links to or shows, pages apart."""
    text = _CODE.sub("", (ROOT / page).read_text())
    found = {(ROOT / page).parent / to for to in _LINK.findall(text) if "://" not in to}
    files = {path.resolve().relative_to(ROOT).as_posix() for path in found if path.is_file()}
    return {path for path in files if not path.endswith(".md")}


def navigation() -> Nav:
    """Return the sections and their pages."""
    text = (ROOT / "docs" / "README.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))

    def listed(section: str) -> Nav:
        return [{_titled(title): f"docs/{path}"} for title, path, _ in _ROW.findall(sections[section])]

    return [
        {"Home": [{"Headwater": "README.md"}, {"All pages": "docs/README.md"}, {"Changes": "CHANGELOG.md"}]},
        {"Guides": listed("Guides")},
        {"Reference": listed("Reference")},
        {"Internals": [{"Architecture": "ARCHITECTURE.md"}, *listed("Internals"), *_development()]},
        {"Decisions": [{"List": "docs/decisions/README.md"}, *_decisions()]},
    ]


def _development() -> Nav:
    return [{"Benchmarks": "bench/README.md"}, {"Contributing": "CONTRIBUTING.md"}]


def _decisions() -> Nav:
    rows = _ROW.findall((ROOT / "docs" / "decisions" / "README.md").read_text())
    return [{f"{number} {title.strip()}": f"docs/decisions/{path}"} for number, path, title in rows]


def _titled(title: str) -> str:
    return title[:1].upper() + title[1:]


def config() -> dict[str, Any]:
    """Return the configuration of the site."""
    return {
        "site_name": "Headwater",
        "site_description": "JetStream streams that live in a lakehouse",
        "docs_dir": "pages",
        "site_dir": "site",
        "use_directory_urls": False,  # so that the site can also be opened from a disk
        "nav": navigation(),
        "extra_css": [STYLE.name],
        "theme": {
            "language": "en",
            "font": False,  # fonts would be loaded from another host
            "features": list(_FEATURES),
            "palette": [
                {"media": media, "scheme": scheme, "toggle": {"icon": icon, "name": name}}
                for media, scheme, icon, name in _PALETTES
            ],
        },
    }


def collect(output: Path) -> None:
    """Copy the pages, and what they link to, into a folder of their own; write the configuration."""
    shutil.rmtree(output, ignore_errors=True)
    files = {path for page in pages() for path in linked_files(page)}
    for path in (*pages(), *sorted(files)):
        target = output / "pages" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)
    shutil.copyfile(STYLE, output / "pages" / STYLE.name)
    # YAML is a superset of JSON, and Zensical reads the configuration of MkDocs.
    (output / "mkdocs.yml").write_text(json.dumps(config(), indent=1))


def render(output: Path) -> Path:
    """Return the folder of the site that Zensical made of what was collected; a broken link is an error."""
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run([*command, "--config-file", str(output / "mkdocs.yml")], cwd=output, check=False)
    if done.returncode:
        raise SystemExit("the site was not built: see the messages above")
    return output / "site"


def build(output: Path = OUTPUT) -> Path:
    """Return the folder of the site."""
    collect(output)
    return render(output)


if __name__ == "__main__":
    print(f"the site is in {build().relative_to(ROOT)}: open index.html there")
