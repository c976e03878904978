//! Sizes, storage and views of tensors.

use bytes::Bytes;
use onl_tensor::{
    AlignedBuffer, Bool, Complex, ElementType, Shape, Tensor, TensorError, TensorView,
    TensorViewMut, Value, bf16, byte_length, element_count, f16, row_major_strides,
};
use proptest::prelude::*;

#[test]
fn element_types_name_themselves() {
    for (index, element_type) in ElementType::ALL.into_iter().enumerate() {
        assert_eq!(element_type.onnx_number(), index as i32 + 1);
        assert_eq!(ElementType::from_onnx(index as i32 + 1), Some(element_type));
        assert_eq!(
            ElementType::from_name(element_type.name()),
            Some(element_type)
        );
        assert!(element_type.alignment().is_power_of_two());
    }
    for number in [0, 27, -1, i32::MAX] {
        assert_eq!(ElementType::from_onnx(number), None);
    }
    assert_eq!(ElementType::from_name("float"), None);
    assert_eq!(
        format!("{:>6}|{:<5}", ElementType::Float32, ElementType::Int8),
        "   f32|i8   "
    );
}

#[test]
fn elements_below_one_byte_are_packed() {
    use ElementType::*;
    for (element_type, counts) in [
        (UInt4, [(0, 0), (1, 1), (2, 1), (3, 2), (8, 4), (9, 5)]),
        (Int4, [(0, 0), (1, 1), (2, 1), (3, 2), (8, 4), (9, 5)]),
        (Float4E2M1, [(0, 0), (1, 1), (2, 1), (3, 2), (8, 4), (9, 5)]),
        (UInt2, [(0, 0), (1, 1), (3, 1), (4, 1), (5, 2), (9, 3)]),
        (Int2, [(0, 0), (1, 1), (3, 1), (4, 1), (5, 2), (9, 3)]),
    ] {
        for (count, bytes) in counts {
            assert_eq!(
                byte_length(element_type, &[count]),
                Ok(bytes),
                "{count} of {element_type}"
            );
            assert_eq!(
                Tensor::zeros(element_type, &[count]).unwrap().bytes().len(),
                bytes
            );
        }
        // Rows are not padded: only the end of the whole tensor is.
        assert_eq!(
            byte_length(element_type, &[3, 3]),
            byte_length(element_type, &[9])
        );
    }
    assert_eq!(byte_length(Complex128, &[3]), Ok(48));
    assert_eq!(byte_length(Bool, &[]), Ok(1));
    assert_eq!(byte_length(String, &[1000]), Ok(0));
}

#[test]
fn impossible_sizes_are_errors() {
    let half = 1usize << (usize::BITS / 2);
    let is_overflow = |e: &TensorError| matches!(e, TensorError::Overflow { .. });
    for (element_type, dims) in [
        (ElementType::UInt8, vec![half, half]),
        (ElementType::UInt8, vec![isize::MAX as usize + 1]),
        (ElementType::Float32, vec![isize::MAX as usize / 2]),
        (ElementType::Complex128, vec![usize::MAX / 8]),
        (ElementType::UInt4, vec![usize::MAX]),
        (ElementType::String, vec![half, half, 2]),
    ] {
        let error = Tensor::zeros(element_type, &dims).unwrap_err();
        assert!(is_overflow(&error), "{element_type} {dims:?}: {error}");
        let error = if element_type == ElementType::String {
            Tensor::from_strings(&dims, Vec::new()).unwrap_err()
        } else {
            Tensor::from_bytes(element_type, &dims, &[]).unwrap_err()
        };
        assert!(is_overflow(&error), "{element_type} {dims:?}: {error}");
    }
    let error = AlignedBuffer::zeroed(isize::MAX as usize).unwrap_err();
    assert!(matches!(error, TensorError::OutOfMemory { .. }), "{error}");
}

