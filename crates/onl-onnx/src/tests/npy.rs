use super::assert_problem;
use crate::{Problem, npy_from_bytes, npy_to_bytes, read_tensor_file, write_tensor_file};
use onl_tensor::{Complex, ElementType, Tensor, byte_length};
use proptest::prelude::*;

/// A file with this dictionary and data, laid out as NumPy does.
fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    let header = format!("{header}\n");
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn read(descr: &str, order: &str, shape: &str, data: &[u8]) -> Result<Tensor, crate::OnnxError> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    npy_from_bytes(file(1, &header, data).into())
}

#[test]
fn byte_orders_and_memory_orders_give_the_same_tensor() {
    let expected = Tensor::from_slice(&[2, 3], &[1i16, 2, 3, 4, 5, 600]).unwrap();
    let elements = [1i16, 2, 3, 4, 5, 600];
    let columns = [1i16, 4, 2, 5, 3, 600];
    let little: Vec<u8> = elements.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big: Vec<u8> = elements.iter().flat_map(|v| v.to_be_bytes()).collect();
    let little_columns: Vec<u8> = columns.iter().flat_map(|v| v.to_le_bytes()).collect();
    let big_columns: Vec<u8> = columns.iter().flat_map(|v| v.to_be_bytes()).collect();
    for (case, descr, order, data) in [
        ("little, C", "<i2", "False", &little),
        ("native, C", "=i2", "False", &little),
        ("big, C", ">i2", "False", &big),
        ("little, Fortran", "<i2", "True", &little_columns),
        ("big, Fortran", ">i2", "True", &big_columns),
    ] {
        assert_eq!(
            read(descr, order, "(2, 3)", data).unwrap(),
            expected,
            "{case}"
        );
    }
    let complex = Tensor::from_slice(
        &[1],
        &[Complex {
            re: 1.5f32,
            im: -2.0,
        }],
    )
    .unwrap();
    let data: Vec<u8> = [1.5f32, -2.0]
        .iter()
        .flat_map(|v| v.to_be_bytes())
        .collect();
    assert_eq!(read(">c8", "False", "(1,)", &data).unwrap(), complex);
    let cube: Vec<u8> = (0..24).collect();
    let cube = read("|u1", "True", "(2, 3, 4)", &cube).unwrap();
    let at = |i: usize, j: usize, k: usize| cube.bytes()[i * 12 + j * 4 + k];
    assert_eq!(
        [at(1, 0, 0), at(0, 1, 0), at(0, 0, 1), at(1, 2, 3)],
        [1, 2, 6, 23]
    );
}

#[test]
fn headers_of_all_versions_and_writings_are_read() {
    let expected = Tensor::from_slice(&[1], &[7u8]).unwrap();
    for version in 1..=3 {
        for header in [
            "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }",
            "{\"shape\":(1,),\"descr\":\"u1\",\"fortran_order\":False}",
            "{ 'fortran_order' : False , 'descr' : '|u1' , 'shape' : ( 1L , ) }   ",
        ] {
            let tensor = npy_from_bytes(file(version, header, &[7]).into());
            assert_eq!(tensor.unwrap(), expected, "version {version}, {header}");
        }
    }
    let scalar = read("<i4", "False", "()", &[9, 0, 0, 0]).unwrap();
    assert_eq!(scalar, Tensor::scalar(9i32).unwrap());
    assert_eq!(read("<f8", "True", "(3, 0)", &[]).unwrap().len(), 0);
    assert_eq!(
        read("|b1", "False", "(3,)", &[0, 1, 2]).unwrap().bytes(),
        [0, 1, 1]
    );
}

#[test]
fn strings_are_read() {
    let expected = Tensor::from_strings(&[2], vec!["aß".to_owned(), "日".to_owned()]).unwrap();
    let little: Vec<u8> = "aß日\0"
        .chars()
        .flat_map(|c| u32::from(c).to_le_bytes())
        .collect();
    let big: Vec<u8> = "aß日\0"
        .chars()
        .flat_map(|c| u32::from(c).to_be_bytes())
        .collect();
    assert_eq!(read("<U2", "False", "(2,)", &little).unwrap(), expected);
    assert_eq!(read(">U2", "False", "(2,)", &big).unwrap(), expected);
    let bytes = read("|S3", "True", "(2, 1)", b"ab\0\0x\0").unwrap();
    assert_eq!(bytes.as_strings().unwrap(), ["ab", "\0x"]);
    assert_eq!(bytes.shape().dims(), [2, 1]);
    let is_encoding = |p: &Problem| matches!(p, Problem::StringEncoding { index: 1 });
    assert_problem(
        "bytes",
        read("|S1", "False", "(2,)", b"a\xff"),
        is_encoding,
        &["UTF-8"],
    );
    let surrogate = [0x61, 0, 0, 0, 0x00, 0xd8, 0, 0];
    assert_problem(
        "surrogate",
        read("<U1", "False", "(2,)", &surrogate),
        is_encoding,
        &["UTF-8"],
    );
}

