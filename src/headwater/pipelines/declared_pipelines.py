"""The declared pipelines of an account, kept in the catalog of the store."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from headwater.control.catalog import Catalog
from headwater.threads import on_thread
from headwater.wire.pipeline import Pipeline, PipelineRequestError, decoded, encoded

logger = logging.getLogger(__name__)


class DeclaredPipelines:
    """All pipelines of an account; a change is durable when its method returns."""

    def __init__(self, catalog: Catalog, folder: str) -> None:
        self._catalog = catalog
        self._folder = folder
        self._by_name: dict[str, Pipeline] = {}
        """Every pipeline that this release can read."""

    async def load(self) -> None:
        """Read the catalog; a pipeline of a later release is kept there and not run."""
        for text in await on_thread(self._catalog.pipelines, self._folder):
            try:
                found = decoded(Pipeline, text.encode())
            except PipelineRequestError as error:
                logger.error("a declared pipeline cannot be used: %s", error)
                continue
            self._by_name[found.name] = found

    async def put(self, pipeline: Pipeline) -> None:
        """Declare a pipeline, or replace the declaration of one."""
        await on_thread(self._catalog.put_pipeline, self._folder, pipeline.name, encoded(pipeline).decode())
        self._by_name[pipeline.name] = pipeline

    async def forget(self, name: str) -> None:
        """Remove a pipeline."""
        await on_thread(self._catalog.forget_pipeline, self._folder, name)
        self._by_name.pop(name, None)

    def find(self, name: str) -> Pipeline | None:
        """Return the pipeline of this name."""
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Pipeline]:
        return iter(sorted(self._by_name.values(), key=lambda each: each.name))

    def __len__(self) -> int:
        return len(self._by_name)