#[test]
fn empty_tensors_may_have_huge_dimensions() {
    let dims = [usize::MAX, usize::MAX, 0];
    assert_eq!(element_count(&dims), Some(0));
    let tensor = Tensor::zeros(ElementType::Float64, &dims).unwrap();
    assert_eq!((tensor.len(), tensor.is_empty()), (0, true));
    assert_eq!((tensor.view().len(), tensor.view().is_empty()), (0, true));
    assert_eq!(tensor.reshaped(&[0]).unwrap().shape().dims(), [0]);
    let mut none: [i32; 0] = [];
    let view = TensorViewMut::from_slice(&dims, &mut none).unwrap();
    assert_eq!((view.len(), view.is_empty()), (0, true));
}

#[test]
fn lengths_must_be_exact() {
    for length in [11, 13, 0] {
        let bytes = vec![0; length];
        let expected = TensorError::Length {
            dims: vec![3],
            element_type: ElementType::Float32,
            unit: "bytes",
            expected: 12,
            actual: length,
        };
        let from_bytes = Tensor::from_bytes(ElementType::Float32, &[3], &bytes);
        assert_eq!(from_bytes.unwrap_err(), expected);
        let from_shared = Tensor::from_shared(ElementType::Float32, &[3], bytes.into());
        assert_eq!(from_shared.unwrap_err(), expected);
    }
    let strings = Tensor::from_strings(&[2], vec![String::new()]).unwrap_err();
    assert!(matches!(
        strings,
        TensorError::Length {
            unit: "strings",
            expected: 2,
            actual: 1,
            ..
        }
    ));
    let error = Tensor::zeros(ElementType::Int32, &[6])
        .unwrap()
        .reshaped(&[4])
        .unwrap_err();
    assert!(matches!(error, TensorError::Length { .. }));
    // Strings have no byte form, even without elements.
    assert!(Tensor::from_bytes(ElementType::String, &[0], &[]).is_err());
}

#[test]
fn buffers_are_aligned_and_zeroed() {
    for length in [
        0,
        1,
        63,
        64,
        65,
        4096,
        (4 << 20) - 1,
        4 << 20,
        (4 << 20) + 1,
    ] {
        let mut buffer = AlignedBuffer::zeroed(length).unwrap();
        let alignment = if length >= 4 << 20 { 2 << 20 } else { 64 };
        assert!(
            (buffer.as_bytes().as_ptr() as usize).is_multiple_of(alignment),
            "{length} bytes"
        );
        assert_eq!((buffer.len(), buffer.is_empty()), (length, length == 0));
        assert!(buffer.as_bytes().iter().all(|&b| b == 0));
        buffer.as_bytes_mut().fill(7);
        assert_eq!(
            AlignedBuffer::from_bytes(buffer.as_bytes())
                .unwrap()
                .as_bytes(),
            buffer.as_bytes()
        );
    }
}

/// Bytes that start at this distance from an address divisible by 16.
fn at_offset(content: &[u8], offset: usize) -> Bytes {
    let mut storage = vec![0u8; content.len() + 32];
    let start = storage.as_ptr().align_offset(16) + offset;
    storage[start..start + content.len()].copy_from_slice(content);
    Bytes::from(storage).slice(start..start + content.len())
}

#[test]
fn shared_bytes_are_copied_only_when_unaligned() {
    for element_type in ElementType::ALL
        .into_iter()
        .filter(|&t| t != ElementType::String)
    {
        let length = byte_length(element_type, &[4]).unwrap();
        let content: Vec<u8> = (0..length).map(|i| (i % 2) as u8).collect();
        for offset in 0..16 {
            let bytes = at_offset(&content, offset);
            let start = bytes.as_ptr();
            let tensor = Tensor::from_shared(element_type, &[4], bytes).unwrap();
            let aligned = offset.is_multiple_of(element_type.alignment());
            assert_eq!(
                tensor.is_shared(),
                aligned,
                "{element_type} at offset {offset}"
            );
            assert_eq!(std::ptr::eq(tensor.bytes().as_ptr(), start), aligned);
            assert_eq!(tensor.bytes(), content);
        }
    }
}

