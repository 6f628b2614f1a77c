//! What tells two calls apart that carry one nonce: a keyed hash of what a group of operations is to do. Pure.
//!
//! It reaches disk. SipHash-2-4 under the region's nonce key of the byte 2 (rows have 0 and 1), then of what is put in, in the caller's order: numbers
//! little-endian, strings behind a u32 length. Keyed, so that nobody can prepare two calls that pass for each other.

use std::hash::Hasher;
use std::num::NonZeroU64;

/// Which operations an entry answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(NonZeroU64);

impl Fingerprint {
    /// As it is stored; 0 is none.
    pub fn stored(n: u64) -> Option<Self> {
        NonZeroU64::new(n).map(Self)
    }
    /// To be stored.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// A fingerprint under way.
#[derive(Clone)]
#[expect(deprecated, reason = "std has no other hasher whose output is specified; see `sip`")]
pub struct Fingerprinter(std::hash::SipHasher);

impl Fingerprinter {
    pub(super) fn new(key: [u64; 2]) -> Self {
        #[expect(deprecated, reason = "see the struct")]
        let mut hasher = std::hash::SipHasher::new_with_keys(key[0], key[1]);
        hasher.write(&[2]);
        Self(hasher)
    }
    /// A string, told apart from what follows it.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.fixed(&(bytes.len() as u32).to_le_bytes());
        self.0.write(bytes);
    }
    /// A number of fixed width, as its little-endian bytes.
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
    /// What it comes to.
    pub fn finish(&self) -> Fingerprint {
        Fingerprint(NonZeroU64::new(self.0.finish()).unwrap_or(NonZeroU64::MIN))
    }
}
