use onl_ir::{Attribute, Graph, Model};
use onl_tensor::Tensor;

/// Calls `visit` for every constant tensor of a model: initializers and attributes of its graph, subgraphs and functions.
pub(crate) fn visit_constants(model: &Model, visit: &mut impl FnMut(&Tensor)) {
    of_graph(&model.graph, visit);
    for function in &model.functions {
        of_graph(&function.body, visit);
    }
}

fn of_graph(graph: &Graph, visit: &mut impl FnMut(&Tensor)) {
    for tensor in graph.initializers.values() {
        visit(tensor);
    }
    for attribute in graph.nodes.iter().flat_map(|node| node.attributes.values()) {
        match attribute {
            Attribute::Tensor(tensor) => visit(tensor),
            Attribute::Tensors(tensors) => tensors.iter().for_each(|tensor| visit(tensor)),
            Attribute::Graph(graph) => of_graph(graph, visit),
            Attribute::Graphs(graphs) => graphs.iter().for_each(|graph| of_graph(graph, visit)),
            _ => {}
        }
    }
}

/// Bytes of constants that a loader copied instead of borrowing them from the file. Text counts with its characters.
pub(crate) fn copied_bytes(model: &Model) -> u64 {
    let mut bytes = 0;
    visit_constants(model, &mut |tensor| {
        if !tensor.is_shared() {
            let text = tensor.as_strings().unwrap_or_default();
            bytes += tensor.bytes().len() + text.iter().map(String::len).sum::<usize>();
        }
    });
    bytes as u64
}
