//! Matrix stores to shared memory (PTX ISA, "Warp-level Matrix Store Instruction: stmatrix"), the inverse of
//! [`super::ldmatrix`].

/// `stmatrix.sync.aligned.m8n8.x4.shared.b16`: stores four 8×8 matrices of 16-bit elements. Lanes 8i to 8i+7 give the
/// addresses of the rows of matrix i, 16 bytes each. Lane l holds, in one register per matrix, elements 2·(l mod 4) and
/// 2·(l mod 4)+1 of row l/4.
///
/// # Safety
/// Every lane of the warp executes this together; `row` is a 16-byte aligned shared-memory address of 16 bytes that nothing
/// else accesses until a barrier.
#[inline(always)]
pub unsafe fn store_4(row: u32, matrices: [u32; 4]) {
    instruction!(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{}], {{{}, {}, {}, {}}};",
        in(reg32) row, in(reg32) matrices[0], in(reg32) matrices[1], in(reg32) matrices[2], in(reg32) matrices[3],
        options(nostack)
    );
}
