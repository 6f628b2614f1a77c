use region::options::*;
use region::region::*;
fn main() {
    let n: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let path = std::path::PathBuf::from("/work/probe_cg");
    let _ = std::fs::remove_dir_all(&path);
    let o = RegionOptions { flags: OpenFlags { create: true, ..OpenFlags::default() }, families: vec![FamilySpec::named("f")], ..RegionOptions::default() };
    let r = Region::open(&path, o, None, None).unwrap();
    let wo = WriteOptions::DEFAULT;
    let mut info = CommitInfo::default();
    for k in 0..1000u64 { r.increment(&key(k), 1, b"hits", 1, &wo, &mut info).unwrap(); }
    for i in 0..n { r.increment(&key(i % 1000), 1, b"hits", 1, &wo, &mut info).unwrap(); }
}
fn key(k: u64) -> [u8; 10] { let mut key = *b"us00000000"; let mut v = k; for b in key[2..].iter_mut().rev() { *b = b'0' + (v % 10) as u8; v /= 10; } key }
