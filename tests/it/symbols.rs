//! What libregion.so exports: `include/region.symbols` is the list, sorted; all versioned, nothing else. Only grows.

use std::path::PathBuf;
use std::process::Command;

/// The shared library of this build. Cargo puts it beside the folder of the test binary.
fn library() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let dir = exe.parent()?.parent()?;
    let path = dir.join("libregion.so");
    path.exists().then_some(path)
}

fn exported() -> Option<Vec<String>> {
    let path = library()?;
    let out = Command::new("nm").args(["-D", "--with-symbol-versions", "--defined-only"]).arg(&path).output().ok()?;
    assert!(out.status.success(), "nm: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    // "A REGION_0" is the version node itself, which some linkers list.
    Some(text.lines().map(|l| l.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")).filter(|l| l != "A REGION_0").collect())
}

#[test]
fn exactly_the_listed_symbols_are_exported_and_versioned() {
    let list = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/include/region.symbols")).expect("include/region.symbols");
    let listed: Vec<&str> = list.lines().collect();
    assert!(listed.is_sorted() && listed.len() > 40, "the list is sorted");
    let Some(mut exported) = exported() else {
        // `cargo test` builds the library before this test; only a hand-made run can miss it.
        panic!("libregion.so is not beside the test: run `cargo build` first");
    };
    exported.sort();
    let wanted: Vec<String> = listed.iter().map(|s| format!("T {s}@@REGION_0")).collect();
    assert_eq!(exported, wanted);
}

#[test]
fn the_soname_is_set_and_the_library_stays_loaded() {
    let path = library().expect("libregion.so");
    let out = Command::new("readelf").arg("-dW").arg(&path).output().expect("readelf");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("soname: [libregion.so.0]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
}
