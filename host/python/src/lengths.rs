//! The length arrays of a call: `cu_seqlens`, `seqused`.

use attention::{Addresses, Packing, Problem, Refusal};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{Array, INT32, UINT32};
use crate::checks::{narrow, require_element, require_gpu};
use crate::form::{Form, Sizes, Used};
use crate::scores::Entries;

/// The length arrays, read, and the kind of sequences.
pub struct Lengths {
    kind: Kind,
    cu_seqlens: Option<Array>,
    cu_seqlens_k: Option<Array>,
    seqused_q: Option<Array>,
    seqused_k: Option<Array>,
}

#[derive(Clone, Copy)]
enum Kind {
    /// All sequences have one length: no arrays.
    One,
    /// Packed sequences.
    Packed(Packing),
    /// A padded batch.
    Padded,
}

impl Lengths {
    /// Reads the length arrays of `form`, whose Q is `q`.
    pub fn read<'py>(
        form: Form<'_, 'py>,
        mut read: impl FnMut(&Bound<'py, PyAny>, &str) -> PyResult<Array>,
        sizes: Sizes,
        q: &Array,
    ) -> PyResult<Self> {
        let mut read = |object: Option<&Bound<'py, PyAny>>, name: &str, wanted: Wanted| {
            let array = object.map(|object| read(object, name)).transpose()?;
            array.map(|array| check(&array, name, wanted, q).map(|()| array)).transpose()
        };
        let none = Self { kind: Kind::One, cu_seqlens: None, cu_seqlens_k: None, seqused_q: None, seqused_k: None };
        match form {
            Form::Batch(_) => Ok(none),
            Form::Packed { cu_seqlens, cu_seqlens_k, used, longest } => {
                let cu_seqlens = read(Some(cu_seqlens), "cu_seqlens", Wanted::Bounds)?;
                let bounds = cu_seqlens.as_ref().map_or(0, |bounds| bounds.shape()[0]);
                let sequences = narrow(bounds - 1, "the number of sequences")?;
                let longest = longest.map_or_else(|| narrow(sizes.rows, "sequence"), Ok)?;
                let packing = match cu_seqlens_k.is_some() || used.is_given() {
                    false => Packing::new(sequences, longest),
                    true => Packing::separate(sequences, longest),
                };
                let cu_seqlens_k = read(cu_seqlens_k, "cu_seqlens_k", Wanted::As(bounds, "cu_seqlens"))?;
                let [seqused_q, seqused_k] = read_used(used, read, Wanted::Each(bounds - 1, "sequences"))?;
                Ok(Self { kind: Kind::Packed(packing), cu_seqlens, cu_seqlens_k, seqused_q, seqused_k })
            }
            Form::Padded(used) => {
                let [seqused_q, seqused_k] = read_used(used, read, Wanted::Each(sizes.batch, "batch"))?;
                Ok(Self { kind: Kind::Padded, seqused_q, seqused_k, ..none })
            }
        }
    }

    /// Whether there are no sequences.
    pub fn are_of_none(&self) -> bool {
        matches!(self.kind, Kind::Packed(Packing { sequences: 0, .. }))
    }

    /// The sequences, of a batch of `batch`: how many, and what they are called.
    pub fn entries(&self, batch: i64) -> Entries {
        match self.kind {
            Kind::One | Kind::Padded => (batch, "batch"),
            Kind::Packed(Packing { sequences, .. }) => (sequences.into(), "sequences"),
        }
    }

    /// Turns `problem`, of tensors of one length, into the problem of these sequences.
    pub fn apply(&self, problem: Problem) -> Result<Problem, Refusal> {
        match self.kind {
            Kind::One => Ok(problem),
            Kind::Packed(packing) => problem.packed(packing),
            Kind::Padded => problem.padded(),
        }
    }

    /// `addresses` with those of the length arrays.
    pub fn beside(&self, addresses: Addresses) -> Addresses {
        let address = |array: &Option<Array>| array.as_ref().map(|array| array.address);
        let has_own_keys =
            matches!(self.kind, Kind::Packed(packing) if packing.lengths == attention::Lengths::Separate);
        let cu_seqlens = address(&self.cu_seqlens);
        Addresses {
            cu_seqlens,
            // If only `seqused` distinguishes K from Q, both begin at the same rows.
            cu_seqlens_k: address(&self.cu_seqlens_k).or(cu_seqlens.filter(|_| has_own_keys)),
            seqused_q: address(&self.seqused_q),
            seqused_k: address(&self.seqused_k),
            ..addresses
        }
    }

    /// The arrays that were given.
    pub fn arrays(&self) -> impl Iterator<Item = &Array> {
        let Self { cu_seqlens, cu_seqlens_k, seqused_q, seqused_k, .. } = self;
        [cu_seqlens, cu_seqlens_k, seqused_q, seqused_k].into_iter().flatten()
    }
}

/// The required number of elements of a length array.
#[derive(Clone, Copy)]
enum Wanted {
    /// One more than the number of sequences.
    Bounds,
    /// As many as the named argument has.
    As(i64, &'static str),
    /// One per named thing.
    Each(i64, &'static str),
}

fn read_used<'py>(
    Used { q, k }: Used<'_, 'py>,
    mut read: impl FnMut(Option<&Bound<'py, PyAny>>, &str, Wanted) -> PyResult<Option<Array>>,
    wanted: Wanted,
) -> PyResult<[Option<Array>; 2]> {
    Ok([read(q, "seqused_q", wanted)?, read(k, "seqused_k", wanted)?])
}

fn check(lengths: &Array, name: &str, wanted: Wanted, q: &Array) -> PyResult<()> {
    if lengths.element != UINT32 {
        require_element(lengths, name, INT32)?;
    }
    let names = match wanted {
        Wanted::Bounds | Wanted::As(..) => "[sequences + 1]".to_owned(),
        Wanted::Each(_, what) => format!("[{what}]"),
    };
    let (&[elements], &[stride]) = (lengths.shape(), lengths.strides()) else {
        let dimensions = lengths.shape().len();
        return Err(PyValueError::new_err(format!("{name} has {dimensions} dimensions; it must be {names}")));
    };
    match wanted {
        Wanted::Bounds if elements < 1 => {
            return Err(PyValueError::new_err(format!("{name} has no element; it must be {names}")));
        }
        Wanted::As(expected, other) if elements != expected => {
            return Err(PyValueError::new_err(format!(
                "{name} has {elements} elements and {other} {expected}; both must be {names}"
            )));
        }
        Wanted::Each(expected, _) if elements != expected => {
            return Err(PyValueError::new_err(format!(
                "{name} has {elements} elements; it must have {expected}: {names}"
            )));
        }
        _ => {}
    }
    if elements > 1 && stride != 1 {
        return Err(PyValueError::new_err(format!("{name} has a stride of {stride} elements; it must be 1")));
    }
    require_gpu(lengths, name, q)
}
