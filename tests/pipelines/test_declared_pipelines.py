"""Declared pipelines are in the catalog, and survive a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.control.catalog import Catalog
from headwater.pipelines.declared_pipelines import DeclaredPipelines
from headwater.wire.pipeline import Pipeline, encoded


def pipeline(name: str) -> Pipeline:
    return Pipeline(name=name, id=name, created_ns=1, target="T", sql="SELECT 1", inputs=("A",))


async def test_a_pipeline_survives_a_restart_and_belongs_to_its_account(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    declared = DeclaredPipelines(catalog, "$G")
    for name in ("B", "A", "C"):
        await declared.put(pipeline(name))
    await declared.forget("C")
    catalog.close()
    catalog = Catalog(tmp_path / "catalog.db")
    again, other = DeclaredPipelines(catalog, "$G"), DeclaredPipelines(catalog, "OTHER")
    await again.load()
    await other.load()
    assert list(again) == [pipeline("A"), pipeline("B")]
    assert again.find("A") == pipeline("A")
    assert again.find("C") is None
    assert len(other) == 0
    catalog.close()


async def test_a_pipeline_of_a_later_release_is_kept_and_not_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = Catalog(tmp_path / "catalog.db")
    later = encoded(pipeline("NEW")).decode().replace('"version":1', '"version":9')
    catalog.put_pipeline("$G", "NEW", later)
    declared = DeclaredPipelines(catalog, "$G")
    await declared.load()
    assert list(declared) == []
    assert "version 9" in caplog.text
    assert catalog.pipelines("$G") == [later]
    catalog.close()
