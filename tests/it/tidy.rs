//! The rules of the tree: which room may import which, where unsafe code may stand, how long a file may be, and that the documents name what is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file with its path below `src`, sorted.
fn sources() -> Vec<(String, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("readable directory") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    let src = root().join("src");
    let mut paths = Vec::new();
    walk(&src, &mut paths);
    paths.sort();
    assert!(paths.len() > 50, "the walk found only {} files", paths.len());
    let name = |p: &Path| p.strip_prefix(&src).expect("below src").to_string_lossy().into_owned();
    paths.iter().map(|p| (name(p), fs::read_to_string(p).expect("source"))).collect()
}

/// Rank of a room; see docs/architecture.md.
fn rank(room: &str) -> u32 {
    match room {
        "ids" | "clock" | "health" | "sync" | "error" | "options" | "stats" | "hooks" | "lock_order" => 0,
        "cell" => 1,
        "env" | "mslab" => 2,
        "rowlock" | "sequencer" | "nonce" | "mvcc" | "memstore" | "wal" | "merge" => 3,
        "store" => 4,
        "read" | "commit" => 5,
        "region" => 6,
        "ffi" => 7,
        other => panic!("the room {other} has no rank: give it one here and in docs/architecture.md"),
    }
}

fn room_of(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
}

fn is_test(file: &str) -> bool {
    file.contains("tests") || file.contains("models") || file.contains("loom_model")
}

/// Rooms that a line imports by `use crate::…`, braces included.
fn imported(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (i, _) in text.match_indices("crate::") {
        let rest = &text[i + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' | ':' if depth == 0 => {
                        out.push(std::mem::take(&mut word));
                        continue;
                    }
                    _ => {}
                }
                if depth == 0 && !c.is_whitespace() {
                    word.push(c);
                }
            }
            out.push(word);
        } else {
            out.push(rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect());
        }
    }
    out.retain(|w| root().join("src").join(w).exists() || root().join("src").join(format!("{w}.rs")).exists());
    out
}

