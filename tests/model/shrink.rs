//! Makes a failing history short: leaves out calls, then elements of calls, then makes numbers simple, as long as it goes on failing.

use crate::ops::{Item, Op};

/// The shortest form of `ops` that was found for which `fails` holds.
pub fn shrink(mut ops: Vec<Op>, fails: &dyn Fn(&[Op]) -> bool) -> Vec<Op> {
    loop {
        let before = ops.clone();
        let mut size = ops.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < ops.len() {
                let mut fewer = ops.clone();
                fewer.drain(at..(at + size).min(ops.len()));
                if fails(&fewer) {
                    ops = fewer;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        for i in 0..ops.len() {
            let mut try_one = |change: &dyn Fn(&mut Op)| {
                let mut simpler = ops.clone();
                change(&mut simpler[i]);
                let better = simpler != ops && fails(&simpler);
                if better {
                    ops = simpler;
                }
                better
            };
            let mut item = 0;
            while item < before.get(i).map_or(0, |_| 64) {
                let removed = try_one(&|op| {
                    if op.items.len() > 1 && item < op.items.len() {
                        op.items.remove(item);
                    }
                });
                item += usize::from(!removed);
            }
            try_one(&|op| op.flags = 0);
            try_one(&|op| (op.level, op.ts) = (0, 0));
            try_one(&|op| op.n[1] = 0);
            try_one(&|op| op.n[2] = 0);
            for item in 0..64 {
                let set: [&dyn Fn(&mut Item); 6] =
                    [&|i| i.row = 0, &|i| i.fam = 0, &|i| i.qual = 0, &|i| i.value = 4, &|i| i.ts = 0, &|i| i.delta = 1];
                for change in set {
                    try_one(&|op| op.items.get_mut(item).into_iter().for_each(change));
                }
            }
        }
        if ops == before {
            return ops;
        }
    }
}
