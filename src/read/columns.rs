//! Which columns of a row a read shows: sorted, disjoint spans of (family, qualifier), so that a reader can go from one to the next by seeking.
//!
//! A row with a million columns of which one is asked for then costs one descent, not a million comparisons.

use crate::ids::FamilyId;

/// Columns of one family from a qualifier on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The family.
    pub family: FamilyId,
    /// First qualifier.
    pub from: Vec<u8>,
    /// First qualifier beyond; None: to the end of the family.
    pub to: Option<Vec<u8>>,
}

impl Span {
    /// All columns of a family.
    pub fn family(family: FamilyId) -> Self {
        Self { family, from: Vec::new(), to: None }
    }
    /// One column.
    pub fn exact(family: FamilyId, qualifier: &[u8]) -> Self {
        let mut to = qualifier.to_vec();
        to.push(0);
        Self { family, from: qualifier.to_vec(), to: Some(to) }
    }
    /// Columns whose qualifier begins so.
    pub fn prefix(family: FamilyId, prefix: &[u8]) -> Self {
        Self { family, from: prefix.to_vec(), to: behind_prefix(prefix) }
    }
    /// Columns from `from` to before `to`; an empty `to` is no bound.
    pub fn range(family: FamilyId, from: &[u8], to: &[u8]) -> Self {
        Self { family, from: from.to_vec(), to: (!to.is_empty()).then(|| to.to_vec()) }
    }
    fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
}

/// The smallest key above all that begin with `prefix`; None: there is none.
pub fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut beyond = prefix.get(..=last)?.to_vec();
    *beyond.last_mut()? += 1;
    Some(beyond)
}

/// The columns that are asked for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// None: all columns.
    spans: Option<Vec<Span>>,
}

/// Where a column lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// It is asked for.
    Inside,
    /// It is not; the next one asked for is not before this.
    Before(FamilyId, &'a [u8]),
    /// Nothing further of this row is asked for.
    Behind,
}

impl Selection {
    /// Of spans in any order, which may overlap; none at all: every column.
    pub fn new(spans: impl IntoIterator<Item = Span>) -> Self {
        let mut given: Vec<Span> = spans.into_iter().collect();
        if given.is_empty() {
            return Self { spans: None };
        }
        given.retain(|s| !s.is_empty());
        given.sort_by(|a, b| (a.family, &a.from).cmp(&(b.family, &b.from)));
        let mut spans: Vec<Span> = Vec::with_capacity(given.len());
        for next in given {
            match spans.last_mut() {
                Some(last) if last.family == next.family && last.to.as_ref().is_none_or(|to| next.from <= *to) => {
                    let further = match (&last.to, &next.to) {
                        (Some(a), Some(b)) => b > a,
                        (Some(_), None) => true,
                        (None, _) => false,
                    };
                    if further {
                        last.to = next.to;
                    }
                }
                _ => spans.push(next),
            }
        }
        Self { spans: Some(spans) }
    }
    /// True if every column is asked for.
    pub fn is_all(&self) -> bool {
        self.spans.is_none()
    }
    /// The families that are asked for, each once or more; none: all.
    pub fn families(&self) -> impl Iterator<Item = FamilyId> {
        self.spans.iter().flatten().map(|s| s.family)
    }
    /// Where a column lies. `at` is the span to begin with: 0 at a row's start, then whatever the call before left there.
    #[inline]
    pub fn place(&self, at: &mut usize, family: FamilyId, qualifier: &[u8]) -> Place<'_> {
        let Some(spans) = &self.spans else { return Place::Inside };
        while let Some(span) = spans.get(*at) {
            // An empty bound is not compared with, see `Rows::is_beyond`.
            if family < span.family || family == span.family && !span.from.is_empty() && qualifier < span.from.as_slice() {
                return Place::Before(span.family, &span.from);
            }
            if family == span.family && span.to.as_ref().is_none_or(|to| qualifier < to.as_slice()) {
                return Place::Inside;
            }
            *at += 1;
        }
        Place::Behind
    }
}

#[cfg(test)]
mod tests;
