//! Names, settings, ids.

use super::*;
use crate::error::ErrorKind;

fn family(name: &str) -> FamilyInfo {
    FamilyInfo::new(name.as_bytes()).unwrap()
}

/// BAT-17 and HBase's rule for names.
#[test]
fn names() {
    for good in ["f", "cf", "0", "a.b", "with space", "größe", "-", &"n".repeat(127)] {
        assert_eq!(family(good).name, good);
    }
    let bad: [&[u8]; 13] = [
        b"",
        b"f:x",
        b"a/b",
        b"a\\b",
        b".f",
        b"recovered.edits",
        b"a\0",
        b"a\n",
        b"\x7f",
        "\u{85}".as_bytes(),
        b"\xff",
        b"a\xc3",
        &[b'n'; 128],
    ];
    for name in bad {
        let e = FamilyInfo::new(name).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid, "{}", name.escape_ascii());
    }
    assert!(FamilyInfo::new(b"f:x").unwrap_err().message().contains("\"f:x\""));
}

#[test]
fn settings() {
    let change = |f: fn(&mut FamilyInfo)| {
        let mut info = family("f");
        f(&mut info);
        Families::new().add(info).map(drop).map_err(|e| e.kind())
    };
    let good: [fn(&mut FamilyInfo); 6] = [
        |_| {},
        |f| f.max_versions = i32::MAX as u32,
        |f| (f.max_versions, f.min_versions) = (3, 3),
        |f| f.ttl_ms = 1,
        |f| (f.bloom, f.compression, f.block_size) = (3, 5, 16 << 20),
        |f| f.flags = KEEP_DELETED_TTL,
    ];
    for f in good {
        assert_eq!(change(f), Ok(()));
    }
    let bad: [fn(&mut FamilyInfo); 12] = [
        |f| f.max_versions = 0,
        |f| f.max_versions = 1 << 31,
        |f| f.min_versions = 2,
        |f| f.ttl_ms = 0,
        |f| f.bloom = 0,
        |f| f.bloom = 4,
        |f| f.compression = 0,
        |f| f.compression = 6,
        |f| f.block_size = 1023,
        |f| f.block_size = (16 << 20) + 1,
        |f| f.flags = KEEP_DELETED | KEEP_DELETED_TTL,
        |f| f.name = "a:b".into(),
    ];
    for (i, f) in bad.into_iter().enumerate() {
        assert_eq!(change(f), Err(ErrorKind::Invalid), "{i}");
    }
}

#[test]
fn ids_are_never_used_again() {
    let mut all = Families::new();
    assert!(all.is_empty() && all.after(0).is_none() && all.get(FamilyId(0)).is_none());
    let (a, b) = (all.add(family("a")).unwrap(), all.add(family("b")).unwrap());
    assert_eq!((a, b), (FamilyId(1), FamilyId(2)));
    assert_eq!(all.add(family("a")).unwrap_err().kind(), ErrorKind::Exists);
    let before = all.clone();
    assert_eq!(all.remove(b).unwrap().name, "b");
    assert_eq!(before.get(b).unwrap().name, "b", "published values do not change");
    assert!(all.get(b).is_none() && all.find(b"b").is_none());
    assert_eq!(all.add(family("b")).unwrap(), FamilyId(3));
    assert_eq!(all.remove(b).unwrap_err().kind(), ErrorKind::NoFamily);
    for id in [0, 4, u32::MAX] {
        assert!(all.get(FamilyId(id)).is_none());
        assert_eq!(all.remove(FamilyId(id)).unwrap_err().kind(), ErrorKind::NoFamily);
    }
    assert_eq!(all.find(b"b").unwrap().id, FamilyId(3));
    let order: Vec<u32> = std::iter::successors(all.after(0), |f| all.after(f.id.0)).map(|f| f.id.0).collect();
    assert_eq!((order, all.len(), all.next_id()), (vec![1, 3], 2, 4));
    assert!(all.after(3).is_none() && all.after(u32::MAX).is_none());
}

#[test]
fn settings_change_and_names_stay() {
    let mut all = Families::new();
    let id = all.add(family("a")).unwrap();
    let mut new = family("a");
    (new.id, new.max_versions) = (id, 5);
    all.alter(new.clone()).unwrap();
    assert_eq!(**all.get(id).unwrap(), new.clone().settled());
    assert_eq!(all.get(id).unwrap().keep, Keep::Versions(5));
    new.name = "b".into();
    assert_eq!(all.alter(new.clone()).unwrap_err().kind(), ErrorKind::Invalid);
    (new.name, new.max_versions) = ("a".into(), 0);
    assert_eq!(all.alter(new.clone()).unwrap_err().kind(), ErrorKind::Invalid);
    for unknown in [0, 2, u32::MAX] {
        let mut f = family("a");
        f.id = FamilyId(unknown);
        assert_eq!(all.alter(f).unwrap_err().kind(), ErrorKind::NoFamily);
    }
}

#[test]
fn ids_run_out_with_an_error() {
    let mut all = Families::from_stored(FAMILY_ID_MAX, vec![]).unwrap();
    assert_eq!(all.add(family("last")).unwrap(), FamilyId(FAMILY_ID_MAX));
    assert_eq!(all.add(family("more")).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(Families::from_stored(FAMILY_ID_MAX + 1, vec![]).unwrap().next_id(), FAMILY_ID_MAX + 1);
    for next in [0, FAMILY_ID_MAX + 2, u32::MAX] {
        assert_eq!(Families::from_stored(next, vec![]).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
