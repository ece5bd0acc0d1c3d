//! Loops unrolled in the source, so that arrays indexed by the loop variable stay in registers, independent of the code
//! generator's own unrolling.

/// `unrolled!(at most LIMIT; for I in COUNT => { body })`: repeats the body for each `I` in `0..COUNT`, with `I` a constant.
/// `COUNT` is a constant of at most `LIMIT`, which is 2, 4, 8, 16 or 32.
macro_rules! unrolled {
    (at most 2; for $i:ident in $count:expr => $body:block) => {
        unrolled!(@each 2; $i $count, $body; 0 1)
    };
    (at most 4; for $i:ident in $count:expr => $body:block) => {
        unrolled!(@each 4; $i $count, $body; 0 1 2 3)
    };
    (at most 8; for $i:ident in $count:expr => $body:block) => {
        unrolled!(@each 8; $i $count, $body; 0 1 2 3 4 5 6 7)
    };
    (at most 16; for $i:ident in $count:expr => $body:block) => {
        unrolled!(@each 16; $i $count, $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (at most 32; for $i:ident in $count:expr => $body:block) => {
        unrolled!(
            @each 32; $i $count, $body;
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        )
    };
    (@each $limit:literal; $i:ident $count:expr, $body:block; $($index:literal)*) => {{
        const { assert!($count <= $limit, "the loop has more steps than it is unrolled for") };
        $(
            if $index < $count {
                #[allow(non_upper_case_globals)]
                const $i: usize = $index;
                $body
            }
        )*
    }};
}
pub(crate) use unrolled;
