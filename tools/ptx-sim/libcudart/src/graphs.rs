//! Graphs, captured or built node by node.

use std::ffi::c_void;

use crate::context::enter;
use crate::driver::call;
use crate::handles::{DevicePointer, Handle};
use crate::memory::end;
use crate::registry::{Extent, function};
use crate::status::{Result, Status, runtime_api};

/// `cudaKernelNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNode {
    stub: *const c_void,
    grid: Extent,
    block: Extent,
    shared_bytes: u32,
    each: *mut *mut c_void,
    extra: *mut *mut c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS`: the same with the driver's function.
#[repr(C)]
struct DriverKernelNode {
    function: Handle,
    grid: Extent,
    block: Extent,
    shared_bytes: u32,
    each: *mut *mut c_void,
    extra: *mut *mut c_void,
}

/// The driver's parameters of a kernel node.
fn kernel(node: *const KernelNode) -> Result<DriverKernelNode> {
    if node.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: not null, so the program provides the parameters.
    let KernelNode { stub, grid, block, shared_bytes, each, extra } = unsafe { node.read_unaligned() };
    Ok(DriverKernelNode { function: function(stub)?, grid, block, shared_bytes, each, extra })
}

/// `CUDA_MEMCPY3D` of one row.
#[repr(C)]
struct Copy3d {
    source: End3d,
    destination: End3d,
    width: usize,
    height: usize,
    depth: usize,
}

/// One end of the copy.
#[repr(C)]
struct End3d {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: u32,
    host: *const c_void,
    device: DevicePointer,
    array: Handle,
    reserved: usize,
    pitch: usize,
    height: usize,
}

fn end_3d(address: *const c_void, bytes: usize, kind: u32) -> End3d {
    let plain = end(address, bytes, kind);
    let (host, device) = (plain.host, plain.device);
    End3d { x: 0, y: 0, z: 0, level: 0, kind, host, device, array: 0, reserved: 0, pitch: bytes, height: 1 }
}

runtime_api! {
    fn cudaGraphCreate(result: *mut Handle, flags: u32) {
        enter()?;
        call!(cuGraphCreate(result, flags))
    }

    fn cudaGraphClone(result: *mut Handle, graph: Handle) {
        enter()?;
        call!(cuGraphClone(result, graph))
    }

    fn cudaGraphAddEmptyNode(result: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize) {
        enter()?;
        call!(cuGraphAddEmptyNode(result, graph, dependencies, count))
    }

    fn cudaGraphAddKernelNode(result: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, node: *const KernelNode) {
        let node = kernel(node)?;
        call!(cuGraphAddKernelNode(result, graph, dependencies, count, (&raw const node).cast()))
    }

    fn cudaGraphAddMemcpyNode1D(
        result: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        direction: u32,
    ) {
        enter()?;
        let (from_kind, to_kind) = crate::memory::kinds(direction)?;
        let (source, destination) = (end_3d(from, bytes, from_kind), end_3d(to, bytes, to_kind));
        let node = Copy3d { source, destination, width: bytes, height: 1, depth: 1 };
        call!(cuGraphAddMemcpyNode(result, graph, dependencies, count, (&raw const node).cast(), 0))
    }

    fn cudaGraphAddMemsetNode(result: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, node: *const c_void) {
        enter()?;
        call!(cuGraphAddMemsetNode(result, graph, dependencies, count, node, 0))
    }

    fn cudaGraphAddHostNode(result: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, node: *const c_void) {
        enter()?;
        call!(cuGraphAddHostNode(result, graph, dependencies, count, node))
    }

    fn cudaGraphAddChildGraphNode(result: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, child: Handle) {
        enter()?;
        call!(cuGraphAddChildGraphNode(result, graph, dependencies, count, child))
    }

    fn cudaGraphKernelNodeSetParams(of: Handle, node: *const KernelNode) {
        let node = kernel(node)?;
        call!(cuGraphKernelNodeSetParams(of, (&raw const node).cast()))
    }

    fn cudaGraphExecKernelNodeSetParams(graph: Handle, of: Handle, node: *const KernelNode) {
        let node = kernel(node)?;
        call!(cuGraphExecKernelNodeSetParams(graph, of, (&raw const node).cast()))
    }

    fn cudaGraphExecMemsetNodeSetParams(graph: Handle, of: Handle, node: *const c_void) {
        enter()?;
        call!(cuGraphExecMemsetNodeSetParams(graph, of, node, 0))
    }

    fn cudaGraphNodeGetType(node: Handle, kind: *mut u32) {
        call!(cuGraphNodeGetType(node, kind))
    }

    fn cudaGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        call!(cuGraphGetNodes(graph, nodes, count))
    }

    fn cudaGraphInstantiate(result: *mut Handle, graph: Handle, flags: u64) {
        enter()?;
        call!(cuGraphInstantiateWithFlags(result, graph, flags))
    }

    fn cudaGraphInstantiateWithFlags(result: *mut Handle, graph: Handle, flags: u64) {
        enter()?;
        call!(cuGraphInstantiateWithFlags(result, graph, flags))
    }

    fn cudaGraphUpload(graph: Handle, stream: Handle) per_thread cudaGraphUpload_ptsz(stream) {
        enter()?;
        call!(cuGraphUpload(graph, stream))
    }

    fn cudaGraphLaunch(graph: Handle, stream: Handle) per_thread cudaGraphLaunch_ptsz(stream) {
        enter()?;
        call!(cuGraphLaunch(graph, stream))
    }

    fn cudaGraphExecDestroy(graph: Handle) {
        call!(cuGraphExecDestroy(graph))
    }

    fn cudaGraphDestroy(graph: Handle) {
        call!(cuGraphDestroy(graph))
    }
}
