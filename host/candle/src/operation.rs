//! Attention as a custom operation of candle.

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape};
use fa512::Problem;

use crate::arguments::{Scores, Sequences, Window};
use crate::problem;

/// Attention of Q, K and V.
pub struct Attention {
    scale: f32,
    window: Window,
    sequences: Sequences,
    scores: Scores,
}

impl Attention {
    pub fn new(scale: f32, window: Window, sequences: Sequences, scores: Scores) -> Self {
        Self { scale, window, sequences, scores }
    }

    /// The problem of Q, K and V with these layouts; `None` if there is nothing to compute.
    fn problem(&self, layouts: [&Layout; 3]) -> Result<Option<Problem>> {
        let (packing, window) = (self.sequences.packing()?, self.window.within(self.sequences.longest()));
        let Some(problem) = problem::of(layouts, window, self.scale, packing)? else {
            return Ok(None);
        };
        let score_mod = self.scores.score_mod(problem.shape().heads)?;
        problem.with_score_mod(score_mod).map(Some).map_err(candle_core::Error::wrap)
    }
}

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "fa512-attention"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        q: &Layout,
        _: &CpuStorage,
        k: &Layout,
        _: &CpuStorage,
        v: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.problem([q, k, v])?;
        candle_core::bail!("q is on the CPU; it must be on an NVIDIA GPU")
    }

    fn metal_fwd(
        &self,
        _: &candle_core::MetalStorage,
        _: &Layout,
        _: &candle_core::MetalStorage,
        _: &Layout,
        _: &candle_core::MetalStorage,
        _: &Layout,
    ) -> Result<(candle_core::MetalStorage, Shape)> {
        candle_core::bail!("q is on a Metal device; it must be on an NVIDIA GPU")
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        q: &candle_core::CudaStorage,
        q_layout: &Layout,
        k: &candle_core::CudaStorage,
        k_layout: &Layout,
        v: &candle_core::CudaStorage,
        v_layout: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        self.launch([q, k, v], [q_layout, k_layout, v_layout])
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use candle_core::backend::BackendStorage;
    use candle_core::cuda_backend::CudaDType;
    use candle_core::cuda_backend::cudarc::driver::{CudaView, DeviceRepr, ValidAsZeroBits};
    use candle_core::{CudaStorage, DType, Layout, Result, Shape, Storage};
    use fa512::cudarc::{Number, ScoreTensors};
    use half::{bf16, f16};

    use super::Attention;
    use crate::arguments::{Lengths, Sequences};

    impl Attention {
        /// Computes O, a new tensor of the shape of Q, on the stream of Q's device.
        pub(super) fn launch(&self, tensors: [&CudaStorage; 3], layouts: [&Layout; 3]) -> Result<(CudaStorage, Shape)> {
            let wanted = tensors[0].dtype();
            for (tensor, name) in tensors.into_iter().zip(["q", "k", "v"]) {
                if tensor.dtype() != wanted {
                    candle_core::bail!("{name} is {:?} and q {wanted:?}; they must be of one type", tensor.dtype());
                }
            }
            match wanted {
                DType::F16 => self.launch_of::<f16>(tensors, layouts),
                DType::BF16 => self.launch_of::<bf16>(tensors, layouts),
                other => candle_core::bail!("q is {other:?}; the kernels compute F16 and BF16"),
            }
        }

        /// [`Self::launch`] for elements of type `T`.
        fn launch_of<T: CudaDType + DeviceRepr + ValidAsZeroBits + Number>(
            &self,
            tensors: [&CudaStorage; 3],
            layouts: [&Layout; 3],
        ) -> Result<(CudaStorage, Shape)> {
            let shape = layouts[0].shape().clone();
            let device = tensors[0].device().clone();
            let Some(problem) = self.problem(layouts)? else {
                let empty = device.alloc_zeros::<T>(shape.elem_count())?;
                return Ok((CudaStorage::wrap_cuda_slice(empty, device), shape));
            };
            let [q, k, v] =
                [tensors[0].as_cuda_slice::<T>()?, tensors[1].as_cuda_slice::<T>()?, tensors[2].as_cuda_slice::<T>()?];
            // SAFETY: any 16 bits are a `T`; the kernel writes every row that belongs to a sequence.
            let mut o = unsafe { device.alloc::<T>(shape.elem_count()) }?;
            let stream = device.cuda_stream();
            let slopes = self.scores.alibi_slopes.as_ref().map(|slopes| slopes.storage_and_layout());
            let slopes = slopes.as_ref().map(|(storage, layout)| view::<f32>(storage, layout, "alibi_slopes"));
            let scores = ScoreTensors { bias: None, alibi_slopes: slopes.transpose()? };
            match &self.sequences {
                Sequences::OneLength => {
                    fa512::cudarc::forward_modified(&problem, q, k, v, &scores, &mut o, None, &stream)
                }
                Sequences::Packed(Lengths { q: queries, k: None }) => {
                    let (storage, layout) = queries.seqlens.storage_and_layout();
                    let lengths = view::<u32>(&storage, layout, "seqlens_q")?;
                    fa512::cudarc::forward_varlen_modified(&problem, q, k, v, &lengths, &scores, &mut o, None, &stream)
                }
                Sequences::Packed(Lengths { q: queries, k: Some(keys) }) => {
                    let (storage, layout) = queries.seqlens.storage_and_layout();
                    let (storage_k, layout_k) = keys.seqlens.storage_and_layout();
                    let lengths = fa512::cudarc::Lengths {
                        cu_seqlens: Some(view::<u32>(&storage, layout, "seqlens_q")?),
                        cu_seqlens_k: Some(view::<u32>(&storage_k, layout_k, "seqlens_k")?),
                        ..Default::default()
                    };
                    fa512::cudarc::forward_lengths_modified(&problem, q, k, v, &lengths, &scores, &mut o, None, &stream)
                }
            }
            .map_err(candle_core::Error::wrap)?;
            Ok((CudaStorage::wrap_cuda_slice(o, device), shape))
        }
    }

    /// The elements of the argument `name`, which must be on a GPU and contiguous.
    fn view<'a, T: CudaDType>(storage: &'a Storage, layout: &Layout, name: &str) -> Result<CudaView<'a, T>> {
        let Storage::Cuda(storage) = storage else {
            candle_core::bail!("{name} is not on the GPU of q");
        };
        let Some((begin, end)) = layout.contiguous_offsets() else {
            candle_core::bail!("{name} has a stride of {:?}; it must be contiguous", layout.stride());
        };
        Ok(storage.as_cuda_slice::<T>()?.slice(begin..end))
    }
}
