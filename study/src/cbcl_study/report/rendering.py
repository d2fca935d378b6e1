"""A report's sections of text, tables and figures, as Markdown and as one self-contained page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

from cbcl_study.report.aggregate import RunGroup


class BoldText(str):
    """A text in bold."""

    __slots__ = ()


class RowGroup(NamedTuple):
    """Some rows of a table, under a title of their own or none."""

    title: str | None
    rows: Sequence[Sequence[str]]


class Table(NamedTuple):
    """Rows of texts; the first columns name the row, the others are mostly numbers."""

    caption: str
    columns: Sequence[str]
    groups: Sequence[RowGroup]
    notes: Sequence[str] = ()  # sentences; empty ones are left out
    heads: int = 1  # columns that name the row
    words: Sequence[str] = ()  # other columns that hold no numbers


class Drawing(NamedTuple):
    """A figure of one or more panels, drawn only where it is shown."""

    caption: str
    panels: Callable[[], Sequence[str]]  # SVG


class Section(NamedTuple):
    """A heading, its text, then tables and figures; and the runs that it would like to show."""

    title: str
    text: Sequence[str] = ()
    parts: Sequence[Table | Drawing] = ()
    wanted: Sequence[RunGroup] = ()
    details: Sequence[Table] = ()  # for the page only


STYLE = """
:root{color-scheme:light dark;
--paper:#fff;--ink:#1b1b1b;--quiet:#5e5e5e;--rule:#dcdcdc;--shade:#f5f5f3;
--blue:#0072b2;--orange:#c14f00;--green:#00795a;--purple:#a2457f;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{
--paper:#16181b;--ink:#e8e6e3;--quiet:#a3a3a3;--rule:#3a3d42;--shade:#1f2226;
--blue:#5db7ee;--orange:#f2994a;--green:#3ecfa3;--purple:#e59ac8;--bad:#ff8a80}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:72rem;
background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
h1{font-size:1.7rem;line-height:1.2}
h2{font-size:1.3rem;margin:3rem 0 .5rem;padding-top:1rem;border-top:1px solid var(--rule)}
p,nav,figcaption,.notes{max-width:46rem}
nav ol{padding-left:1.4rem}
a{color:var(--blue)}
a:focus-visible,.wide:focus-visible{outline:2px solid var(--blue);outline-offset:2px}
figure{margin:1.5rem 0}
.panels{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr))}
.panels svg{width:100%;max-width:34rem;height:auto}
svg *{stroke-linejoin:round}
svg text{font-family:inherit}
figcaption,caption,.notes{font-size:.85rem;color:var(--quiet)}
.wide{overflow-x:auto;margin:1.5rem 0 .5rem}
table{border-collapse:collapse;font-size:.85rem;line-height:1.35;font-variant-numeric:tabular-nums}
caption{text-align:left;padding-bottom:.4rem;color:var(--ink);font-weight:600}
caption span{display:inline-block;position:sticky;left:0;max-width:min(46rem,calc(100vw - 2rem))}
th,td{padding:.25rem .45rem;text-align:left;vertical-align:top}
th{font-weight:400}
thead th{font-weight:600;border-bottom:1.5px solid var(--ink);vertical-align:bottom}
td.number,thead th.number{text-align:right}
td.number,tbody th[scope=row]{white-space:nowrap}
td.words{min-width:7rem}
td.words:last-child{min-width:10rem}
tbody{border-bottom:1px solid var(--rule)}
tbody th[scope=rowgroup]{font-weight:600;background:var(--shade)}
tbody tr:hover>*{background:var(--shade)}
strong.bad{color:var(--bad)}
.notes{margin:.25rem 0 1rem}
@media(max-width:40rem){
body{padding:1rem .75rem 3rem}table{font-size:.8rem}th,td{padding:.2rem .4rem}}
@media print{:root{--paper:#fff;--ink:#000}.wide{overflow:visible}figure,tr{break-inside:avoid}}
"""


def to_markdown(sections: Iterable[Section]) -> str:
    """Return all as Markdown but figures and details, of which only the captions are there."""
    blocks: list[str] = []
    for section in sections:
        blocks += [
            f"## {_plain(section.title)}",
            *map(_plain, section.text),
            *map(_markdown_part, section.parts),
        ]
        if section.details:
            captions = "; ".join(table.caption for table in section.details)
            blocks.append(f"*Tables, in the page: {_plain(captions)}.*")
    return "\n\n".join(blocks) + "\n"


def _markdown_part(part: Table | Drawing) -> str:
    if isinstance(part, Table):
        return markdown_table(part)
    return f"*Figure, in the page: {_plain(part.caption)}*"


def markdown_table(table: Table) -> str:
    """Return a table, its caption above and its notes below; the title of a group is a row."""
    lines = [f"**{_plain(table.caption)}**", "", _markdown_row(table.columns)]
    places = range(len(table.columns))
    rules = ("---:" if _is_number(table, place) else "---" for place in places)
    lines.append(f"|{'|'.join(rules)}|")
    for group in table.groups:
        if group.title:
            lines.append(_markdown_row([BoldText(group.title), *[""] * (len(table.columns) - 1)]))
        lines += map(_markdown_row, group.rows)
    if notes := _notes(table):
        lines += ["", _plain(notes)]
    return "\n".join(lines)


def _markdown_row(texts: Sequence[str]) -> str:
    shown = (
        f"**{_plain(text)}**" if isinstance(text, BoldText) else _plain(text) for text in texts
    )
    return f"| {' | '.join(shown)} |"


def _plain(text: str) -> str:
    """Escape text for Markdown."""
    for sign in ("\\", "|", "*", "_", "<", "`"):
        text = text.replace(sign, f"\\{sign}")
    return text


def _notes(table: Table) -> str:
    return " ".join(filter(None, table.notes))


def _is_number(table: Table, place: int) -> bool:
    return place >= table.heads and table.columns[place] not in table.words


def to_html(title: str, sections: Sequence[Section]) -> str:
    """Return one page, with its style and its figures inside, and no script."""
    links, body = "", ""
    for number, section in enumerate(sections, 1):
        part, heading = f"part-{number}", escape(section.title)
        links += f'<li><a href="#{part}">{heading}</a></li>'
        body += f'<section aria-labelledby="{part}">\n<h2 id="{part}">{heading}</h2>\n'
        parts = "".join(map(_html_part, [*section.parts, *section.details]))
        body += f"{_paragraphs(section.text)}{parts}</section>\n"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1></header>\n"
        "<nav aria-label=Contents><details><summary>Contents</summary>"
        f"<ol>{links}</ol></details></nav>\n"
        f"<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _html_part(part: Table | Drawing) -> str:
    if isinstance(part, Table):
        return _html_table(part)
    panels = "\n".join(part.panels())
    caption = f"<figcaption>{escape(part.caption)}</figcaption>"
    return f'<figure>\n<div class="panels">{panels}</div>\n{caption}</figure>\n'


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>\n" for text in texts)


def _html_table(table: Table) -> str:
    label = escape(table.caption)
    heads = "".join(
        f'<th scope="col"{" class=number" if _is_number(table, place) else ""}>{escape(name)}</th>'
        for place, name in enumerate(table.columns)
    )
    span = f'<tr><th scope="rowgroup" colspan="{len(table.columns)}">'
    bodies = ""
    for group in table.groups:
        title = f"{span}{escape(group.title)}</th></tr>\n" if group.title else ""
        bodies += f"<tbody>{title}{''.join(_html_row(table, row) for row in group.rows)}</tbody>"
    return (
        # A region that scrolls must be reachable with the keyboard.
        f'<div class="wide" role="region" tabindex="0" aria-label="{label}">\n'
        f"<table><caption><span>{label}</span></caption>\n"
        f"<thead><tr>{heads}</tr></thead>\n{bodies}</table></div>\n"
        + (f'<p class="notes">{escape(notes)}</p>\n' if (notes := _notes(table)) else "")
    )


def _html_row(table: Table, row: Sequence[str]) -> str:
    cells = ""
    for place, text in enumerate(row):
        inside = escape(text)
        if isinstance(text, BoldText):
            bad = ' class="bad"' if "(!)" in text else ""
            inside = f"<strong{bad}>{inside}</strong>"
        if place < table.heads:
            cells += f'<th scope="row">{inside}</th>'
        else:
            style = "number" if _is_number(table, place) else "words"
            cells += f'<td class="{style}">{inside}</td>'
    return f"<tr>{cells}</tr>\n"
