//! Log files that were cut at the end of a record.

use crate::rig::*;
use region::env::Env;
use region::env::mem::MemEnv;
use region::error::ErrorKind;
use region::options::{FamilySpec, OpenFlags, RegionOptions};
use region::region::{CloseFlags, Region};
use std::path::Path;
use std::sync::Arc;

fn options() -> RegionOptions {
    RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("cf")],
        config: "wal_segment_bytes=64k,wal_bytes_max=64m,sync_interval_ms=3600000".into(),
        ..RegionOptions::default()
    }
}

fn written(clean: bool) -> MemEnv {
    let mem = MemEnv::new();
    let region = Region::open_in(Arc::new(mem.clone()), Path::new("/r"), options(), None, None).unwrap();
    for i in 0..2_000u32 {
        put(&region, &i.to_be_bytes(), b"q", &[7; 60]);
    }
    if clean {
        close(&region);
        return mem;
    }
    let dead = mem.kill();
    let _ = region.close(CloseFlags { force: true, no_flush: true }, LONG);
    dead
}

/// A segment in the middle of the log that ends behind any of its records, or right at its header: refused, wherever it was cut.
#[test]
fn p_d2_a_segment_cut_behind_a_record_is_refused() {
    for clean in [false, true] {
        let mem = written(clean);
        let path = Path::new("/r/wal.0000000002");
        let whole = mem.open(path, false).unwrap().len().unwrap();
        for len in (4_096..4_096 + 600).chain([whole / 2, whole - 8, whole - 4_096]) {
            let copy = mem.image();
            copy.open(path, true).unwrap().set_len(len).unwrap();
            let e = Region::open_in(Arc::new(copy), Path::new("/r"), options(), None, None).err();
            let kind = e.as_ref().map(region::error::Error::kind);
            assert_eq!(kind, Some(ErrorKind::Corrupt), "clean {clean}, cut to {len} of {whole}: {e:?}");
        }
    }
}
