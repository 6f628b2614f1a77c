//! The `config` text: `key=value` pairs with commas between, and the table of what the keys are.
//!
//! Every knob is one number to this file: a choice is its index, a switch 0 or 1. Grammar: pairs are separated by commas or line ends;
//! blanks around
//! keys and values do not count; empty pairs are skipped; `#` starts a comment up to the end of the line, so that a file can be passed
//! as it is. Bytes take the suffixes k, m, g, t (of 1024).

use super::{Settings, TickPolicy, WalIo};
use crate::clock::ClockUnit;
use crate::error::{Error, ErrorKind, Result};
use crate::fail;

/// What a knob's number means, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes; `64m` is 64 MiB.
    Bytes,
    /// A plain number of the unit that the key names, or of things.
    Number,
    /// `true` or `false`.
    Switch,
    /// One of these words; the number is the index.
    Choice(&'static [&'static str]),
}

/// One knob.
pub struct Knob {
    /// Its name, also that of the C field where there is one.
    pub key: &'static str,
    /// How it is written.
    pub kind: Kind,
    /// Its value when nobody sets it. For a choice 0 may mean "as stored".
    pub default: u64,
    /// Least value.
    pub min: u64,
    /// Greatest value.
    pub max: u64,
    /// What it is, for people.
    pub text: &'static str,
    /// Reads it.
    pub get: fn(&Settings) -> u64,
    /// Writes it; the value is within the bounds.
    pub set: fn(&mut Settings, u64),
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// A numeric knob: field and key have the same name.
macro_rules! number {
    ($key:ident, $kind:ident, $default:expr, $min:expr, $max:expr, $text:expr) => {
        Knob {
            key: stringify!($key),
            kind: Kind::$kind,
            default: $default,
            min: $min,
            max: $max,
            text: $text,
            get: |s| s.$key,
            set: |s, v| s.$key = v,
        }
    };
}

const DURABILITIES: &[&str] = &["default", "skip_wal", "async_wal", "sync_wal", "fsync_wal"];
const CLOCK_UNITS: &[&str] = &["default", "ns", "us", "ms"];
const TICK_POLICIES: &[&str] = &["default", "advance", "wait"];
const WAL_IOS: &[&str] = &["auto", "mapped", "write"];
const RECOVERIES: &[&str] = &["auto", "power_cut"];

/// Everything that can be set.
pub const KNOBS: &[Knob] = &[
    Knob {
        key: "durability",
        kind: Kind::Choice(DURABILITIES),
        default: 0,
        min: 0,
        max: 4,
        text: "level of writes that name none; default: as stored, else sync_wal",
        get: |s| s.durability.map_or(0, |v| v as u64),
        set: |s, v| s.durability = super::Durability::from_u8(v as u8),
    },
    Knob {
        key: "clock_unit",
        kind: Kind::Choice(CLOCK_UNITS),
        default: 0,
        min: 0,
        max: 3,
        text: "unit of timestamps, fixed when the region is created; default: as stored, else ns",
        get: |s| s.clock_unit.map_or(0, |v| v as u64),
        set: |s, v| s.clock_unit = ClockUnit::from_u8(v as u8),
    },
    Knob {
        key: "tick_policy",
        kind: Kind::Choice(TICK_POLICIES),
        default: 0,
        min: 0,
        max: 2,
        text: "a second commit of a row in one tick takes the next one or waits for it (so may another row of its lock bucket: see lock_buckets); default: as stored, else advance",
        get: |s| s.tick_policy.map_or(0, |v| v as u64),
        set: |s, v| {
            s.tick_policy = match v {
                1 => Some(TickPolicy::Advance),
                2 => Some(TickPolicy::Wait),
                _ => None,
            }
        },
    },
    Knob {
        key: "wal_io",
        kind: Kind::Choice(WAL_IOS),
        default: 0,
        min: 0,
        max: 2,
        text: "how the log is written: mapped where that is safe, always, or one pwrite per record",
        get: |s| s.wal_io as u64,
        set: |s, v| {
            s.wal_io = match v {
                1 => WalIo::Mapped,
                2 => WalIo::Write,
                _ => WalIo::Auto,
            }
        },
    },
    number!(sync_interval_ms, Number, 1_000, 1, 3_600_000, "milliseconds between background syncs of the log"),
    number!(write_timeout_us, Number, 10_000_000, 1, u64::MAX, "microseconds that a call waits which names no timeout; 1 = not at all"),
    number!(
        memstore_limit,
        Bytes,
        GIB,
        256 * KIB,
        64 * TIB,
        "bytes of memstore memory; hard; no less than an empty memstore takes of the chunk pool: one chunk, 2 MiB in the default pool"
    ),
    number!(flush_bytes, Bytes, 128 * MIB, 64 * KIB, 64 * TIB, "bytes of memstore at which a flush starts"),
    number!(block_cache_bytes, Bytes, 256 * MIB, 0, 64 * TIB, "bytes of block cache"),
    number!(wal_bytes_max, Bytes, 8 * GIB, 256 * KIB, 64 * TIB, "bytes of log at which writes wait for a flush"),
    number!(background_threads, Number, 1, 1, 64, "threads for flush and compaction"),
    number!(wal_segment_bytes, Bytes, 64 * MIB, 64 * KIB, GIB, "bytes of one log segment; the largest record is 8 KiB less"),
    number!(
        lock_buckets,
        Number,
        1 << 14,
        1 << 6,
        1 << 24,
        "buckets of the row lock table, a power of two; 64 bytes each. A bucket tells the ticks of two rows apart"
    ),
    Knob {
        key: "recovery",
        kind: Kind::Choice(RECOVERIES),
        default: 0,
        min: 0,
        max: 1,
        text: "power_cut: judge the log's end as after a power cut even under the same kernel (a device lost and mounted again)",
        get: |s| u64::from(s.recovery_power_cut),
        set: |s, v| s.recovery_power_cut = v == 1,
    },
    Knob {
        key: "allow_network_fs",
        kind: Kind::Switch,
        default: 0,
        min: 0,
        max: 1,
        text: "open on a network file system, whose locks may not hold",
        get: |s| u64::from(s.allow_network_fs),
        set: |s, v| s.allow_network_fs = v == 1,
    },
    number!(nonce_window_s, Number, 600, 1, 7 * 86_400, "seconds for which a nonce is remembered"),
    number!(
        nonce_bytes_max,
        Bytes,
        64 * MIB,
        4 * KIB,
        64 * TIB,
        "bytes of remembered nonces, about 170 each; calls with a new one wait when full, and nothing young is forgotten"
    ),
    number!(
        snapshot_warn_ms,
        Number,
        600_000,
        0,
        365 * 86_400_000,
        "milliseconds after which an open snapshot or scanner is named in the log, once, since versions are kept for it; 0 = never"
    ),
    number!(tick_lead_max_ms, Number, 1_000, 1, 86_400_000, "milliseconds that a row's ticks may run ahead of a clock that moves"),
    number!(
        seal_every_commits,
        Number,
        0,
        0,
        u64::MAX,
        "for tests: seal the active memstore segment after every so many commits; 0 = never"
    ),
];

impl Knob {
    /// The knob with this key.
    pub fn named(key: &str) -> Result<&'static Knob> {
        match KNOBS.iter().find(|k| k.key == key) {
            Some(knob) => Ok(knob),
            None => Err(unknown("config key", key, KNOBS.iter().map(|k| k.key))),
        }
    }
    /// Sets it, if the value is within the bounds.
    pub(super) fn apply(&self, settings: &mut Settings, value: u64) -> Result<()> {
        if value < self.min || value > self.max {
            return fail!(Invalid, "{} must be {} to {}, not {value}", self.key, self.min, self.max);
        }
        (self.set)(settings, value);
        Ok(())
    }
    /// The value as it is written in `config`.
    pub fn show(&self, settings: &Settings) -> String {
        let value = (self.get)(settings);
        match self.kind {
            Kind::Switch => (value == 1).to_string(),
            Kind::Choice(words) => words.get(value as usize).copied().unwrap_or("?").to_string(),
            Kind::Bytes | Kind::Number => value.to_string(),
        }
    }
    fn parse(&self, text: &str) -> Result<u64> {
        match self.kind {
            Kind::Switch => match text {
                "true" | "1" | "yes" | "on" => Ok(1),
                "false" | "0" | "no" | "off" => Ok(0),
                _ => fail!(Invalid, "{} must be true or false, not {text:?}", self.key),
            },
            Kind::Choice(words) => match words.iter().position(|w| *w == text) {
                Some(i) => Ok(i as u64),
                None => Err(unknown(self.key, text, words.iter().copied())),
            },
            Kind::Number => match text.parse() {
                Ok(n) => Ok(n),
                Err(_) => fail!(Invalid, "{} must be a number, not {text:?}", self.key),
            },
            Kind::Bytes => match bytes(text) {
                Some(n) => Ok(n),
                None => fail!(Invalid, "{} must be bytes, as in 1048576 or 64m, not {text:?}", self.key),
            },
        }
    }
}

