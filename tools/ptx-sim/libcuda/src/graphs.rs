//! Graphs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sim_device::{Code, Error, Graph, GraphExec, Node, Operation, Result};

use crate::border::driver_api;
use crate::driver::{self, current, handle, lookup, machine, remove};
use crate::types::{Handle, Host, Out};

/// Flags of `cuGraphInstantiate` without effect here: free on launch, upload, node priorities.
const HARMLESS_FLAGS: u64 = 1 | 2 | 8;

/// A node, as a handle refers to it.
pub struct NodeOf {
    /// Its graph.
    pub graph: Arc<Graph>,
    /// Its index in the graph.
    pub index: usize,
}

/// Handles of nodes by graph and index, so that a node keeps its handle.
static NODES: Mutex<Option<Nodes>> = Mutex::new(None);

/// Nodes by the address of their graph and their index in it.
type Nodes = HashMap<(usize, usize), Arc<NodeOf>>;

/// The handle of a node.
pub fn node_handle(graph: &Arc<Graph>, index: usize) -> Handle {
    let mut nodes = NODES.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (Arc::as_ptr(graph) as usize, index);
    let new = || Arc::new(NodeOf { graph: graph.clone(), index });
    handle(nodes.get_or_insert_default().entry(key).or_insert_with(new), None)
}

fn forget_nodes(graph: &Arc<Graph>) {
    driver::forget(|object, _| object.downcast_ref::<NodeOf>().is_some_and(|node| Arc::ptr_eq(&node.graph, graph)));
    let mut nodes = NODES.lock().unwrap_or_else(PoisonError::into_inner);
    nodes.get_or_insert_default().retain(|_, node| !Arc::ptr_eq(&node.graph, graph));
}

/// The graph of a handle.
pub fn graph(handle: Handle) -> Result<Arc<Graph>> {
    lookup(handle, "graph")
}

/// The node of a handle.
pub fn node(handle: Handle) -> Result<(Arc<NodeOf>, Node)> {
    let place = lookup::<NodeOf>(handle, "node")?;
    let node = place.graph.nodes().get(place.index).cloned().ok_or(Code::INVALID_HANDLE)?;
    Ok((place, node))
}

fn instantiate(result: Out<Handle>, graph_handle: Handle, flags: u64) -> Result<()> {
    current()?;
    result.require()?;
    if flags & !HARMLESS_FLAGS != 0 {
        return Err(Error::unsupported(format!(
            "the flags are {flags:#x}; launches from the device are not simulated"
        )));
    }
    result.set(handle(&graph(graph_handle)?.instantiate(), None))
}

/// Fills an array of at most `count` handles, or returns their number.
fn list(handles: &[Handle], array: Out<Handle>, count: Out<usize>) -> Result<()> {
    count.require()?;
    if !array.is_wanted() {
        return count.set(handles.len());
    }
    let room = count.get()?;
    array.set_all((0..room).map(|index| handles.get(index).copied().unwrap_or(Handle::NULL)))?;
    count.set(room.min(handles.len()))
}

fn edges(graph_handle: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) -> Result<()> {
    let graph = graph(graph_handle)?;
    let nodes = graph.nodes();
    let edges: Vec<(usize, usize)> = nodes
        .iter()
        .enumerate()
        .flat_map(|(index, node)| node.dependencies.iter().map(move |dependency| (*dependency, index)))
        .collect();
    if from.is_wanted() != to.is_wanted() {
        return Err(Error::invalid("one of the arrays is null"));
    }
    if from.is_wanted() {
        let room = count.get()?;
        let shown = || edges.iter().take(room);
        from.set_all(shown().map(|(from, _)| node_handle(&graph, *from)))?;
        to.set_all(shown().map(|(_, to)| node_handle(&graph, *to)))?;
        return count.set(room.min(edges.len()));
    }
    count.set(edges.len())
}

