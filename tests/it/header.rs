//! `include/region.h` is what cbindgen renders from `src/ffi`. `UPDATE_HEADER=1` (as in `make header`) rewrites it.

use std::path::{Path, PathBuf};

/// In the order of the header.
const SOURCES: &[&str] =
    &["status", "bytes", "open_options", "options", "region", "write", "batch", "read", "scan", "pool", "version", "log"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn render() -> String {
    let mut config = cbindgen::Config::from_file(root().join("include/cbindgen.toml")).expect("include/cbindgen.toml");
    let number = region::ffi::version::region_version();
    let fill = |text: &str| {
        text.replace("@VERSION@", &format!("0x{number:08x}"))
            .replace("@VERSION_STRING@", env!("CARGO_PKG_VERSION"))
            .replace("@ABI@", &region::ffi::version::ABI.to_string())
            .replace("@LAYOUT@", region::ffi::version::layout_hash())
    };
    config.after_includes = config.after_includes.as_deref().map(fill);
    // cbindgen puts a trailer behind the include guard, where a second #include would see it again.
    let last = config.trailer.take().expect("a trailer");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root().join(format!("src/ffi/{source}.rs")));
    }
    let mut out = Vec::new();
    builder.generate().expect("src/ffi parses").write(&mut out);
    let text = String::from_utf8(out).expect("UTF-8");
    let (body, end) = text.rsplit_once("#ifdef __cplusplus\n}").expect("extern C ends");
    polished(format!("{body}{}\n\n#ifdef __cplusplus\n}}{end}", last.trim()).trim_start())
}

/// What cbindgen cannot be told: enums without names (the constants are what counts; a name like `region_op` would be one more for C programs to
/// avoid), and comments of one line on one line.
fn polished(text: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut closing = None;
    for line in text.lines().map(str::trim_end) {
        if let Some(name) = line.strip_prefix("typedef enum ").and_then(|l| l.strip_suffix(" {")) {
            closing = Some(format!("}} {name};"));
            out.push("enum {".to_string());
        } else if closing.as_deref() == Some(line) {
            closing = None;
            // A comma behind the last constant is not C++98; harmless to leave out.
            if let Some(last) = out.last_mut() {
                *last = last.trim_end_matches(',').to_string();
            }
            out.push("};".to_string());
        } else if line.trim() == "*/"
            && let [.., open, middle] = out.as_slice()
            && open.trim() == "/**"
            && let Some(content) = middle.trim_start().strip_prefix("* ")
        {
            let short = format!("{open} {content} */");
            out.truncate(out.len() - 2);
            out.push(short);
        } else {
            out.push(line.to_string());
        }
    }
    out.join("\n") + "\n"
}

#[test]
fn the_committed_header_is_the_rendered_one() {
    let path = root().join("include/region.h");
    let now = render();
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &now).expect("include/region.h");
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((i, (a, b))) = committed.lines().zip(now.lines()).enumerate().find(|(_, (a, b))| a != b) {
        panic!("include/region.h line {}:\n  committed: {a}\n  rendered:  {b}\nrun `make header`", i + 1);
    }
    assert_eq!(committed.len(), now.len(), "include/region.h is cut or too long: run `make header`");
}

/// Every exported function is in the header with a comment, and says who may call it.
#[test]
fn every_function_is_documented() {
    let header = render();
    let symbols = std::fs::read_to_string(root().join("include/region.symbols")).expect("include/region.symbols");
    for name in symbols.lines() {
        // The declaration, not a comment that mentions it.
        let call = format!("{name}(");
        let is_declaration = |at: &usize| {
            let line = header.get(..*at).and_then(|h| h.rsplit('\n').next()).unwrap_or("");
            !line.trim_start().starts_with(['*', '/', '#'])
        };
        let at = header.match_indices(&call).map(|(at, _)| at).find(is_declaration);
        let at = at.unwrap_or_else(|| panic!("{name} is exported but not in region.h"));
        let before = header.get(..at).unwrap_or("");
        let (comment, declaration) =
            before.rfind("/**").and_then(|i| before.get(i..)).and_then(|c| c.rsplit_once("*/")).unwrap_or_default();
        // Between a function's comment and its name stands only its type: else the comment is its neighbour's.
        assert!(!declaration.contains(';'), "{name} has no comment of its own");
        assert!(comment.contains("Threads:"), "{name}: its comment does not say which threads may call it:\n{comment}");
    }
}

#[test]
fn sources_are_complete() {
    let listed: Vec<String> = SOURCES.iter().map(|s| format!("{s}.rs")).collect();
    for entry in std::fs::read_dir(root().join("src/ffi")).expect("src/ffi") {
        let path = entry.expect("entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = if path.is_file() { std::fs::read_to_string(&path).expect("source") } else { String::new() };
        assert!(
            listed.contains(&name) || !text.contains("no_mangle"),
            "{name} exports functions but is not rendered: {}",
            Path::new(&name).display()
        );
    }
}
