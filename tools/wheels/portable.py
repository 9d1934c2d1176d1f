"""A check that a wheel runs on any Linux of its tag, by the libraries and symbols that its module needs.

auditwheel knows wheels of the machine that it runs on only; this reads those of any.
"""

import io
import re
import sys
import zipfile

from elftools.elf.elffile import ELFFile

# Libraries that PEP 600 lets a wheel expect; the newest symbols of glibc 2.28.
ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
LOADERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
GLIBC = (2, 28)


def faults(data: bytes) -> list[str]:
    """Returns what keeps a shared library from running on a Linux of glibc 2.28."""
    elf = ELFFile(io.BytesIO(data))
    dynamic = elf.get_section_by_name(".dynamic")
    needed = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
    found = [f"it needs {name}" for name in sorted(needed - ALLOWED - LOADERS)]
    for library, versions in elf.get_section_by_name(".gnu.version_r").iter_versions():
        for version in versions:
            numbers = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version.name)
            if numbers is None or tuple(map(int, numbers.groups())) > GLIBC:
                found.append(f"it needs {version.name} of {library.name}")
    return found


def main() -> None:
    """Prints each module of the wheel that the command line names; exits with 1 if one is not portable."""
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        for name in [name for name in wheel.namelist() if name.endswith(".so")]:
            data = wheel.read(name)
            problems = faults(data)
            print(f"{name}: {len(data) / 1e6:.1f} MB, {'; '.join(problems) or 'glibc 2.28 or later'}")
            if problems:
                sys.exit(1)


if __name__ == "__main__":
    main()
