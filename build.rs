//! Soname and symbol versions of the shared library, and what `region_build_info` tells; nothing is written into the source tree.

use std::process::Command;

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    println!("cargo:rerun-if-changed=include/region.map");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=REGION_COMMIT");
    if os == "linux" {
        // tools/cc-region replaces rustc's own export list by this version script when it sees the soname.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libregion.so.0");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={dir}/include/region.map");
    } else if os == "macos" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libregion.0.dylib");
    }
    println!("cargo:rustc-env=REGION_BUILD_INFO={}", build_info());
}

/// One line of JSON. The commit comes from the environment, which a release script sets: asking git here would rebuild the library at each commit.
fn build_info() -> String {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("--version").output();
    let rustc = rustc.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default();
    let features: Vec<String> =
        std::env::vars().filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(|f| f.to_lowercase().replace('_', "-"))).collect();
    let parts = [
        ("version", var("CARGO_PKG_VERSION")),
        ("commit", var("REGION_COMMIT")),
        ("rustc", rustc),
        ("target", var("TARGET")),
        ("profile", var("PROFILE")),
        ("features", features.join(" ")),
    ];
    let text = parts.map(|(key, value)| format!("\"{key}\":\"{}\"", value.replace(['"', '\\', '\n', '\0'], "")));
    format!("{{{}}}", text.join(","))
}
