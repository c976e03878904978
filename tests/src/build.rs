//! Small models, built in code.

use onl_ir::{
    Attribute, Dim, Graph, Model, Node, OpId, OpsetImport, TensorType, TypeInfo, ValueId, ValueInfo,
};
use onl_tensor::{ElementType, Tensor};
use std::collections::HashMap;
use std::sync::Arc;

/// Builds a model whose values are named as they are first used.
pub struct ModelBuilder {
    model: Model,
    ids: HashMap<String, ValueId>,
}

impl ModelBuilder {
    /// An empty model that imports this version of the default operator set.
    pub fn new(opset: i64) -> Self {
        let model = Model {
            ir_version: 10,
            opset_imports: vec![OpsetImport {
                domain: OpId::ONNX.to_owned(),
                version: opset,
            }],
            graph: Graph {
                name: "test".to_owned(),
                ..Graph::default()
            },
            ..Model::default()
        };
        ModelBuilder {
            model,
            ids: HashMap::new(),
        }
    }

    /// The value with this name, added when it is new.
    pub fn value(&mut self, name: &str) -> ValueId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.model.graph.add_value(ValueInfo {
            name: name.to_owned(),
            value_type: None,
        });
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// An input; a negative dimension is one without a known size, named after the input and its axis.
    pub fn input(mut self, name: &str, element_type: ElementType, dims: &[i64]) -> Self {
        let id = self.value(name);
        let dims = dims
            .iter()
            .enumerate()
            .map(|(axis, &d)| {
                usize::try_from(d).map_or_else(|_| Dim::Named(format!("{name}_{axis}")), Dim::Known)
            })
            .collect();
        self.model.graph.values[id.index()].value_type = Some(TypeInfo::Tensor(TensorType {
            element_type,
            dims: Some(dims),
        }));
        self.model.graph.inputs.push(id);
        self
    }

    /// A constant.
    pub fn initializer(mut self, name: &str, tensor: Tensor) -> Self {
        let id = self.value(name);
        self.model.graph.initializers.insert(id, Arc::new(tensor));
        self
    }

    /// A node; an empty name stands for an omitted input or output.
    pub fn node(self, op_type: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        self.node_with(op_type, inputs, outputs, &[])
    }

    /// A node with attributes.
    pub fn node_with(
        mut self,
        op_type: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, Attribute)],
    ) -> Self {
        let mut ids = |names: &[&str]| -> Vec<Option<ValueId>> {
            names
                .iter()
                .map(|name| (!name.is_empty()).then(|| self.value(name)))
                .collect()
        };
        let (inputs, outputs) = (ids(inputs), ids(outputs));
        let name = format!("node_{}", self.model.graph.nodes.len());
        self.model.graph.nodes.push(Node {
            name,
            op: OpId::new("", op_type),
            overload: String::new(),
            inputs,
            outputs,
            attributes: attributes
                .iter()
                .map(|(n, v)| ((*n).to_owned(), v.clone()))
                .collect(),
        });
        self
    }

    /// An output of this type and unknown shape.
    pub fn output(mut self, name: &str, element_type: ElementType) -> Self {
        let id = self.value(name);
        let slot = &mut self.model.graph.values[id.index()].value_type;
        slot.get_or_insert(TypeInfo::Tensor(TensorType::unknown_shape(element_type)));
        self.model.graph.outputs.push(id);
        self
    }

    /// The model.
    pub fn build(self) -> Model {
        self.model
    }

    /// The model as the bytes of a file.
    pub fn bytes(self) -> Vec<u8> {
        onl_onnx::model_to_bytes(&self.model)
    }
}
