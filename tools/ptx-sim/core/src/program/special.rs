//! Special registers.

use crate::memory::SYSTEM_SHARED_BYTES;

/// A special register that is constant during the life of a thread (PTX ISA, "Special Registers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// `%tid`, by dimension.
    ThreadIndex(usize),
    /// `%ntid`, by dimension.
    BlockSize(usize),
    /// `%ctaid`, by dimension.
    BlockIndex(usize),
    /// `%nctaid`, by dimension.
    GridSize(usize),
    /// `%laneid`.
    Lane,
    /// `%warpid`.
    Warp,
    /// `%nwarpid`.
    Warps,
    /// `%lanemask_eq` and related registers: a mask of lanes by comparison with this lane.
    LaneMask {
        /// Includes lower lanes.
        less: bool,
        /// Includes this lane.
        equal: bool,
        /// Includes higher lanes.
        greater: bool,
    },
    /// `%dynamic_smem_size`.
    DynamicSharedBytes,
    /// `%total_smem_size`.
    TotalSharedBytes,
    /// `%clusterid`, by dimension.
    ClusterIndex(usize),
    /// `%nclusterid`, by dimension.
    Clusters(usize),
    /// `%cluster_ctaid`, by dimension.
    IndexInCluster(usize),
    /// `%cluster_nctaid`, by dimension.
    ClusterSize(usize),
    /// `%cluster_ctarank`.
    RankInCluster,
    /// `%cluster_nctarank`.
    BlocksOfCluster,
    /// `%is_explicit_cluster`, a predicate.
    IsExplicitCluster,
    /// `%envreg0` to `%envreg31`, set by the driver.
    Environment(u32),
    /// `%reserved_smem_offset_begin` and related registers: bounds of the shared memory of CUDA's own headers.
    SystemShared(u32),
    /// A register with the same value in every thread.
    Fixed(u32),
}

impl Special {
    /// The register called `name`.
    pub fn parse(name: &str) -> Option<Special> {
        let mask = |less, equal, greater| Some(Special::LaneMask { less, equal, greater });
        match name {
            "%laneid" => return Some(Special::Lane),
            "%warpid" => return Some(Special::Warp),
            "%nwarpid" => return Some(Special::Warps),
            "%lanemask_eq" => return mask(false, true, false),
            "%lanemask_lt" => return mask(true, false, false),
            "%lanemask_le" => return mask(true, true, false),
            "%lanemask_gt" => return mask(false, false, true),
            "%lanemask_ge" => return mask(false, true, true),
            "%dynamic_smem_size" => return Some(Special::DynamicSharedBytes),
            "%total_smem_size" => return Some(Special::TotalSharedBytes),
            "%cluster_ctarank" => return Some(Special::RankInCluster),
            "%cluster_nctarank" => return Some(Special::BlocksOfCluster),
            "%is_explicit_cluster" => return Some(Special::IsExplicitCluster),
            // Blocks run on one multiprocessor, one after another, in the first grid of a process.
            "%smid" | "%gridid" => return Some(Special::Fixed(0)),
            "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" | "%reserved_smem_offset_1" => {
                return Some(Special::SystemShared(0));
            }
            "%reserved_smem_offset_end" | "%reserved_smem_offset_cap" => {
                return Some(Special::SystemShared(SYSTEM_SHARED_BYTES as u32));
            }
            "%nsmid" => return Some(Special::Fixed(1)),
            _ => {}
        }
        if let Some(number) = environment_register(name) {
            return Some(Special::Environment(number));
        }
        let (vector, member) = name.split_once('.')?;
        let dimension = ["x", "y", "z"].iter().position(|dimension| *dimension == member)?;
        match vector {
            "%tid" => Some(Special::ThreadIndex(dimension)),
            "%ntid" => Some(Special::BlockSize(dimension)),
            "%ctaid" => Some(Special::BlockIndex(dimension)),
            "%nctaid" => Some(Special::GridSize(dimension)),
            "%clusterid" => Some(Special::ClusterIndex(dimension)),
            "%nclusterid" => Some(Special::Clusters(dimension)),
            "%cluster_ctaid" => Some(Special::IndexInCluster(dimension)),
            "%cluster_nctaid" => Some(Special::ClusterSize(dimension)),
            _ => None,
        }
    }
}

fn environment_register(name: &str) -> Option<u32> {
    let number = name.strip_prefix("%envreg").and_then(|number| number.parse::<u32>().ok());
    number.filter(|number| *number < 32)
}
