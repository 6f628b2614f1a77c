//! Loom models of the bump and the pool.
/// A rule switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// None.
    None,
    /// The cursor is stored, not exchanged.
    BumpWithoutExchange,
}
