//! The planted bugs: small kernels with one bug each, and beside each its clean twin, which the simulator is tested with.
//!
//! The list builds everywhere. The kernels (`device`, only for `nvptx64`) are in a folder for each class of bug, with the
//! simulator's report beside the source. A new one is a function there, a line in this list, and `cargo xtask bless`.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

#[cfg(target_arch = "nvptx64")]
mod device;

#[cfg(target_arch = "nvptx64")]
kernel_gpu::dynamic_shared_memory!();

/// What every planted kernel is given.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// Address of a buffer of 32-bit words 0, 1, 2, …; 0 for a buffer of 0 bytes.
    pub input: u64,
    /// Address of a buffer that nothing has written; 0 for a buffer of 0 bytes.
    pub output: u64,
    /// Address of the tensor map of the input; 0 for a case without one.
    pub tensor_map: u64,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Arguments {
    /// The bytes of the parameter.
    pub fn bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (target, field) in bytes.chunks_exact_mut(8).zip([self.input, self.output, self.tensor_map]) {
            target.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

/// What is wrong with a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// An address that is not a multiple of what the access needs.
    Misaligned,
    /// An access outside every buffer or beyond the launch's shared memory.
    OutOfBounds,
    /// A read of a register or a byte that nothing wrote.
    Uninitialised,
    /// An asynchronous copy without the right wait.
    AsyncCopy,
    /// A barrier that some threads do not reach, or reach with contradicting counts.
    Barrier,
    /// Warps that wait for each other, or for what nobody brings.
    Deadlock,
    /// An operand without a meaning.
    InvalidOperand,
    /// A warp-collective instruction with lanes missing, or one of a warpgroup with warps missing.
    Collective,
    /// A kernel that traps or does not end.
    Termination,
    /// Accesses to shared memory that nothing orders.
    RaceShared,
    /// Accesses to global memory that nothing orders.
    RaceGlobal,
    /// The shared memory of another block of the cluster, which may not have begun or have ended.
    Cluster,
    /// An mbarrier that is not there, or whose counts become impossible.
    Mbarrier,
    /// Ordinary writes that the async proxy may not see.
    ProxyFence,
    /// Registers of a `wgmma` in flight that are touched, or not fenced before it.
    Wgmma,
    /// Nothing undefined, but not what the clean twin computes.
    WrongResult,
}

/// A tensor of 32-bit words over [`Arguments::input`], its rows packed, and the box of it that one copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Rows of the tensor.
    pub rows: u32,
    /// Words of a row, a multiple of 4.
    pub columns: u32,
    /// Rows of the box.
    pub box_rows: u32,
    /// Words of a row of the box: a multiple of 4, or 32 with the swizzle.
    pub box_columns: u32,
    /// How the box lies in shared memory.
    pub swizzle: Swizzle,
}

#[cfg(not(target_arch = "nvptx64"))]
impl TensorMap {
    /// Bytes from one row of the tensor to the next.
    pub fn pitch(self) -> u64 {
        u64::from(self.columns) * 4
    }
}

/// Whether the 16-byte chunks of a box are permuted in shared memory (PTX ISA, "Swizzling Modes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Not at all.
    None,
    /// Within rows of 128 bytes.
    Bytes128,
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// Compute capability 8.0 and every later GPU.
    Sm80,
    /// Hopper only.
    Sm90a,
}

impl Architecture {
    /// Every architecture, each a PTX file.
    pub const ALL: [Architecture; 2] = [Architecture::Sm80, Architecture::Sm90a];

    /// Its name, as in `sm_80`.
    pub const fn name(self) -> &'static str {
        match self {
            Architecture::Sm80 => "sm_80",
            Architecture::Sm90a => "sm_90a",
        }
    }

    /// Name of the PTX file with its kernels.
    pub const fn file(self) -> &'static str {
        match self {
            Architecture::Sm80 => "sm_80.ptx",
            Architecture::Sm90a => "sm_90a.ptx",
        }
    }
}

