//! Every storage form of `TensorProto` for every element type.

use super::assert_problem;
use crate::external::ExternalData;
use crate::proto::*;
use crate::tensor::{sparse_from_proto, tensor_from_proto, tensor_to_proto};
use crate::{ExternalProblem, LoadLimits, OnnxError, Problem};
use bytes::Bytes;
use onl_tensor::{ElementType, Tensor, bf16, f16};

fn from_proto(proto: &TensorProto) -> Result<Tensor, OnnxError> {
    tensor_from_proto(proto, &mut ExternalData::default())
}

/// Five elements of a type in its typed field, and their storage form.
fn five(element_type: ElementType) -> (TensorProto, Vec<u8>) {
    use ElementType::*;
    let mut proto = TensorProto {
        name: "t".to_owned(),
        data_type: element_type.onnx_number(),
        dims: vec![5],
        ..TensorProto::default()
    };
    let bytes = match element_type {
        Float32 => {
            proto.float_data = vec![0.0, -1.5, f32::INFINITY, f32::MIN_POSITIVE / 4.0, 3.0];
            proto
                .float_data
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect()
        }
        Complex64 => {
            proto.float_data = (0..10).map(|i| i as f32 - 2.5).collect();
            proto
                .float_data
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect()
        }
        Float64 => {
            proto.double_data = vec![0.0, -1.5, f64::MAX, 1e-310, 3.0];
            proto
                .double_data
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect()
        }
        Complex128 => {
            proto.double_data = (0..10).map(|i| f64::from(i) - 2.5).collect();
            proto
                .double_data
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect()
        }
        Int64 => {
            proto.int64_data = vec![0, -1, i64::MIN, i64::MAX, 7];
            proto
                .int64_data
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect()
        }
        UInt64 => {
            proto.uint64_data = vec![0, 1, u64::MAX, 1 << 40, 7];
            proto
                .uint64_data
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect()
        }
        UInt32 => {
            let values = [0u32, 1, u32::MAX, 1 << 30, 7];
            proto.uint64_data = values.iter().map(|&v| v.into()).collect();
            values.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        Int32 => {
            proto.int32_data = vec![0, -1, i32::MIN, i32::MAX, 7];
            proto
                .int32_data
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect()
        }
        Int16 => {
            let values = [0i16, -1, i16::MIN, i16::MAX, 7];
            proto.int32_data = values.iter().map(|&v| v.into()).collect();
            values.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        UInt16 => {
            let values = [0u16, 1, u16::MAX, 300, 7];
            proto.int32_data = values.iter().map(|&v| v.into()).collect();
            values.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        Int8 => {
            let values = [0i8, -1, i8::MIN, i8::MAX, 7];
            proto.int32_data = values.iter().map(|&v| v.into()).collect();
            values.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        UInt8 => {
            proto.int32_data = vec![0, 1, 255, 128, 7];
            vec![0, 1, 255, 128, 7]
        }
        Bool => {
            proto.int32_data = vec![0, 1, 1, 0, 1];
            vec![0, 1, 1, 0, 1]
        }
        Float16 => {
            let values = [0.0f32, -1.5, f32::INFINITY, 6e-8, -65504.0].map(f16::from_f32);
            proto.int32_data = values.iter().map(|v| v.to_bits().into()).collect();
            values.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        BFloat16 => {
            let values = [0.0f32, -1.5, f32::INFINITY, 1e-39, -3e38].map(bf16::from_f32);
            proto.int32_data = values.iter().map(|v| v.to_bits().into()).collect();
            values.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        Float8E4M3FN | Float8E4M3FNUZ | Float8E5M2 | Float8E5M2FNUZ | Float8E8M0 => {
            proto.int32_data = vec![0, 0x3c, 0x80, 0xff, 0x7e];
            vec![0, 0x3c, 0x80, 0xff, 0x7e]
        }
        // Two elements of one entry, first element in the low bits; the fifth shares its byte with padding.
        UInt4 | Int4 | Float4E2M1 => {
            proto.int32_data = vec![0x21, 0xf8, 0x07];
            vec![0x21, 0xf8, 0x07]
        }
        // Four elements of one entry.
        UInt2 | Int2 => {
            proto.int32_data = vec![0b11_10_01_00, 0b10];
            vec![0b11_10_01_00, 0b10]
        }
        String => {
            proto.string_data = ["", "a", "ü", "日本", "\0x"]
                .iter()
                .map(|s| Bytes::from_static(s.as_bytes()))
                .collect();
            Vec::new()
        }
    };
    (proto, bytes)
}

/// The same tensor in `raw_data`.
fn as_raw(proto: &TensorProto, bytes: &[u8]) -> TensorProto {
    TensorProto {
        name: proto.name.clone(),
        data_type: proto.data_type,
        dims: proto.dims.clone(),
        raw_data: Some(Bytes::copy_from_slice(bytes)),
        ..TensorProto::default()
    }
}

/// The same tensor in an external file.
fn as_external(proto: &TensorProto, length: Option<usize>) -> TensorProto {
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: key.to_owned(),
        value,
    };
    let mut external_data = vec![
        entry("location", "data.bin".to_owned()),
        entry("offset", "64".to_owned()),
        entry("checksum", "0000".to_owned()),
    ];
    external_data.extend(length.map(|length| entry("length", length.to_string())));
    TensorProto {
        name: proto.name.clone(),
        data_type: proto.data_type,
        dims: proto.dims.clone(),
        data_location: DATA_LOCATION_EXTERNAL,
        external_data,
        ..TensorProto::default()
    }
}

#[test]
fn all_storage_forms_of_all_types_give_the_same_elements() {
    for element_type in ElementType::ALL {
        let (proto, bytes) = five(element_type);
        let typed = from_proto(&proto).unwrap_or_else(|e| panic!("{element_type}: {e}"));
        assert_eq!(typed.element_type(), element_type);
        assert_eq!(typed.shape().dims(), [5], "{element_type}");
        assert_eq!(typed.bytes(), bytes, "{element_type} in its typed field");
        let written = from_proto(&tensor_to_proto("t", &typed)).unwrap();
        assert_eq!(written, typed, "{element_type} written and read");
        if element_type == ElementType::String {
            assert_eq!(typed.as_strings().unwrap(), ["", "a", "ü", "日本", "\0x"]);
            continue;
        }
        let raw = from_proto(&as_raw(&proto, &bytes)).unwrap();
        assert_eq!(raw, typed, "{element_type} in raw_data");

        let folder = tempfile::tempdir().unwrap();
        let mut file = vec![0xee; 64];
        file.extend(&bytes);
        std::fs::write(folder.path().join("data.bin"), &file).unwrap();
        for length in [Some(bytes.len()), None] {
            let mut external = ExternalData::in_folder(folder.path());
            let tensor = tensor_from_proto(&as_external(&proto, length), &mut external).unwrap();
            assert_eq!(tensor, typed, "{element_type} external, length {length:?}");
            assert!(
                tensor.is_shared(),
                "{element_type}: aligned external data are mapped"
            );
        }
    }
}

#[test]
fn wrong_lengths_are_refused_in_every_form() {
    for element_type in ElementType::ALL {
        let (proto, bytes) = five(element_type);
        // Six strings or whole bytes more or less; below one byte, sizes that need another byte count.
        let others = if element_type.bits() > 0 && element_type.bits() < 8 {
            [1, 9]
        } else {
            [4, 6]
        };
        for dim in others {
            let case = format!("{element_type}, dimension {dim}");
            let wrong = |proto: TensorProto| TensorProto {
                dims: vec![dim],
                ..proto
            };
            let is_length = |p: &Problem| matches!(p, Problem::DataLength { .. });
            assert_problem(
                &case,
                from_proto(&wrong(proto.clone())),
                is_length,
                &["needs"],
            );
            if element_type == ElementType::String {
                continue;
            }
            let raw = wrong(as_raw(&proto, &bytes));
            assert_problem(&case, from_proto(&raw), is_length, &["raw_data"]);
        }
        let empty = TensorProto {
            data_type: element_type.onnx_number(),
            dims: vec![5],
            ..TensorProto::default()
        };
        assert_problem(
            "no data",
            from_proto(&empty),
            |p| matches!(p, Problem::DataLength { actual: 0, .. }),
            &[element_type.name()],
        );
    }
}

#[test]
fn tensors_without_elements_need_no_data() {
    for element_type in ElementType::ALL {
        for dims in [vec![0], vec![3, 0, 1 << 40], vec![1 << 62, 1 << 62, 0]] {
            let proto = TensorProto {
                data_type: element_type.onnx_number(),
                dims: dims.clone(),
                raw_data: (element_type != ElementType::String).then(Bytes::new),
                ..TensorProto::default()
            };
            let tensor =
                from_proto(&proto).unwrap_or_else(|e| panic!("{element_type} {dims:?}: {e}"));
            assert_eq!(tensor.len(), 0);
        }
    }
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let narrow = |element_type: ElementType, value: i32| TensorProto {
        data_type: element_type.onnx_number(),
        int32_data: vec![value],
        ..TensorProto::default()
    };
    use ElementType::*;
    for (element_type, value) in [
        (UInt8, 256),
        (UInt8, -1),
        (Int8, 128),
        (Int8, -129),
        (UInt16, 65536),
        (UInt16, -1),
        (Int16, 32768),
        (Float16, 65536),
        (BFloat16, -32769),
        (Float8E4M3FN, 256),
        (UInt4, 256),
        (Int2, 1000),
    ] {
        assert_problem(
            element_type.name(),
            from_proto(&narrow(element_type, value)),
            |p| matches!(p, Problem::DataRange { index: 0, .. }),
            &[&value.to_string(), element_type.name()],
        );
    }
    let wide = TensorProto {
        data_type: UInt32.onnx_number(),
        uint64_data: vec![1 << 32],
        ..TensorProto::default()
    };
    assert_problem(
        "u32",
        from_proto(&wide),
        |p| matches!(p, Problem::DataRange { .. }),
        &["uint64_data"],
    );
    // Sign-extended 16-bit patterns mean the same bits.
    let extended = from_proto(&narrow(Float16, -1)).unwrap();
    assert_eq!(extended.bytes(), [0xff, 0xff]);
    // Any non-zero boolean is true.
    assert_eq!(from_proto(&narrow(Bool, 700)).unwrap().bytes(), [1]);
}

#[test]
fn faulty_tensors_are_refused() {
    let good = || five(ElementType::Float32).0;
    type Change = fn(&mut TensorProto);
    type Expected = fn(&Problem) -> bool;
    let cases: [(&str, Change, Expected, &str); 10] = [
        (
            "negative dimension",
            |t| t.dims = vec![-5],
            |p| matches!(p, Problem::Dimension { dim: -5 }),
            "-5",
        ),
        (
            "size overflow",
            |t| t.dims = vec![i64::MAX, 8],
            |p| matches!(p, Problem::Tensor(_)),
            "overflows",
        ),
        (
            "byte overflow",
            |t| t.dims = vec![i64::MAX / 2],
            |p| matches!(p, Problem::Tensor(_)),
            "overflows",
        ),
        (
            "huge size without data",
            |t| t.dims = vec![1 << 50],
            |p| matches!(p, Problem::DataLength { .. }),
            "float_data",
        ),
        (
            "unknown type",
            |t| t.data_type = 27,
            |p| matches!(p, Problem::ElementType { number: 27 }),
            "27",
        ),
        (
            "no type",
            |t| t.data_type = 0,
            |p| matches!(p, Problem::Missing { .. }),
            "element type",
        ),
        (
            "segment",
            |t| t.segment = Some(SegmentProto { begin: 0, end: 5 }),
            |p| matches!(p, Problem::DataField { .. }),
            "segment",
        ),
        (
            "data in the field of another type",
            |t| t.data_type = ElementType::Int64.onnx_number(),
            |p| matches!(p, Problem::DataField { .. }),
            "int64_data",
        ),
        (
            "raw and typed data",
            |t| t.raw_data = Some(Bytes::from_static(&[0; 20])),
            |p| matches!(p, Problem::DataField { .. }),
            "float_data and raw_data",
        ),
        (
            "raw strings",
            |t| {
                t.float_data.clear();
                t.data_type = ElementType::String.onnx_number();
                t.raw_data = Some(Bytes::from_static(b"abcde"));
            },
            |p| matches!(p, Problem::DataField { .. }),
            "string_data",
        ),
    ];
    for (case, change, expected, part) in cases {
        let mut proto = good();
        change(&mut proto);
        assert_problem(case, from_proto(&proto), expected, &[part]);
    }
    let mut strings = five(ElementType::String).0;
    strings.string_data[3] = Bytes::from_static(&[0xff, 0xfe]);
    assert_problem(
        "string encoding",
        from_proto(&strings),
        |p| matches!(p, Problem::StringEncoding { index: 3 }),
        &["UTF-8"],
    );
    let external_strings = as_external(&five(ElementType::String).0, None);
    assert_problem(
        "external strings",
        from_proto(&external_strings),
        |p| {
            matches!(
                p,
                Problem::External {
                    reason: ExternalProblem::Strings,
                    ..
                }
            )
        },
        &["strings"],
    );
}

#[test]
fn raw_data_share_the_message_when_aligned() {
    let bytes = Bytes::from_owner(
        vec![0u64; 4]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect::<Vec<u8>>(),
    );
    let start = (0..8)
        .find(|&i| (bytes.as_ptr() as usize + i).is_multiple_of(4))
        .unwrap();
    let proto = |offset: usize| TensorProto {
        data_type: ElementType::Float32.onnx_number(),
        dims: vec![2],
        raw_data: Some(bytes.slice(offset..offset + 8)),
        ..TensorProto::default()
    };
    assert!(from_proto(&proto(start)).unwrap().is_shared());
    assert!(!from_proto(&proto(start + 1)).unwrap().is_shared());
}

fn sparse(
    element_type: ElementType,
    dims: &[i64],
    indices: &[i64],
    indices_dims: &[i64],
) -> SparseTensorProto {
    let count = indices_dims[0];
    let bytes = (count as usize * element_type.bits()).div_ceil(8);
    // All elements have all bits set.
    SparseTensorProto {
        values: Some(TensorProto {
            name: "s".to_owned(),
            data_type: element_type.onnx_number(),
            dims: vec![count],
            raw_data: Some(vec![0xff; bytes].into()),
            ..TensorProto::default()
        }),
        indices: Some(TensorProto {
            data_type: ElementType::Int64.onnx_number(),
            dims: indices_dims.to_vec(),
            int64_data: indices.to_vec(),
            ..TensorProto::default()
        }),
        dims: dims.to_vec(),
    }
}

#[test]
fn sparse_tensors_become_dense() {
    let dense = |proto: &SparseTensorProto| {
        sparse_from_proto(proto, &mut ExternalData::default())
            .and_then(|s| s.to_dense(&LoadLimits::default()))
    };
    let linear = sparse(ElementType::UInt8, &[2, 3], &[1, 5], &[2]);
    assert_eq!(dense(&linear).unwrap().bytes(), [0, 255, 0, 0, 0, 255]);
    let coordinates = sparse(ElementType::UInt8, &[2, 3], &[0, 1, 1, 2], &[2, 2]);
    assert_eq!(dense(&coordinates).unwrap(), dense(&linear).unwrap());
    let wide = sparse(ElementType::UInt16, &[3], &[2], &[1]);
    assert_eq!(dense(&wide).unwrap().bytes(), [0, 0, 0, 0, 255, 255]);
    let nibbles = sparse(ElementType::UInt4, &[5], &[1, 2], &[2]);
    assert_eq!(dense(&nibbles).unwrap().bytes(), [0xf0, 0x0f, 0x00]);
    let pairs = sparse(ElementType::Int2, &[5], &[2, 4], &[2]);
    assert_eq!(dense(&pairs).unwrap().bytes(), [0b11_0000, 0b11]);
    let none = sparse(ElementType::Float32, &[2], &[], &[0]);
    assert_eq!(dense(&none).unwrap().bytes(), [0; 8]);

    let is_sparse = |p: &Problem| matches!(p, Problem::Sparse { .. });
    let cases: [(&str, SparseTensorProto, &str); 6] = [
        (
            "past the end",
            sparse(ElementType::UInt8, &[2, 3], &[6], &[1]),
            "outside",
        ),
        (
            "negative",
            sparse(ElementType::UInt8, &[2, 3], &[-1], &[1]),
            "outside",
        ),
        (
            "coordinate past its dimension",
            sparse(ElementType::UInt8, &[2, 3], &[0, 3], &[1, 2]),
            "outside",
        ),
        (
            "repeated",
            sparse(ElementType::UInt8, &[2, 3], &[2, 2], &[2]),
            "ascend",
        ),
        (
            "wrong rank",
            sparse(ElementType::UInt8, &[2, 3], &[0, 0, 0], &[1, 3]),
            "[1x3]",
        ),
        (
            "no room",
            sparse(
                ElementType::UInt8,
                &[1 << 40, 1 << 40, 0],
                &[0, 0, 0],
                &[1, 3],
            ),
            "outside",
        ),
    ];
    for (case, proto, part) in cases {
        assert_problem(case, dense(&proto), is_sparse, &[part]);
    }
    assert_problem(
        "too large",
        dense(&sparse(ElementType::Float32, &[1 << 40], &[0], &[1])),
        |p| matches!(p, Problem::Limit { .. }),
        &["max_dense_bytes"],
    );
}
