//! A file system in memory for tests: what the machine would still have after a kill, and what after a power cut.
//!
//! | part | what |
//! |---|---|
//! | `mem.rs` | [`MemEnv`]: names, inodes, settings, `kill`, `power_cut` |
//! | `tree.rs` | names and inodes, and which names were synced |
//! | `file.rs` | one file: page cache, and the image that was synced |
//! | `buffer.rs` | its memory, which mappings share. UNSAFE ROOM |
//!
//! *Two states of everything.* A file has its page cache and, page by page and for its length, what was synced; a directory has its names and those that were
//! synced, and the operations between the two. Operations on names become durable by `sync_dir` alone, whatever was synced of the file.
//!
//! *Kill* ([`MemEnv::kill`]): page cache and names stay, locks and handles are gone. *Power cut* ([`MemEnv::power_cut`]): what was synced, and of the rest any
//! subset that the caller picks: 4 KB pages, lengths, operations on names, each for itself and in any combination. That is more than any real file system loses.
//!
//! *Not like a real one:* a store into a mapped hole takes no space and never faults; a removed file that is still open takes none; no permissions; no links to
//! directories. A file cannot grow while it is mapped (its memory would move): `Unsupported`.

#[expect(unsafe_code, reason = "mapped files: the file's bytes are shared with whoever stores through the mapping")]
mod buffer;
mod file;
#[cfg(all(test, not(loom)))]
mod tests;
mod tree;

pub use buffer::PAGE;

use super::{DirLock, Env, EnvFile, FileIdentity, FsKind, LockOutcome, Mapping};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering};
use file::{Disk, Inode, MemMapping};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use tree::{Dir, HeldLock, Machine, Node, ROOT, Tree, found};

/// A file system in memory. Clones are the same file system, seen by the same process.
#[derive(Clone)]
pub struct MemEnv {
    shared: Arc<Shared>,
}

/// Something that was not synced when the power went; the caller of [`MemEnv::power_cut`] says whether it had reached the disk all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// The 4 KB page at `page * PAGE` of the file.
    Page {
        /// Path of the file, as it is after the cut.
        path: String,
        /// Which page.
        page: u64,
    },
    /// The file's length. Not kept: it is as it was synced, and pages beyond are gone.
    Length {
        /// Path of the file, as it is after the cut.
        path: String,
        /// Length that was synced.
        from: u64,
        /// Length in the page cache.
        to: u64,
    },
    /// An operation on a name in a directory.
    Name {
        /// Path of the directory.
        dir: String,
        /// What was done.
        op: NameOp,
    },
}

/// An operation on names of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOp {
    /// A new name: a file or directory created, linked, or moved here from another directory.
    Add(String),
    /// A name removed, or moved to another directory.
    Remove(String),
    /// Renamed within the directory: both names change at once, or none.
    Rename(String, String),
}

struct Shared {
    tree: Mutex<Tree>,
    disk: Arc<Disk>,
    /// Set by `kill`: the process is gone, its handles do nothing.
    dead: AtomicBool,
}

impl Default for MemEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl MemEnv {
    /// An empty file system with the one directory `/`, which paths without a leading `/` start from, too.
    pub fn new() -> Self {
        let machine = Machine {
            boot_id: [1; 16],
            device: 1,
            fs_kind: FsKind::Mappable,
            lock_permission: true,
            lockable_directories: true,
            random: 0,
        };
        Self::with(HashMap::from([(ROOT, Node::Dir(Dir::default()))]), ROOT + 1, machine, HashMap::new(), Arc::new(Disk::default()))
    }
    fn with(nodes: HashMap<u64, Node>, next_ino: u64, machine: Machine, shown_ino: HashMap<u64, u64>, disk: Arc<Disk>) -> Self {
        let tree = Tree { nodes, next_ino, locks: Vec::new(), next_lock: 0, machine, shown_ino, sync_faults: Vec::new() };
        Self { shared: Arc::new(Shared { tree: Mutex::new(tree), disk, dead: AtomicBool::new(false) }) }
    }

    /// The process dies: every handle of this file system does nothing but fail from now on, and its locks are gone. The result is what the next process finds:
    /// everything that was written, synced or not.
    pub fn kill(&self) -> Self {
        let tree = self.shared.tree.lock();
        // Release: pairs with the Acquire in `alive`. A write that is in its file already may still end; the copy below has all of it or none.
        self.shared.dead.store(true, Ordering::Release);
        self.copy(&tree)
    }
    /// What [`MemEnv::kill`] would leave, were it now; the process lives on, so that many crashes of one run can be tried. Stores through mappings must not run
    /// meanwhile: the copy would have some and not others.
    pub fn image(&self) -> Self {
        self.copy(&self.shared.tree.lock())
    }
    fn copy(&self, tree: &Tree) -> Self {
        let disk = Arc::new(self.shared.disk.empty_copy());
        // The younger files first, for the same reason as the end of each file before its beginning: a log goes on in a younger one.
        let mut nodes: Vec<_> = tree.nodes.iter().collect();
        nodes.sort_by_key(|(ino, _)| std::cmp::Reverse(**ino));
        let copies = nodes.into_iter().map(|(&ino, node)| {
            let node = match node {
                Node::Dir(d) => Node::Dir(d.clone()),
                Node::File(f) => Node::File(Arc::new(f.copy(&disk))),
            };
            (ino, node)
        });
        let nodes = copies.collect();
        Self::with(nodes, tree.next_ino, tree.machine.clone(), tree.shown_ino.clone(), disk)
    }

