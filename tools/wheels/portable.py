"""A check of built wheels: what their modules need and export, their licences and their size.

tools/wheels.sh calls it for each wheel. It reads wheels of any machine. auditwheel names the tag, but knows
only modules of the machine that it runs on.
"""

import io
import re
import sys
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

# Libraries that PEP 600 lets a wheel expect; the newest symbols of glibc 2.28.
ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
LOADERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
GLIBC = (2, 28)
EXPORTED = {"PyInit__native"}
LICENSES = {"LICENSE", *(path.name for path in Path(__file__).with_name("licenses").iterdir())}
LARGEST = 4_000_000


def module_faults(data: bytes) -> list[str]:
    """Returns why a library does not run on a Linux with glibc 2.28, and the symbols that it should hide."""
    elf = ELFFile(io.BytesIO(data))
    dynamic = elf.get_section_by_name(".dynamic")
    needed = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
    found = [f"it needs {name}" for name in sorted(needed - ALLOWED - LOADERS)]
    for library, versions in elf.get_section_by_name(".gnu.version_r").iter_versions():
        for version in versions:
            numbers = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version.name)
            if numbers is None or tuple(map(int, numbers.groups())) > GLIBC:
                found.append(f"it needs {version.name} of {library.name}")
    symbols = elf.get_section_by_name(".dynsym").iter_symbols()
    defined = [symbol for symbol in symbols if symbol.entry.st_shndx != "SHN_UNDEF"]
    exported = {symbol.name for symbol in defined if symbol.entry.st_info.bind != "STB_LOCAL"}
    return found + [f"it exports {name}" for name in sorted(exported ^ EXPORTED)]


def wheel_faults(path: Path) -> list[str]:
    """Returns what is wrong with a wheel."""
    found = [] if path.stat().st_size <= LARGEST else [f"it has more than {LARGEST / 1e6} MB"]
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        licenses = {name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name}
        found += [f"it lacks the licence {name}" for name in sorted(LICENSES - licenses)]
        modules = [name for name in names if name.endswith(".so")]
        if len(modules) != 1:
            found.append(f"it has {len(modules)} modules of C++, in place of one")
        return found + [fault for name in modules for fault in module_faults(wheel.read(name))]


def main() -> None:
    """Prints a line for each wheel that the command line names; exits with 1 if one is at fault."""
    status = 0
    for path in map(Path, sys.argv[1:]):
        faults = wheel_faults(path)
        good = f"glibc 2.28 or later, exports {', '.join(EXPORTED)}, {len(LICENSES)} licences"
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {'; '.join(faults) or good}")
        status |= bool(faults)
    sys.exit(status)


if __name__ == "__main__":
    main()
