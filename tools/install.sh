#!/usr/bin/env bash
# Installs library, headers and pkg-config file:  tools/install.sh ROOT PREFIX   (ROOT = DESTDIR + PREFIX; called by `make install`)
set -euo pipefail
cd "$(dirname "$0")/.."
to=${1:?where to install}
lib=${CARGO_TARGET_DIR:-target}/release/libregion.so
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
[ -f "$lib" ] || { echo "install: $lib is not there; run cargo build --release first" >&2; exit 1; }
install -d "$to/lib/pkgconfig" "$to/include/libregion"
install -m 755 "$lib" "$to/lib/libregion.so.$version"
ln -sf "libregion.so.$version" "$to/lib/libregion.so.0"
ln -sf libregion.so.0 "$to/lib/libregion.so"
install -m 644 "${lib%.so}.a" "$to/lib/libregion.a"
install -m 644 include/region.h include/region_pack.h "$to/include/libregion/"
# Relocatable: the prefix is found from where the file lies. ICU has a region.h too, hence a directory of our own.
cat > "$to/lib/pkgconfig/libregion.pc" <<PC
prefix=\${pcfiledir}/../..
libdir=\${prefix}/lib
includedir=\${prefix}/include/libregion

Name: libregion
Description: An HBase region as an embedded library with durable counters
Version: $version
Libs: -L\${libdir} -lregion
Libs.private: -lgcc_s -lpthread -ldl -lm -lc
Cflags: -I\${includedir}
PC
echo "installed libregion $version in $to"
