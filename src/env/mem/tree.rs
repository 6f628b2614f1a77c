//! Names and inodes of the in-memory file system, and which of the names are durable.
//!
//! All of it sits behind the one lock of `MemEnv`; a file's own lock is taken inside it, never the other way round.
#![forbid(unsafe_code)]

use super::file::{Disk, Inode};
use super::{FsKind, NameOp, Unsynced};
use crate::sync::Arc;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Component, Path};

pub(super) struct Tree {
    pub(super) nodes: HashMap<u64, Node>,
    pub(super) next_ino: u64,
    pub(super) locks: Vec<HeldLock>,
    pub(super) next_lock: u64,
    pub(super) machine: Machine,
    /// Inodes that are shown under another number.
    pub(super) shown_ino: HashMap<u64, u64>,
    /// Path parts whose next syncs fail, and how many.
    pub(super) sync_faults: Vec<(String, u32)>,
}

#[derive(Clone)]
pub(super) struct Machine {
    pub(super) boot_id: [u8; 16],
    pub(super) device: u64,
    pub(super) fs_kind: FsKind,
    pub(super) lock_permission: bool,
    pub(super) lockable_directories: bool,
    pub(super) random: u64,
}

#[derive(Clone)]
pub(super) enum Node {
    File(Arc<Inode>),
    Dir(Dir),
}

#[derive(Clone, Default)]
pub(super) struct Dir {
    pub(super) names: BTreeMap<String, u64>,
    pub(super) synced: BTreeMap<String, u64>,
    /// From `synced` to `names`, in order.
    pub(super) ops: Vec<(NameOp, u64)>,
}

pub(super) struct HeldLock {
    pub(super) id: u64,
    pub(super) ino: u64,
    /// Of the directory; None where directories cannot be locked.
    pub(super) dir: Option<u64>,
    pub(super) exclusive: bool,
    pub(super) holder: String,
}

pub(super) const ROOT: u64 = 2;

