use super::*;

/// A changed struct needs a new line in `SERVED`; the old ones stay while their programs are served.
#[test]
fn the_served_layout_of_today_is_the_real_one() {
    assert_eq!(layout_hash(), layout::hash(), "add the real hash to SERVED, and run `make header`");
    assert_eq!(SERVED.last().unwrap().0, ABI);
}

/// The table names every struct and field of the header, and no struct has padding (`sized::write` reads all bytes).
#[test]
fn the_layout_table_is_complete() {
    let header = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/include/region.h")).unwrap();
    let mut found = Vec::new();
    for part in header.split("typedef struct ").skip(1) {
        let Some((name, body)) = part.split_once(" {") else { continue };
        if name.contains([';', '\n']) {
            continue;
        }
        let body = body.split(&format!("}} {name};")).next().unwrap();
        let fields: Vec<String> = body
            .lines()
            .filter(|l| l.trim_end().ends_with(';') && !l.trim_start().starts_with('*'))
            .map(|l| {
                let decl = l.trim().trim_end_matches(';');
                let decl = decl.split('[').next().unwrap();
                decl.rsplit([' ', '*']).next().unwrap().to_string()
            })
            .collect();
        found.push((name.to_string(), fields));
    }
    let mut table: Vec<(String, Vec<String>)> = layout::STRUCTS
        .iter()
        .map(|(name, _, fields)| (name.to_string(), fields.iter().map(|f| f.0.trim_start_matches("r#").to_string()).collect()))
        .collect();
    found.sort();
    table.sort();
    assert_eq!(found, table);
    for (name, size, fields) in layout::STRUCTS {
        let mut end = 0;
        for (field, offset, size) in *fields {
            assert_eq!(*offset, end, "{name}.{field}: padding before it");
            end = offset + size;
        }
        assert_eq!(end, *size, "{name}: padding at its end");
        assert_eq!(size % 8, 0, "{name}: sizes are multiples of 8");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let text = env!("CARGO_PKG_VERSION").split('.').map(|n| n.parse::<u32>().unwrap()).collect::<Vec<_>>();
    assert_eq!(region_version(), text[0] << 24 | text[1] << 16 | text[2] << 8);
}

#[test]
fn the_build_info_is_json() {
    // SAFETY: a static NUL-terminated text.
    let text = unsafe { CStr::from_ptr(region_build_info()) }.to_str().unwrap();
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(json["rustc"].as_str().unwrap().starts_with("rustc "));
}
