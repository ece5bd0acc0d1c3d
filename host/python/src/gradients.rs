//! The tensors of a backward call.

use attention::{Addresses, BackwardAddresses, Gpu, Gradient, GradientViews, Problem, Strides};
use pyo3::prelude::*;

use crate::array::Array;
use crate::checks::{require_bytes, require_gpu, require_like, require_writable};
use crate::error::{of_library, of_refusal};
use crate::form::Form;
use crate::scores::strides_of;

/// The tensor arguments of a backward call beside those of the forward call, of which O and LSE are inputs.
#[derive(Clone, Copy)]
pub struct GradientTensors<'a, 'py> {
    /// dO.
    pub grad: &'a Bound<'py, PyAny>,
    /// Receives dQ.
    pub dq: &'a Bound<'py, PyAny>,
    /// Receives dK.
    pub dk: &'a Bound<'py, PyAny>,
    /// Receives dV.
    pub dv: &'a Bound<'py, PyAny>,
    /// Receives dBias.
    pub dbias: Option<&'a Bound<'py, PyAny>>,
    /// Called with a number of bytes, returns a workspace of so many.
    pub allocate: Option<&'a Bound<'py, PyAny>>,
}

/// The same as they were read.
pub struct Gradients {
    d_o: Array,
    dq: Array,
    dk: Array,
    dv: Array,
    dbias: Option<(Array, Strides)>,
    views: GradientViews,
}

impl<'py> GradientTensors<'_, 'py> {
    /// Reads the tensors, which must be like O, Q, K and V.
    pub fn read(
        &self,
        mut read: impl FnMut(&Bound<'py, PyAny>, &str) -> PyResult<Array>,
        [o, q, k, v]: [&Array; 4],
        form: Form<'_, '_>,
        scores: [i64; 4],
    ) -> PyResult<Gradients> {
        let mut like = |object, name, other, other_name| {
            let array = read(object, name)?;
            require_like(&array, name, other, other_name)?;
            require_writable(&array, name, name != "grad")?;
            let view = form.view(&array, name)?;
            form.require_entries_together(&array, name)?;
            Ok::<_, PyErr>((array, view))
        };
        let (d_o, of_d_o) = like(self.grad, "grad", o, "out")?;
        let (dq, of_dq) = like(self.dq, "dq", q, "q")?;
        let (dk, of_dk) = like(self.dk, "dk", k, "k")?;
        let (dv, of_dv) = like(self.dv, "dv", v, "v")?;
        let views = GradientViews { d_o: of_d_o, dq: of_dq, dk: of_dk, dv: of_dv };
        let dbias = match self.dbias {
            Some(object) => {
                let array = read(object, "dbias")?;
                require_writable(&array, "dbias", true)?;
                let strides = strides_of(&array, "dbias", scores, q)?;
                Some((array, strides))
            }
            None => None,
        };
        Ok(Gradients { d_o, dq, dk, dv, dbias, views })
    }

    /// The workspace with which `gradient` is computed faster, if one is of use and can be allocated. The object owns the memory, and has to be
    /// kept until the launch is queued.
    pub fn workspace(
        &self,
        gradient: &Gradient,
        q: &Array,
        mut read: impl FnMut(&Bound<'py, PyAny>, &str) -> PyResult<Array>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Array)>> {
        let Some(allocate) = self.allocate else { return Ok(None) };
        // Where the protocol names no GPU, the launch is on the current one.
        let gpu = q.gpu.map_or_else(Gpu::current, Gpu::of_device);
        let bytes = gpu.and_then(|gpu| attention::backward_workspace_bytes(gradient, &gpu)).map_err(of_library)?;
        if bytes == 0 {
            return Ok(None);
        }
        let object = allocate.call1((bytes,))?;
        let array = read(&object, "workspace")?;
        require_bytes(&array, "workspace", bytes)?;
        require_gpu(&array, "workspace", q)?;
        require_writable(&array, "workspace", true)?;
        Ok(Some((object, array)))
    }
}

impl Gradients {
    /// The gradient of `problem`, and the addresses of its tensors, given those of the forward pass.
    pub fn of(&self, problem: Problem, forward: Addresses) -> PyResult<(Gradient, BackwardAddresses)> {
        let Self { d_o, dq, dk, dv, dbias, views } = self;
        let gradient = Gradient::with(problem, *views).map_err(of_refusal)?;
        let gradient = match dbias {
            Some((_, strides)) => gradient.with_bias(*strides).map_err(of_refusal)?,
            None => gradient,
        };
        let d_bias = dbias.as_ref().map(|(array, _)| array.address);
        let [d_o, dq, dk, dv] = [d_o, dq, dk, dv].map(|array| array.address);
        Ok((gradient, BackwardAddresses { forward, d_o, dq, dk, dv, d_bias }))
    }

    /// The arrays.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        [&self.d_o, &self.dq, &self.dk, &self.dv].into_iter().chain(self.dbias.as_ref().map(|(array, _)| array))
    }
}
