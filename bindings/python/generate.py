#!/usr/bin/env python3
"""Renders libregion/_constants.py, _structs.py and _functions.py from include/region.h.

region.h is itself rendered, so its shape is known, and no C parser is needed.

    python3 generate.py            writes the files
    python3 generate.py --check    fails if they are not what it would write
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parents[1] / "include" / "region.h"
NOTE = '"""{}\n\nRendered from include/region.h by generate.py; never edited.\n"""\n\n'
WIDTH = 120

PLAIN = {
    "void": "None",
    "char": "c_char",
    "int32_t": "c_int32",
    "uint16_t": "c_uint16",
    "uint32_t": "c_uint32",
    "int64_t": "c_int64",
    "uint64_t": "c_uint64",
    "size_t": "c_size_t",
    "region_status": "c_int32",
}


class Header:
    """What region.h declares."""

    def __init__(self, text: str) -> None:
        # Only what lies between the include guard and the static inline functions at the end.
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        self.text = re.sub(r"//[^\n]*", "", text)
        self.opaque = set(re.findall(r"typedef struct (\w+) \1;", self.text))
        self.constants = [
            (name.removeprefix("REGION_"), int(value))
            for body in re.findall(r"\benum \{(.*?)\};", self.text, re.S)
            for name, value in re.findall(r"(\w+) = (-?\d+)", body)
        ]
        for name, value in re.findall(r"^#define REGION_(\w+) \(\((?:uint32_t|uint64_t)\)(\w+)\)$", self.text, re.M):
            self.constants.append((name, int(value, 0)))
        for name in re.findall(r"^#define REGION_(\w+) UINT64_MAX$", self.text, re.M):
            self.constants.append((name, 2**64 - 1))
        for name, value in re.findall(r"^#define REGION_(\w+) (\d+)$", self.text, re.M):
            self.constants.append((name, int(value)))
        self.texts = re.findall(r'^#define REGION_(\w+) "([^"]*)"$', self.text, re.M)
        # In the order of the header, which C needs as well.
        self.types: list[tuple[str, str, str]] = []
        pattern = r"typedef struct (\w+) \{(.*?)\} \1;|typedef (\w+) \(\*(\w+)\)\((.*?)\);"
        for m in re.finditer(pattern, self.text, re.S):
            self.types.append((m[1], "struct", m[2]) if m[1] else (m[4], m[3], m[5]))
        self.structs = {name for name, kind, _ in self.types if kind == "struct"}
        self.callbacks = {name for name, kind, _ in self.types if kind != "struct"}
        tail = self.text[self.text.index('extern "C" {') :]
        self.functions = re.findall(r"^(?:REGION_MUST_CHECK\s+)?((?:const )?\w+ \*?)\s*(\w+)\(([^()]*)\);", tail, re.M)

    def ctype(self, c: str) -> str:
        """ctypes' word for a C type."""
        words = re.sub(r"\b(const|struct)\b", "", c).replace("*", " * ").split()
        base, stars = words[0], len(words) - 1
        if stars == 0:
            return base if base in self.structs | self.callbacks else PLAIN[base]
        if stars == 1 and base == "char":
            return "c_char_p"
        if stars == 1 and base in self.opaque | {"void"}:
            return "c_void_p"
        inner = self.ctype(base + " " + "*" * (stars - 1))
        return f"POINTER({inner})"

    def split(self, declaration: str) -> tuple[str, str, str]:
        """'const char msg[N]' -> ('const char', 'msg', 'N')."""
        m = re.fullmatch(r"\s*(.*?)(\w+)(?:\[(\w+)\])?\s*", declaration, re.S)
        assert m, declaration
        return m[1], m[2], m[3] or ""

    def arguments(self, text: str) -> list[str]:
        text = " ".join(text.split())
        return [] if text == "void" else [self.ctype(self.split(a)[0]) for a in text.split(",")]


def constants(h: Header) -> str:
    out = [NOTE.format("The numbers of region.h, without their prefix REGION_.") + "from typing import Final\n"]
    out += [f"{name}: Final = {value}" for name, value in h.constants]
    out += [f'{name}: Final = "{value}"' for name, value in h.texts]
    return "\n".join(out) + "\n"


def wrap(head: str, items: list[str], tail: str) -> str:
    line = head + ", ".join(items) + tail
    if len(line) <= WIDTH:
        return line
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    # Items hold blanks; let only the joints break.
    joined = ", ".join(i.replace(" ", "\0") for i in items)
    body = textwrap.fill(joined, WIDTH - 1, initial_indent=indent, subsequent_indent=indent, break_long_words=False).replace("\0", " ")
    return f"{head}\n{body},\n{indent[4:]}{tail}"


def structs(h: Header) -> str:
    out = [
        NOTE.format("The structs and callbacks of region.h for ctypes.")
        + "from __future__ import annotations\n\n"
        + "from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_int32, c_int64, c_size_t, c_uint16, c_uint32,\n"
        + "                    c_uint64, c_void_p)\n"
        + "from typing import Any\n"
    ]
    for name, kind, body in h.types:
        if kind != "struct":
            out.append(wrap(f"\n{name} = CFUNCTYPE(", [PLAIN[kind]] + h.arguments(body), ")\n"))
            continue
        fields, hints = [], []
        for declaration in filter(str.strip, body.split(";")):
            c, field, length = h.split(declaration)
            ctype = h.ctype(c)
            if length:
                ctype += f" * {dict(h.constants)[length.removeprefix('REGION_')] if length.startswith('REGION_') else length}"
            fields.append(f'("{field}", {ctype})')
            number = not length and ctype in PLAIN.values()
            hints.append(f"    {field}: {'int' if number else ctype if ctype in h.structs else 'Any'}")
        out.append(f"\nclass {name}(Structure):\n" + "\n".join(hints) + "\n" + wrap("    _fields_ = [", fields, "]") + "\n")
    return "\n".join(out)


def functions(h: Header) -> str:
    rows = [
        wrap(f'    "{name}": ({h.ctype(returns)}, [', h.arguments(args), "]),")
        for returns, name, args in sorted(h.functions, key=lambda f: f[1])
    ]
    used = [n for n, _, _ in h.types if any(re.search(rf"\b{n}\b", row) for row in rows)]
    out = [
        NOTE.format("The functions of region.h for ctypes. Without argtypes ctypes would cut pointers to 32 bits.")
        + "from __future__ import annotations\n\n"
        + "from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p\n"
        + "from typing import Any\n",
        wrap("from ._structs import (", used, ")"),
        "\n# name: (restype, argtypes)\nFUNCTIONS: dict[str, tuple[Any, list[Any]]] = {",
    ]
    return "\n".join(out + rows) + "\n}\n"


def main() -> int:
    h = Header(HEADER.read_text())
    for name, text in {"_constants.py": constants(h), "_structs.py": structs(h), "_functions.py": functions(h)}.items():
        path = HERE / "libregion" / name
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path} is not what include/region.h says: run python3 bindings/python/generate.py", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