    /// The power goes. The result is the disk as the next boot finds it: what was synced, and each unsynced thing for which `keep` says true, asked in a fixed
    /// order (it must not call this file system). This file system stays as it is, so that many cuts can be tried at the same instant. The boot id changes.
    pub fn power_cut(&self, keep: &mut dyn FnMut(&Unsynced) -> bool) -> Self {
        let tree = self.shared.tree.lock();
        let disk = Arc::new(self.shared.disk.empty_copy());
        let mut nodes = HashMap::new();
        tree.cut_dir(ROOT, "/", keep, &disk, &mut nodes);
        let mut machine = tree.machine.clone();
        machine.boot_id[0] = machine.boot_id[0].wrapping_add(1).max(1);
        Self::with(nodes, tree.next_ino, machine, tree.shown_ino.clone(), disk)
    }
    /// A power cut after which only what was synced is left.
    pub fn power_cut_keeping_nothing(&self) -> Self {
        self.power_cut(&mut |_| false)
    }
    /// What a power cut would ask about, were it now (and everything kept).
    pub fn unsynced(&self) -> Vec<Unsynced> {
        let mut all = Vec::new();
        self.power_cut(&mut |u| {
            all.push(u.clone());
            true
        });
        all
    }

    /// What [`Env::boot_id`] says.
    pub fn set_boot_id(&self, id: [u8; 16]) {
        self.shared.tree.lock().machine.boot_id = id;
    }
    /// The device that [`Env::identity`] shows for everything.
    pub fn set_device(&self, device: u64) {
        self.shared.tree.lock().machine.device = device;
    }
    /// The inode number that [`Env::identity`] shows for this file or directory, as if it were a copy.
    pub fn set_inode(&self, path: &Path, shown: u64) -> io::Result<()> {
        let mut tree = self.shared.tree.lock();
        let ino = tree.find(path)?;
        tree.shown_ino.insert(ino, shown);
        Ok(())
    }
    /// What [`Env::file_system`] says.
    pub fn set_file_system(&self, kind: FsKind) {
        self.shared.tree.lock().machine.fs_kind = kind;
    }
    /// Whether the lock file may be opened; else [`LockOutcome::NoPermission`].
    pub fn set_lock_permission(&self, yes: bool) {
        self.shared.tree.lock().machine.lock_permission = yes;
    }
    /// Whether directories can be locked; else only the lock file is.
    pub fn set_lockable_directories(&self, yes: bool) {
        self.shared.tree.lock().machine.lockable_directories = yes;
    }
    /// Bytes of disk, in whole pages; what needs more fails with `StorageFull`. None: no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.disk.set_capacity(bytes);
    }
    /// Bytes of disk in use, in whole pages.
    pub fn used_bytes(&self) -> u64 {
        self.shared.disk.used()
    }
    /// The next `times` syncs of files whose path contains `path_part` fail with EIO, as the kernel does it: the pages count as clean afterwards though they are
    /// not on the disk, so that a later sync succeeds without them. Only writing a page again makes it dirty again.
    pub fn fail_syncs(&self, path_part: &str, times: u32) {
        self.shared.tree.lock().sync_faults.push((path_part.into(), times));
    }

    fn alive(&self) -> io::Result<()> {
        // Acquire: pairs with the Release in `kill`.
        if self.shared.dead.load(Ordering::Acquire) { Err(io::Error::other("this process was killed")) } else { Ok(()) }
    }
    fn with_tree<R>(&self, f: impl FnOnce(&mut Tree) -> io::Result<R>) -> io::Result<R> {
        let mut tree = self.shared.tree.lock();
        self.alive()?;
        f(&mut tree)
    }
    fn handle(&self, inode: Arc<Inode>, path: &Path, writable: bool) -> Box<dyn EnvFile> {
        Box::new(MemFile { env: self.clone(), inode, path: path.to_string_lossy().into_owned(), writable })
    }
}

