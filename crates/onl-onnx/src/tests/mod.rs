mod external;
mod fuzz;
mod npy;
mod round_trip;
mod storage;
mod structure;
mod values;

use crate::proto::*;
use crate::{LoadLimits, OnnxError, Problem, read_model_bytes};
use onl_ir::Model;
use prost::Message;

/// Reads a model message, without folder and with default limits.
fn read(proto: &ModelProto) -> Result<Model, OnnxError> {
    read_model_bytes(proto.encode_to_vec().into(), None, &LoadLimits::default())
}

/// A model message of this IR version around a graph.
fn model(ir_version: i64, graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version,
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: 21,
        }],
        ..ModelProto::default()
    }
}

fn node(op_type: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        op_type: op_type.to_owned(),
        input: inputs.iter().map(|&s| s.to_owned()).collect(),
        output: outputs.iter().map(|&s| s.to_owned()).collect(),
        ..NodeProto::default()
    }
}

fn tensor_info(name: &str, element_type: i32, dims: &[DimensionProto]) -> ValueInfoProto {
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: element_type,
                shape: Some(TensorShapeProto { dim: dims.to_vec() }),
            }),
            ..TypeProto::default()
        }),
    }
}

fn size(size: i64) -> DimensionProto {
    DimensionProto {
        dim_value: Some(size),
        dim_param: None,
    }
}

/// A f32 value of shape `[2]`.
fn value(name: &str) -> ValueInfoProto {
    tensor_info(name, 1, &[size(2)])
}

/// A f32 initializer of shape `[2]`.
fn weight(name: &str) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        data_type: 1,
        dims: vec![2],
        float_data: vec![1.0, 2.0],
        ..TensorProto::default()
    }
}

fn graph(nodes: Vec<NodeProto>, inputs: &[&str], outputs: &[&str]) -> GraphProto {
    GraphProto {
        name: "main".to_owned(),
        node: nodes,
        input: inputs.iter().map(|&name| value(name)).collect(),
        output: outputs.iter().map(|&name| value(name)).collect(),
        ..GraphProto::default()
    }
}

fn graph_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        r#type: attribute_type::GRAPH,
        g: Some(Box::new(graph)),
        ..AttributeProto::default()
    }
}

/// Asserts that an error has this problem and that its text has all of `parts`.
#[track_caller]
fn assert_problem<T: std::fmt::Debug>(
    case: &str,
    result: Result<T, OnnxError>,
    is_expected: impl Fn(&Problem) -> bool,
    parts: &[&str],
) {
    let error = match result {
        Ok(value) => panic!("{case}: must be refused, gave {value:?}"),
        Err(error) => error,
    };
    let text = error.to_string();
    assert!(is_expected(error.problem()), "{case}: {text}");
    for part in parts {
        assert!(text.contains(part), "{case}: '{part}' is not in: {text}");
    }
}