#[test]
fn shared_tensors_are_copied_before_they_are_written() {
    let bytes = at_offset(&[1, 0, 0, 0, 2, 0, 0, 0], 0);
    let mut tensor = Tensor::from_shared(ElementType::Int32, &[2], bytes.clone()).unwrap();
    let copy = tensor.try_clone().unwrap();
    assert!(copy.is_shared());
    tensor.view_mut().unwrap().as_slice_mut::<i32>().unwrap()[0] = 9;
    assert!(!tensor.is_shared());
    assert_eq!(tensor.as_slice::<i32>().unwrap(), [9, 2]);
    assert_eq!(copy.as_slice::<i32>().unwrap(), [1, 2]);
    assert_eq!(bytes[0], 1);
    let returned = copy
        .into_buffer()
        .expect_err("a shared tensor owns no buffer");
    assert_eq!(returned.as_slice::<i32>().unwrap(), [1, 2]);
    let owned = tensor.try_clone().unwrap();
    assert_eq!(owned, tensor);
    assert_eq!(tensor.into_buffer().unwrap().as_bytes(), owned.bytes());
}

#[test]
fn booleans_are_made_zero_or_one() {
    let odd = [0u8, 1, 2, 255];
    let expected = [0, 1, 1, 1];
    let owned = Tensor::from_bytes(ElementType::Bool, &[4], &odd).unwrap();
    assert_eq!(owned.bytes(), expected);
    let shared = Tensor::from_shared(ElementType::Bool, &[4], at_offset(&odd, 3)).unwrap();
    assert_eq!(shared.bytes(), expected);
    assert!(!shared.is_shared());
    let canonical = Tensor::from_shared(ElementType::Bool, &[4], at_offset(&expected, 3)).unwrap();
    assert!(canonical.is_shared());
    assert_eq!(
        canonical,
        Tensor::from_bools(&[4], &[false, true, true, true]).unwrap()
    );
    assert!(bool::from(Bool(3)) && !bool::from(Bool(0)));
    // Other bytes stay as they are.
    let bytes = Tensor::from_bytes(ElementType::UInt8, &[4], &odd).unwrap();
    assert_eq!(bytes.bytes(), odd);
}

#[test]
fn typed_looks_need_the_type() {
    let tensor = Tensor::from_slice(&[2], &[1.5f32, -2.0]).unwrap();
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [1.5, -2.0]);
    assert_eq!(
        tensor.as_slice::<i32>().unwrap_err(),
        TensorError::ElementType {
            expected: ElementType::Int32,
            actual: ElementType::Float32
        }
    );
    assert!(tensor.as_strings().is_err());
    let strings = Tensor::from_strings(&[1], vec!["x".to_owned()]).unwrap();
    assert!(strings.as_slice::<u8>().is_err());
    assert_eq!(strings.as_strings().unwrap(), ["x"]);
    assert!(strings.bytes().is_empty());
    assert_eq!(strings.len(), 1);
    let scalar = Tensor::scalar(f16::from_f32(0.5)).unwrap();
    assert_eq!((scalar.len(), scalar.shape().rank()), (1, 0));
    let complex = Tensor::scalar(Complex {
        re: 1.0f64,
        im: 2.0,
    })
    .unwrap();
    assert_eq!(complex.bytes().len(), 16);
    let bf = Tensor::from_slice(&[1], &[bf16::from_f32(1.0)]).unwrap();
    assert_eq!(bf.bytes(), [0x80, 0x3f]);
}

#[test]
fn views_look_and_write() {
    let mut elements = [1i64, 2, 3, 4, 5, 6];
    let view = TensorView::from_slice(&[2, 3], &elements).unwrap();
    assert_eq!((view.rank(), view.len(), view.dims()), (2, 6, &[2, 3][..]));
    assert_eq!(
        view.with_dims(&[3, 2]).unwrap().as_slice::<i64>().unwrap(),
        [1, 2, 3, 4, 5, 6]
    );
    assert!(view.with_dims(&[5]).is_err());
    let mut view = TensorViewMut::from_slice(&[6], &mut elements).unwrap();
    view.as_slice_mut::<i64>().unwrap()[5] = -1;
    assert!(view.as_slice_mut::<u64>().is_err());
    assert!(view.as_strings_mut().is_err());
    assert_eq!(view.as_view().as_slice::<i64>().unwrap()[5], -1);
    let mut strings = ["a".to_owned()];
    let mut view = TensorViewMut::from_strings(&[1], &mut strings).unwrap();
    view.as_strings_mut().unwrap()[0].push('b');
    assert!(view.bytes_mut().is_empty());
    assert_eq!(view.as_view().as_strings().unwrap(), ["ab"]);
}

