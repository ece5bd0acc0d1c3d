//! Exchange between the lanes of a warp.

use crate::case::Case;
use crate::lanewise::{Row, sequence};

const ROWS: &[Row] = &[
    sequence("shfl.sync.{up,down,bfly,idx}.b32", "b32 pred = b32 u32:shift b32", "$ d0|d1, a0, a1, a2, 0xffffffff;"),
    sequence(
        "vote.sync.{all,any,uni}.pred",
        "pred pred pred = pred",
        "setp.ge.u32 %p1, %thread, 32;\n$ d0, a0, 0xffffffff;\n$ d1, !a0, 0xffffffff;\n$ d2, %p1, 0xffffffff;",
    ),
    sequence("vote.sync.ballot.b32", "b32 b32 = pred", "$ d0, a0, 0xffffffff;\n$ d1, !a0, 0xffffffff;"),
    sequence("match.any.sync.{b32,b64}", "b32 = T", "and.$T a0, a0, 3;\n$ d0, a0, 0xffffffff;"),
    sequence(
        "match.all.sync.{b32,b64}",
        "b32 pred b32 pred = T",
        "$ d0|d1, a0, 0xffffffff;\nand.$T a0, a0, 0;\n$ d2|d3, a0, 0xffffffff;",
    ),
    sequence("redux.sync.{add,min,max}.{u32,s32}", "b32 = T", "$ d0, a0, 0xffffffff;"),
    sequence("redux.sync.{and,or,xor}.b32", "b32 = T", "$ d0, a0, 0xffffffff;"),
    sequence(
        "redux.sync.add.u32 of a part",
        "b32 b32 pred = u32",
        "mov.b32 d0, 0;\nmov.b32 d1, 0;\nsetp.ne.u32 d2, 0, 0;\nmov.u32 %r1, %laneid;\nsetp.ge.u32 %p1, %r1, 12;\n\
         @%p1 bra rest;\nredux.sync.add.u32 d0, a0, 0xfff;\nshfl.sync.down.b32 d1|d2, a0, 1, 0x1f0b, 0xfff;\nrest:",
    ),
    sequence(
        "activemask.b32",
        "b32 b32 = u32",
        "mov.b32 d0, 0;\nmov.u32 %r1, %laneid;\nsetp.ge.u32 %p1, %r1, 20;\n@%p1 bra rest;\nactivemask.b32 d0;\n\
         bar.warp.sync 0xfffff;\nrest: bar.warp.sync 0xffffffff;\nactivemask.b32 d1;",
    ),
    sequence("elect.sync", "b32 pred = u32", "elect.sync d0|d1, 0xffffffff;"),
];

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    ROWS.iter().flat_map(Row::cases).collect()
}
