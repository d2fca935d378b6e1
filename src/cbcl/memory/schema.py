"""Format of the memory file, version by version; docs/memory-format.md describes it."""

from __future__ import annotations

APPLICATION_ID = 0x4342434C  # "CBCL"
ENTRIES = ("about", "backbone")  # rows of the table `memory`
NUMBERED_TABLES = ("steps", "classes", "pictures")  # rows of SQLite's own `sqlite_sequence`

# MIGRATIONS[v] brings a file from version v to v + 1; a file's version is SQLite's user_version.
MIGRATIONS = (
    """
    CREATE TABLE memory (
        name TEXT PRIMARY KEY,
        value BLOB NOT NULL,
        checksum BLOB NOT NULL
    ) STRICT;
    CREATE TABLE steps (
        step INTEGER PRIMARY KEY AUTOINCREMENT,
        time TEXT NOT NULL,
        action TEXT NOT NULL,
        about TEXT NOT NULL,
        radius REAL NOT NULL,
        n_voters INTEGER NOT NULL,
        max_centroids INTEGER,
        checksum BLOB NOT NULL,
        undone INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE classes (
        class INTEGER PRIMARY KEY AUTOINCREMENT,
        label TEXT NOT NULL,
        since INTEGER NOT NULL,
        until INTEGER,
        centroids BLOB NOT NULL,
        counts BLOB NOT NULL,
        spread BLOB NOT NULL,
        checksum BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX known ON classes (label) WHERE until IS NULL;
    CREATE INDEX since ON classes (since);
    CREATE INDEX until ON classes (until) WHERE until IS NOT NULL;
    CREATE TABLE thumbnails (
        class INTEGER NOT NULL,
        centroid INTEGER NOT NULL,
        jpeg BLOB NOT NULL,
        vector BLOB NOT NULL,
        checksum BLOB NOT NULL
    ) STRICT;
    CREATE INDEX of_class ON thumbnails (class);
    """,
    # A picture is stored once, however many rows of its label there were; one learned twice, twice.
    # The checksum of damaged data stays wrong, so that the damage is found.
    """
    CREATE TABLE pictures (
        picture INTEGER PRIMARY KEY AUTOINCREMENT,
        jpeg BLOB NOT NULL,
        vector BLOB NOT NULL,
        checksum BLOB NOT NULL
    ) STRICT;
    CREATE TABLE examples (
        class INTEGER NOT NULL,
        picture INTEGER NOT NULL,
        centroid INTEGER NOT NULL,
        rank INTEGER NOT NULL
    ) STRICT;
    CREATE TEMP TABLE numbered AS
        SELECT thumbnails.rowid AS number, class, label, centroid, jpeg, vector,
            CASE checksum_of(CAST(centroid AS TEXT), jpeg, vector) WHEN thumbnails.checksum
                THEN checksum_of(jpeg, vector) ELSE thumbnails.checksum END AS checksum,
            row_number() OVER (PARTITION BY class, jpeg, vector ORDER BY thumbnails.rowid) AS nth,
            row_number() OVER (PARTITION BY class, centroid ORDER BY thumbnails.rowid) - 1 AS rank
        FROM thumbnails JOIN classes USING (class);
    INSERT INTO pictures
        SELECT min(number), jpeg, vector, checksum
        FROM numbered GROUP BY label, jpeg, vector, checksum, nth;
    INSERT INTO examples
        SELECT class, min(number) OVER (PARTITION BY label, jpeg, vector, checksum, nth),
            centroid, rank
        FROM numbered ORDER BY number;
    DROP TABLE numbered;
    DROP TABLE thumbnails;
    CREATE INDEX of_class ON examples (class);
    CREATE INDEX of_picture ON examples (picture);
    """,
    # What is kept of a class by the default head, beside the paper's vote.
    """
    ALTER TABLE steps ADD COLUMN head TEXT NOT NULL DEFAULT 'vote';
    ALTER TABLE classes ADD COLUMN sketches BLOB;
    ALTER TABLE classes ADD COLUMN statistics BLOB;
    """,
    # What has no checksum is in an index, too: damage is found where the two differ. Two of them
    # begin with a checksum, so that no query is answered from them.
    """
    DROP INDEX of_picture;
    CREATE INDEX of_picture ON examples (picture, centroid, rank, class);
    CREATE INDEX of_checksum ON pictures (checksum);
    CREATE INDEX of_step ON steps (checksum, undone);
    """,
    # How often something that is not known is to be expected.
    """
    ALTER TABLE steps ADD COLUMN strangers TEXT NOT NULL DEFAULT 'sometimes';
    """,
)
VERSION = len(MIGRATIONS)
