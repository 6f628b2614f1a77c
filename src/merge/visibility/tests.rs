use super::*;
use CellType::{Delete, DeleteFamily, DeleteVersion, Put};

fn live(cells: &[(u64, u64, CellType)], max_versions: u32) -> Vec<u64> {
    let mut v = cells.iter().map(|&(seq, ts, kind)| Version { seq, ts, kind, value: () }).collect();
    replay(&mut v, &Rules::versions(max_versions), &ALWAYS);
    v.iter().map(|v| v.seq).collect()
}

fn shown(cells: &[(u64, u64, CellType)], rules: &Rules, range: Range<u64>) -> Vec<u64> {
    let mut v = cells.iter().map(|&(seq, ts, kind)| Version { seq, ts, kind, value: () }).collect();
    replay(&mut v, rules, &range);
    v.iter().map(|v| v.ts).collect()
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

/// KDC-01, KDC-03: who asks for the time before the marker is shown what it deleted, if the family keeps that.
#[test]
fn kdc_01_a_range_before_the_marker_shows_deleted_cells() {
    let cells = [(1, 10, Put), (2, 20, Put), (3, 30, Delete)];
    let keeps = Rules { keep_deleted: KeepDeleted::Yes, ..Rules::versions(3) };
    assert_eq!(shown(&cells, &keeps, ALWAYS), [] as [u64; 0]);
    assert_eq!(shown(&cells, &keeps, 0..30), [20, 10]);
    assert_eq!(shown(&cells, &keeps, 0..31), [] as [u64; 0]);
    assert_eq!(shown(&cells, &Rules::versions(3), 0..30), [] as [u64; 0]);
    let until = Rules { keep_deleted: KeepDeleted::UntilExpired, min_versions: 3, ..Rules::versions(3) };
    assert_eq!(shown(&cells, &until, 0..30), [20, 10]);
    assert_eq!(shown(&cells, &Rules { oldest: 31, ..until }, 0..30), [] as [u64; 0]);
}

/// KDC-07: a deleted cell that is kept still counts as a version.
#[test]
fn kdc_07_a_newer_value_pushes_a_deleted_one_out() {
    let keeps = Rules { keep_deleted: KeepDeleted::Yes, ..Rules::PLAIN };
    assert_eq!(shown(&[(1, 10, Put), (2, 20, Delete)], &keeps, 0..20), [10]);
    assert_eq!(shown(&[(1, 10, Put), (2, 20, Delete), (3, 30, Put)], &keeps, 0..20), [] as [u64; 0]);
}

/// KDC-12, always with the answer that HBase gives after its flush.
#[test]
fn kdc_12_min_versions_count_deleted_cells_that_are_kept() {
    let keeps = Rules { keep_deleted: KeepDeleted::Yes, min_versions: 3, oldest: 200, ..Rules::versions(9) };
    let cells = [(1, 100, Put), (2, 99, Put), (3, 97, Put), (4, 96, Put), (5, 99, DeleteFamily), (6, 99, Delete)];
    assert_eq!(shown(&cells, &keeps, 0..98), [97]);
}

#[test]
fn expired_cells_go_but_for_the_minimum() {
    let cells = [(1, 10, Put), (2, 20, Put), (3, 30, Put), (4, 40, Put)];
    let rules = Rules { oldest: 30, ..Rules::versions(4) };
    assert_eq!(shown(&cells, &rules, ALWAYS), [40, 30]);
    assert_eq!(shown(&cells, &Rules { min_versions: 3, ..rules }, ALWAYS), [40, 30, 20]);
    // The range takes nothing from the minimum: 20 is one of the three best.
    assert_eq!(shown(&cells, &Rules { min_versions: 3, ..rules }, 15..25), [20]);
    assert_eq!(shown(&cells, &Rules { min_versions: 3, ..rules }, 5..15), [] as [u64; 0]);
    let rules = Rules { shown_from: 30, ..rules };
    let best = [rules.shows_best(30), rules.shows_best(29), Rules { min_versions: 1, ..rules }.shows_best(1)];
    assert_eq!(best, [Some(true), Some(false), Some(true)]);
}
