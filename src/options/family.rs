//! Column families as a caller describes them.

use crate::error::Result;
use crate::fail;

/// `ttl_ms` of a family whose cells never expire.
pub const TTL_NONE: u64 = u64::MAX;
/// Longest family name in bytes, as in HBase.
pub const FAMILY_NAME_BYTES_MAX: usize = 127;
/// Bounds of a store file's block.
pub const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 1 << 10..=16 << 20;

/// What a store file's Bloom filter is over. The numbers are stored and part of the C interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Bloom {
    /// No filter.
    None = 1,
    /// Rows. The default.
    #[default]
    Row = 2,
    /// Rows with qualifiers.
    RowColumn = 3,
}

/// How a store file's blocks are compressed. The numbers are stored and part of the C interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Compression {
    /// Not at all. The default.
    #[default]
    None = 1,
    /// zlib.
    Gz = 2,
    /// Snappy.
    Snappy = 3,
    /// LZ4.
    Lz4 = 4,
    /// Zstandard.
    Zstd = 5,
}

impl Bloom {
    /// From the stored number.
    pub const fn from_u8(n: u8) -> Option<Self> {
        match n {
            1 => Some(Self::None),
            2 => Some(Self::Row),
            3 => Some(Self::RowColumn),
            _ => None,
        }
    }
}

impl Compression {
    /// From the stored number.
    pub const fn from_u8(n: u8) -> Option<Self> {
        match n {
            1 => Some(Self::None),
            2 => Some(Self::Gz),
            3 => Some(Self::Snappy),
            4 => Some(Self::Lz4),
            5 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// A family to create or to change. Zero and `None`: as stored, or the default when it is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilySpec {
    /// 1 to 127 bytes, no control character, none of `/ : \`, no dot in front.
    pub name: Vec<u8>,
    /// Versions kept of each column; default 1.
    pub max_versions: u32,
    /// Versions that `ttl_ms` leaves in any case; default 0.
    pub min_versions: u32,
    /// Milliseconds after which a cell expires; [`TTL_NONE`] = never, the default.
    pub ttl_ms: u64,
    /// Default [`Bloom::Row`].
    pub bloom: Option<Bloom>,
    /// Default [`Compression::None`].
    pub compression: Option<Compression>,
    /// Bytes of a store file's block before compression; default 64 KiB.
    pub block_size: u32,
    /// Keep deleted cells for reads of the past, see `FamilySpec::KEEP_DELETED`.
    pub flags: u32,
}

impl FamilySpec {
    /// Deleted cells stay readable in the past until they fall to versions or age.
    pub const KEEP_DELETED: u32 = 1 << 0;
    /// The same, until the delete marker itself has expired.
    pub const KEEP_DELETED_TTL: u32 = 1 << 1;
    /// Every flag there is.
    pub const FLAGS_ALL: u32 = Self::KEEP_DELETED | Self::KEEP_DELETED_TTL;

    /// A family with this name and all defaults.
    pub fn named(name: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
    /// Name and bounds.
    pub fn check(&self) -> Result<()> {
        let shown = String::from_utf8_lossy(&self.name);
        if self.name.is_empty() || self.name.len() > FAMILY_NAME_BYTES_MAX {
            return fail!(Invalid, "a family name has 1 to {FAMILY_NAME_BYTES_MAX} bytes, not {}", self.name.len());
        }
        if self.name.starts_with(b".") || self.name.iter().any(|b| b.is_ascii_control() || matches!(b, b'/' | b':' | b'\\')) {
            return fail!(Invalid, "family name {shown:?}: no control character, no '/', ':' or '\\', no '.' in front");
        }
        if self.flags & !Self::FLAGS_ALL != 0 {
            return fail!(Unsupported, "family {shown:?}: flags 0x{:x} are not known", self.flags & !Self::FLAGS_ALL);
        }
        if self.block_size != 0 && !BLOCK_BYTES.contains(&self.block_size) {
            let (least, most) = (BLOCK_BYTES.start(), BLOCK_BYTES.end());
            return fail!(Invalid, "family {shown:?}: block_size must be {least} to {most}, not {}", self.block_size);
        }
        if self.max_versions != 0 && self.min_versions > self.max_versions {
            return fail!(Invalid, "family {shown:?}: min_versions {} is above max_versions {}", self.min_versions, self.max_versions);
        }
        Ok(())
    }
}
