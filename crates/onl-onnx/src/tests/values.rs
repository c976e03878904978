//! Values in `.pb` files, told apart by the expected type.

use super::assert_problem;
use crate::proto::*;
use crate::{
    Problem, read_value_file, read_value_pb, value_from_pb_bytes, value_to_pb_bytes,
    write_tensor_file, write_value_pb,
};
use onl_ir::{TensorType, TypeInfo};
use onl_tensor::{ElementType, Tensor, Value};
use prost::Message;
use std::sync::Arc;

fn tensor_type(element_type: ElementType) -> TypeInfo {
    TypeInfo::Tensor(TensorType::unknown_shape(element_type))
}

fn tensor(values: &[f32]) -> Value {
    Tensor::from_slice(&[values.len()], values).unwrap().into()
}

fn sparse() -> Value {
    Value::SparseTensor {
        values: Arc::new(Tensor::from_slice(&[2], &[1.0f32, 2.0]).unwrap()),
        indices: Arc::new(Tensor::from_slice(&[2, 2], &[0i64, 1, 1, 0]).unwrap()),
        dims: vec![2, 2],
    }
}

fn cases() -> Vec<(&'static str, TypeInfo, Value)> {
    let f32s = || Box::new(tensor_type(ElementType::Float32));
    let sparse_type = TypeInfo::SparseTensor(TensorType::unknown_shape(ElementType::Float32));
    let sequence = || TypeInfo::Sequence(f32s());
    let optional = |inner: TypeInfo| TypeInfo::Optional(Box::new(inner));
    let some = |value: Value| Value::Optional(Some(Box::new(value)));
    let map = |keys: Tensor| Value::Map {
        keys: Arc::new(keys),
        values: vec![tensor(&[1.0]), tensor(&[2.0, 3.0])],
    };
    let texts = Tensor::from_strings(&[2], vec!["a".to_owned(), "b".to_owned()]).unwrap();
    let map_type = |key| TypeInfo::Map(key, f32s());
    vec![
        ("tensor", *f32s(), tensor(&[1.0, -0.0])),
        ("sparse tensor", sparse_type.clone(), sparse()),
        (
            "sequence",
            sequence(),
            Value::Sequence(vec![tensor(&[1.0]), tensor(&[])]),
        ),
        ("empty sequence", sequence(), Value::Sequence(vec![])),
        (
            "sequence of sequences",
            TypeInfo::Sequence(Box::new(sequence())),
            Value::Sequence(vec![
                Value::Sequence(vec![tensor(&[4.0])]),
                Value::Sequence(vec![]),
            ]),
        ),
        (
            "sequence of sparse",
            TypeInfo::Sequence(Box::new(sparse_type)),
            Value::Sequence(vec![sparse()]),
        ),
        (
            "sequence of optionals",
            TypeInfo::Sequence(Box::new(optional(*f32s()))),
            Value::Sequence(vec![Value::Optional(None), some(tensor(&[1.0]))]),
        ),
        ("nothing", optional(*f32s()), Value::Optional(None)),
        ("optional tensor", optional(*f32s()), some(tensor(&[5.0]))),
        (
            "optional sequence",
            optional(sequence()),
            some(Value::Sequence(vec![tensor(&[1.0])])),
        ),
        (
            "map of i64",
            map_type(ElementType::Int64),
            map(Tensor::from_slice(&[2], &[-7i64, 9]).unwrap()),
        ),
        (
            "map of u8",
            map_type(ElementType::UInt8),
            map(Tensor::from_slice(&[2], &[255u8, 0]).unwrap()),
        ),
        ("map of strings", map_type(ElementType::String), map(texts)),
    ]
}

#[test]
fn values_survive_writing_and_reading() {
    let folder = tempfile::tempdir().unwrap();
    for (case, value_type, value) in cases() {
        let path = folder.path().join("value.pb");
        write_value_pb(&path, &value).unwrap();
        let read = read_value_pb(&path, &value_type).unwrap_or_else(|e| panic!("{case}: {e}"));
        assert_eq!(read, value, "{case}");
        assert_eq!(
            read_value_file(&path, &value_type).unwrap(),
            value,
            "{case}"
        );
    }
}

#[test]
fn other_types_are_refused() {
    let is_type = |p: &Problem| matches!(p, Problem::ValueType { .. });
    let f64s = tensor_type(ElementType::Float64);
    let bytes = |value: &Value| value_to_pb_bytes(value).unwrap().into();
    assert_problem(
        "element type",
        value_from_pb_bytes(bytes(&tensor(&[1.0])), &f64s),
        is_type,
        &["tensor(f32)", "tensor(f64)"],
    );
    let sequence = Value::Sequence(vec![tensor(&[1.0])]);
    let of_sequences = TypeInfo::Sequence(Box::new(TypeInfo::Sequence(Box::new(tensor_type(
        ElementType::Float32,
    )))));
    assert_problem(
        "sequence of another kind",
        value_from_pb_bytes(bytes(&sequence), &of_sequences),
        is_type,
        &["sequence of tensors"],
    );
    assert_problem(
        "sequence of another element type",
        value_from_pb_bytes(
            bytes(&sequence),
            &TypeInfo::Sequence(Box::new(f64s.clone())),
        ),
        is_type,
        &["entry 0"],
    );
    let optional = Value::Optional(Some(Box::new(sequence.clone())));
    assert_problem(
        "optional of another kind",
        value_from_pb_bytes(
            bytes(&optional),
            &TypeInfo::Optional(Box::new(f64s.clone())),
        ),
        is_type,
        &["optional over sequences"],
    );
    assert_problem(
        "mixed sequence",
        value_to_pb_bytes(&Value::Sequence(vec![tensor(&[1.0]), sequence])),
        is_type,
        &["tensors", "sequences"],
    );
    let map = MapProto {
        key_type: ElementType::Int8.onnx_number(),
        keys: vec![1, 300],
        ..MapProto::default()
    };
    let int8 = TypeInfo::Map(ElementType::Int8, Box::new(f64s.clone()));
    assert_problem(
        "key out of range",
        value_from_pb_bytes(map.encode_to_vec().into(), &int8),
        |p| matches!(p, Problem::DataRange { index: 1, .. }),
        &["300", "i8"],
    );
    let map = MapProto {
        keys: vec![1],
        ..map
    };
    assert_problem(
        "keys without values",
        value_from_pb_bytes(map.encode_to_vec().into(), &int8),
        is_type,
        &["1 keys and 0 values"],
    );
    let int64 = TypeInfo::Map(ElementType::Int64, Box::new(f64s.clone()));
    assert_problem(
        "another key type",
        value_from_pb_bytes(map.encode_to_vec().into(), &int64),
        is_type,
        &["keys of i8"],
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.npy");
    write_tensor_file(&path, &Tensor::scalar(1.0f32).unwrap()).unwrap();
    assert_problem(
        "npy",
        read_value_file(&path, &f64s),
        is_type,
        &["t.npy", "tensor(f32)"],
    );
    assert!(read_value_file(&path, &tensor_type(ElementType::Float32)).is_ok());
}
