use super::*;
use crate::error::ErrorKind;

fn with(config: &str) -> RegionOptions {
    RegionOptions { config: config.into(), ..RegionOptions::default() }
}

fn refused(o: &RegionOptions, kind: ErrorKind, part: &str) {
    let e = o.check().expect_err("must be refused");
    assert_eq!(e.kind(), kind, "{e}");
    assert!(e.message().contains(part), "{e}");
}

#[test]
fn zeroed_options_are_the_documented_defaults() {
    let s = RegionOptions::default().check().unwrap();
    assert_eq!(s.durability.unwrap_or(DURABILITY_DEFAULT), Durability::SyncWal);
    assert_eq!(s.clock_unit.unwrap_or(CLOCK_UNIT_DEFAULT), ClockUnit::Nanos);
    assert_eq!((s.sync_interval_ms, s.write_timeout_us), (1_000, 10_000_000));
    assert_eq!((s.memstore_limit, s.flush_bytes), (1 << 30, 128 << 20));
    assert_eq!((s.wal_bytes_max, s.block_cache_bytes, s.wal_segment_bytes), (8 << 30, 256 << 20, 64 << 20));
    assert_eq!(s.wal_io, WalIo::Auto);
    assert_eq!(s, Settings::default());
}

#[test]
fn every_knob_survives_being_shown_and_parsed() {
    for knob in KNOBS {
        for value in [knob.min, knob.max] {
            let mut s = Settings::default();
            (knob.set)(&mut s, value);
            assert_eq!((knob.get)(&s), value, "{}", knob.key);
            let mut again = Settings::default();
            config::apply(&format!("{}={}", knob.key, knob.show(&s)), &[], &mut again).unwrap();
            assert_eq!(again, s, "{}", knob.key);
        }
        assert!(knob.default >= knob.min && knob.default <= knob.max, "{}", knob.key);
    }
}

#[test]
fn config_is_read_with_blanks_comments_and_units() {
    let s = with(" wal_segment_bytes = 1m ,, recovery=power_cut\n# a comment, with=signs\nallow_network_fs=on # why\nlock_buckets=128")
        .check()
        .unwrap();
    assert_eq!((s.wal_segment_bytes, s.recovery_power_cut, s.allow_network_fs, s.lock_buckets), (1 << 20, true, true, 128));
}

#[test]
fn an_unknown_key_names_the_nearest() {
    refused(&with("wal_segment_byte=1m"), ErrorKind::Unsupported, "did you mean \"wal_segment_bytes\"?");
    refused(&with("durabilty=sync_wal"), ErrorKind::Unsupported, "did you mean \"durability\"?");
    refused(&with("durability=fsyncwal"), ErrorKind::Unsupported, "did you mean \"fsync_wal\"?");
    refused(&with("xyzzy=1"), ErrorKind::Unsupported, "known are: durability");
    refused(&with(&format!("{}=1", "k".repeat(100_000))), ErrorKind::Unsupported, "known are");
}

#[test]
fn malformed_config_is_refused() {
    refused(&with("wal_segment_bytes"), ErrorKind::Invalid, "not key=value");
    refused(&with("wal_segment_bytes=12q"), ErrorKind::Invalid, "wal_segment_bytes");
    refused(&with("wal_segment_bytes=99999999999999t"), ErrorKind::Invalid, "wal_segment_bytes");
    refused(&with("wal_segment_bytes=1k"), ErrorKind::Invalid, "must be 65536 to");
    refused(&with("nonce_window_s=1,nonce_window_s=1"), ErrorKind::Invalid, "twice");
    refused(&with("allow_network_fs=maybe"), ErrorKind::Invalid, "true or false");
    refused(&with("lock_buckets=100"), ErrorKind::Invalid, "power of two");
    refused(&with("wal_bytes_max=1m"), ErrorKind::Invalid, "4 segments");
}

#[test]
fn a_field_and_a_key_must_agree() {
    let mut o = with("memstore_limit=2g");
    o.memstore_limit = 2 << 30;
    assert_eq!(o.check().unwrap().memstore_limit, 2 << 30);
    o.memstore_limit = 1 << 30;
    refused(&o, ErrorKind::Invalid, "field memstore_limit");
}

#[test]
fn fields_have_bounds() {
    refused(&RegionOptions { memstore_limit: 1, ..RegionOptions::default() }, ErrorKind::Invalid, "memstore_limit must be");
    refused(&RegionOptions { background_threads: 65, ..RegionOptions::default() }, ErrorKind::Invalid, "background_threads");
    refused(
        &RegionOptions { flags: OpenFlags { error_if_exists: true, ..OpenFlags::default() }, ..RegionOptions::default() },
        ErrorKind::Invalid,
        "ERROR_IF_EXISTS",
    );
    refused(&RegionOptions { start_row: b"b".to_vec(), end_row: b"b".to_vec(), ..RegionOptions::default() }, ErrorKind::Invalid, "end_row");
}

#[test]
fn family_names_and_bounds() {
    for bad in ["", ".hidden", "a/b", "a:b", "a\\b", "a\nb", &"x".repeat(128)] {
        assert_eq!(FamilySpec::named(bad).check().unwrap_err().kind(), ErrorKind::Invalid, "{bad:?}");
    }
    for good in ["f", "cf.1", "größe", &"x".repeat(127)] {
        FamilySpec::named(good).check().unwrap();
    }
    let o = RegionOptions { families: vec![FamilySpec::named("f"), FamilySpec::named("f")], ..RegionOptions::default() };
    refused(&o, ErrorKind::Invalid, "listed twice");
    let flags = FamilySpec { flags: 4, ..FamilySpec::named("f") };
    assert_eq!(flags.check().unwrap_err().kind(), ErrorKind::Unsupported);
}