impl Env for MemEnv {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.with_tree(|t| t.add(path, Node::Dir(Dir::default())).map(drop))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.with_tree(|t| found(t.find(path)).map(|n| n.is_some()))
    }
    fn is_dir(&self, path: &Path) -> io::Result<bool> {
        self.with_tree(|t| Ok(found(t.find(path))?.is_some_and(|ino| matches!(t.nodes[&ino], Node::Dir(_)))))
    }
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.with_tree(|t| Ok(t.file(path)?.len()))
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.with_tree(|t| {
            let ino = t.find(dir)?;
            Ok(t.dir(ino)?.names.keys().cloned().collect())
        })
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn EnvFile>> {
        let inode = Arc::new(Inode::new(&self.shared.disk));
        self.with_tree(|t| t.add(path, Node::File(Arc::clone(&inode))).map(drop))?;
        Ok(self.handle(inode, path, true))
    }
    fn open(&self, path: &Path, writable: bool) -> io::Result<Box<dyn EnvFile>> {
        let inode = self.with_tree(|t| t.file(path))?;
        Ok(self.handle(inode, path, writable))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.with_tree(|t| t.rename(from, to))
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.with_tree(|t| {
            let ino = t.find(from)?;
            t.file(from)?;
            let (dir, name) = t.place(to)?;
            t.add_name(dir, name, ino)
        })
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.with_tree(|t| {
            t.file(path)?;
            t.remove_name(path)
        })
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.with_tree(|t| {
            let ino = t.find(path)?;
            if !t.dir(ino)?.names.is_empty() {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            t.remove_name(path)
        })
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.with_tree(|t| {
            let ino = t.find(dir)?;
            let d = t.dir_mut(ino)?;
            d.synced = d.names.clone();
            d.ops.clear();
            t.drop_unreachable();
            Ok(())
        })
    }
    fn lock(&self, path: &Path, exclusive: bool, holder_text: &str) -> io::Result<LockOutcome> {
        if !self.with_tree(|t| Ok(t.machine.lock_permission))? {
            return Ok(LockOutcome::NoPermission { os_errno: libc::EACCES });
        }
        let new = Arc::new(Inode::new(&self.shared.disk));
        self.with_tree(|t| {
            let ino = match found(t.find(path))? {
                Some(ino) => ino,
                None => t.add(path, Node::File(new))?,
            };
            let dir = t.place(path)?.0;
            let dir = t.machine.lockable_directories.then_some(dir);
            let same = |l: &&HeldLock| l.ino == ino || (dir.is_some() && l.dir == dir);
            let against: Vec<&str> = t.locks.iter().filter(same).filter(|l| exclusive || l.exclusive).map(|l| l.holder.as_str()).collect();
            if !against.is_empty() {
                return Ok(LockOutcome::Busy { holder: against.join("; ") });
            }
            let id = t.next_lock;
            t.next_lock += 1;
            t.locks.push(HeldLock { id, ino, dir, exclusive, holder: holder_text.into() });
            Ok(LockOutcome::Held(Box::new(MemLock { env: self.clone(), id, directory: dir.is_some() })))
        })
    }
    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        self.with_tree(|t| {
            let ino = t.find(path)?;
            Ok(FileIdentity { dev: t.machine.device, ino: t.shown_ino.get(&ino).copied().unwrap_or(ino) })
        })
    }
    fn file_system(&self, _path: &Path) -> FsKind {
        self.shared.tree.lock().machine.fs_kind
    }
    fn boot_id(&self) -> [u8; 16] {
        self.shared.tree.lock().machine.boot_id
    }
    /// The same bytes in every run, never the same twice in one.
    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.with_tree(|t| {
            for part in buf.chunks_mut(8) {
                // SplitMix64.
                t.machine.random = t.machine.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mut z = t.machine.random;
                z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                part.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..part.len()]);
            }
            Ok(())
        })
    }
    fn holder_text(&self) -> String {
        "pid 1 on host memory".into()
    }
}

struct MemFile {
    env: MemEnv,
    inode: Arc<Inode>,
    path: String,
    writable: bool,
}

impl MemFile {
    fn for_writing(&self) -> io::Result<&Inode> {
        self.env.alive()?;
        if self.writable { Ok(&self.inode) } else { Err(io::Error::from_raw_os_error(libc::EBADF)) }
    }
}

impl EnvFile for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.env.alive()?;
        Ok(self.inode.read_at(buf, offset))
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.for_writing()?.write_at(buf, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.env.alive()?;
        Ok(self.inode.len())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.for_writing()?.set_len(len)
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.for_writing()?.preallocate(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        let fault = self.env.with_tree(|t| {
            let fault = t.sync_faults.iter_mut().find(|(part, times)| *times > 0 && self.path.contains(part.as_str()));
            Ok(fault.map(|(_, times)| *times -= 1).is_some())
        })?;
        if fault {
            self.inode.lose_dirty_pages();
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.inode.sync();
        Ok(())
    }
    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapping>> {
        self.for_writing()?;
        Ok(Box::new(MemMapping::new(&self.inode, len)?))
    }
}

struct MemLock {
    env: MemEnv,
    id: u64,
    directory: bool,
}

impl DirLock for MemLock {
    fn close_in_child(&self) {}
    fn guards_directory(&self) -> bool {
        self.directory
    }
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.env.shared.tree.lock().locks.retain(|l| l.id != self.id);
    }
}
