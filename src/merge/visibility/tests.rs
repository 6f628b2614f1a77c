use super::*;
use CellType::{Delete, DeleteVersion, Put};

fn live(cells: &[(u64, u64, CellType)], max_versions: usize) -> Vec<u64> {
    let mut v = cells.iter().map(|&(seq, ts, kind)| Version { seq, ts, kind, value: () }).collect();
    replay(&mut v, max_versions);
    v.iter().map(|v| v.seq).collect()
}

#[test]
fn timestamps_decide_among_values() {
    assert_eq!(live(&[(1, 10, Put), (2, 5, Put)], 1), [1]);
    assert_eq!(live(&[(1, 10, Put), (2, 10, Put)], 1), [2]);
    assert_eq!(live(&[(3, 30, Put), (1, 10, Put), (2, 20, Put)], 2), [3, 2]);
}

/// P-T4: a delete in the future hides what was there, and nothing that comes later.
#[test]
fn p_t4_delete_hides_smaller_numbers_only() {
    assert_eq!(live(&[(1, 10, Put), (2, 99, Delete)], 1), [] as [u64; 0]);
    assert_eq!(live(&[(1, 10, Put), (2, 99, Delete), (3, 20, Put)], 1), [3]);
    assert_eq!(live(&[(1, 50, Put), (2, 20, Delete)], 1), [1]);
}

#[test]
fn value_beside_a_marker_of_its_own_commit_stays() {
    assert_eq!(live(&[(1, 10, Put), (2, 20, Put), (2, 20, Delete)], 1), [2]);
}

/// What left by the number of versions does not come back when a newer version is deleted.
#[test]
fn versions_that_left_stay_away() {
    assert_eq!(live(&[(1, 1, Put), (2, 2, Put), (3, 3, Put), (4, 3, DeleteVersion)], 2), [2]);
    assert_eq!(live(&[(1, 1, Put), (2, 2, Put), (3, 2, DeleteVersion)], 1), [] as [u64; 0]);
}

/// A put hidden by nothing but a later delete of exactly its version (DEL-08's rule for one column).
#[test]
fn one_version_goes_the_others_stay() {
    assert_eq!(live(&[(1, 4, Put), (2, 5, Put), (3, 6, Put), (4, 5, DeleteVersion)], 3), [3, 1]);
}
