#!/usr/bin/env bash
# Builds static libjpeg-turbo, libdeflate and libwebp from their source releases: libraries.sh WORK PREFIX [CMake argument ...]
#
# Archives are kept in WORK/sources. They come from the folder SOURCES where it is set, else from the projects' releases, else from the
# Debian mirror that this machine's apt uses, which keeps the same bytes.
set -euo pipefail
work=$1
prefix=$2
shift 2

JPEG_URL=https://github.com/libjpeg-turbo/libjpeg-turbo/archive/refs/tags/3.1.3.tar.gz
JPEG_DEBIAN=libj/libjpeg-turbo/libjpeg-turbo_3.1.3.orig.tar.gz
JPEG_SHA=3a13a5ba767dc8264bc40b185e41368a80d5d5f945944d1dbaa4b2fb0099f4e5
DEFLATE_URL=https://github.com/ebiggers/libdeflate/archive/refs/tags/v1.23.tar.gz
DEFLATE_DEBIAN=libd/libdeflate/libdeflate_1.23.orig.tar.gz
DEFLATE_SHA=1ab18349b9fb0ce8a0ca4116bded725be7dcbfa709e19f6f983d99df1fb8b25f
WEBP_URL=https://storage.googleapis.com/downloads.webmproject.org/releases/webp/libwebp-1.6.0.tar.gz
WEBP_DEBIAN=libw/libwebp/libwebp_1.6.0.orig.tar.gz
WEBP_SHA=e4ab7009bf0629fd11982d4c2aa83964cf244cffba7347ecd39019a9e38c4564

die() { echo "$*" >&2; exit 1; }
quiet() { "$@" >"$work/log" 2>&1 || { tail -40 "$work/log" >&2; exit 1; }; }

# Fetches $1, or Debian's file $2, as $3.
fetch() {
  if [ -n "${SOURCES:-}" ]; then cp "$SOURCES/${2##*/}" "$3"; return; fi
  curl -sSfL --max-time 120 -o "$3" "$1" 2>/dev/null && return
  local mirror
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -1)
  curl -sSfL --max-time 120 -o "$3" "$mirror/pool/main/$2" || die "$1 could not be fetched. Put the archive as ${2##*/} into a folder and set SOURCES to it."
}

# Leaves the archive ($1, $2) of digest $3 unpacked as WORK/sources/$4.
unpack() {
  local file=$work/sources/$4.tar.gz
  mkdir -p "$work/sources/$4"
  if [ ! -e "$file" ]; then fetch "$1" "$2" "$file.part"; mv "$file.part" "$file"; fi
  local check=(sha256sum)
  command -v sha256sum >/dev/null || check=(shasum -a 256)  # macOS
  echo "$3  $file" | "${check[@]}" --check >/dev/null || die "$file is not the release that this recipe names. Delete it and run this again."
  tar xf "$file" -C "$work/sources/$4" --strip-components 1
}

[ ! -e "$prefix/lib/libdeflate.a" ] || [ ! -e "$prefix/lib/libwebpdecoder.a" ] || exit 0
mkdir -p "$work"
unpack "$JPEG_URL" "$JPEG_DEBIAN" "$JPEG_SHA" jpeg
unpack "$DEFLATE_URL" "$DEFLATE_DEBIAN" "$DEFLATE_SHA" deflate
unpack "$WEBP_URL" "$WEBP_DEBIAN" "$WEBP_SHA" webp
common=(-DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON
  -DCMAKE_C_VISIBILITY_PRESET=hidden "$@")
echo "libjpeg-turbo, libdeflate and libwebp into $prefix"
quiet cmake -S "$work/sources/jpeg" -B "$prefix/../jpeg" "${common[@]}" -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DWITH_TOOLS=OFF -DWITH_TESTS=OFF -DREQUIRE_SIMD=ON
quiet cmake --build "$prefix/../jpeg" --target install
# Clang does not know the attributes with which libdeflate marks its newest kernels of checksums.
quiet cmake -S "$work/sources/deflate" -B "$prefix/../deflate" "${common[@]}" -DLIBDEFLATE_BUILD_SHARED_LIB=OFF -DLIBDEFLATE_BUILD_GZIP=OFF \
  -DCMAKE_C_FLAGS="-DLIBDEFLATE_ASSEMBLER_DOES_NOT_SUPPORT_AVX512VNNI -DLIBDEFLATE_ASSEMBLER_DOES_NOT_SUPPORT_VPCLMULQDQ"
quiet cmake --build "$prefix/../deflate" --target install
programs=()
for program in ANIM_UTILS CWEBP DWEBP GIF2WEBP IMG2WEBP VWEBP WEBPINFO LIBWEBPMUX WEBPMUX EXTRAS; do programs+=("-DWEBP_BUILD_$program=OFF"); done
quiet cmake -S "$work/sources/webp" -B "$prefix/../webp" "${common[@]}" "${programs[@]}" -DBUILD_SHARED_LIBS=OFF
quiet cmake --build "$prefix/../webp" --target install
