use region::options::*;
use region::region::*;
use std::sync::atomic::*;
use std::time::*;
fn main() {
    let threads: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let mode = std::env::args().nth(2).unwrap();
    let rows: u64 = std::env::args().nth(3).map_or(100_000, |s| s.parse().unwrap());
    let dur = std::env::args().nth(4).map_or(Durability::SyncWal, |s| {
        if s == "fsync" {
            Durability::FsyncWal
        } else if s == "skip" {
            Durability::SkipWal
        } else {
            Durability::SyncWal
        }
    });
    let path = std::path::PathBuf::from("/work/probe_region");
    let _ = std::fs::remove_dir_all(&path);
    let o = RegionOptions {
        flags: OpenFlags { create: true, ..OpenFlags::default() },
        families: vec![FamilySpec::named("f")],
        ..RegionOptions::default()
    };
    let t0 = Instant::now();
    let r = Region::open(&path, o, None, None).unwrap();
    println!("open {:?}", t0.elapsed());
    let stop = AtomicBool::new(false);
    let total = AtomicU64::new(0);
    let secs = 3.0;
    let counting = AtomicBool::new(false);
    std::thread::scope(|s| {
        for t in 0..threads {
            let (r, stop, total, counting, mode) = (&r, &stop, &total, &counting, mode.clone());
            s.spawn(move || {
                let mut x = 88172645463325252u64 ^ ((t as u64 + 1) * 0x9E3779B97F4A7C15);
                let wo = WriteOptions { durability: Some(dur), ..WriteOptions::DEFAULT };
                let mut n = 0u64;
                let mut key = [0u8; 10];
                let mut was = false;
                while !stop.load(Ordering::Relaxed) {
                    if !was && counting.load(Ordering::Relaxed) {
                        was = true;
                        n = 0;
                    }
                    x ^= x << 13;
                    x ^= x >> 7;
                    x ^= x << 17;
                    let k = if mode == "hot" { 7 } else { x % rows };
                    key[0] = b'u';
                    key[1] = b's';
                    key[2..].copy_from_slice(&{
                        let mut d = [0u8; 8];
                        let mut v = k;
                        for b in d.iter_mut().rev() {
                            *b = b'0' + (v % 10) as u8;
                            v /= 10;
                        }
                        d
                    });
                    if mode == "get" {
                        r.counter_get(None, &ReadOptions::DEFAULT, Key { family: 1, row: &key, qual: b"hits" }).unwrap();
                    } else {
                        r.increment(&key, 1, b"hits", 1, &wo, &mut CommitInfo::default()).unwrap();
                    }
                    n += 1;
                }
                total.fetch_add(n, Ordering::Relaxed);
            });
        }
        std::thread::sleep(Duration::from_secs_f64(1.0));
        counting.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs_f64(secs));
        stop.store(true, Ordering::Relaxed);
    });
    println!("{threads} threads {mode}: {:.3} M/s", total.load(Ordering::Relaxed) as f64 / secs / 1e6);
    println!("{:?}", r.stats().unwrap());
}
