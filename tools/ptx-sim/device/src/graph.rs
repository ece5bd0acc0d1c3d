//! Graphs: operations with dependencies, launched as a whole.

use std::sync::{Arc, Mutex};

use crate::code::Code;
use crate::error::{Error, Result};
use crate::objects::{Call, Context, Graph, GraphExec, Node, Operation, Place};
use crate::operation::During;
use crate::problem::Problem;
use crate::sync::lock;

impl Node {
    /// The number of its kind (`CUgraphNodeType`).
    pub fn kind(&self) -> u32 {
        match self.operation {
            Operation::Launch(_) => 0,
            Operation::Copy(_) => 1,
            Operation::Fill(_) => 2,
            Operation::Call(_) => 3,
            Operation::Graph(_) => 4,
            Operation::Empty | Operation::Life(_) => 5,
            Operation::Record(_) => 7,
        }
    }

    /// Whether it copies from or to host memory of the program.
    pub fn uses_host_memory(&self) -> bool {
        let is_host = |place: &Place| matches!(place, Place::Host(_));
        matches!(&self.operation, Operation::Copy(copy) if is_host(&copy.source) || is_host(&copy.destination))
    }
}

impl Graph {
    /// A graph without nodes (`cuGraphCreate`).
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds a node and returns its index.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] if it depends on a node that does not exist.
    pub fn add(&self, node: Node) -> Result<usize> {
        let mut nodes = lock(&self.nodes);
        if let Some(missing) = node.dependencies.iter().find(|dependency| **dependency >= nodes.len()) {
            return Err(Error::invalid(format!("node {missing} is none of the graph's {}", nodes.len())));
        }
        nodes.push(node);
        Ok(nodes.len() - 1)
    }

    /// Changes the operation of a node.
    ///
    /// # Errors
    /// [`Code::INVALID_VALUE`] if there is no such node, or the operation is of another kind.
    pub fn change(&self, index: usize, operation: Operation) -> Result<()> {
        change(&mut lock(&self.nodes), index, operation)
    }

    /// The nodes, in topological order.
    pub fn nodes(&self) -> Vec<Node> {
        lock(&self.nodes).clone()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        lock(&self.nodes).len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy (`cuGraphClone`).
    pub fn duplicate(&self) -> Arc<Self> {
        Arc::new(Self { nodes: Mutex::new(self.nodes()) })
    }

    /// The graph, ready to be launched (`cuGraphInstantiate`).
    pub fn instantiate(&self) -> Arc<GraphExec> {
        Arc::new(GraphExec { nodes: Mutex::new(self.nodes()) })
    }
}

/// Changes the operation of a node of `nodes`.
fn change(nodes: &mut [Node], index: usize, operation: Operation) -> Result<()> {
    let count = nodes.len();
    let node =
        nodes.get_mut(index).ok_or_else(|| Error::invalid(format!("node {index} is none of the graph's {count}")))?;
    let changed = Node { operation, dependencies: node.dependencies.clone() };
    if changed.kind() != node.kind() {
        return Err(Error::invalid(format!("node {index} is of another kind")));
    }
    *node = changed;
    Ok(())
}

impl GraphExec {
    /// The nodes, in topological order.
    pub fn nodes(&self) -> Vec<Node> {
        lock(&self.nodes).clone()
    }

    /// Changes the operation of a node for later launches (`cuGraphExecKernelNodeSetParams`).
    ///
    /// # Errors
    /// As [`Graph::change`].
    pub fn change(&self, index: usize, operation: Operation) -> Result<()> {
        change(&mut lock(&self.nodes), index, operation)
    }

    /// Executes the nodes. A node that its stream would have refused, for instance because memory was freed after the
    /// capture, fails on the GPU: the error becomes the context's.
    pub(crate) fn execute(&self, context: &Context, during: &mut During) -> Result<()> {
        for node in self.nodes() {
            match node.operation.execute(context, during) {
                Err(Error { code: Code::INVALID_VALUE, message, problem }) => {
                    let (code, what) = (Code::ILLEGAL_ADDRESS, message.unwrap_or_default());
                    context.machine().problem(
                        problem.unwrap_or(Problem::FailedCall),
                        &format!("{code}: a node of a graph: {what}; {} is lost by it", context.describe()),
                    );
                    context.state(Call::Asynchronous)?.fail(code);
                    return Ok(());
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }
}