impl Tree {
    pub(super) fn dir(&self, ino: u64) -> io::Result<&Dir> {
        match self.nodes.get(&ino) {
            Some(Node::Dir(d)) => Ok(d),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
    pub(super) fn dir_mut(&mut self, ino: u64) -> io::Result<&mut Dir> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Dir(d)) => Ok(d),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
    pub(super) fn find(&self, path: &Path) -> io::Result<u64> {
        let mut ino = ROOT;
        for part in path.components() {
            match part {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => {
                    ino = *self.dir(ino)?.names.get(&*name.to_string_lossy()).ok_or(io::ErrorKind::NotFound)?;
                }
                Component::ParentDir | Component::Prefix(_) => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        Ok(ino)
    }
    pub(super) fn file(&self, path: &Path) -> io::Result<Arc<Inode>> {
        match &self.nodes[&self.find(path)?] {
            Node::File(f) => Ok(Arc::clone(f)),
            Node::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }
    /// Directory and last name of a path.
    pub(super) fn place(&self, path: &Path) -> io::Result<(u64, String)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
        let dir = self.find(path.parent().unwrap_or(Path::new("")))?;
        self.dir(dir)?;
        Ok((dir, name))
    }
    pub(super) fn add(&mut self, path: &Path, node: Node) -> io::Result<u64> {
        let (dir, name) = self.place(path)?;
        let ino = self.next_ino;
        self.add_name(dir, name, ino)?;
        self.nodes.insert(ino, node);
        self.next_ino += 1;
        Ok(ino)
    }
    pub(super) fn add_name(&mut self, dir: u64, name: String, ino: u64) -> io::Result<()> {
        let d = self.dir_mut(dir)?;
        if d.names.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        d.names.insert(name.clone(), ino);
        d.ops.push((NameOp::Add(name), ino));
        Ok(())
    }
    pub(super) fn remove_name(&mut self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        let d = self.dir_mut(dir)?;
        let ino = d.names.remove(&name).ok_or(io::ErrorKind::NotFound)?;
        d.ops.push((NameOp::Remove(name), ino));
        self.drop_space_of_unnamed(ino);
        Ok(())
    }
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ino = self.find(from)?;
        let (from_dir, from_name) = self.place(from)?;
        let (to_dir, to_name) = self.place(to)?;
        let old = self.dir(to_dir)?.names.get(&to_name).copied();
        if old == Some(ino) {
            return Ok(());
        }
        if let Some(old) = old {
            match (&self.nodes[&ino], &self.nodes[&old]) {
                (Node::File(_), Node::File(_)) => {}
                (Node::File(_), Node::Dir(_)) => return Err(io::ErrorKind::IsADirectory.into()),
                (Node::Dir(_), Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                (Node::Dir(_), Node::Dir(d)) if d.names.is_empty() => {}
                (Node::Dir(_), Node::Dir(_)) => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            }
        }
        let d = self.dir_mut(from_dir)?;
        d.names.remove(&from_name);
        if from_dir == to_dir {
            d.names.insert(to_name.clone(), ino);
            d.ops.push((NameOp::Rename(from_name, to_name), ino));
        } else {
            // Two directories are two things to sync: after a power cut the file may be in one, in both or in none.
            d.ops.push((NameOp::Remove(from_name), ino));
            let d = self.dir_mut(to_dir)?;
            d.names.insert(to_name.clone(), ino);
            d.ops.push((NameOp::Add(to_name), ino));
        }
        if let Some(old) = old {
            self.drop_space_of_unnamed(old);
        }
        Ok(())
    }
    /// A file that no name leads to any more takes no space (its bytes stay, for a power cut may bring a name back).
    pub(super) fn drop_space_of_unnamed(&self, ino: u64) {
        let named = self.nodes.values().any(|n| matches!(n, Node::Dir(d) if d.names.values().any(|&i| i == ino)));
        if let Some(Node::File(f)) = self.nodes.get(&ino).filter(|_| !named) {
            f.give_space_back();
        }
    }
    /// Forgets what neither a name, a synced name nor an unsynced operation leads to.
    pub(super) fn drop_unreachable(&mut self) {
        let mut used = HashSet::from([ROOT]);
        for node in self.nodes.values() {
            if let Node::Dir(d) = node {
                used.extend(d.names.values().chain(d.synced.values()).chain(d.ops.iter().map(|(_, ino)| ino)));
            }
        }
        used.extend(self.locks.iter().map(|l| l.ino));
        self.nodes.retain(|ino, _| used.contains(ino));
    }
    /// The directory after a power cut, and all below it, into `out`.
    pub(super) fn cut_dir(
        &self,
        ino: u64,
        path: &str,
        keep: &mut dyn FnMut(&Unsynced) -> bool,
        disk: &Arc<Disk>,
        out: &mut HashMap<u64, Node>,
    ) {
        let Ok(dir) = self.dir(ino) else { return };
        let mut names = dir.synced.clone();
        for (op, ino) in &dir.ops {
            if keep(&Unsynced::Name { dir: path.into(), op: op.clone() }) {
                match op {
                    NameOp::Add(name) => {
                        names.insert(name.clone(), *ino);
                    }
                    // Only if the name leads to what was removed: an earlier operation may have been lost.
                    NameOp::Remove(name) => {
                        names.retain(|n, i| !(n == name && i == ino));
                    }
                    NameOp::Rename(from, to) => {
                        names.retain(|n, i| !(n == from && i == ino));
                        names.insert(to.clone(), *ino);
                    }
                }
            }
        }
        out.insert(ino, Node::Dir(Dir { names: names.clone(), synced: names.clone(), ops: Vec::new() }));
        for (name, child) in names {
            if out.contains_key(&child) {
                continue;
            }
            let child_path = if path == "/" { format!("/{name}") } else { format!("{path}/{name}") };
            match self.nodes.get(&child) {
                Some(Node::File(f)) => {
                    out.insert(child, Node::File(Arc::new(f.after_power_cut(&child_path, keep, disk))));
                }
                Some(Node::Dir(_)) => self.cut_dir(child, &child_path, keep, disk, out),
                None => {}
            }
        }
    }
}

/// "Not there" as None.
pub(super) fn found<T>(r: io::Result<T>) -> io::Result<Option<T>> {
    match r {
        Ok(t) => Ok(Some(t)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
