//! Adding nodes to graphs, and changing them in graphs and instantiated graphs.

use std::sync::Arc;

use sim_device::{Error, Fill, Graph, GraphExec, Launch, Node, Operation, Result};

use crate::border::driver_api;
use crate::copies::Copy3d;
use crate::driver::lookup;
use crate::graphs::{NodeOf, graph, node, node_handle};
use crate::launches::parameters;
use crate::modules::function;
use crate::types::{DevicePointer, Handle, Host, HostFunction, In, Out};

/// `CUDA_KERNEL_NODE_PARAMS_v1`.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelNode {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    each: In<Host>,
    extra: In<usize>,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelNode2 {
    node: KernelNode,
    /// Taken where there is no function.
    kernel: Handle,
    context: Handle,
}

impl KernelNode {
    fn operation(self) -> Result<Operation> {
        let KernelNode { grid, block, shared_bytes: dynamic_shared_bytes, .. } = self;
        let function = function(self.function)?;
        let parameters = parameters(&function, self.each, self.extra)?;
        let (overlaps_previous, cluster, cooperative) = (false, None, false);
        let launch =
            Launch { function, grid, block, dynamic_shared_bytes, overlaps_previous, cluster, cooperative, parameters };
        launch.check()?;
        Ok(Operation::Launch(launch))
    }
}

impl KernelNode2 {
    fn operation(self) -> Result<Operation> {
        let function = if self.node.function == Handle::NULL { self.kernel } else { self.node.function };
        KernelNode { function, ..self.node }.operation()
    }
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FillNode {
    address: DevicePointer,
    pitch: usize,
    value: u32,
    bytes: u32,
    width: usize,
    height: usize,
}

impl FillNode {
    fn operation(self) -> Result<Operation> {
        let FillNode { address, value, bytes, .. } = self;
        if ![1, 2, 4].contains(&bytes) {
            return Err(Error::invalid(format!("elements of {bytes} bytes; 1, 2 and 4 are possible")));
        }
        let value = value.to_le_bytes()[..bytes as usize].to_vec();
        let [width, height, pitch] = [self.width, self.height, self.pitch].map(|size| size as u64);
        Ok(Operation::Fill(Fill { address, value, width, height, pitch }))
    }
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CallNode {
    function: HostFunction,
    data: Host,
}

impl CallNode {
    fn operation(self) -> Result<Operation> {
        Ok(Operation::Call(Arc::new(self.function.with(self.data)?)))
    }
}

/// A graph and the dependencies of a node to be added to it.
#[derive(Clone, Copy)]
struct Behind {
    graph: Handle,
    dependencies: In<Handle>,
    count: usize,
}

impl Behind {
    fn add(self, result: Out<Handle>, operation: Operation) -> Result<()> {
        result.require()?;
        let to = graph(self.graph)?;
        let dependencies = self.dependencies.all(self.count)?.into_iter().map(|dependency| {
            let (place, _) = node(dependency)?;
            if Arc::ptr_eq(&place.graph, &to) {
                Ok(place.index)
            } else {
                Err(Error::invalid("a node of another graph"))
            }
        });
        let dependencies = dependencies.collect::<Result<Vec<_>>>()?;
        let index = to.add(Node { operation, dependencies })?;
        result.set(node_handle(&to, index))
    }
}

/// Changes the operation of the node of an instantiated graph that corresponds to `of`.
fn change(graph: Handle, of: Handle, operation: Operation) -> Result<()> {
    let graph = lookup::<GraphExec>(graph, "instantiated graph")?;
    let place: Arc<NodeOf> = lookup(of, "node")?;
    graph.change(place.index, operation)
}

/// Changes the operation of a node in its graph.
fn change_in_graph(of: Handle, operation: Operation) -> Result<()> {
    let place: Arc<NodeOf> = lookup(of, "node")?;
    let graph: &Graph = &place.graph;
    graph.change(place.index, operation)
}

driver_api! {
    fn cuGraphAddEmptyNode(result: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize) {
        Behind { graph, dependencies, count }.add(result, Operation::Empty)
    }

    fn cuGraphAddKernelNode(result: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize, node: In<KernelNode>) {
        Behind { graph, dependencies, count }.add(result, node.get()?.operation()?)
    }

    fn cuGraphAddKernelNode_v2(result: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize, node: In<KernelNode2>) {
        Behind { graph, dependencies, count }.add(result, node.get()?.operation()?)
    }

    fn cuGraphAddMemcpyNode(
        result: Out<Handle>,
        graph: Handle,
        dependencies: In<Handle>,
        count: usize,
        node: In<Copy3d>,
        _context: Handle,
    ) {
        Behind { graph, dependencies, count }.add(result, node.get()?.operation()?)
    }

    fn cuGraphAddMemsetNode(
        result: Out<Handle>,
        graph: Handle,
        dependencies: In<Handle>,
        count: usize,
        node: In<FillNode>,
        _context: Handle,
    ) {
        Behind { graph, dependencies, count }.add(result, node.get()?.operation()?)
    }

    fn cuGraphAddHostNode(result: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize, node: In<CallNode>) {
        Behind { graph, dependencies, count }.add(result, node.get()?.operation()?)
    }

    fn cuGraphAddChildGraphNode(result: Out<Handle>, graph: Handle, dependencies: In<Handle>, count: usize, child: Handle) {
        let child = crate::graphs::graph(child)?.instantiate();
        Behind { graph, dependencies, count }.add(result, Operation::Graph(child))
    }

    fn cuGraphKernelNodeSetParams(of: Handle, node: In<KernelNode>) {
        change_in_graph(of, node.get()?.operation()?)
    }

    fn cuGraphKernelNodeSetParams_v2(of: Handle, node: In<KernelNode2>) {
        change_in_graph(of, node.get()?.operation()?)
    }

    fn cuGraphExecKernelNodeSetParams(graph: Handle, of: Handle, node: In<KernelNode>) {
        change(graph, of, node.get()?.operation()?)
    }

    fn cuGraphExecKernelNodeSetParams_v2(graph: Handle, of: Handle, node: In<KernelNode2>) {
        change(graph, of, node.get()?.operation()?)
    }

    fn cuGraphExecMemcpyNodeSetParams(graph: Handle, of: Handle, node: In<Copy3d>, _context: Handle) {
        change(graph, of, node.get()?.operation()?)
    }

    fn cuGraphExecMemsetNodeSetParams(graph: Handle, of: Handle, node: In<FillNode>, _context: Handle) {
        change(graph, of, node.get()?.operation()?)
    }
}
