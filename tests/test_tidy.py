"""The repository keeps its own rules: first sentences, mirrored tests, documented features, plain names."""

from __future__ import annotations

import ast
import os
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import click

import headwater as headwater_package
from headwater import errors
from headwater.cli.docs.settings_page import settings_page
from headwater.cli.main import headwater
from late_binding import Callbacks, callbacks_of, late_bindings
from protocols import SUITES, WITHOUT_SUITE, SourceClasses

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headwater"
REFERENCE = ROOT / "docs" / "reference"

WITHOUT_TEST = {
    "__main__.py": "one call, run by tests/cli/test_main.py",
    "console/console_page.py": "a value without behaviour; its routes are tested with the application",
    "console/watched_site.py": "a value without behaviour",
    "model/message.py": "a tuple without behaviour",
    "model/run.py": "a Protocol; its two implementations are tested",
    "objects/objects.py": "a Protocol; tests/contracts/test_objects.py is its suite",
    "spark/pipelines/message_frame.py": "needs Spark: tests/on_spark/test_pipelines.py",
    "spark/pipelines/queries.py": "needs Spark: tests/on_spark/test_pipelines.py",
    "spark/pipelines/query_frame.py": "needs Spark: tests/on_spark/test_pipelines.py",
    "store/repair_job.py": "values without behaviour",
    "stream/listener.py": "a Protocol; its implementation is tests/delivery/test_consumers.py's",
    "stream/services.py": "values without behaviour",
}
DIALECT = re.compile(
    r"\b(anew|elsewhere|told|tells of|lets? go|has no sense|fares?|mend(s|ed|ing)?|stands in|lies in"
    r"|humbler|restless|somebody|nobody)\b",
    re.IGNORECASE,
)
"""Words for which the field has a term: remote, re-created, reported, released, repaired, stored in."""
IN_TESTS = re.compile(
    r"\b(anew|elsewhere|told|lets? go|has no sense|fares|mend(s|ed|ing)?|stands in|lies in|hears of)\b",
    re.IGNORECASE,
)
"""The same for tests, benchmarks and the demo, in which some of these words are also plain English."""
PRINTED = {"is", "waits"}
"""The word after `headwater` in lines that an engine prints."""
STORED_WORDS = {"made anew"}
"""Values that older releases wrote to disk."""
EVERYWHERE = ("src", "tests", "bench", "demo", "docs_site")
GENERATED = {".git", ".venv", "node_modules", "results", "__pycache__", "build", "dist"}
BANNED_MODULES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "shared"}
BANNED_CLASS = re.compile(r"^(Base|Abstract)[A-Z]|(Manager|Helper|Helpers|Utils|Base|Impl)$")
# Written in pieces, so that this file may be searched as well.
REGISTRIES = ("pypi" + ".org", "python" + "hosted", "npm" + "js", "yarn" + "pkg", "proxy.golang" + ".org")
MACHINE_PATHS = ("/" + "work/", "/" + "root/", "/" + "home/")


@cache
def python_files(*folders: str) -> list[Path]:
    """Return the Python files of these folders."""
    return sorted(p for f in folders for p in (ROOT / f).rglob("*.py") if not GENERATED & set(p.parts))


def pages() -> list[Path]:
    """Return the Markdown pages of the project."""
    return sorted(path for path in text_files() if path.suffix == ".md")


def text_files() -> Iterator[Path]:
    """Yield every file of the project that people wrote."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if _is_ours(name)]
        paths = (Path(folder, name) for name in files if name not in GENERATED)
        yield from (path for path in paths if path.is_file())


def _is_ours(folder: str) -> bool:
    hidden = folder.startswith(".") and folder != ".ci"
    return not hidden and folder not in GENERATED and ".egg-info" not in folder


def named(path: Path) -> str:
    """Return a path as a test's name shows it."""
    return str(path.relative_to(ROOT))


