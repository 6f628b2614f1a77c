"""The binding's tables against region.h: rendered from it, and compared with what a C compiler makes of it."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import libregion
import pytest
from libregion import _constants, _functions, _pack, _structs, errors
from libregion._library import lib

PACKAGE = Path(__file__).resolve().parents[1]
INCLUDE = PACKAGE.parents[1] / "include"
STRUCTS = {n: s for n, s in vars(_structs).items() if isinstance(s, type) and issubclass(s, ctypes.Structure) and s is not ctypes.Structure}


def test_rendered_files_are_current() -> None:
    subprocess.run([sys.executable, str(PACKAGE / "generate.py"), "--check"], check=True)


def test_every_exported_symbol_has_argtypes() -> None:
    symbols = (INCLUDE / "region.symbols").read_text().split()
    assert len(symbols) >= 44
    assert set(symbols) == set(_functions.FUNCTIONS)
    for name in symbols:
        function = getattr(lib, name)
        assert function.argtypes is not None, name
        # ctypes' default for a function that nobody declared is int.
        assert function.restype is not ctypes.c_int or _functions.FUNCTIONS[name][0] is ctypes.c_int32, name


def test_argument_counts_are_those_of_the_header() -> None:
    text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "region.h").read_text(), flags=re.S)
    for name, (_, argtypes) in _functions.FUNCTIONS.items():
        found = re.search(rf"\b{name}\(([^)]*)\);", text)
        assert found, name
        arguments = [] if found[1].strip() == "void" else found[1].split(",")
        assert len(arguments) == len(argtypes), name
        for c, py in zip(arguments, argtypes):
            # Pointers are pointers, and numbers are as wide and as signed as in C.
            number = {"uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32, "region_status": ctypes.c_int32,
                      "uint64_t": ctypes.c_uint64, "int64_t": ctypes.c_int64, "size_t": ctypes.c_size_t}  # fmt: skip
            if "*" not in c and c.split()[0] in number:
                assert py is number[c.split()[0]], (name, c)
            else:
                assert ctypes.sizeof(py) == 8 and py not in number.values(), (name, c)


def compile_c(directory: Path, body: str) -> str:
    source = directory / "layout.c"
    source.write_text(
        '#include "region_pack.h"\n#include <stdio.h>\n#include <stddef.h>\nint main(void) {\n' + body + "\nreturn 0; }\n"
    )
    program = directory / "layout"
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Werror", f"-I{INCLUDE}", str(source), "-o", str(program)], check=True)
    return subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout


def test_structs_are_as_the_compiler_lays_them_out(tmp_path: Path) -> None:
    assert len(STRUCTS) >= 18
    header = re.sub(r"/\*.*?\*/", "", (INCLUDE / "region.h").read_text(), flags=re.S)
    assert set(re.findall(r"typedef struct (\w+) \{", header)) == set(STRUCTS)
    lines, expected = [], []
    for name, struct in STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        expected.append(f"{name} {ctypes.sizeof(struct)}")
        for field, *_ in struct._fields_:
            lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
            d = getattr(struct, field)
            expected.append(f"{name}.{field} {d.offset} {d.size}")
    assert compile_c(tmp_path, "\n".join(lines)).splitlines() == expected


def test_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    numbers = {k: v for k, v in vars(_constants).items() if k.isupper() and isinstance(v, int)}
    text = (INCLUDE / "region.h").read_text()
    assert set(re.findall(r"^  REGION_(\w+) = -?\d+", text, re.M)) <= set(numbers)
    body = "\n".join(f'printf("%lld\\n", (long long)REGION_{name});' for name in numbers)
    said = [int(x) % 2**64 for x in compile_c(tmp_path, body).split()]
    assert said == [n % 2**64 for n in numbers.values()]
    body = (
        'printf("%zu %zu %zu %zu %u ", REGION_PACK_OP_HEADER, REGION_PACK_INCREMENT_HEADER, REGION_PACK_KEY_HEADER,'
        ' REGION_PACK_CELL_HEADER, REGION_PACK_SAME_ROW); puts(REGION_LAYOUT_HASH " " REGION_VERSION_STRING);'
    )
    sizes = [_pack.OP.size, _pack.INCREMENT.size, _pack.KEY.size, _pack.CELL.size, _pack.SAME_ROW]
    assert compile_c(tmp_path, body).split() == [*map(str, sizes), _constants.LAYOUT_HASH, libregion.__version__]
    assert _pack.RESULT.size == ctypes.sizeof(_structs.region_op_result_t)


def test_every_status_has_an_exception() -> None:
    codes = {v for k, v in vars(_constants).items() if k.startswith("E_")} | {_constants.NOT_APPLIED}
    assert set(errors.BY_CODE) == codes
    assert len(set(errors.BY_CODE.values())) == len(codes)
    for code, kind in errors.BY_CODE.items():
        assert kind("text").code == code
        assert str(kind("text")) == f"{errors.status_name(code)}: text"
        assert getattr(libregion, kind.__name__) is kind


def test_versions_agree() -> None:
    assert libregion.library_version() == libregion.__version__ == _constants.VERSION_STRING
    assert f'version = "{libregion.__version__}"' in (PACKAGE / "pyproject.toml").read_text()
    assert libregion.build_info()["version"] == libregion.__version__


def run_import(env: dict[str, str], code: str = "import libregion") -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("LIBREGION_PATH", "CARGO_TARGET_DIR")}
    return subprocess.run([sys.executable, "-c", code], env=clean | {"PYTHONPATH": str(PACKAGE)} | env, capture_output=True, text=True)


def test_a_library_that_is_not_found_says_what_was_tried(tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere.so")
    done = run_import({"LIBREGION_PATH": missing})
    assert done.returncode == 1 and f"{missing} (LIBREGION_PATH): no such file" in done.stderr
    (tmp_path / "text.so").write_text("no library")
    done = run_import({"LIBREGION_PATH": str(tmp_path / "text.so")})
    assert done.returncode == 1 and "text.so (LIBREGION_PATH): " in done.stderr
    # Without the variable: all other places.
    done = run_import({"CARGO_TARGET_DIR": str(tmp_path)}, "import libregion, sys; sys.stderr.write(libregion.library_path)")
    if done.returncode:  # pragma: no branch
        assert all(where in done.stderr for where in ("next to the package", "built in the source tree", "(system)", "Set LIBREGION_PATH"))
    else:
        assert "libregion.so" in done.stderr


def test_the_library_is_found_by_directory_and_in_the_source_tree(tmp_path: Path) -> None:
    code = "import libregion; print(libregion.library_path)"
    real = libregion.library_path
    release = tmp_path / "release"
    release.mkdir()
    (release / "libregion.so").symlink_to(real)
    assert run_import({"LIBREGION_PATH": str(release)}, code).stdout.strip() == str(release / "libregion.so")
    if not (PACKAGE / "libregion" / "libregion.so").exists():
        assert run_import({"CARGO_TARGET_DIR": str(tmp_path)}, code).stdout.strip() == str(release / "libregion.so")


def test_a_library_of_another_layout_is_refused() -> None:
    # The package's own import reads the constants first, so they are changed in a copy of the module.
    code = (
        "import importlib.util, sys, pathlib\n"
        f"p = pathlib.Path({str(PACKAGE / 'libregion')!r})\n"
        "spec = importlib.util.spec_from_file_location('libregion._constants', p / '_constants.py')\n"
        "m = importlib.util.module_from_spec(spec); spec.loader.exec_module(m)\n"
        "m.LAYOUT_HASH = '0123456789abcdef'; sys.modules['libregion._constants'] = m\n"
        "import libregion\n"
    )
    done = run_import({"LIBREGION_PATH": libregion.library_path}, code)
    assert done.returncode == 1 and "LibraryError" in done.stderr and "0123456789abcdef" in done.stderr


@pytest.mark.parametrize("sub", ["libregion"])
def test_the_package_is_typed(sub: str) -> None:
    assert (PACKAGE / sub / "py.typed").exists()
