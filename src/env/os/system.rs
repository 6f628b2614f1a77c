//! What the machine says about itself: kind of file system, boot, randomness, and which process this is.

use super::super::FsKind;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn statfs(path: &Path) -> Option<libc::statfs> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: all-zero bytes are a valid `statfs`: it has numbers and arrays of numbers only.
    let mut s: libc::statfs = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the path is NUL-terminated, the struct is ours; both outlive the call.
        let rc = unsafe { libc::statfs(path.as_ptr(), &mut s) };
        match rc {
            0 => return Some(s),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
}

pub(super) fn file_system(path: &Path) -> FsKind {
    // What cannot be asked (a sandbox without statfs) is not mapped, but not refused as a network either.
    statfs(path).map_or(FsKind::Other, |s| kind_of(&s))
}

#[cfg(target_os = "linux")]
fn kind_of(s: &libc::statfs) -> FsKind {
    // Some platforms have it signed and 32 bits wide: the magic is the low half everywhere.
    kind_of_magic(s.f_type as u32)
}

/// The numbers are of `linux/magic.h` and the file systems' own sources.
#[cfg(target_os = "linux")]
pub(super) fn kind_of_magic(magic: u32) -> FsKind {
    match magic {
        // ext4 (ext2 and ext3, too, and served by the same code today), XFS, tmpfs.
        0xEF53 | 0x5846_5342 | 0x0102_1994 => FsKind::Mappable,
        // NFS, SMB, CIFS, SMB2, NCP, 9P, Ceph, AFS (two), Coda, FUSE, Lustre, GFS2, OCFS2, GPFS, BeeGFS, OrangeFS, VirtualBox and VMware shares.
        0x6969 | 0x517B | 0xFF53_4D42 | 0xFE53_4D42 | 0x564C | 0x0102_1997 | 0x00C3_6400 | 0x5346_414F | 0x6B41_4653 | 0x7375_7245
        | 0x6573_5546 | 0x0BD0_0BD0 | 0x0116_1970 | 0x7461_636F | 0x4750_4653 | 0x1983_0326 | 0x2003_0528 | 0x786F_4256 | 0xBACB_ACBC => {
            FsKind::Network
        }
        _ => FsKind::Other,
    }
}

#[cfg(not(target_os = "linux"))]
fn kind_of(s: &libc::statfs) -> FsKind {
    // BSD says itself whether a mount is local.
    if s.f_flags as u64 & libc::MNT_LOCAL as u64 == 0 { FsKind::Network } else { FsKind::Other }
}

#[cfg(target_os = "linux")]
pub(super) fn boot_id() -> [u8; 16] {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().and_then(|s| parse_uuid(&s)).unwrap_or([0; 16])
}

#[cfg(target_os = "macos")]
pub(super) fn boot_id() -> [u8; 16] {
    let mut buf = [0u8; 64];
    let mut len = buf.len();
    let name = c"kern.bootsessionuuid";
    // SAFETY: name is NUL-terminated; `len` is the size of `buf`, and both outlive the call.
    let rc = unsafe { libc::sysctlbyname(name.as_ptr(), buf.as_mut_ptr().cast(), &mut len, std::ptr::null_mut(), 0) };
    let text = CStr::from_bytes_until_nul(&buf).ok().and_then(|s| s.to_str().ok());
    text.filter(|_| rc == 0).and_then(parse_uuid).unwrap_or([0; 16])
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) fn boot_id() -> [u8; 16] {
    [0; 16]
}

/// `xxxxxxxx-xxxx-…`, 32 hex digits with any dashes.
pub(super) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut digits = text.trim().bytes().filter(|&b| b != b'-').map(|b| (b as char).to_digit(16));
    let mut id = [0u8; 16];
    for byte in &mut id {
        let (high, low) = (digits.next()??, digits.next()??);
        *byte = (high << 4 | low) as u8;
    }
    digits.next().is_none().then_some(id)
}

#[cfg(target_os = "linux")]
pub(super) fn random(buf: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|r| !r.is_empty()) {
        // SAFETY: pointer and length are of one live, writable slice.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(n) {
            Ok(n) => filled += n,
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn random(buf: &mut [u8]) -> io::Result<()> {
    // getentropy's limit.
    for part in buf.chunks_mut(256) {
        // SAFETY: pointer and length are of one live, writable slice of at most 256 bytes.
        let rc = unsafe { libc::getentropy(part.as_mut_ptr().cast(), part.len()) };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// `pid 4711 on host db1, started 2026-03-01T12:00:00Z`; `lock.rs` reads pid and host back.
pub(super) fn holder_text() -> String {
    let mut text = format!("pid {} on host {}", std::process::id(), host_name());
    if let Some(start) = process_start() {
        text.push_str(", started ");
        text.push_str(&utc(start));
    }
    text
}

pub(super) fn host_name() -> String {
    let mut buf = [0u8; 256];
    // SAFETY: pointer and length are of one live, writable array; one byte less keeps a NUL at the end.
    let rc = unsafe { libc::gethostname(buf.as_mut_ptr().cast(), buf.len() - 1) };
    let name = CStr::from_bytes_until_nul(&buf).ok().filter(|_| rc == 0).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    // One word without what separates the parts of the holder's line.
    let name: String = name.chars().map(|c| if c.is_whitespace() || c == ',' || c.is_control() { '_' } else { c }).collect();
    if name.is_empty() { "unknown".into() } else { name }
}

/// Start of this process in seconds since the epoch.
#[cfg(target_os = "linux")]
fn process_start() -> Option<u64> {
    let boot = fs::read_to_string("/proc/stat").ok()?.lines().find_map(|l| l.strip_prefix("btime ")?.trim().parse::<u64>().ok())?;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Field 22; the second one is the command in parentheses and may hold anything.
    let ticks = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse::<u64>().ok()?;
    // SAFETY: no arguments but a constant.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some(boot + ticks / u64::try_from(hz).ok().filter(|&h| h > 0)?)
}

#[cfg(not(target_os = "linux"))]
fn process_start() -> Option<u64> {
    None
}

/// ISO 8601 of seconds since the epoch (days to date: Howard Hinnant, "chrono-compatible low-level date algorithms").
pub(super) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (month, day) = (if mp < 10 { mp + 3 } else { mp - 9 }, doy - (153 * mp + 2) / 5 + 1);
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}
