"""What the build of the pages adds: formulas as MathML, and the changes that are not released yet.

Browsers lay out MathML by themselves, so the pages need no script and no network for their formulas.
"""

import html
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parents[1]

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)

LIMITS_BELOW = re.compile(r"<msub>(<mo>(?:&#x02A02;|min|max)</mo>)(.*?)</msub>", flags=re.DOTALL)

BIG_BASE = re.compile(r'<(msup|msub)>(<mo minsize="[^"]*" maxsize="[^"]*">[^<]*</mo>)')
STRUT = '<mspace width="0" height="0.9em" depth="0.5em" />'
"""Carries the exponent of a big parenthesis, which does not grow while it has one."""

FUNCTIONS = {"diag": 0, "exp": 0, "ln": 0.1, "log": 0.1, "min": 0, "tr": 0.15, "vec": 0}
"""Names of functions, and the space after each in em: none before a parenthesis."""

REPAIRS = {
    '<mn mathvariant="bold">1</mn>': "<mn>&#x1D7CF;</mn>",
    '<mo stretchy="false">&#x0007C;</mo>': '<mo stretchy="false" lspace="0" rspace="0">|</mo>',
    "<mo>&#x0002F;</mo>": '<mo lspace="0" rspace="0">/</mo>',
    "<mi>&#x0007E;</mi>": "<mo>&#x0223C;</mo>",
    "<mi>&#x029F5;</mi>": "<mo>&#x02216;</mo>",
    "<mi>&#x027E8;</mi>": '<mo stretchy="false">&#x027E8;</mo>',
    "<mi>&#x027E9;</mi>": '<mo stretchy="false">&#x027E9;</mo>',
    **{
        f"<{tag}>{name}</{tag}>": f'<mo lspace="0.17em" rspace="{space}em">{name}</mo>'
        for tag in ("mi", "mo")
        for name, space in FUNCTIONS.items()
    },
}
"""What latex2mathml takes for letters, or spaces too widely, and the operators that were meant."""


def on_page_content(page_html, *, page, **_):
    """Return the page with its formulas as MathML, or fail at one that is not understood."""

    def to_mathml(found):
        latex = html.unescape(found[2]).strip()
        is_block = found[1] == "div"
        mathml = convert(latex, display="block" if is_block else "inline")
        if "\\" in mathml or "<mi>&</mi>" in mathml:
            raise PluginError(f"{page.file.src_uri}: this formula has no MathML: {latex}")
        for given, meant in REPAIRS.items():
            mathml = mathml.replace(given, meant)
        mathml = BIG_BASE.sub(rf"\2<\1>{STRUT}", mathml)
        if is_block:
            mathml = LIMITS_BELOW.sub(r"<munder>\1\2</munder>", mathml)
            return f'<div class="formula">{mathml}</div>'
        return mathml

    return FORMULA.sub(to_mathml, page_html)


def on_page_markdown(markdown, *, page, **_):
    """Return the changelog with the changes that wait in `changelog.d/` in front of the others."""
    if page.file.src_uri != "changelog.md":
        return markdown
    fragments = [p for p in sorted((ROOT / "changelog.d").glob("*.md")) if p.name != "README.md"]
    changes = [f"* {path.read_text(encoding='utf-8').strip()}" for path in fragments]
    if not changes:
        return markdown
    return "\n".join([markdown, "", "## Not released yet", "", *changes, ""])
