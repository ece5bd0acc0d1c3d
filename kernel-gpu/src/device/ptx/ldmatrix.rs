//! Matrix loads from shared memory (PTX ISA, "Warp-level Matrix Load Instruction: ldmatrix").
//!
//! Loads four 8×8 matrices of 16-bit elements at once. Lanes 8i to 8i+7 give the addresses of the rows of matrix i, 16 bytes
//! each. Lane l receives, in one register per matrix, elements 2·(l mod 4) and 2·(l mod 4)+1 of row l/4; with `.trans`, of
//! the transposed matrix.

macro_rules! load_four_matrices {
    ($(#[$doc:meta])* $name:ident, $instruction:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(row: u32) -> [u32; 4] {
            let (a, b, c, d);
            instruction!(
                concat!($instruction, " {{{}, {}, {}, {}}}, [{}];"),
                out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) row,
                options(nostack, readonly)
            );
            [a, b, c, d]
        }
    };
}

load_four_matrices! {
    /// `ldmatrix.sync.aligned.m8n8.x4.shared.b16`.
    ///
    /// # Safety
    /// Every lane of the warp executes this together; `row` is a 16-byte aligned shared-memory address of 16 initialised
    /// bytes.
    load_4, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
}
load_four_matrices! {
    /// `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16`.
    ///
    /// # Safety
    /// As for [`load_4`].
    load_4_transposed, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
}