#[test]
fn rooms_import_lower_ranks_only() {
    let mut wrong = Vec::new();
    for (file, text) in sources().iter().filter(|(f, _)| !is_test(f) && f != "lib.rs") {
        let from = room_of(file);
        for line in text.lines().map(str::trim_start).filter(|l| !l.starts_with("//")) {
            for to in imported(line) {
                // Rank 0 is words and time; its files may use each other.
                if to != from && rank(&to) >= rank(from) && rank(from) > 0 {
                    wrong.push(format!("{file} (rank {}) imports {to} (rank {})", rank(from), rank(&to)));
                }
                if rank(from) == 0 && rank(&to) > 0 {
                    wrong.push(format!("{file} (rank 0) imports {to}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Modules that allow unsafe code, as paths below `src` without suffix.
fn unsafe_rooms() -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for (file, text) in sources() {
        let mut expects = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[expect(unsafe_code") {
                assert!(line.contains("reason = "), "{file}: an exception from the unsafe lint without a reason");
                expects = true;
            } else if expects && let Some((_, name)) = line.split_once("mod ") {
                let dir = match file.as_str() {
                    "lib.rs" => String::new(),
                    f => format!("{}/", f.trim_end_matches("/mod.rs").trim_end_matches(".rs")),
                };
                rooms.insert(format!("{dir}{}", name.trim_end_matches(';')));
                expects = false;
            } else if !line.starts_with("#[") {
                expects = false;
            }
        }
    }
    rooms
}

#[test]
fn unsafe_code_stands_in_its_rooms_only() {
    let rooms = unsafe_rooms();
    for (file, text) in sources() {
        let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
        // A test may reach into its own room's memory, with a reason of its own.
        if is_test(&file) && text.contains("#[expect(unsafe_code, reason") {
            continue;
        }
        let in_room = rooms.iter().any(|r| path == r || path.starts_with(&format!("{r}/")));
        let code = text.lines().map(str::trim_start).filter(|l| !l.starts_with("//"));
        let found = code.filter(|l| l.contains("unsafe {") || l.contains("unsafe fn") || l.contains("unsafe impl")).count();
        assert!(in_room || found == 0, "{file}: {found} times unsafe outside the rooms {rooms:?}");
    }
}

#[test]
fn every_unsafe_room_is_registered() {
    let page = fs::read_to_string(root().join("docs/unsafe.md")).expect("docs/unsafe.md");
    for room in unsafe_rooms() {
        let name = room.rsplit('/').next().unwrap_or(&room);
        let listed = page.contains(&format!("{name}.rs")) || page.contains(&format!("`{name}/")) || page.contains(&format!("{room}/"));
        assert!(listed || room.ends_with("models"), "docs/unsafe.md does not name {room}");
    }
}

#[test]
fn files_stay_readable() {
    for (file, text) in sources() {
        let lines = text.lines().count();
        let says_why = text.lines().take_while(|l| l.starts_with("//!")).any(|l| l.contains("longer than"));
        assert!(lines <= 1000, "{file} has {lines} lines; 1,000 is the end");
        assert!(lines <= 600 || is_test(&file) || says_why, "{file} has {lines} lines; over 600 its header says why (\"longer than …\")");
        assert!(file == "lib.rs" || text.starts_with("//!") || is_test(&file), "{file} has no header");
    }
}

#[test]
fn architecture_names_what_is_there() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("docs/architecture.md");
    let mut named = 0;
    for word in page
        .split('`')
        .filter(|w| w.starts_with("src/") || w.starts_with("docs/") || w.starts_with("include/") || w.starts_with("benches/"))
    {
        assert!(root().join(word).exists(), "docs/architecture.md names {word}, which is not there");
        named += 1;
    }
    assert!(named > 15, "only {named} paths found");
    for (file, _) in sources().iter().filter(|(f, _)| f != "lib.rs") {
        let room = room_of(file);
        assert!(
            page.contains(&format!("`{room}`")) || page.contains(&format!("src/{room}/")),
            "docs/architecture.md does not name the room {room}"
        );
    }
}

#[test]
fn readme_program_is_the_example() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let example = fs::read_to_string(root().join("examples/hello.c")).expect("examples/hello.c");
    let body = &example[example.find("#include").expect("an include")..];
    assert!(readme.contains(body), "the C program of the README is not examples/hello.c");
}

#[test]
fn every_dependency_says_why() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let mut in_dependencies = false;
    let mut explained = false;
    let mut seen = 0;
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line.contains("dependencies");
            explained = false;
        } else if line.starts_with('#') {
            explained = true;
        } else if in_dependencies && line.contains('=') {
            assert!(explained, "Cargo.toml: no reason above `{line}`");
            seen += 1;
        }
    }
    assert!(seen > 10, "only {seen} dependencies found");
}

/// A lock file that is not up to date is changed by every build, and what is built is not what was committed.
#[test]
fn committed_lock_files_fit_and_scripts_hold_them() {
    let read = |p: &str| fs::read_to_string(root().join(p)).unwrap_or_else(|e| panic!("{p}: {e}"));
    let manifest = read("Cargo.toml");
    let mut section = "";
    let mut wanted = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && !section.contains("dev-") && !line.starts_with('#') {
            wanted.extend(line.split_once(" = ").map(|(name, _)| name.to_owned()));
        }
    }
    for lock in ["fuzz/Cargo.lock", "benches/compare/boundary/Cargo.lock", "tools/tsan/Cargo.lock"] {
        let text = read(lock);
        let (_, package) = text.split_once("name = \"libregion\"").unwrap_or_else(|| panic!("{lock} does not have libregion"));
        let (package, _) = package.split_once("[[package]]").unwrap_or((package, ""));
        // A name with a version behind it: two versions of it are in the file.
        let listed = package.split('"').skip(1).step_by(2).filter_map(|word| word.split(' ').next());
        let has: BTreeSet<String> = listed.filter(|w| !w.starts_with(char::is_numeric)).map(str::to_owned).collect();
        assert_eq!(has, wanted, "{lock} is out of date: cargo metadata --manifest-path {}", lock.replace(".lock", ".toml"));
    }
    let mut seen = 0;
    for script in
        ["tools/fuzz.sh", "tools/tsan.sh", "tools/test.sh", "tools/loom.sh", "tools/demo.sh", "benches/compare/run.sh", "Makefile"]
    {
        let text = read(script).replace("\\\n", " ");
        for line in text.lines().filter(|l| !l.trim_start().starts_with('#')) {
            for call in ["cargo build", "cargo test", "cargo clippy", "cargo bench"] {
                if line.contains(call) && !line.contains("missing") && !line.contains("say ") {
                    assert!(line.contains("--locked"), "{script}: without --locked: {line}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 10, "only {seen} calls of cargo found");
}
