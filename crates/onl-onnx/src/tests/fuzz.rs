//! Damaged and hostile bytes give errors, never panics.

use super::{graph, graph_attribute, model, node, value, weight};
use crate::proto::*;
use crate::{
    LoadLimits, Problem, npy_from_bytes, npy_to_bytes, read_model_bytes, value_from_pb_bytes,
};
use onl_ir::{TensorType, TypeInfo};
use onl_tensor::{ElementType, Tensor};
use proptest::prelude::*;
use prost::Message;

/// A valid model with subgraph, function, sparse and typed data.
fn sample() -> Vec<u8> {
    let body = graph(vec![node("Neg", &["x"], &["r"])], &[], &["r"]);
    let mut first = node("If", &["x"], &["a"]);
    first.attribute = vec![
        graph_attribute("then_branch", body),
        AttributeProto {
            name: "ints".to_owned(),
            r#type: attribute_type::INTS,
            ints: vec![1, -2, 300],
            ..AttributeProto::default()
        },
    ];
    let mut main = graph(
        vec![first, node("Add", &["a", "w"], &["y"])],
        &["x"],
        &["y"],
    );
    main.initializer = vec![
        weight("w"),
        TensorProto {
            name: "strings".to_owned(),
            data_type: 8,
            dims: vec![2],
            string_data: vec!["a".into(), "bc".into()],
            ..TensorProto::default()
        },
        TensorProto {
            name: "raw".to_owned(),
            data_type: 22,
            dims: vec![3],
            raw_data: Some(vec![0x21, 0x03].into()),
            ..TensorProto::default()
        },
    ];
    main.sparse_initializer = vec![SparseTensorProto {
        values: Some(TensorProto {
            dims: vec![1],
            float_data: vec![1.0],
            ..weight("sparse")
        }),
        indices: Some(TensorProto {
            data_type: 7,
            dims: vec![1, 2],
            int64_data: vec![1, 1],
            ..TensorProto::default()
        }),
        dims: vec![2, 2],
    }];
    let mut proto = model(10, main);
    proto.functions.push(FunctionProto {
        name: "F".to_owned(),
        domain: "local".to_owned(),
        input: vec!["i".to_owned()],
        output: vec!["o".to_owned()],
        node: vec![node("Abs", &["i"], &["o"])],
        value_info: vec![value("i")],
        ..FunctionProto::default()
    });
    proto.encode_to_vec()
}

/// Limits that keep a bad guess of the decoder small enough to notice.
fn limits() -> LoadLimits {
    LoadLimits {
        max_decoded_bytes: 1 << 20,
        max_dense_bytes: 1 << 20,
        ..LoadLimits::default()
    }
}

fn read_everything(bytes: &[u8]) {
    let shared = || bytes::Bytes::copy_from_slice(bytes);
    if let Ok(mut model) = read_model_bytes(shared(), None, &limits()) {
        model
            .graph
            .sort_and_check()
            .expect("a model that was read is consistent");
    }
    let tensor = TypeInfo::Tensor(TensorType::unknown_shape(ElementType::Float32));
    let sequence = TypeInfo::Sequence(Box::new(tensor.clone()));
    for expected in [
        TypeInfo::SparseTensor(TensorType::unknown_shape(ElementType::Float32)),
        TypeInfo::Optional(Box::new(sequence.clone())),
        TypeInfo::Map(ElementType::Int64, Box::new(tensor.clone())),
        sequence,
        tensor,
    ] {
        let _ = value_from_pb_bytes(shared(), &expected);
    }
    let _ = npy_from_bytes(shared());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_everything(&bytes);
    }

    #[test]
    fn random_fields(
        fields in prop::collection::vec((1u8..26, 0u8..3, prop::collection::vec(0u8..30, 0..20)), 0..20)
    ) {
        // Keys and lengths that fit reach deeper than random bytes.
        let mut bytes = Vec::new();
        for (field, wire_type, content) in fields {
            let key = u32::from(field) << 3 | if wire_type == 0 { 0 } else { 2 };
            prost::encoding::encode_varint(key.into(), &mut bytes);
            if wire_type == 0 {
                bytes.push(content.len() as u8);
            } else {
                bytes.push(content.len() as u8);
                bytes.extend(content);
            }
        }
        read_everything(&bytes);
    }

    #[test]
    fn flipped_bits(flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4)) {
        let mut bytes = sample();
        for (index, bit) in flips {
            let i = index.index(bytes.len());
            bytes[i] ^= 1 << bit;
        }
        read_everything(&bytes);
    }

    #[test]
    fn replaced_bytes(index in any::<prop::sample::Index>(), with in prop::collection::vec(any::<u8>(), 1..12)) {
        let mut bytes = sample();
        let at = index.index(bytes.len());
        let end = (at + with.len()).min(bytes.len());
        bytes.splice(at..end, with);
        read_everything(&bytes);
    }

    #[test]
    fn damaged_npy(index in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let tensor = Tensor::from_slice(&[2, 3], &[1i32, 2, 3, 4, 5, 6]).unwrap();
        let whole = npy_to_bytes(&tensor).unwrap();
        let length = cut.index(whole.len());
        prop_assert!(npy_from_bytes(whole[..length].to_vec().into()).is_err());
        // A damaged header may ask for no more than what is left, so only panics are failures here.
        let mut damaged = whole;
        let at = index.index(damaged.len());
        damaged[at] = byte;
        let _ = npy_from_bytes(damaged.clone().into());
        damaged.truncate(length);
        let _ = npy_from_bytes(damaged.into());
    }
}

#[test]
fn every_truncation_is_an_error_or_a_smaller_model() {
    let bytes = sample();
    read_model_bytes(bytes.clone().into(), None, &limits()).expect("the sample is valid");
    for length in 0..bytes.len() {
        read_everything(&bytes[..length]);
    }
}

#[test]
fn lengths_past_the_end_allocate_nothing() {
    // A graph (field 7) that claims almost all of an address space; a raw_data of the same size within.
    for length in [u64::MAX, 1 << 62, 1 << 40, 1000] {
        let mut bytes = vec![0x08, 0x09, 0x3a];
        prost::encoding::encode_varint(length, &mut bytes);
        bytes.extend([0x0a, 0x00]);
        super::assert_problem(
            "length past the end",
            read_model_bytes(bytes.into(), None, &LoadLimits::default()),
            |p| matches!(p, Problem::Decode { .. }),
            &[&length.to_string()],
        );
    }
}

#[test]
fn many_tiny_messages_meet_the_memory_limit() {
    // Two bytes in the file, hundreds in memory.
    let nodes = [0x2a, 0x00].repeat(100_000);
    let mut bytes = vec![0x08, 0x09, 0x3a];
    prost::encoding::encode_varint(nodes.len() as u64, &mut bytes);
    bytes.extend(nodes);
    super::assert_problem(
        "tiny messages",
        read_model_bytes(bytes.into(), None, &limits()),
        |p| {
            matches!(
                p,
                Problem::Limit {
                    what: "max_decoded_bytes",
                    ..
                }
            )
        },
        &["max_decoded_bytes"],
    );
}
