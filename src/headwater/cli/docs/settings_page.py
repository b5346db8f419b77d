"""The reference page of the settings, generated from the settings."""

from __future__ import annotations

from dataclasses import MISSING, Field
from typing import Any

from headwater.loaded_settings import CONFIG_VARIABLE
from headwater.settings import MIB, flag_of, in_words, rows, variable_of


def settings_page() -> str:
    """Return the reference page of all settings, as Markdown."""
    lines = [
        "# Settings",
        "",
        "<!-- Written by `make docs-pages` from src/headwater/settings.py; edit there. -->",
        "",
        "Each setting is a flag of `headwater serve`, an environment variable, and a key of a TOML file",
        f"named by `--config` or `{CONFIG_VARIABLE}`. Flags take precedence over variables, variables over",
        "the file, and the file over defaults. Unknown keys are refused. Sizes may be written `64MiB`.",
        "`headwater settings` prints the values in effect and where each comes from, but never secrets.",
        "An engine that serves several accounts has a table `[[seat]]` for each:",
        "[accounts, users and secrets](accounts.md).",
    ]
    group = None
    for setting in rows():
        if setting.metadata["group"] != group:
            group = setting.metadata["group"]
            lines += ["", f"## {group}", "", "| setting | flag | variable | default | values | meaning |"]
            lines += ["|---|---|---|---|---|---|"]
        cells = (
            f"`{setting.name}`",
            f"`{flag_of(setting)}`",
            f"`{variable_of(setting)}`",
            _default_text(setting),
            _values_text(setting),
            setting.metadata["doc"],
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _default_text(setting: Field[Any]) -> str:
    """Return the default as shown in the reference."""
    if "default_text" in setting.metadata:
        return str(setting.metadata["default_text"])
    assert setting.default is not MISSING
    if setting.default is None:
        return "none"
    if setting.name.endswith("_bytes") and setting.default > 0:
        return f"`{setting.default // MIB}MiB`"
    return f"`{setting.default}`".lower() if setting.default is False else f"`{setting.default}`"


def _values_text(setting: Field[Any]) -> str:
    """Return the valid values as shown in the reference."""
    about = setting.metadata
    if "choices" in about:
        return ", ".join(f"`{choice}`" for choice in about["choices"])
    if "low" in about:
        return in_words(about["low"], about.get("high"))
    kind = str(setting.type).removesuffix(" | None")
    return {"Path": "a path", "str": "text", "bool": "`true`, `false`"}[kind]


if __name__ == "__main__":
    print(settings_page(), end="")