#[test]
fn equality_is_of_type_shape_and_bits() {
    let tensor = |dims: &[usize], elements: &[f32]| Tensor::from_slice(dims, elements).unwrap();
    let nan = tensor(&[1], &[f32::NAN]);
    assert_eq!(nan, nan.try_clone().unwrap(), "the same bits");
    assert_ne!(tensor(&[1], &[0.0]), tensor(&[1], &[-0.0]));
    assert_ne!(tensor(&[1], &[1.0]), tensor(&[1, 1], &[1.0]));
    let bits = Tensor::from_slice(&[1], &[1.0f32.to_bits()]).unwrap();
    assert_ne!(tensor(&[1], &[1.0]), bits);
    let strings = |s: &str| Tensor::from_strings(&[1], vec![s.to_owned()]).unwrap();
    assert_eq!(strings("a"), strings("a"));
    assert_ne!(strings("a"), strings("b"));
    assert_eq!(Value::from(strings("a")).as_tensor(), Some(&strings("a")));
    assert_eq!(Value::Sequence(vec![]).as_tensor(), None);
}

#[test]
fn shapes_are_lists_of_sizes() {
    let mut shape = Shape::from([2, 3]);
    shape.push(4);
    shape.dims_mut()[0] = 5;
    assert_eq!(shape.dims(), [5, 3, 4]);
    assert_eq!(
        (shape.to_string(), format!("{shape:?}")),
        ("[5x3x4]".to_owned(), "[5, 3, 4]".to_owned())
    );
    assert_eq!(Shape::scalar().to_string(), "[]");
    let long: Shape = (1..=8).collect();
    assert_eq!((long.rank(), long[7]), (8, 8));
    assert_eq!(row_major_strides(&[2, 3, 4]).as_slice(), [12, 4, 1]);
    assert!(row_major_strides(&[]).is_empty());
}

proptest! {
    #[test]
    fn bytes_survive_every_way_into_a_tensor(
        element_type in prop::sample::select(&ElementType::ALL[..]),
        dims in prop::collection::vec(0usize..5, 0..4),
        offset in 0usize..16,
        seed in any::<u64>(),
    ) {
        prop_assume!(element_type != ElementType::String);
        let length = byte_length(element_type, &dims).unwrap();
        let mask = if element_type == ElementType::Bool { 1 } else { 255 };
        let content: Vec<u8> = (0..length).map(|i| (seed >> (i % 57)) as u8 & mask).collect();
        let copied = Tensor::from_bytes(element_type, &dims, &content).unwrap();
        let shared = Tensor::from_shared(element_type, &dims, at_offset(&content, offset)).unwrap();
        let taken = AlignedBuffer::from_bytes(&content).unwrap();
        let taken = Tensor::from_buffer(element_type, &dims, taken).unwrap();
        prop_assert_eq!(copied.bytes(), &content[..]);
        prop_assert_eq!(&copied, &shared);
        prop_assert_eq!(&copied, &taken);
        prop_assert_eq!(copied.len(), element_count(&dims).unwrap());
        prop_assert_eq!(copied.view().bytes(), &content[..]);
    }

    #[test]
    fn strides_lead_to_neighbours(dims in prop::collection::vec(1usize..6, 1..5)) {
        let strides = row_major_strides(&dims);
        prop_assert_eq!(strides[0] * dims[0], element_count(&dims).unwrap());
        for axis in 1..dims.len() {
            prop_assert_eq!(strides[axis - 1], strides[axis] * dims[axis]);
        }
    }
}