/// One planted bug and how its kernels are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// What its kernels are compiled for.
    pub architecture: Architecture,
    /// Class of the bug.
    pub class: Class,
    /// Name of the class: the folder of the source.
    pub folder: &'static str,
    /// Name of the kernel within its class.
    pub name: &'static str,
    /// Entry of the kernel with the bug.
    pub planted: &'static str,
    /// Entry of its clean twin.
    pub clean: &'static str,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Blocks of a cluster; 1 for a launch without clusters.
    pub cluster: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Size of [`Arguments::input`] in bytes.
    pub input_bytes: u64,
    /// Size of [`Arguments::output`] in bytes.
    pub output_bytes: u64,
    /// What [`Arguments::tensor_map`] describes.
    pub tensor_map: Option<TensorMap>,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Case {
    /// The contents of [`Arguments::input`]: words 0, 1, 2, …
    pub fn input(&self) -> impl Iterator<Item = u8> {
        (0..self.input_bytes.div_ceil(4) as u32).flat_map(u32::to_le_bytes).take(self.input_bytes as usize)
    }
}

/// The tensor map of a case, or none.
macro_rules! tensor_map {
    () => {
        None
    };
    ($rows:literal $columns:literal $box_rows:literal $box_columns:literal $swizzle:ident) => {
        Some(TensorMap {
            rows: $rows,
            columns: $columns,
            box_rows: $box_rows,
            box_columns: $box_columns,
            swizzle: Swizzle::$swizzle,
        })
    };
}

/// The blocks of a cluster, or 1.
macro_rules! cluster {
    () => {
        1
    };
    ($blocks:literal) => {
        $blocks
    };
}

/// Declares planted bugs: the list for every target, and on the device the two entries of each.
macro_rules! planted {
    ($($feature:literal $architecture:ident $entries:ident { $($folder:ident $class:ident {
        $($kernel:ident: $blocks:literal x $threads:literal threads $(in clusters of $cluster:literal)?, $shared:literal shared, $input:literal in, $output:literal out
            $(, $rows:literal x $columns:literal words in boxes of $box_rows:literal x $box_columns:literal, swizzle $swizzle:ident)?;)*
    })* })*) => {
        /// Every planted bug.
        pub const CASES: &[Case] = &[$($($(Case {
            architecture: Architecture::$architecture,
            class: Class::$class,
            folder: stringify!($folder),
            name: stringify!($kernel),
            planted: concat!("planted_", stringify!($folder), "_", stringify!($kernel)),
            clean: concat!("clean_", stringify!($folder), "_", stringify!($kernel)),
            blocks: $blocks,
            cluster: cluster!($($cluster)?),
            threads: $threads,
            shared_bytes: $shared,
            input_bytes: $input,
            output_bytes: $output,
            tensor_map: tensor_map!($($rows $columns $box_rows $box_columns $swizzle)?),
        },)*)*)*];

        $(#[cfg(all(target_arch = "nvptx64", feature = $feature))]
        mod $entries {
            $(mod $folder {
                $(mod $kernel {
                    use crate::Arguments;
                    use crate::device::$folder::$kernel;

                    /// # Safety
                    /// The launch must be that of the list.
                    #[unsafe(export_name = concat!("planted_", stringify!($folder), "_", stringify!($kernel)))]
                    pub unsafe extern "ptx-kernel" fn planted(arguments: Arguments) {
                        // SAFETY: none. This is the planted bug.
                        unsafe { $kernel::<true>(arguments) }
                    }

                    /// # Safety
                    /// The launch must be that of the list.
                    #[unsafe(export_name = concat!("clean_", stringify!($folder), "_", stringify!($kernel)))]
                    pub unsafe extern "ptx-kernel" fn clean(arguments: Arguments) {
                        // SAFETY: without the bug, the launch that the list declares gives the kernel what it needs.
                        unsafe { $kernel::<false>(arguments) }
                    }
                })*
            })*
        })*
    };
}

