//! Column families: ids, names, settings.
//!
//! [`Families`] is an immutable value once it is published: changing families means cloning it, changing the clone, making the manifest durable, and publishing
//! the clone. Ids start at 1 and are never used again, so that log records and files of a dropped family can be told from those of one that came later.
//!
//! *Names* follow HBase's rule, since export makes a directory of each: no control character, no `:` `/` `\`, not starting with `.`, not the reserved
//! `recovered.edits`; at most 127 bytes, which is what HBase's cell format can hold. They are UTF-8.

#[cfg(all(test, not(loom)))]
mod tests;

use crate::clock::ClockUnit;
use crate::error::Result;
use crate::fail;
use crate::ids::{FamilyId, Tick};
use crate::memstore::Keep;
use crate::merge::visibility::{KeepDeleted, Regime, Rules};
use crate::sync::Arc;

/// Settings of one family. Numbers of `bloom`, `compression` and `flags` are those of the C interface and reach disk: never change them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyInfo {
    /// Its id; 0 before it is in a [`Families`].
    pub id: FamilyId,
    /// Its name, see the module's rule.
    pub name: String,
    /// How many versions of a column are kept, at least 1.
    pub max_versions: u32,
    /// How many versions outlive the TTL.
    pub min_versions: u32,
    /// Milliseconds that a cell lives; [`TTL_NONE`]: for ever.
    pub ttl_ms: u64,
    /// 1 none, 2 row, 3 row and column.
    pub bloom: u32,
    /// 1 none, 2 gz, 3 snappy, 4 lz4, 5 zstd.
    pub compression: u32,
    /// Bytes of a store file's block before compression.
    pub block_size: u32,
    /// [`KEEP_DELETED`] or [`KEEP_DELETED_TTL`] or 0.
    pub flags: u32,
    /// What versions, expiry and deletes were judged by before they were changed, oldest first.
    pub past: Vec<Regime>,
    /// What increments keep. Follows from the settings, but while they are being changed.
    pub keep: Keep,
    /// The largest `oldest` of `past`.
    expired_before: u64,
}

/// No TTL.
pub const TTL_NONE: u64 = u64::MAX;
/// Flag: deleted cells and their markers stay, within the versions kept.
pub const KEEP_DELETED: u32 = 1;
/// Flag: deleted cells and their markers stay until the TTL.
pub const KEEP_DELETED_TTL: u32 = 2;
/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 127;
/// Highest id: the index by id stays below half a megabyte, whatever a manifest claims.
pub const FAMILY_ID_MAX: u32 = 65_535;
/// So many changes of a family's settings are remembered: each is looked at by reads that have to replay a column.
pub const CHANGES_MAX: usize = 1_000;
/// Versions are counted in a signed 32-bit number in HBase.
const VERSIONS_MAX: u32 = i32::MAX as u32;
const BLOCK_SIZES: std::ops::RangeInclusive<u32> = 1 << 10..=16 << 20;