/// Applies `config` over what the fields of the options set. A field and a key may both be given only if they agree.
pub(super) fn apply(config: &str, fields: &[(&str, u64)], settings: &mut Settings) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    let pairs = config.split(['\n', '\r']).flat_map(|line| line.split('#').next().unwrap_or("").split(','));
    for pair in pairs.map(str::trim).filter(|p| !p.is_empty()) {
        let Some((key, value)) = pair.split_once('=') else {
            return fail!(Invalid, "config: {pair:?} is not key=value");
        };
        let (key, value) = (key.trim(), value.trim());
        let knob = Knob::named(key)?;
        if seen.contains(&knob.key) {
            return fail!(Invalid, "config: {key} is given twice");
        }
        seen.push(knob.key);
        let number = knob.parse(value)?;
        if let Some((_, field)) = fields.iter().find(|(k, v)| *k == key && *v != 0 && *v != number) {
            return fail!(Invalid, "config: {key}={value}, but the options' field {key} says {field}");
        }
        knob.apply(settings, number)?;
    }
    Ok(())
}

fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => KIB,
        "m" | "mib" => MIB,
        "g" | "gib" => GIB,
        "t" | "tib" => TIB,
        _ => return None,
    };
    digits.trim_end().parse::<u64>().ok()?.checked_mul(unit)
}

/// The error for a word that is not on the list, with the nearest one that is.
fn unknown<'a>(what: &str, word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Error {
    let near = known.clone().map(|k| (distance(word, k), k)).min().filter(|(d, k)| *d <= 1 + k.len() / 4).map(|(_, k)| k);
    let help = match near {
        Some(k) => format!("did you mean {k:?}?"),
        None => format!("known are: {}", known.collect::<Vec<_>>().join(", ")),
    };
    Error::new(ErrorKind::Unsupported, format!("{what}: {word:?} is not known; {help}"))
}

/// How many characters must be typed, deleted or replaced to turn one word into the other. Words longer than any key are far from all of
/// them.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}
