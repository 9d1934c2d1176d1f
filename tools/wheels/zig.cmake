# Toolchain that compiles for a Linux of glibc 2.28 or later with Zig's Clang, whatever the machine that builds.
# tools/wheels.sh sets STOKER_TARGET (x86_64 or aarch64) and STOKER_ZIG (the folder of its compiler scripts) in the environment.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{STOKER_TARGET})
set(CMAKE_C_COMPILER $ENV{STOKER_ZIG}/cc)
set(CMAKE_CXX_COMPILER $ENV{STOKER_ZIG}/c++)
set(CMAKE_AR $ENV{STOKER_ZIG}/ar CACHE FILEPATH "")
set(CMAKE_RANLIB $ENV{STOKER_ZIG}/ranlib CACHE FILEPATH "")
# Libraries come from the prefix of static ones only; programs and Python from the machine.
set(CMAKE_FIND_ROOT_PATH $ENV{STOKER_PREFIX})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(STOKER_ARMV8_CRC -mcpu=generic+crc)  # Zig has names of its own for processors
