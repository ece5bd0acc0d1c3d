from collections.abc import Callable, Sequence
from typing import Any, Literal, Optional, TypedDict, TypeVar, Union, overload

__all__ = [
    "__version__",
    "attention",
    "attention_backward",
    "attention_padded",
    "attention_padded_backward",
    "attention_varlen",
    "attention_varlen_backward",
    "implement_aten",
    "info",
    "warm_up",
]

__version__: str

# Q, K, V, O and LSE lie at multiples of 16 bytes.
_Array = TypeVar("_Array")
_Layout = Literal["bhsd", "bshd"]
_Lengths = Literal["shared", "separate", "padded"]
_Align = Literal["top-left", "bottom-right"]
# (left, right)
_Window = Sequence[Optional[int]]
_Element = Literal["float16", "bfloat16"]

class _Gpu(TypedDict, total=False):
    name: str
    architecture: int
    multiprocessors: int
    why_not: Optional[str]

class _Info(TypedDict):
    version: str
    kernels: int
    driver: Optional[str]
    gpus: list[_Gpu]
    why_not: Optional[str]

@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    *,
    causal: bool = False,
    window: Optional[_Window] = None,
    align: _Align = "top-left",
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Any = None,
    bias: Optional[_Array] = None,
    layout: _Layout = "bhsd",
    out: Optional[_Array] = None,
    return_lse: Literal[False] = False,
    lse: None = None,
    stream: Any = None,
) -> _Array: ...
@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    *,
    causal: bool = False,
    window: Optional[_Window] = None,
    align: _Align = "top-left",
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Any = None,
    bias: Optional[_Array] = None,
    layout: _Layout = "bhsd",
    out: Optional[_Array] = None,
    return_lse: bool = False,
    lse: Optional[_Array] = None,
    stream: Any = None,
) -> Union[_Array, tuple[_Array, _Array]]: ...
def attention_backward(
    grad: _Array,
    q: _Array,
    k: _Array,
    v: _Array,
    out: _Array,
    lse: _Array,
    dq: _Array,
    dk: _Array,
    dv: _Array,
    *,
    causal: bool = False,
    window: Optional[_Window] = None,
    align: _Align = "top-left",
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Any = None,
    bias: Optional[_Array] = None,
    dbias: Optional[_Array] = None,
    layout: _Layout = "bhsd",
    allocate: Optional[Callable[[int], _Array]] = None,
) -> None: ...
def attention_varlen_backward(
    grad: _Array,
    q: _Array,
    k: _Array,
    v: _Array,
    out: _Array,
    lse: _Array,
    dq: _Array,
    dk: _Array,
    dv: _Array,
    cu_seqlens: Any,
    *,
    cu_seqlens_k: Any = None,
    max_seqlen: Optional[int] = None,
    causal: bool = False,
    window: Optional[_Window] = None,
    align: _Align = "top-left",
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Any = None,
) -> None: ...
def attention_padded_backward(
    grad: _Array,
    q: _Array,
    k: _Array,
    v: _Array,
    out: _Array,
    lse: _Array,
    dq: _Array,
    dk: _Array,
    dv: _Array,
    *,
    seqused_q: Any = None,
    seqused_k: Any = None,
    causal: bool = False,
    window: Optional[_Window] = None,
    align: _Align = "top-left",
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Any = None,
) -> None: ...
@overload
def attention_varlen(
    q: _Array,
    k: _Array,
    v: _Array,
    cu_seqlens: Any,
    *,
    cu_seqlens_k: Any = None,
    seqused_q: Any = None,
    seqused_k: Any = None,
    max_seqlen: Optional[int] = None,
    causal: bool = False,
    window: Optional[_Window] = None,
    align: _Align = "top-left",
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Any = None,
    out: Optional[_Array] = None,
    return_lse: Literal[False] = False,
    lse: None = None,
    stream: Any = None,
) -> _Array: ...
@overload
def attention_varlen(
    q: _Array,
    k: _Array,
    v: _Array,
    cu_seqlens: Any,
    *,
    cu_seqlens_k: Any = None,
    seqused_q: Any = None,
    seqused_k: Any = None,
    max_seqlen: Optional[int] = None,
    causal: bool = False,
    window: Optional[_Window] = None,
    align: _Align = "top-left",
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Any = None,
    out: Optional[_Array] = None,
    return_lse: bool = False,
    lse: Optional[_Array] = None,
    stream: Any = None,
) -> Union[_Array, tuple[_Array, _Array]]: ...
@overload
def attention_padded(
    q: _Array,
    k: _Array,
    v: _Array,
    *,
    seqused_q: Any = None,
    seqused_k: Any = None,
    causal: bool = False,
    window: Optional[_Window] = None,
    align: _Align = "top-left",
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Any = None,
    out: Optional[_Array] = None,
    return_lse: Literal[False] = False,
    lse: None = None,
    stream: Any = None,
) -> _Array: ...
@overload
def attention_padded(
    q: _Array,
    k: _Array,
    v: _Array,
    *,
    seqused_q: Any = None,
    seqused_k: Any = None,
    causal: bool = False,
    window: Optional[_Window] = None,
    align: _Align = "top-left",
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    alibi_slopes: Any = None,
    out: Optional[_Array] = None,
    return_lse: bool = False,
    lse: Optional[_Array] = None,
    stream: Any = None,
) -> Union[_Array, tuple[_Array, _Array]]: ...
def implement_aten(
    key: str, own: Optional[dict[str, Any]] = None, functions: Optional[dict[str, int]] = None
) -> bool: ...
def warm_up(
    batch: int,
    heads: int,
    sequence: int,
    *,
    causal: bool = False,
    window: Optional[_Window] = None,
    layout: _Layout = "bhsd",
    device: int = ...,
    sequences: Optional[int] = None,
    lengths: _Lengths = "shared",
    dtype: _Element = "float16",
    head_dim: int = ...,
    kv_heads: Optional[int] = None,
    kv_sequence: Optional[int] = None,
    align: _Align = "top-left",
    changes_scores: bool = False,
) -> None: ...
def info() -> _Info: ...
