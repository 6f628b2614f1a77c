//! Soname and symbol versions of the shared library; nothing else, and nothing is written into the source tree.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    println!("cargo:rerun-if-changed=include/region.map");
    if os == "linux" {
        // tools/cc-region replaces rustc's own export list by this version script when it sees the soname.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libregion.so.0");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={dir}/include/region.map");
    } else if os == "macos" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libregion.0.dylib");
    }
}