impl FamilyInfo {
    /// A family with the default settings: one version, no TTL, row Bloom filter, no compression, 64 KB blocks.
    pub fn new(name: &[u8]) -> Result<Self> {
        let name = checked_name(name)?.to_owned();
        let id = FamilyId(0);
        Ok(Self {
            id,
            name,
            max_versions: 1,
            min_versions: 0,
            ttl_ms: TTL_NONE,
            bloom: 2,
            compression: 1,
            block_size: 64 << 10,
            flags: 0,
            past: Vec::new(),
            keep: Keep::Newest,
            expired_before: 0,
        })
    }
    /// As stored, without what follows from that.
    pub(super) fn settled(mut self) -> Self {
        self.expired_before = self.past.iter().map(|r| r.oldest).max().unwrap_or(0);
        self.keep = self.keep_at(u64::MAX);
        self
    }
    /// What an increment with this number keeps: by the settings that held then.
    pub fn keep_at(&self, number: u64) -> Keep {
        let ended = self.past.partition_point(|r| r.through < number);
        let versions = self.past.get(ended).map_or(self.max_versions, |r| r.max_versions);
        let more = self.past.iter().take(ended).rev().find(|r| r.max_versions > versions);
        Keep::of_since(versions, more.map_or(0, |r| r.through))
    }
    /// True if versions, expiry and deletes are judged alike.
    pub fn judges_as(&self, other: &Self) -> bool {
        let of = |f: &Self| (f.max_versions, f.min_versions, f.ttl_ms, f.flags);
        of(self) == of(other)
    }
    /// These settings end with commit `through`, at the time `now`: those of `next` take over, and remember them.
    pub fn succeeded_by(&self, next: &mut Self, through: u64, unit: ClockUnit, now: Tick) -> Result<()> {
        if next.past.len() >= CHANGES_MAX {
            return fail!(
                TooLarge,
                "family {}: its settings have been changed {CHANGES_MAX} times, and no more changes are remembered",
                self.name
            );
        }
        let rules = self.rules(unit, || now);
        let Rules { max_versions, min_versions, keep_deleted, oldest, .. } = rules;
        next.past.push(Regime { through, max_versions, min_versions, keep_deleted, oldest });
        Ok(())
    }
    /// What a reader has to apply whose clock shows `now`, asked only if cells expire.
    #[inline]
    pub fn rules(&self, unit: ClockUnit, now: impl FnOnce() -> Tick) -> Rules<'_> {
        let oldest = if self.ttl_ms == TTL_NONE { 0 } else { self.oldest(unit, now()) };
        let keep_deleted = match self.flags {
            0 => KeepDeleted::No,
            KEEP_DELETED => KeepDeleted::Yes,
            _ => KeepDeleted::UntilExpired,
        };
        Rules {
            max_versions: self.max_versions,
            min_versions: self.min_versions,
            keep_deleted,
            oldest,
            shown_from: oldest.max(self.expired_before),
            past: &self.past,
        }
    }
    #[cold]
    fn oldest(&self, unit: ClockUnit, now: Tick) -> u64 {
        now.0.saturating_sub(self.ttl_ms.saturating_mul(1_000_000 / unit.nanos()))
    }
    fn check(&self) -> Result<()> {
        checked_name(self.name.as_bytes())?;
        let name = &self.name;
        if self.max_versions == 0 || self.max_versions > VERSIONS_MAX {
            return fail!(Invalid, "family {name}: max_versions {} is not in 1 to {VERSIONS_MAX}", self.max_versions);
        }
        if self.min_versions > self.max_versions {
            return fail!(Invalid, "family {name}: min_versions {} is more than max_versions {}", self.min_versions, self.max_versions);
        }
        if self.ttl_ms == 0 {
            return fail!(Invalid, "family {name}: a ttl_ms of 0 would keep nothing");
        }
        if !(1..=3).contains(&self.bloom) {
            return fail!(Invalid, "family {name}: bloom {} is none of 1 (none), 2 (row), 3 (row and column)", self.bloom);
        }
        if !(1..=5).contains(&self.compression) {
            return fail!(
                Invalid,
                "family {name}: compression {} is none of 1 (none), 2 (gz), 3 (snappy), 4 (lz4), 5 (zstd)",
                self.compression
            );
        }
        if !BLOCK_SIZES.contains(&self.block_size) {
            return fail!(
                Invalid,
                "family {name}: block_size {} is not in {} to {}",
                self.block_size,
                BLOCK_SIZES.start(),
                BLOCK_SIZES.end()
            );
        }
        if self.past.len() > CHANGES_MAX || !self.past.is_sorted_by_key(|r| r.through) || self.past.iter().any(|r| r.max_versions == 0) {
            return fail!(Invalid, "family {name}: {} changes of its settings, not in order or more than {CHANGES_MAX}", self.past.len());
        }
        if !matches!(self.flags, 0 | KEEP_DELETED | KEEP_DELETED_TTL) {
            return fail!(Invalid, "family {name}: flags {:#x} are not 0, KEEP_DELETED or KEEP_DELETED_TTL", self.flags);
        }
        Ok(())
    }
}

fn checked_name(name: &[u8]) -> Result<&str> {
    let shown = name.escape_ascii();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return fail!(Invalid, "family name of {} bytes: it must have 1 to {NAME_BYTES_MAX}", name.len());
    }
    let Ok(text) = std::str::from_utf8(name) else { return fail!(Invalid, "family name \"{shown}\" is not UTF-8") };
    if let Some(c) = text.chars().find(|&c| c.is_control() || matches!(c, ':' | '/' | '\\')) {
        return fail!(Invalid, "family name \"{shown}\" has the character {c:?} in it");
    }
    if text.starts_with('.') || text == "recovered.edits" {
        return fail!(Invalid, "family name \"{shown}\" is reserved: none may start with a dot or be \"recovered.edits\"");
    }
    Ok(text)
}

/// All families of a region.
#[derive(Clone, Debug)]
pub struct Families {
    /// Indexed by id, since every write asks; entry 0 is always empty, dropped ones stay empty. Its length is the next id.
    by_id: Vec<Option<Arc<FamilyInfo>>>,
}