driver_api! {
    fn cuGraphCreate(result: Out<Handle>, flags: u32) {
        machine()?;
        if flags != 0 {
            return Err(Error::invalid(format!("the flags are {flags}; they have to be 0")));
        }
        result.set(handle(&Graph::new(), None))
    }

    fn cuGraphDestroy(graph: Handle) {
        forget_nodes(&remove::<Graph>(graph, "graph")?);
        Ok(())
    }

    fn cuGraphClone(result: Out<Handle>, original: Handle) {
        result.require()?;
        result.set(handle(&graph(original)?.duplicate(), None))
    }

    fn cuGraphGetNodes(of: Handle, array: Out<Handle>, count: Out<usize>) {
        let graph = graph(of)?;
        let handles: Vec<_> = (0..graph.len()).map(|index| node_handle(&graph, index)).collect();
        list(&handles, array, count)
    }

    fn cuGraphGetRootNodes(of: Handle, array: Out<Handle>, count: Out<usize>) {
        let graph = graph(of)?;
        let nodes = graph.nodes();
        let roots = nodes.iter().enumerate().filter(|(_, node)| node.dependencies.is_empty());
        let handles: Vec<_> = roots.map(|(index, _)| node_handle(&graph, index)).collect();
        list(&handles, array, count)
    }

    fn cuGraphGetEdges(of: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        edges(of, from, to, count)
    }

    fn cuGraphGetEdges_v2(of: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        edges(of, from, to, count)?;
        if data.is_wanted() && from.is_wanted() {
            data.set_all((0..count.get()?).map(|_| 0))?;
        }
        Ok(())
    }

    fn cuGraphNodeGetType(of: Handle, kind: Out<u32>) {
        kind.set(node(of)?.1.kind())
    }

    fn cuGraphInstantiateWithFlags(result: Out<Handle>, of: Handle, flags: u64) {
        instantiate(result, of, flags)
    }

    fn cuGraphInstantiate(result: Out<Handle>, of: Handle, _node: Out<Handle>, log: Host, bytes: usize) {
        log.set_text("", bytes);
        instantiate(result, of, 0)
    }

    fn cuGraphInstantiate_v2(result: Out<Handle>, of: Handle, _node: Out<Handle>, log: Host, bytes: usize) {
        log.set_text("", bytes);
        instantiate(result, of, 0)
    }

    fn cuGraphInstantiateWithParams(result: Out<Handle>, of: Handle, parameters: Out<InstantiateParameters>)
    {
        let mut given = parameters.get()?;
        let outcome = instantiate(result, of, given.flags);
        given.error_node = Handle::NULL;
        // CUDA_GRAPH_INSTANTIATE_SUCCESS and _ERROR.
        given.result = u32::from(outcome.is_err());
        parameters.set(given)?;
        outcome
    }

    fn cuGraphInstantiateWithParams_ptsz(result: Out<Handle>, of: Handle, parameters: Out<InstantiateParameters>) {
        let mut given = parameters.get()?;
        let outcome = instantiate(result, of, given.flags);
        given.result = u32::from(outcome.is_err());
        parameters.set(given)?;
        outcome
    }

    fn cuGraphLaunch(graph: Handle, stream: Handle) per_thread cuGraphLaunch_ptsz(stream) {
        let stream = driver::stream(stream)?;
        let graph = lookup::<GraphExec>(graph, "instantiated graph")?;
        stream.submit(Operation::Graph(graph))
    }

    fn cuGraphUpload(graph: Handle, stream: Handle) per_thread cuGraphUpload_ptsz(stream) {
        driver::stream(stream)?;
        lookup::<GraphExec>(graph, "instantiated graph").map(drop)
    }

    fn cuGraphExecDestroy(graph: Handle) {
        remove::<GraphExec>(graph, "instantiated graph").map(drop)
    }

    fn cuGraphExecGetFlags(graph: Handle, flags: Out<u64>) {
        lookup::<GraphExec>(graph, "instantiated graph")?;
        flags.set(0)
    }
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct InstantiateParameters {
    flags: u64,
    upload_stream: Handle,
    error_node: Handle,
    result: u32,
}