planted! {
    "sm_80" Sm80 sm_80 {
        misaligned Misaligned {
            async_copy_to_rows_of_130_bytes: 1 x 32 threads, 4608 shared, 512 in, 0 out;
            async_copy_from_8_bytes_off: 1 x 32 threads, 512 shared, 528 in, 0 out;
            async_copy_of_8_bytes: 1 x 32 threads, 512 shared, 256 in, 0 out;
            vector_read_of_global: 1 x 32 threads, 0 shared, 528 in, 512 out;
            vector_write_of_global: 1 x 32 threads, 0 shared, 0 in, 264 out;
            read_of_a_half_at_an_odd_address: 1 x 32 threads, 0 shared, 64 in, 128 out;
            write_of_a_word_to_rows_of_6_bytes: 1 x 32 threads, 256 shared, 0 in, 0 out;
            vector_write_to_rows_of_24_bytes: 1 x 32 threads, 1024 shared, 0 in, 0 out;
            vector_read_of_rows_of_20_bytes: 1 x 32 threads, 1024 shared, 0 in, 512 out;
            matrix_rows_72_bytes_apart: 1 x 32 threads, 2560 shared, 0 in, 512 out;
        }
        out_of_bounds OutOfBounds {
            read_one_row_past_the_end: 1 x 32 threads, 0 shared, 512 in, 512 out;
            read_before_the_buffer: 1 x 32 threads, 0 shared, 128 in, 128 out;
            write_past_the_end: 1 x 32 threads, 0 shared, 0 in, 128 out;
            vector_partly_past_the_end: 1 x 32 threads, 0 shared, 120 in, 128 out;
            tail_of_the_last_block: 2 x 32 threads, 0 shared, 160 in, 160 out;
            stride_of_another_tensor: 1 x 32 threads, 0 shared, 512 in, 1024 out;
            address_cut_to_32_bits: 1 x 32 threads, 0 shared, 128 in, 128 out;
            write_to_null: 1 x 32 threads, 0 shared, 0 in, 0 out;
            shared_beyond_the_launch: 1 x 32 threads, 128 shared, 0 in, 0 out;
            async_copy_beyond_the_last_stage: 1 x 32 threads, 1024 shared, 512 in, 0 out;
            async_copy_of_rows_past_the_end: 1 x 32 threads, 512 shared, 320 in, 0 out;
            matrix_rows_past_the_tile: 1 x 32 threads, 384 shared, 0 in, 512 out;
        }
        uninitialised Uninitialised {
            shared_never_written: 1 x 32 threads, 128 shared, 0 in, 128 out;
            shared_half_written: 1 x 32 threads, 128 shared, 0 in, 128 out;
            upper_half_of_a_word: 1 x 32 threads, 128 shared, 0 in, 128 out;
            padding_of_a_row: 1 x 32 threads, 512 shared, 0 in, 512 out;
            row_of_a_matrix: 1 x 32 threads, 512 shared, 0 in, 512 out;
            rows_an_async_copy_left_out: 1 x 32 threads, 512 shared, 320 in, 512 out;
            output_that_is_added_to: 1 x 32 threads, 0 shared, 0 in, 128 out;
            sum_that_was_not_cleared: 1 x 32 threads, 0 shared, 0 in, 4 out;
            every_other_row_of_global: 1 x 32 threads, 0 shared, 0 in, 512 out;
            register_of_half_the_lanes: 1 x 32 threads, 0 shared, 0 in, 128 out;
        }
        async_copy AsyncCopy {
            read_before_the_wait: 1 x 32 threads, 512 shared, 512 in, 512 out;
            barrier_instead_of_a_wait: 1 x 32 threads, 512 shared, 512 in, 512 out;
            barrier_before_the_wait: 1 x 64 threads, 512 shared, 512 in, 512 out;
            one_group_too_few: 1 x 32 threads, 1024 shared, 1024 in, 1024 out;
            wait_before_the_commit: 1 x 32 threads, 512 shared, 512 in, 512 out;
            last_tile_of_a_pipeline: 1 x 32 threads, 1024 shared, 2048 in, 2048 out;
            never_waited_for: 1 x 32 threads, 512 shared, 512 in, 0 out;
            prefetch_past_the_last_tile: 1 x 32 threads, 1024 shared, 1024 in, 1024 out;
            store_to_a_copy_in_flight: 1 x 32 threads, 512 shared, 512 in, 0 out;
            copy_over_a_copy_in_flight: 1 x 32 threads, 512 shared, 1024 in, 0 out;
            copies_that_overlap: 1 x 32 threads, 528 shared, 512 in, 0 out;
            matrix_before_the_wait: 1 x 32 threads, 512 shared, 512 in, 512 out;
        }
        barrier Barrier {
            skipped_by_a_warp: 1 x 64 threads, 0 shared, 0 in, 0 out;
            skipped_by_half_a_warp: 1 x 32 threads, 0 shared, 0 in, 0 out;
            after_an_early_return: 1 x 32 threads, 0 shared, 0 in, 0 out;
            on_both_sides_of_a_branch: 1 x 32 threads, 0 shared, 0 in, 0 out;
            in_a_loop_of_unequal_rounds: 1 x 32 threads, 0 shared, 0 in, 0 out;
            contradicting_counts: 1 x 96 threads, 0 shared, 0 in, 0 out;
            count_of_too_many_threads: 1 x 64 threads, 0 shared, 0 in, 0 out;
        }
        deadlock Deadlock {
            different_barriers: 1 x 64 threads, 0 shared, 0 in, 0 out;
            opposite_order: 1 x 64 threads, 0 shared, 0 in, 0 out;
            producer_and_consumer: 1 x 64 threads, 0 shared, 0 in, 0 out;
        }
        invalid_operand InvalidOperand {
            barrier_of_40_threads: 1 x 64 threads, 0 shared, 0 in, 0 out;
            barrier_16: 1 x 64 threads, 0 shared, 0 in, 0 out;
            barrier_that_differs_between_lanes: 1 x 64 threads, 0 shared, 0 in, 0 out;
        }
        collective Collective {
            product_in_a_branch: 1 x 32 threads, 0 shared, 0 in, 128 out;
            product_after_an_early_return: 1 x 32 threads, 0 shared, 0 in, 128 out;
            matrix_load_by_eight_lanes: 1 x 32 threads, 512 shared, 0 in, 512 out;
            shuffle_in_a_branch: 1 x 32 threads, 0 shared, 0 in, 128 out;
            shuffle_from_an_inactive_lane: 1 x 32 threads, 0 shared, 0 in, 128 out;
            shuffle_by_lanes_not_in_the_mask: 1 x 32 threads, 0 shared, 0 in, 128 out;
            shuffle_in_a_loop_of_unequal_rounds: 1 x 32 threads, 0 shared, 0 in, 128 out;
            vote_in_a_branch: 1 x 32 threads, 0 shared, 0 in, 128 out;
            warp_barrier_by_lanes_not_in_the_mask: 1 x 32 threads, 0 shared, 0 in, 0 out;
        }
        termination Termination {
            failed_assertion: 1 x 32 threads, 0 shared, 128 in, 0 out;
            endless_loop: 1 x 32 threads, 0 shared, 0 in, 512 out;
        }
        race_shared RaceShared {
            missing_barrier_between_warps: 1 x 64 threads, 128 shared, 0 in, 128 out;
            missing_barrier_within_a_warp: 1 x 32 threads, 128 shared, 0 in, 128 out;
            barrier_of_the_warp_instead_of_the_block: 1 x 64 threads, 256 shared, 0 in, 256 out;
            a_barrier_for_each_warp: 1 x 64 threads, 128 shared, 0 in, 128 out;
            write_after_the_arrival: 1 x 64 threads, 128 shared, 0 in, 128 out;
            tile_reused_before_its_readers_are_done: 1 x 64 threads, 128 shared, 0 in, 256 out;
            stage_refilled_before_its_readers_are_done: 1 x 64 threads, 128 shared, 256 in, 256 out;
            copy_of_another_thread_without_a_barrier: 1 x 64 threads, 128 shared, 128 in, 128 out;
            two_warps_write_one_tile: 1 x 64 threads, 256 shared, 0 in, 0 out;
            rows_that_overlap: 1 x 64 threads, 256 shared, 0 in, 0 out;
            sums_of_two_warps: 1 x 64 threads, 128 shared, 0 in, 128 out;
        }
        race_global RaceGlobal {
            two_blocks_write_one_row: 2 x 32 threads, 0 shared, 0 in, 256 out;
            blocks_that_overlap_by_a_row: 2 x 32 threads, 0 shared, 0 in, 640 out;
            count_without_an_atomic: 2 x 32 threads, 0 shared, 4 in, 0 out;
            read_of_the_other_blocks_rows: 2 x 32 threads, 0 shared, 256 in, 256 out;
            workspace_without_a_barrier: 1 x 64 threads, 0 shared, 256 in, 256 out;
            all_lanes_write_one_word: 1 x 32 threads, 0 shared, 0 in, 4 out;
        }
    }
    "sm_90a" Sm90a sm_90a {
        misaligned Misaligned {
            mbarrier_at_an_odd_word: 1 x 32 threads, 16 shared, 0 in, 0 out;
            bulk_copy_to_8_bytes_off: 1 x 32 threads, 1552 shared, 512 in, 0 out;
            bulk_copy_from_8_bytes_off: 1 x 32 threads, 1536 shared, 528 in, 0 out;
            bulk_store_to_8_bytes_off: 1 x 32 threads, 1536 shared, 0 in, 528 out;
            box_at_64_bytes: 1 x 32 threads, 1664 shared, 512 in, 0 out, 4 x 32 words in boxes of 4 x 32, swizzle None;
            matrix_store_to_rows_of_24_bytes: 1 x 32 threads, 1024 shared, 0 in, 0 out;
        }
        out_of_bounds OutOfBounds {
            mbarrier_beyond_the_launch: 1 x 32 threads, 32 shared, 0 in, 0 out;
            bulk_copy_past_the_end: 1 x 32 threads, 1536 shared, 320 in, 0 out;
            bulk_copy_beyond_the_last_stage: 1 x 32 threads, 1536 shared, 512 in, 0 out;
            bulk_store_past_the_end: 1 x 32 threads, 1536 shared, 0 in, 320 out;
            box_larger_than_the_stage: 1 x 32 threads, 2048 shared, 1024 in, 0 out, 8 x 32 words in boxes of 8 x 32, swizzle None;
            operand_beyond_the_last_tile: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
        }
        uninitialised Uninitialised {
            box_smaller_than_its_tile: 1 x 64 threads, 2048 shared, 1024 in, 1024 out, 8 x 32 words in boxes of 4 x 32, swizzle None;
            operand_loaded_in_part: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
        }
        async_copy AsyncCopy {
            bulk_copy_read_before_the_wait: 1 x 32 threads, 1536 shared, 512 in, 512 out;
            barrier_instead_of_an_mbarrier: 1 x 32 threads, 1536 shared, 512 in, 512 out;
            box_read_before_the_wait: 1 x 32 threads, 1536 shared, 512 in, 512 out, 4 x 32 words in boxes of 4 x 32, swizzle None;
            mbarrier_of_the_other_stage: 1 x 32 threads, 2048 shared, 1024 in, 512 out;
            stage_refilled_without_an_empty_mbarrier: 1 x 64 threads, 1536 shared, 1024 in, 1024 out;
            bulk_copy_never_waited_for: 1 x 32 threads, 1536 shared, 512 in, 0 out;
            bulk_copy_over_a_copy_in_flight: 1 x 32 threads, 2048 shared, 1024 in, 0 out;
            store_to_a_bulk_copy_in_flight: 1 x 32 threads, 1536 shared, 512 in, 0 out;
            bulk_store_never_waited_for: 1 x 32 threads, 1536 shared, 0 in, 512 out;
            source_of_a_bulk_store_overwritten: 1 x 32 threads, 1536 shared, 0 in, 512 out;
            one_store_group_too_few: 1 x 32 threads, 2048 shared, 0 in, 1024 out;
            store_committed_after_the_wait: 1 x 32 threads, 1536 shared, 0 in, 512 out;
            operand_overwritten_in_flight: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
            stage_released_before_the_product_is_done: 1 x 160 threads, 11264 shared, 10240 in, 2048 out;
        }
        deadlock Deadlock {
            arrivals_of_too_many_threads: 1 x 64 threads, 8 shared, 0 in, 0 out;
            arrivals_of_lanes_that_returned: 1 x 32 threads, 8 shared, 0 in, 0 out;
            wait_before_the_arrival: 1 x 32 threads, 8 shared, 0 in, 0 out;
            more_bytes_expected_than_copied: 1 x 32 threads, 1536 shared, 512 in, 0 out;
            fewer_bytes_expected_than_copied: 1 x 32 threads, 1536 shared, 512 in, 0 out;
            first_wait_for_an_empty_stage: 1 x 64 threads, 1536 shared, 512 in, 512 out;
            parity_that_is_not_flipped: 1 x 32 threads, 1536 shared, 1024 in, 1024 out;
            two_phases_for_one_wait: 1 x 32 threads, 8 shared, 0 in, 0 out;
            registers_beyond_the_pool: 1 x 384 threads, 0 shared, 0 in, 0 out;
        }
        invalid_operand InvalidOperand {
            bulk_copy_of_24_bytes: 1 x 32 threads, 1536 shared, 512 in, 0 out;
            tensor_in_place_of_its_map: 1 x 32 threads, 1536 shared, 512 in, 0 out, 4 x 32 words in boxes of 4 x 32, swizzle None;
            one_coordinate_too_many: 1 x 32 threads, 1536 shared, 512 in, 0 out, 4 x 32 words in boxes of 4 x 32, swizzle None;
            block_outside_the_cluster: 1 x 32 threads, 128 shared, 0 in, 128 out;
            wait_for_the_cluster_without_arriving: 1 x 32 threads, 0 shared, 0 in, 0 out;
        }
        collective Collective {
            product_by_three_warps: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
            registers_given_up_by_two_warps: 1 x 128 threads, 0 shared, 0 in, 0 out;
            election_in_a_branch: 1 x 32 threads, 0 shared, 0 in, 128 out;
            matrix_store_by_eight_lanes: 1 x 32 threads, 512 shared, 0 in, 512 out;
        }
        race_shared RaceShared {
            one_lane_releases_for_its_warp: 1 x 64 threads, 2048 shared, 2048 in, 2048 out;
            empty_mbarrier_of_the_other_stage: 1 x 64 threads, 2048 shared, 2048 in, 2048 out;
            arrival_before_the_write: 1 x 64 threads, 1536 shared, 0 in, 128 out;
            mbarrier_initialised_without_a_barrier: 1 x 64 threads, 8 shared, 0 in, 0 out;
            mbarrier_reused_before_its_waiters_are_done: 1 x 64 threads, 1536 shared, 512 in, 0 out;
        }
        race_global RaceGlobal {
            bulk_stores_of_two_blocks_to_one_row: 2 x 32 threads, 1536 shared, 0 in, 1024 out;
            sum_without_a_turn: 2 x 32 threads, 1536 shared, 4 in, 512 out;
            turn_before_the_writes: 2 x 32 threads, 1536 shared, 4 in, 512 out;
            boxes_of_two_blocks_that_overlap: 2 x 32 threads, 1536 shared, 1024 in, 0 out, 8 x 32 words in boxes of 4 x 32, swizzle None;
        }
        cluster Cluster {
            block_that_may_have_ended: 2 x 32 threads in clusters of 2, 128 shared, 0 in, 256 out;
            block_that_may_not_have_begun: 2 x 32 threads in clusters of 2, 128 shared, 0 in, 256 out;
            arrival_before_a_load_has_returned: 2 x 32 threads in clusters of 2, 128 shared, 0 in, 256 out;
        }
        mbarrier Mbarrier {
            never_initialised: 1 x 32 threads, 8 shared, 0 in, 0 out;
            initialised_for_every_tile: 1 x 32 threads, 1536 shared, 1024 in, 0 out;
            invalidated_before_the_last_wait: 1 x 32 threads, 8 shared, 0 in, 0 out;
            tile_over_an_mbarrier: 1 x 32 threads, 1152 shared, 0 in, 0 out;
            more_arrivals_than_expected: 1 x 32 threads, 8 shared, 0 in, 0 out;
            no_arrivals_expected: 1 x 32 threads, 8 shared, 0 in, 0 out;
            copy_signals_another_address: 1 x 32 threads, 1536 shared, 512 in, 0 out;
            round_in_place_of_its_parity: 1 x 32 threads, 8 shared, 0 in, 0 out;
            second_phase_without_the_first: 1 x 64 threads, 1536 shared, 1024 in, 1024 out;
            bytes_beyond_the_count: 1 x 32 threads, 1536 shared, 512 in, 0 out;
        }
        proxy_fence ProxyFence {
            bulk_store_without_a_fence: 1 x 32 threads, 1536 shared, 0 in, 512 out;
            box_store_without_a_fence: 1 x 32 threads, 1536 shared, 512 in, 0 out, 4 x 32 words in boxes of 4 x 32, swizzle None;
            fence_before_the_writes: 1 x 32 threads, 1536 shared, 0 in, 512 out;
            fence_of_one_warp_before_the_barrier: 1 x 64 threads, 2048 shared, 0 in, 1024 out;
            matrix_store_without_a_fence: 1 x 32 threads, 1536 shared, 0 in, 512 out;
            operands_without_a_fence: 1 x 128 threads, 11264 shared, 0 in, 2048 out;
            panel_without_a_fence: 1 x 128 threads, 13312 shared, 10240 in, 2048 out;
            copy_over_what_was_written: 1 x 32 threads, 1536 shared, 512 in, 0 out;
            mbarrier_without_a_fence: 1 x 32 threads, 1536 shared, 512 in, 0 out;
            copy_that_overtakes_the_loads: 1 x 64 threads, 1536 shared, 1024 in, 512 out;
        }
        wgmma Wgmma {
            accumulator_read_before_the_wait: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
            one_group_too_few: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
            wait_before_the_commit: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
            never_waited_for: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
            accumulator_cleared_after_the_fence: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
            no_fence: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
            fragment_changed_in_flight: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
        }
        wrong_result WrongResult {
            swizzle_of_the_map_is_not_the_readers: 1 x 64 threads, 2048 shared, 1024 in, 1024 out, 8 x 32 words in boxes of 8 x 32, swizzle Bytes128;
            coordinates_exchanged: 1 x 32 threads, 1536 shared, 2304 in, 512 out, 16 x 36 words in boxes of 4 x 32, swizzle None;
            stage_that_does_not_advance: 1 x 32 threads, 2048 shared, 1024 in, 1024 out;
            step_of_one_operand_only: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
            transposition_forgotten: 1 x 128 threads, 11264 shared, 10240 in, 2048 out;
        }
    }
}
