"""Changes to the schema of a memory that cbcl would never make."""

from __future__ import annotations

import sqlite3

from endurance.sql import COLUMNS, INDEXES, TABLES, Values


class SchemaChanges(Values):
    """Draws tables, indexes, views and triggers, and changes of those that are there."""

    def create(self, connection: sqlite3.Connection) -> str:
        """Create a table, index, view, trigger or virtual table; half of them hide as SQLite's."""
        kinds = (self._table, self._index, self._trigger, self._view, self._virtual_table)
        sql = self._rng.choice(kinds)("evil")
        connection.execute(sql)
        if self._rng.random() < 0.5:
            name = self._rng.choice(("'sqlite_evil'", "'sqlite_stat1'", "CAST(x'ff41' AS TEXT)"))
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(
                f"UPDATE sqlite_schema SET name = {name}, sql = replace(sql, 'evil', {name}),"
                f" tbl_name = replace(tbl_name, 'evil', {name}) WHERE name = 'evil'"
            )
        return sql

    def _table(self, name: str) -> str:
        column = self._rng.choice(
            (
                "photo BLOB",
                f"photo DEFAULT ({self._expression()})",
                f"a, b AS ({self._expression()}) STORED",
                "a, b AS (a || a) VIRTUAL",
                "a CHECK (a IN (1, 2)), b UNIQUE",
                "a REFERENCES classes (class) ON DELETE CASCADE",
                ", ".join(f"c{number}" for number in range(self._rng.choice((3, 1500)))),
            )
        )
        key = self._rng.choice(("", ", k PRIMARY KEY"))
        ending = self._rng.choice(("", " WITHOUT ROWID" if key else "", " STRICT"))
        return f"CREATE TABLE {name} ({column}{key}){ending}"

    def _index(self, name: str) -> str:
        table = self._rng.choice(TABLES[:5])
        column = self._rng.choice(COLUMNS[table].split())
        unique = self._rng.choice(("", "UNIQUE "))
        term = self._rng.choice((column, f"{column} DESC", f"length({column})", f"{column}, rowid"))
        where = self._rng.choice(("", f" WHERE {column} IS NOT NULL", f" WHERE {column} = 'x'"))
        return f"CREATE {unique}INDEX {name} ON {table} ({term}){where}"

    def _trigger(self, name: str) -> str:
        when = self._rng.choice(("BEFORE", "AFTER"))
        event = self._rng.choice(("INSERT", "UPDATE", "DELETE"))
        body = self._rng.choice(
            (
                "DELETE FROM classes",
                "UPDATE classes SET label = label || 'x'",
                "INSERT INTO pictures (jpeg, vector, checksum) VALUES (zeroblob(9), x'', x'')",
                "SELECT RAISE(IGNORE)",
                f"{self._select()}",
            )
        )
        table = self._rng.choice(TABLES[:5])
        return f"CREATE TRIGGER {name} {when} {event} ON {table} BEGIN {body}; END"

    def _view(self, name: str) -> str:
        return f"CREATE VIEW {name} AS {self._select()}"

    def _virtual_table(self, name: str) -> str:
        module = self._rng.choice(("fts5(a)", "fts4(a)", "rtree(i, a, b)", "dbstat", "csv(a)"))
        return f"CREATE VIRTUAL TABLE {name} USING {module}"

    def rewrite_schema(self, connection: sqlite3.Connection) -> str:
        """Change rows of the schema itself, as no statement may."""
        one = f"'{self._rng.choice([*TABLES, *INDEXES])}'"
        other = f"'{self._rng.choice([*TABLES, *INDEXES])}'"
        sql = self._rng.choice(
            (
                f"UPDATE sqlite_schema SET rootpage = {self._number()} WHERE name = {one}",
                "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema"
                f" WHERE name = {other}) WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = {self._text()} WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = sql || ' ' WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = replace(sql, 'TEXT', 'BLOB') WHERE name = {one}",
                f"UPDATE sqlite_schema SET sql = upper(sql) WHERE name = {one}",
                f"UPDATE sqlite_schema SET name = {self._text()} WHERE name = {one}",
                f"UPDATE sqlite_schema SET tbl_name = {self._text()} WHERE name = {one}",
                f"UPDATE sqlite_schema SET type = {self._text()} WHERE name = {one}",
                f"UPDATE sqlite_schema SET type = 'view' WHERE name = {one}",
                f"INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name = {one}",
                f"INSERT INTO sqlite_schema VALUES ('table', {self._text()}, {self._text()},"
                f" {self._number()}, {self._text()})",
                f"DELETE FROM sqlite_schema WHERE name = {one}",
            )
        )
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(sql)
        return sql

    def alter(self, connection: sqlite3.Connection) -> str:
        table, index = self._rng.choice(TABLES[:5]), self._rng.choice(INDEXES)
        column = self._rng.choice(COLUMNS[table].split())
        sql = self._rng.choice(
            (
                f"ALTER TABLE {table} ADD COLUMN evil BLOB",
                f"ALTER TABLE {table} ADD COLUMN evil ANY AS ({self._expression()})",
                f"ALTER TABLE {table} RENAME COLUMN {column} TO evil",
                f"ALTER TABLE {table} DROP COLUMN {column}",
                f"ALTER TABLE {table} RENAME TO evil",
                f"DROP INDEX {index}",
                f"DROP TABLE {table}",
                f"CREATE TEMP TABLE {table} AS SELECT 1",
            )
        )
        connection.execute(sql)
        if sql.startswith("DROP TABLE") and self._rng.random() < 0.7:
            names = COLUMNS[table].replace(" ", ", ")
            view = f"CREATE VIEW {table} ({names}) AS {self._select()}"
            connection.execute(view)
            sql += f"; {view}"
        return sql

    def pragma(self, connection: sqlite3.Connection) -> str:
        name = self._rng.choice(
            (
                "user_version",
                "application_id",
                "schema_version",
                "default_cache_size",
                "auto_vacuum",
                "page_size",
                "journal_mode",
                "max_page_count",
            )
        )
        value = {"journal_mode": "DELETE", "auto_vacuum": "FULL", "page_size": "512"}.get(name)
        sql = f"PRAGMA {name} = {value or self._number()}"
        connection.execute(sql)
        if value and self._rng.random() < 0.8:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute(sql)
            connection.execute("VACUUM")
        return sql