@dataclass(frozen=True)
class Outline:
    """What the rules ask about a module; a module is parsed once for all of them."""

    docstring: str
    constants: list[str]
    """The string literals, and the bytes literals as strings."""
    names: set[str]
    """The names that the module defines or uses, its own among them."""
    functions: list[str]
    classes: dict[str, set[str]]
    """The classes with the names of their base classes."""
    top_classes: list[str]
    unexplained: list[str]
    """The attributes that need a line that explains them, and have none."""
    callbacks: Callbacks


@cache
def outline(path: Path) -> Outline:
    """Parse a module."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    bases = {node.name: {base.id for base in node.bases if isinstance(base, ast.Name)} for node in classes}
    return Outline(
        docstring=ast.get_docstring(tree) or "",
        constants=[
            v if isinstance(v, str) else v.decode("latin-1") for v in values if isinstance(v, str | bytes)
        ],
        names={*used, *functions, *bases, path.stem},
        functions=functions,
        classes=bases,
        top_classes=[node.name for node in tree.body if isinstance(node, ast.ClassDef)],
        unexplained=[
            attribute
            for node in classes
            for function in node.body
            if isinstance(function, ast.FunctionDef) and function.name == "__init__"
            for attribute in unexplained(function.body)
        ]
        + [call for node in classes for call in unexplained_calls(node)],
        callbacks=callbacks_of(nodes),
    )


def unexplained(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the attributes that are a dict or may be None, and that no line explains.

    A type does not say what the keys of a dict are, nor what None means. A name that begins with `by` does.
    """
    for node, is_explained in lines_below(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            name, kind = node.target.attr, ast.unparse(node.annotation)
            is_plain = not re.search(r"\bdict\[|\| None\b", kind) or name.lstrip("_").startswith("by_")
            if not is_plain and not is_explained:
                yield f"{name}: {kind}"


def unexplained_calls(node: ast.ClassDef) -> Iterator[str]:
    """Yield the functions that a class gets and keeps, and that neither a line nor a docstring explains.

    A type does not say when a function is called, nor what it returns.
    """
    init = next(
        (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None
    )
    if init is None:
        return
    given = [*init.args.args, *init.args.kwonlyargs]
    calls = {each.arg for each in given if each.annotation and "Callable" in ast.unparse(each.annotation)}
    text = f"{ast.get_docstring(node)} {ast.get_docstring(init)}"
    for kept, is_explained in lines_below(init.body):
        value = kept.value if isinstance(kept, ast.Assign) else None
        if isinstance(value, ast.Name) and value.id in calls and f"`{value.id}`" not in text:
            yield from [] if is_explained else [f"{node.name}: {value.id}"]


def lines_below(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield each statement, and whether a string below explains it."""
    for node, after in pairwise([*body, ast.Pass()]):
        yield node, isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)


def comments(path: Path) -> Iterator[str]:
    """Yield the comments of a module."""
    with path.open("rb") as file:
        yield from (
            token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT
        )


def test_every_module_begins_with_a_sentence() -> None:
    wrong = []
    for path in python_files(*EVERYWHERE):
        is_empty_door = path.name == "__init__.py" and not path.read_text() and "tests" in path.parts
        sentence = outline(path).docstring.partition("\n\n")[0]
        if not is_empty_door and not sentence.rstrip().endswith((".", ":")):
            wrong.append(named(path))
    assert wrong == [], "they do not say in one sentence what they are"


def test_every_module_has_a_mirrored_test_module() -> None:
    modules = [path.relative_to(SOURCE) for path in python_files("src/headwater")]
    tested = [m for m in modules if m.name != "__init__.py" and str(m) not in WITHOUT_TEST]
    assert [str(m) for m in tested if not (ROOT / "tests" / m.parent / f"test_{m.name}").exists()] == []


def test_the_exceptions_from_mirroring_are_modules_that_exist() -> None:
    assert [name for name in WITHOUT_TEST if not (SOURCE / name).exists()] == []


def test_a_package_door_holds_no_logic() -> None:
    allowed = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)
    doors = [path for path in python_files("src") if path.name == "__init__.py"]
    bodies = {named(path): ast.parse(path.read_text()).body for path in doors}
    assert [p for p, body in bodies.items() if not all(isinstance(node, allowed) for node in body)] == []


def test_every_package_has_a_door() -> None:
    assert [named(p.parent) for p in python_files("src") if not (p.parent / "__init__.py").exists()] == []


def test_names_say_what_a_thing_is() -> None:
    paths = python_files(*EVERYWHERE)
    assert [named(path) for path in paths if {path.stem, path.parent.name} & BANNED_MODULES] == []
    classes = [(named(path), name) for path in paths for name in outline(path).classes]
    assert [each for each in classes if BANNED_CLASS.search(each[1])] == []


def test_attributes_that_need_a_line_have_one() -> None:
    found = {named(path): outline(path).unexplained for path in python_files("src/headwater")}
    lacking = {path: attributes for path, attributes in found.items() if attributes}
    assert lacking == {}, "say below each what its keys are, what None means, or when it is called"


def test_attributes_that_need_a_line_are_found() -> None:
    body = ast.parse(
        "self._task: Task | None = None\n"
        "self._seqs: dict[str, int] = {}\n'By id.'\n"
        "self._by_id: dict[str, int] = {}\n"
        "self._size: int = 0\n"
        "self._last: dict[str, int] = {}\n"
    ).body
    assert list(unexplained(body)) == ["_task: Task | None", "_last: dict[str, int]"]
    taking = ast.parse(
        "class Door:\n"
        "    def __init__(self, on_open: Callable[[], None], on_shut: Callable[[], None], name: str):\n"
        "        'Call `on_shut` at the end.'\n"
        "        self._on_open = on_open\n"
        "        self._on_shut = on_shut\n"
        "        self._name = name\n"
    ).body[0]
    assert isinstance(taking, ast.ClassDef)
    assert list(unexplained_calls(taking)) == ["Door: on_open"]


def test_a_class_gets_its_callbacks_when_it_is_constructed() -> None:
    modules = [(named(path), outline(path).callbacks) for path in python_files("src/headwater")]
    assert late_bindings(modules) == [], "pass it to the constructor, or let the class have observers"


def test_callbacks_that_are_set_from_outside_are_found() -> None:
    door = ast.parse(
        "Then = Callable[[], None]\n"
        "class Door:\n"
        "    on_shut: Then | None = None\n"
        "    def __init__(self, on_open: Callable[[], None], size: int):\n"
        "        self.on_open = on_open\n"
        "        self.size = size\n"
        "        self.callbacks: list[Callable[[], None]] = []\n"
    )
    house = ast.parse(
        "door.on_open = self.enter\n"
        "door.on_shut = lambda: None\n"
        "door.size = size\n"
        "door.callbacks = kept\n"
        "totals.on_shut = door.on_shut()\n"
    )
    modules = [(name, callbacks_of(ast.walk(tree))) for name, tree in (("door", door), ("house", house))]
    assert late_bindings(modules) == ["house:1 on_open", "house:2 on_shut"]


def test_text_and_names_use_the_terms_of_the_field() -> None:
    found = []
    for path in python_files("src/headwater"):
        texts = [text for text in (*outline(path).constants, *comments(path)) if text not in STORED_WORDS]
        names = [name.replace("_", " ") for name in outline(path).names]
        found += [(named(path), text) for text in (*texts, *names) if DIALECT.search(text)]
    assert found == []


def test_tests_benchmarks_and_pages_use_the_terms_of_the_field() -> None:
    files = [
        *python_files("tests", "bench", "demo", "docs_site"),
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
    ]
    found = {}
    for path in files:
        words = f"{named(path)} {path.read_text()}".replace("_", " ").replace("-", " ")
        for stored in STORED_WORDS:
            words = words.replace(stored, "")
        if path != Path(__file__) and (odd := IN_TESTS.findall(words)):
            found[named(path)] = odd
    assert found == {}


def test_no_two_classes_have_the_same_name() -> None:
    defined: dict[str, list[str]] = {}
    for path in python_files("src"):
        for name in outline(path).top_classes:
            defined.setdefault(name, []).append(named(path))
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


def test_test_names_are_sentences() -> None:
    names = [(named(path), name) for path in python_files("tests") for name in outline(path).functions]
    assert [each for each in names if each[1].startswith("test_") and each[1].count("_") < 3] == []


def test_the_settings_page_is_the_one_the_settings_write() -> None:
    assert (REFERENCE / "settings.md").read_text() == settings_page(), "run `make docs-pages`"


def test_the_reference_of_the_python_package_has_every_public_name() -> None:
    page = (REFERENCE / "python.md").read_text()
    public = {name for name in headwater_package.__all__ if not name.startswith("__")}
    assert set(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == public, "run `make docs-pages`"


def test_every_error_row_is_in_the_reference() -> None:
    page = (REFERENCE / "errors.md").read_text()
    rows = [f"| {row.err_code} | {row.code} | `{row.name}` |" for row in errors.ROWS]
    assert [row for row in rows if row not in page] == []


def test_every_api_subject_is_in_the_reference() -> None:
    verb = re.compile(r"(?:\$JS\.API\.)?((?:STREAM|CONSUMER|DIRECT|ACCOUNT)(?:\.[A-Z]+)+|INFO)\b[.*>a-z{}]*")
    text = "\n".join(page.read_text() for page in REFERENCE.glob("*.md"))
    found = {
        match[1] for p in python_files("src") for c in outline(p).constants if (match := verb.fullmatch(c))
    }
    assert sorted(subject for subject in found if subject not in text) == []


def error_classes() -> dict[str, str]:
    """Return each class of the source that derives from `Error`, and the class it extends."""
    bases = {name: above for path in python_files("src") for name, above in outline(path).classes.items()}
    found: dict[str, str] = {}
    parents = {"Error"}
    while parents:
        new = {name: (above & parents).pop() for name, above in bases.items() if above & parents}
        found |= new
        parents = set(new)
    return found


def test_the_docstring_of_errors_draws_the_tree_of_all_errors() -> None:
    drawn: dict[str, str] = {}
    above = "Error"
    for indent, name in re.findall(r"^((?:│   )?)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE):
        above = above if indent else name
        drawn[name] = above if indent else "Error"
    assert drawn == error_classes(), "add the class to the tree in the docstring of headwater.errors"


def unknown_commands(code: str) -> list[str]:
    """Return the commands of `headwater` in examples and texts that do not exist."""
    context = click.Context(headwater)
    pattern = r"(?:^|[`$/])headwater ([a-z][a-z-]*)(?: ([a-z][a-z-]*)(?![\w.=/:]))?"

    def is_known(name: str, below: str) -> bool:
        command = headwater.get_command(context, name)
        if isinstance(command, click.Group) and below:
            return command.get_command(context, below) is not None
        return command is not None or name in PRINTED

    named_in = re.findall(pattern, code, re.MULTILINE)
    return [f"{name} {below}".strip() for name, below in named_in if not is_known(name, below)]


def test_the_commands_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong = {}
    for page in pages():
        code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL))
        made = set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", code, re.MULTILINE)) - targets
        if found := [*made, *unknown_commands(code)]:
            wrong[named(page)] = found
    assert wrong == {}


def test_the_commands_that_texts_of_the_source_name_exist() -> None:
    texts = [
        (named(path), text) for path in python_files("src/headwater") for text in outline(path).constants
    ]
    code = [(path, "\n".join(re.findall(r"`headwater [^`\n]+`", text))) for path, text in texts]
    assert {path: wrong for path, text in code if text and (wrong := unknown_commands(text))} == {}


def test_unknown_commands_are_found() -> None:
    code = (
        "`headwater journal info`\nheadwater stream ad X\nheadwater stream add X\nheadwater serve --store x"
    )
    assert unknown_commands(code) == ["journal info", "stream ad"]


def test_the_files_that_pages_link_to_exist() -> None:
    wrong = []
    for page in pages():
        links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        wrong += [(named(page), to) for to in links if "://" not in to and not (page.parent / to).exists()]
    assert wrong == []


@cache
def headings(page: Path) -> set[str]:
    """Return the names under which a page's headings can be linked to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def titles(page: Path) -> list[str]:
    """Return the headings of the first level of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^# (.+)$", text, re.MULTILINE)


def test_every_page_has_one_title_of_its_own_and_a_decision_has_its_number() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    assert [named(page) for page in pages if not page.read_text().startswith("# ")] == []
    assert {named(page): titles(page) for page in pages if len(titles(page)) != 1} == {}
    found = [title for page in pages for title in titles(page)]
    assert sorted(title for title in set(found) if found.count(title) > 1 or len(title) > 110) == []
    decisions = [page for page in pages if re.match(r"\d{4}-", page.name) and page.name[:4] != "0000"]
    assert [page.name for page in decisions if not titles(page)[0].startswith(f"{page.name[:4]}: ")] == []


def test_the_headings_that_pages_link_to_exist() -> None:
    wrong = []
    for page in pages():
        for to, name in re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text()):
            if name not in headings(page.parent / to if to else page):
                wrong.append((named(page), to, name))
    assert wrong == []


def test_the_modules_that_pages_name_exist() -> None:
    known = {path.name for path in python_files("src", "tests", "bench", "demo")}
    for page in (ROOT / "docs" / "internals").glob("*.md"):
        found = re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", page.read_text())
        assert [name for name in found if name not in known] == [], named(page)


def test_every_page_and_every_decision_is_listed_and_numbers_are_unique() -> None:
    docs = ROOT / "docs"
    pages = {p.relative_to(docs).as_posix() for p in docs.glob("*/*.md") if p.parent.name != "decisions"}
    assert {page for page in pages if f"({page})" not in (docs / "README.md").read_text()} == set()
    decisions = sorted(p.name for p in (docs / "decisions").glob("[0-9]*.md"))
    listed = (docs / "decisions" / "README.md").read_text()
    assert [name for name in decisions if f"({name})" not in listed] == []
    numbers = [int(name[:4]) for name in decisions]
    assert len(set(numbers)) == len(numbers), "two decisions have one number"


@cache
def source_classes() -> SourceClasses:
    """Return the classes of the source, read once."""
    return SourceClasses()


def test_every_protocol_with_several_implementations_has_a_suite() -> None:
    listed = set(SUITES) | set(WITHOUT_SUITE)
    assert source_classes().shared() == listed, "add it to tests/protocols.py, with its suite"
    tests = ROOT / "tests"
    assert [file for file in SUITES.values() if not (tests / file).exists()] == []


def test_implementations_are_found_by_their_members() -> None:
    assert source_classes().implementations("Holder") == ["ConsumerState", "Hold"]
    assert source_classes().implementations("LinkProtocol") == ["Connection", "LeafConnection"]


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = []
    for path in text_files():
        text = path.read_bytes().decode("utf-8", "ignore")
        found += [f"{named(path)}: {word}" for word in (*REGISTRIES, *MACHINE_PATHS) if word in text]
    assert found == []


def test_the_constraints_name_packages_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = re.compile(r"[a-z0-9-]+==[0-9][A-Za-z0-9.]*")
    assert [line for line in lines if not line.startswith("#") and not pinned.fullmatch(line)] == []