impl PartialEq for Families {
    fn eq(&self, other: &Self) -> bool {
        // By hand, since loom's Arc does not compare. The infos carry their ids.
        self.next_id() == other.next_id() && self.iter().map(|f| &**f).eq(other.iter().map(|f| &**f))
    }
}

impl Eq for Families {}

impl Default for Families {
    fn default() -> Self {
        Self::new()
    }
}

impl Families {
    /// None yet.
    pub fn new() -> Self {
        Self { by_id: vec![None] }
    }
    /// As stored. Ids and names must be unique, ids below `next_id`.
    pub(super) fn from_stored(next_id: u32, families: Vec<FamilyInfo>) -> Result<Self> {
        if next_id == 0 || next_id > FAMILY_ID_MAX + 1 {
            return fail!(Corrupt, "next family id {next_id} is not in 1 to {}", FAMILY_ID_MAX + 1);
        }
        let mut all = Self { by_id: vec![None; next_id as usize] };
        let mut names = std::collections::HashSet::new();
        for family in families {
            family.check()?;
            if !names.insert(family.name.clone()) {
                return fail!(Corrupt, "family {} is there twice", family.name);
            }
            let id = family.id.0;
            match all.by_id.get_mut(id as usize).filter(|_| id != 0) {
                Some(entry @ None) => *entry = Some(Arc::new(family.settled())),
                Some(Some(other)) => return fail!(Corrupt, "families {} and {} have the same id {id}", other.name, family.name),
                None => return fail!(Corrupt, "family {} has the id {id}, which was not given out yet", family.name),
            }
        }
        Ok(all)
    }

    /// The family with this id.
    #[inline]
    pub fn get(&self, id: FamilyId) -> Option<&Arc<FamilyInfo>> {
        self.by_id.get(id.0 as usize)?.as_ref()
    }
    /// The family of this name. Searches: callers keep the id.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<FamilyInfo>> {
        self.iter().find(|f| f.name.as_bytes() == name)
    }
    /// The one with the smallest id above this: enumeration from 0 on.
    pub fn after(&self, id: u32) -> Option<&Arc<FamilyInfo>> {
        self.by_id.get((id as usize).saturating_add(1)..)?.iter().find_map(Option::as_ref)
    }
    /// By ascending id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<FamilyInfo>> {
        self.by_id.iter().flatten()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
    /// The id that the next one gets.
    pub fn next_id(&self) -> u32 {
        // Bounded by FAMILY_ID_MAX + 1.
        self.by_id.len() as u32
    }

    /// Adds one and gives it its id. `Exists` if the name is taken.
    pub fn add(&mut self, mut family: FamilyInfo) -> Result<FamilyId> {
        family.check()?;
        if self.find(family.name.as_bytes()).is_some() {
            return fail!(Exists, "family {} exists", family.name);
        }
        if self.next_id() > FAMILY_ID_MAX {
            return fail!(
                TooLarge,
                "family {}: a region can have had {FAMILY_ID_MAX} families over its life, and it has had them",
                family.name
            );
        }
        family.id = FamilyId(self.next_id());
        let id = family.id;
        self.by_id.push(Some(Arc::new(family.settled())));
        Ok(id)
    }
    /// Replaces the settings of the family with this id; the name stays.
    pub fn alter(&mut self, family: FamilyInfo) -> Result<()> {
        family.check()?;
        let id = family.id.0;
        match self.by_id.get_mut(id as usize) {
            Some(Some(old)) if old.name == family.name => {
                *old = Arc::new(family.settled());
                Ok(())
            }
            Some(Some(old)) => fail!(Invalid, "family {} cannot be renamed to {}", old.name, family.name),
            _ => fail!(NoFamily, "there is no family with id {id}"),
        }
    }
    /// Lets increments keep something else than what follows from the settings.
    pub fn keep(&mut self, id: FamilyId, keep: Keep) {
        if let Some(Some(family)) = self.by_id.get_mut(id.0 as usize) {
            *family = Arc::new(FamilyInfo { keep, ..(**family).clone() });
        }
    }
    /// Drops one; its id is not given out again.
    pub fn remove(&mut self, id: FamilyId) -> Result<Arc<FamilyInfo>> {
        match self.by_id.get_mut(id.0 as usize).and_then(Option::take) {
            Some(family) => Ok(family),
            None => fail!(NoFamily, "there is no family with id {}", id.0),
        }
    }
}
