"""The tables of the catalog, and the scripts that migrate older ones."""

from __future__ import annotations

from headwater.control.summed_tables import SummedTables

# The script at index n migrates a catalog of version n to version n + 1. A published script is never edited:
# a change of the schema is a new script.
MIGRATIONS = (
    """
    CREATE TABLE store (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE streams (
        account    TEXT NOT NULL,
        name       TEXT NOT NULL,
        config     TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        identity   TEXT NOT NULL UNIQUE,
        directory  TEXT NOT NULL,
        PRIMARY KEY (account, name)
    );
    """,
    """
    CREATE TABLE consumers (
        account    TEXT NOT NULL,
        stream     TEXT NOT NULL,
        name       TEXT NOT NULL,
        config     TEXT NOT NULL,
        created_ns INTEGER NOT NULL,
        PRIMARY KEY (account, stream, name),
        FOREIGN KEY (account, stream) REFERENCES streams (account, name) ON DELETE CASCADE
    );
    """,
    # Checksums are filled in by CatalogFile.
    """
    ALTER TABLE store ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE streams ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE streams ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE consumers ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE consumers ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE deletions (
        identity TEXT PRIMARY KEY,
        account  TEXT NOT NULL,
        name     TEXT NOT NULL,
        crc      INTEGER NOT NULL
    );
    """,
    """
    CREATE TABLE pipelines (
        account  TEXT NOT NULL,
        name     TEXT NOT NULL,
        declared TEXT NOT NULL,
        crc      INTEGER NOT NULL,
        PRIMARY KEY (account, name)
    );
    """,
)
VERSION = len(MIGRATIONS)
SUMMED = 3
"""The version from which on rows have checksums."""
TABLES = SummedTables(
    {
        "store": "key, value",
        "streams": "account, name, config, created_ns, identity, directory, revision",
        "consumers": "account, stream, name, config, created_ns, revision",
        "deletions": "identity, account, name",
        "pipelines": "account, name, declared",
    }
)