#[test]
fn faulty_files_are_refused() {
    let good = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
    let is_npy = |p: &Problem| matches!(p, Problem::Npy { .. });
    let cases: [(&str, Vec<u8>, &str); 18] = [
        ("no magic", b"PK\x03\x04".to_vec(), "another format"),
        ("magic only", b"\x93NUMPY".to_vec(), "truncated"),
        ("version", file(4, good, &[7]), "version 4"),
        (
            "long header",
            {
                let mut bytes = file(2, good, &[7]);
                bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
                bytes
            },
            "longer",
        ),
        (
            "truncated header",
            file(1, good, &[7])[..30].to_vec(),
            "truncated",
        ),
        ("too little data", file(1, good, &[]), "needs 1 bytes"),
        ("too much data", file(1, good, &[7, 8]), "has 2"),
        (
            "missing key",
            file(1, "{'descr': '|u1', 'shape': (1,), }", &[7]),
            "exactly",
        ),
        (
            "unknown key",
            file(1, "{'descr': '|u1', 'color': 3}", &[7]),
            "'color'",
        ),
        ("text after", file(1, &format!("{good} x"), &[7]), "exactly"),
        ("no dictionary", file(1, "[1]", &[7]), "'{'"),
        ("open string", file(1, "{'descr", &[7]), "without end"),
        (
            "negative shape",
            file(1, &good.replace("(1,)", "(-1,)"), &[7]),
            "no size",
        ),
        (
            "huge shape",
            file(1, &good.replace("(1,)", "(9999999999, 9999999999)"), &[7]),
            "overflows",
        ),
        ("objects", file(1, &good.replace("|u1", "|O"), &[7]), "'|O'"),
        (
            "bfloat16",
            file(1, &good.replace("|u1", "<V2"), &[7, 0]),
            ".pb",
        ),
        (
            "long double",
            file(1, &good.replace("|u1", "<f16"), &[7]),
            "'<f16'",
        ),
        (
            "records",
            file(1, "{'descr': [('a', '<i4')], 'fortran_order': False}", &[7]),
            "records",
        ),
    ];
    for (case, bytes, part) in cases {
        assert_problem(case, npy_from_bytes(bytes.into()), is_npy, &[part]);
    }
    let endless = file(
        1,
        &good
            .replace("|u1", "<U0")
            .replace("(1,)", "(9999999999999,)"),
        &[],
    );
    assert_problem(
        "strings without width",
        npy_from_bytes(endless.into()),
        is_npy,
        &["width"],
    );
}

#[test]
fn types_without_numpy_counterpart_are_sent_to_pb() {
    use ElementType::*;
    let folder = tempfile::tempdir().unwrap();
    for element_type in [
        BFloat16,
        Float8E4M3FN,
        Float8E4M3FNUZ,
        Float8E5M2,
        Float8E5M2FNUZ,
        Float8E8M0,
        UInt4,
        Int4,
        Float4E2M1,
        UInt2,
        Int2,
    ] {
        let tensor = Tensor::zeros(element_type, &[3]).unwrap();
        let path = folder.path().join("t.npy");
        assert_problem(
            element_type.name(),
            write_tensor_file(&path, &tensor),
            |p| matches!(p, Problem::Npy { .. }),
            &[".pb", element_type.name(), "t.npy"],
        );
        assert!(!path.exists());
        let path = folder.path().join("t.pb");
        write_tensor_file(&path, &tensor).unwrap();
        assert_eq!(read_tensor_file(&path).unwrap(), tensor);
    }
    assert_problem(
        "unknown ending",
        read_tensor_file(folder.path().join("t.txt")),
        |p| matches!(p, Problem::UnknownFormat),
        &["t.txt", ".npy"],
    );
}

#[test]
fn mapped_elements_are_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.npy");
    let tensor = Tensor::from_slice(&[3], &[1.0f64, 2.0, 3.0]).unwrap();
    write_tensor_file(&path, &tensor).unwrap();
    let read = read_tensor_file(&path).unwrap();
    assert!(read.is_shared());
    assert_eq!(read, tensor);
    let header = std::fs::read(&path).unwrap();
    assert_eq!(header.len() - 24, 128, "data start at a multiple of 64");
    assert_eq!(header[127], b'\n');
}

proptest! {
    #[test]
    fn written_tensors_are_read(
        element_type in prop::sample::select(&ElementType::ALL[..]),
        dims in prop::collection::vec(0usize..4, 0..4),
        texts in prop::collection::vec("[^\0]{0,5}", 27),
        seed in any::<u64>(),
    ) {
        let tensor = if element_type == ElementType::String {
            let count: usize = dims.iter().product();
            Tensor::from_strings(&dims, texts[..count].to_vec()).unwrap()
        } else {
            let length = byte_length(element_type, &dims).unwrap();
            let bytes: Vec<u8> = (0..length).map(|i| (seed >> (i % 57)) as u8).collect();
            Tensor::from_bytes(element_type, &dims, &bytes).unwrap()
        };
        match npy_to_bytes(&tensor) {
            Ok(bytes) => prop_assert_eq!(npy_from_bytes(bytes.into()).unwrap(), tensor),
            Err(error) => prop_assert!(error.to_string().contains(".pb")),
        }
    }
}
