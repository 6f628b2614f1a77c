//! The place of a region: its directory and lock, and all that can be refused before anything is made.
//!
//! Whatever an open refuses because of its options or of what lies at the path, it refuses before it creates a directory, a lock file or a manifest.

use super::close::LOCK;
use super::open::too_small;
use crate::env::{DirLock, Env, LockOutcome};
use crate::error::{Error, ErrorKind, Result};
use crate::fail;
use crate::ids::Generation;
use crate::memstore::{NoMemory, Segment};
use crate::mslab::{ChunkPool, MemoryBudget};
use crate::options::{RegionOptions, Settings};
use crate::store::manifest::{MANIFEST, MANIFEST_NEW};
use crate::sync::Arc;
use std::path::Path;

/// What the options make of the path, with nothing changed. True: there is a region. False: one can be made.
pub(super) fn look(env: &dyn Env, path: &Path, options: &RegionOptions) -> Result<bool> {
    if !env.exists(path).map_err(io_at(path, "look"))? {
        return if options.flags.create { Ok(false) } else { Err(no_region(path)) };
    }
    if !env.is_dir(path).map_err(io_at(path, "look"))? {
        return fail!(Invalid, "{} is not a directory", path.display());
    }
    // Names first: who sees a log file here finds the manifest that was made before it, also while another process makes this very region.
    let names = env.list(path).map_err(io_at(path, "list"));
    if env.exists(&path.join(MANIFEST)).map_err(io_at(path, "look"))? {
        return if options.flags.error_if_exists { Err(exists(path)) } else { Ok(true) };
    }
    if !options.flags.create {
        return Err(no_region(path));
    }
    check_names(path, &names?)?;
    Ok(false)
}

/// A directory without a manifest: a crash during creation, or somebody else's, or a region that has lost it. Only the first is ours to complete.
pub(super) fn check_names(path: &Path, names: &[String]) -> Result<()> {
    if let Some(log) = names.iter().find(|n| crate::wal::is_log_name(n)) {
        return fail!(Corrupt, "{}: the log file {log} is there, but no {MANIFEST}; nothing was changed", path.display());
    }
    if let Some(foreign) = names.iter().find(|n| n.as_str() != LOCK && n.as_str() != MANIFEST_NEW) {
        return fail!(Invalid, "{} is not empty (there is {foreign}); a region is made in a directory of its own", path.display());
    }
    Ok(())
}

/// Could a new region be opened with these settings? What it needs of the machine is tried: a directory that holds a region nobody can open would be left else.
pub(super) fn try_new(env: &dyn Env, path: &Path, settings: &Settings, pool: &Arc<ChunkPool>) -> Result<()> {
    let there = env.exists(path).map_err(io_at(path, "look"))?;
    crate::wal::check_place(env, if there { path } else { parent(path) }, path, settings.wal_io, settings.allow_network_fs)?;
    let budget = Arc::new(MemoryBudget::new(settings.memstore_limit));
    Segment::new(Generation(0), pool, &budget, 0, 0).map(drop).map_err(|NoMemory| too_small(settings, pool))
}

#[cold]
pub(super) fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::Exists, format!("there is a region at {} already", path.display()))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

pub(super) fn io_at<'p>(path: &'p Path, what: &'p str) -> impl Fn(std::io::Error) -> Error + 'p {
    move |e| Error::io(format!("{}: {what}", path.display()), &e)
}

/// The directory is there afterwards, and its name durable before there is a region in it. True: it was made just now.
pub(super) fn make_directory(env: &dyn Env, path: &Path, options: &RegionOptions) -> Result<bool> {
    let exists = env.exists(path).map_err(io_at(path, "look"))?;
    if exists {
        if !env.is_dir(path).map_err(io_at(path, "look"))? {
            return fail!(Invalid, "{} is not a directory", path.display());
        }
        // With a manifest it has been through here. Without one the caller has made it, or an open that was killed before it could sync the name.
        if !options.flags.create || env.exists(&path.join(MANIFEST)).map_err(io_at(path, "look"))? {
            return Ok(false);
        }
    } else if options.flags.create {
        match env.create_dir(path) {
            // Somebody else made it just now: whose it is, the lock will tell.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(false),
            made => made.map_err(io_at(path, "create the directory (its parent must exist)"))?,
        }
    } else {
        return Err(no_region(path));
    }
    let parent = parent(path);
    match env.sync_dir(parent) {
        // A directory that was given to us in a place that we may not read: its name is the giver's to care for.
        Err(e) if exists && e.kind() == std::io::ErrorKind::PermissionDenied => {}
        synced => synced.map_err(io_at(parent, "sync"))?,
    }
    Ok(!exists)
}

#[cold]
pub(super) fn no_region(path: &Path) -> Error {
    Error::new(ErrorKind::NoRegion, format!("there is no region at {}; REGION_OPEN_CREATE makes one", path.display()))
}

/// None: read-only where the lock file cannot be made; a writer cannot be detected then, and the report says so.
pub(super) fn lock_directory(env: &dyn Env, path: &Path, read_only: bool) -> Result<Option<Box<dyn DirLock>>> {
    match env.lock(&path.join(LOCK), !read_only, &env.holder_text()).map_err(io_at(path, "lock"))? {
        LockOutcome::Held(lock) => Ok(Some(lock)),
        LockOutcome::Busy { holder } => fail!(Locked, "{} is open already: {holder}", path.display()),
        LockOutcome::NoPermission { .. } if read_only => Ok(None),
        LockOutcome::NoPermission { os_errno } => {
            let text = format!("{}: no permission to write there; REGION_OPEN_READ_ONLY opens it without", path.display());
            Err(Error::new(ErrorKind::Io, text).with_errno(os_errno))
        }
    }
}
