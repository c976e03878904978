use super::*;
use crate::{InferContext, InferError, KernelIo, NoSubgraphs, OutputSlot};
use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_ir::{Dim, Graph, Node, OpId, TensorType, TypeInfo, ValueId, ValueInfo};
use onl_snapshot::TuningSnapshot;
use onl_tensor::{AlignedBuffer, Element, Tensor, TensorView, bf16, f16};
use proptest::prelude::*;
use std::sync::Arc;

/// A node with its inputs; those at the indices of `constants` are constants of the graph.
struct Case<'a> {
    op_type: &'a str,
    opset: i64,
    inputs: Vec<Option<Tensor>>,
    attributes: Vec<(&'a str, Attribute)>,
    constants: &'a [usize],
}

#[derive(Debug, PartialEq)]
enum Failure {
    Prepare(PrepareError),
    Infer(InferError),
    Run(KernelError),
}

impl Case<'_> {
    /// Infers, prepares and runs the node on `lanes` lanes. The inferred shape must be that of the output.
    fn run(&self, lanes: usize) -> Result<Tensor, Failure> {
        let mut graph = Graph::default();
        let mut node = Node {
            name: "product".to_owned(),
            op: OpId::new("", self.op_type),
            overload: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            attributes: self
                .attributes
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        };
        let types: Vec<Option<TypeInfo>> = self
            .inputs
            .iter()
            .map(|input| {
                input
                    .as_ref()
                    .map(|t| TypeInfo::Tensor(TensorType::with_dims(t.element_type(), t.dims())))
            })
            .collect();
        for (index, value_type) in types.iter().enumerate() {
            let id = graph.add_value(ValueInfo {
                name: format!("input{index}"),
                value_type: value_type.clone(),
            });
            node.inputs.push(value_type.is_some().then_some(id));
        }
        let output = graph.add_value(ValueInfo {
            name: "output".to_owned(),
            value_type: None,
        });
        node.outputs.push(Some(output));
        graph.nodes.push(node);
        let view = NodeView {
            graph: &graph,
            node: &graph.nodes[0],
            index: 0,
            opset: self.opset,
        };
        let constants = |id: ValueId| {
            let tensor = self.inputs.get(id.index())?.as_ref()?;
            self.constants
                .contains(&id.index())
                .then(|| Arc::new(tensor.try_clone().expect("memory")))
        };

        let element_type = types[0]
            .as_ref()
            .and_then(TypeInfo::as_tensor)
            .map(|t| t.element_type);
        let entries = entries();
        let entry = entries
            .iter()
            .find(|e| {
                e.op_type == self.op_type
                    && element_type.is_none_or(|t| e.element_types.contains(&t))
            })
            .expect("a kernel of this type");
        let mut inference = InferContext::new(view, &types, &constants);
        (entry.infer)(&mut inference).map_err(Failure::Infer)?;
        let inferred = inference.into_outputs();

        let snapshot = TuningSnapshot::portable();
        let context = PrepareContext {
            snapshot: &snapshot,
            tier: IsaTier::detect(),
            lanes,
            constants: &constants,
            subgraphs: &NoSubgraphs,
        };
        let kernel = (entry.prepare)(&view, &context).map_err(Failure::Prepare)?;
        let views: Vec<Option<TensorView<'_>>> = self
            .inputs
            .iter()
            .map(|i| i.as_ref().map(Tensor::view))
            .collect();
        let dims: Vec<&[usize]> = views
            .iter()
            .map(|v| v.as_ref().map_or(&[][..], |v| v.dims()))
            .collect();
        let mut workspace = AlignedBuffer::zeroed(kernel.workspace(&dims, lanes)).expect("memory");
        let mut outputs = vec![OutputSlot::Unplanned];
        let executor = CpuExecutor::with_lanes(lanes);
        let team = executor.enter();
        let mut io = KernelIo::new(&views, &[], &mut outputs, workspace.as_bytes_mut());
        kernel.run(&mut io, team.lanes()).map_err(Failure::Run)?;
        let Some(OutputSlot::Allocated { tensor, .. }) = outputs.pop() else {
            panic!("the kernel gave no output")
        };
        let dims = inferred[0]
            .as_ref()
            .and_then(TypeInfo::as_tensor)
            .and_then(|t| t.dims.clone())
            .expect("known");
        let known: Vec<Dim> = tensor.dims().iter().map(|&d| Dim::Known(d)).collect();
        assert_eq!(dims, known, "inferred shape");
        Ok(tensor)
    }
}

fn counting<T: Element>(dims: &[usize], convert: impl Fn(f32) -> T) -> Option<Tensor> {
    let count: usize = dims.iter().product();
    let elements: Vec<T> = (0..count)
        .map(|i| convert((i * 7 % 11) as f32 - 5.0))
        .collect();
    Some(Tensor::from_slice(dims, &elements).expect("the shape's length"))
}

fn matmul(a: &[usize], b: &[usize], constants: &'static [usize]) -> Case<'static> {
    Case {
        op_type: "MatMul",
        opset: 13,
        inputs: vec![counting(a, |v| v), counting(b, |v| v)],
        attributes: Vec::new(),
        constants,
    }
}

fn gemm(dims: &[&[usize]], attributes: Vec<(&'static str, Attribute)>) -> Case<'static> {
    Case {
        op_type: "Gemm",
        opset: 13,
        inputs: dims.iter().map(|d| counting(d, |v| v)).collect(),
        attributes,
        constants: &[],
    }
}

/// numpy.matmul over small integers, which every type holds exactly.
fn expected_matmul(case: &Case<'_>) -> (Vec<usize>, Vec<f32>) {
    let (a, b) = (
        case.inputs[0].as_ref().expect("A"),
        case.inputs[1].as_ref().expect("B"),
    );
    let mut a_dims = a.dims().to_vec();
    let mut b_dims = b.dims().to_vec();
    if a_dims.len() == 1 {
        a_dims.insert(0, 1);
    }
    if b_dims.len() == 1 {
        b_dims.push(1);
    }
    let rank = a_dims.len().max(b_dims.len());
    let pad = |dims: &[usize]| [vec![1; rank - dims.len()], dims.to_vec()].concat();
    let (x, y) = (pad(&a_dims), pad(&b_dims));
    let batch: Vec<usize> = (0..rank - 2)
        .map(|i| if x[i] == 1 { y[i] } else { x[i] })
        .collect();
    let (m, k, n) = (x[rank - 2], x[rank - 1], y[rank - 1]);
    let (a, b) = (
        a.as_slice::<f32>().expect("f32"),
        b.as_slice::<f32>().expect("f32"),
    );
    let mut values = Vec::new();
    for index in 0..batch.iter().product() {
        let mut rest: usize = index;
        let (mut a_start, mut b_start, mut a_size, mut b_size) = (0, 0, m * k, k * n);
        for axis in (0..rank - 2).rev() {
            let position = rest % batch[axis];
            rest /= batch[axis];
            a_start += if x[axis] == 1 { 0 } else { position * a_size };
            b_start += if y[axis] == 1 { 0 } else { position * b_size };
            a_size *= x[axis];
            b_size *= y[axis];
        }
        for i in 0..m {
            for j in 0..n {
                values.push(
                    (0..k)
                        .map(|p| a[a_start + i * k + p] * b[b_start + p * n + j])
                        .sum(),
                );
            }
        }
    }
    let mut dims = batch;
    if case.inputs[0].as_ref().is_some_and(|t| t.dims().len() > 1) {
        dims.push(m);
    }
    if case.inputs[1].as_ref().is_some_and(|t| t.dims().len() > 1) {
        dims.push(n);
    }
    (dims, values)
}

#[test]
fn matmul_follows_numpy() {
    let shapes: [(&str, &[usize], &[usize]); 14] = [
        ("matrices", &[3, 4], &[4, 5]),
        ("vector and vector", &[4], &[4]),
        ("vector and matrix", &[4], &[4, 5]),
        ("matrix and vector", &[3, 4], &[4]),
        ("batch and matrix", &[2, 3, 4], &[4, 5]),
        ("matrix and batch", &[3, 4], &[2, 4, 5]),
        ("equal batches", &[2, 3, 3, 4], &[2, 3, 4, 5]),
        ("broadcast on both sides", &[2, 1, 3, 4], &[1, 5, 4, 2]),
        ("vector and batch", &[4], &[2, 4, 5]),
        ("batch and vector", &[2, 3, 4], &[4]),
        ("no steps", &[3, 0], &[0, 5]),
        ("no rows", &[0, 4], &[4, 5]),
        ("no columns", &[2, 3, 4], &[2, 4, 0]),
        ("no batch entries", &[0, 3, 4], &[1, 4, 5]),
    ];
    for (name, a, b) in shapes {
        for constants in [&[][..], &[1]] {
            for lanes in [1, 3] {
                let case = matmul(a, b, constants);
                let output = case
                    .run(lanes)
                    .unwrap_or_else(|error| panic!("{name}: {error:?}"));
                let (dims, values) = expected_matmul(&case);
                assert_eq!(output.dims(), dims, "{name}");
                assert_eq!(output.as_slice::<f32>().expect("f32"), values, "{name}");
            }
        }
    }
}

#[test]
fn matmul_serves_every_type() {
    let expected: Vec<f32> = expected_matmul(&matmul(&[2, 3, 4], &[2, 4, 5], &[])).1;
    macro_rules! check {
        ($($t:ty: $convert:expr, $back:expr;)*) => {
            $(
                let case = Case {
                    op_type: "MatMul",
                    opset: 13,
                    inputs: vec![counting(&[2, 3, 4], $convert), counting(&[2, 4, 5], $convert)],
                    attributes: Vec::new(),
                    constants: &[],
                };
                let output = case.run(2).expect("a valid product");
                let actual: Vec<f32> = output.as_slice::<$t>().expect("type").iter().map(|&v| $back(v)).collect();
                assert_eq!(actual, expected, "{}", <$t as Element>::TYPE);
            )*
        };
    }
    check!(
        f64: f64::from, |v| v as f32;
        f16: f16::from_f32, f16::to_f32;
        bf16: bf16::from_f32, bf16::to_f32;
        i32: |v| v as i32, |v| v as f32;
        i64: |v| v as i64, |v| v as f32;
        u32: |v| v as i32 as u32, |v| v as i32 as f32;
        u64: |v| v as i64 as u64, |v| v as i64 as f32;
    );
}

#[test]
fn integers_wrap_around() {
    let case = Case {
        op_type: "MatMul",
        opset: 9,
        inputs: vec![
            Some(Tensor::from_slice(&[1, 2], &[i32::MAX, 2]).expect("two")),
            Some(Tensor::from_slice(&[2, 1], &[2, i32::MAX]).expect("two")),
        ],
        attributes: Vec::new(),
        constants: &[],
    };
    let output = case.run(1).expect("a valid product");
    assert_eq!(output.as_slice::<i32>().expect("i32"), [-4]);
}

fn expected_gemm(
    case: &Case<'_>,
    (m, n, k): (usize, usize, usize),
    flags: (bool, bool),
    (alpha, beta): (f32, f32),
) -> Vec<f32> {
    let slice = |index: usize| {
        case.inputs[index]
            .as_ref()
            .map(|t| t.as_slice::<f32>().expect("f32"))
    };
    let (a, b) = (slice(0).expect("A"), slice(1).expect("B"));
    let c_dims = case
        .inputs
        .get(2)
        .and_then(Option::as_ref)
        .map(|t| t.dims().to_vec());
    let mut values = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let at_a = |p: usize| a[if flags.0 { p * m + i } else { i * k + p }];
            let at_b = |p: usize| b[if flags.1 { j * k + p } else { p * n + j }];
            let product: f32 = (0..k).map(|p| at_a(p) * at_b(p)).sum();
            let addend = c_dims.as_ref().map_or(0.0, |dims| {
                let columns = dims.last().copied().unwrap_or(1);
                let rows = if dims.len() == 2 { dims[0] } else { 1 };
                let row = if rows == 1 { 0 } else { i };
                slice(2).expect("C")[row * columns + if columns == 1 { 0 } else { j }]
            });
            values.push(alpha * product + beta * addend);
        }
    }
    values
}

#[test]
fn gemm_broadcasts_c_one_way() {
    let shapes: [(&str, &[usize]); 7] = [
        ("full", &[3, 5]),
        ("row", &[5]),
        ("row of rank 2", &[1, 5]),
        ("column", &[3, 1]),
        ("scalar", &[]),
        ("one element", &[1]),
        ("one element of rank 2", &[1, 1]),
    ];
    for (name, c) in shapes {
        for (alpha, beta) in [(1.0, 1.0), (0.5, -2.0)] {
            let attributes = vec![
                ("alpha", Attribute::Float(alpha)),
                ("beta", Attribute::Float(beta)),
            ];
            let case = gemm(&[&[3, 4], &[4, 5], c], attributes);
            let output = case
                .run(2)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let expected = expected_gemm(&case, (3, 5, 4), (false, false), (alpha, beta));
            assert_eq!(
                output.as_slice::<f32>().expect("f32"),
                expected,
                "C is a {name}"
            );
        }
    }
}

#[test]
fn gemm_transposes_for_any_nonzero_flag() {
    for (a_flag, b_flag) in [(0, 0), (1, 0), (0, 1), (1, 1), (-3, 2)] {
        for constants in [&[][..], &[1]] {
            let a: &[usize] = if a_flag != 0 { &[4, 3] } else { &[3, 4] };
            let b: &[usize] = if b_flag != 0 { &[5, 4] } else { &[4, 5] };
            let attributes = vec![
                ("transA", Attribute::Int(a_flag)),
                ("transB", Attribute::Int(b_flag)),
            ];
            let case = Case {
                constants,
                ..gemm(&[a, b], attributes)
            };
            let output = case.run(1).expect("a valid product");
            let expected = expected_gemm(&case, (3, 5, 4), (a_flag != 0, b_flag != 0), (1.0, 1.0));
            assert_eq!(
                output.as_slice::<f32>().expect("f32"),
                expected,
                "transA {a_flag}, transB {b_flag}"
            );
        }
    }
}

#[test]
fn gemm_without_steps_gives_beta_c() {
    let output = gemm(
        &[&[2, 0], &[0, 3], &[3]],
        vec![("beta", Attribute::Float(2.0))],
    )
    .run(1)
    .expect("valid");
    assert_eq!(
        output.as_slice::<f32>().expect("f32"),
        [-10.0, 4.0, -4.0, -10.0, 4.0, -4.0]
    );
    let output = gemm(&[&[2, 0], &[0, 3]], Vec::new()).run(1).expect("valid");
    assert_eq!(output.as_slice::<f32>().expect("f32"), [0.0; 6]);
}

#[test]
fn broken_nodes_are_refused_with_the_reason() {
    let shapes = |failure| {
        matches!(
            failure,
            Err(Failure::Infer(InferError::Shapes(_)) | Failure::Run(KernelError::Shapes { .. }))
        )
    };
    assert!(shapes(matmul(&[3, 4], &[5, 6], &[]).run(1)), "unequal k");
    assert!(
        shapes(matmul(&[2, 3, 4], &[3, 4, 5], &[]).run(1)),
        "batches that cannot be broadcast"
    );
    assert!(shapes(matmul(&[], &[4], &[]).run(1)), "a scalar A");
    assert!(
        shapes(matmul(&[4], &[], &[1]).run(1)),
        "a scalar constant B"
    );
    assert!(
        shapes(gemm(&[&[3, 4], &[3, 5]], Vec::new()).run(1)),
        "unequal k"
    );
    assert!(
        shapes(gemm(&[&[2, 3, 4], &[4, 5]], Vec::new()).run(1)),
        "A of rank 3"
    );
    assert!(
        shapes(gemm(&[&[3, 4], &[4, 5], &[4]], Vec::new()).run(1)),
        "C of another width"
    );
    assert!(
        shapes(gemm(&[&[1, 4], &[4, 5], &[3, 5]], Vec::new()).run(1)),
        "C that would widen the product"
    );
    assert!(
        shapes(gemm(&[&[3, 4], &[4, 5], &[1, 3, 5]], Vec::new()).run(1)),
        "C of rank 3"
    );

    let wrong_kind = gemm(&[&[3, 4], &[4, 5]], vec![("transA", Attribute::Float(1.0))]).run(1);
    assert!(
        matches!(
            wrong_kind,
            Err(Failure::Infer(InferError::Prepare(PrepareError::Graph(_))))
        ),
        "{wrong_kind:?}"
    );
    let mut old = gemm(&[&[3, 4], &[4, 5]], Vec::new());
    old.opset = 9;
    assert_eq!(
        old.run(1),
        Err(Failure::Infer(InferError::Prepare(
            PrepareError::MissingInput { index: 2 }
        )))
    );
    let too_many = gemm(&[&[3, 4], &[4, 5], &[5], &[5]], Vec::new()).run(1);
    assert!(
        matches!(
            too_many,
            Err(Failure::Infer(InferError::Prepare(
                PrepareError::Arity { .. }
            )))
        ),
        "{too_many:?}"
    );

    let mut early = matmul(&[2, 2], &[2, 2], &[]);
    early.inputs = vec![
        counting(&[2, 2], bf16::from_f32),
        counting(&[2, 2], bf16::from_f32),
    ];
    early.opset = 9;
    assert!(matches!(
        early.run(1),
        Err(Failure::Prepare(PrepareError::ElementType { index: 0, .. }))
    ));
    let mut mixed = matmul(&[2, 2], &[2, 2], &[]);
    mixed.inputs[1] = counting(&[2, 2], f64::from);
    assert!(matches!(
        mixed.run(1),
        Err(Failure::Prepare(PrepareError::ElementType { index: 1, .. }))
    ));
}

#[test]
fn empty_tensors_of_absurd_sizes_do_not_panic() {
    const HUGE: usize = 1 << 40;
    let shapes: [(&[usize], &[usize]); 4] = [
        (&[HUGE, HUGE, 0, 4], &[4, 5]),
        (&[HUGE, HUGE, 3, 0], &[0, 5]),
        (&[3, 0], &[HUGE, HUGE, 0, 5]),
        (&[HUGE, HUGE, 3, 4], &[HUGE, HUGE, 4, 0]),
    ];
    for (a, b) in shapes {
        for constants in [&[][..], &[1]] {
            let zeros = |dims: &[usize]| Tensor::zeros(ElementType::Float32, dims).ok();
            let case = Case {
                inputs: vec![zeros(a), zeros(b)],
                ..matmul(&[1, 1], &[1, 1], constants)
            };
            if case.inputs.iter().any(Option::is_none) {
                continue;
            }
            if let Ok(output) = case.run(2) {
                assert!(output.is_empty(), "{a:?} by {b:?}");
            }
        }
    }
}

#[test]
fn fused_gemm_applies_its_activation_last() {
    let activations: [(&str, fn(f32) -> f32); 4] = [
        ("Relu", |x| if x < 0.0 { 0.0 } else { x }),
        ("LeakyRelu", |x| if x < 0.0 { 0.25 * x } else { x }),
        ("Clip", |x| x.clamp(0.25, 8.0)),
        ("", |x| x),
    ];
    for (name, function) in activations {
        for constants in [&[][..], &[1]] {
            let attributes = vec![
                ("alpha", Attribute::Float(0.5)),
                ("beta", Attribute::Float(-2.0)),
                ("transB", Attribute::Int(1)),
                ("activation", Attribute::String(name.into())),
                ("activation_alpha", Attribute::Float(0.25)),
                ("activation_beta", Attribute::Float(8.0)),
            ];
            let case = Case {
                op_type: "FusedGemm",
                opset: 1,
                constants,
                ..gemm(&[&[3, 4], &[5, 4], &[5]], attributes)
            };
            let output = case.run(2).expect("a valid product");
            let expected = expected_gemm(&case, (3, 5, 4), (false, true), (0.5, -2.0));
            let expected: Vec<f32> = expected.into_iter().map(function).collect();
            assert_eq!(output.as_slice::<f32>().expect("f32"), expected, "'{name}'");
        }
    }
    let attributes = vec![("activation", Attribute::String("Softmax".into()))];
    let unknown = Case {
        op_type: "FusedGemm",
        opset: 1,
        ..gemm(&[&[3, 4], &[4, 5]], attributes)
    };
    assert!(matches!(
        unknown.run(1),
        Err(Failure::Prepare(PrepareError::Attribute {
            attribute: "activation",
            ..
        }))
    ));
}

/// A tensor whose dimensions are read in another order: element at `index` of the result is that of `permutation`.
fn permuted(tensor: &Tensor, permutation: &[usize]) -> Tensor {
    let dims: Vec<usize> = permutation
        .iter()
        .map(|&axis| tensor.dims()[axis])
        .collect();
    let source = tensor.as_slice::<f32>().expect("f32");
    let count: usize = dims.iter().product();
    let elements: Vec<f32> = (0..count)
        .map(|index| {
            let mut rest = index;
            let mut position = vec![0; dims.len()];
            for axis in (0..dims.len()).rev() {
                position[permutation[axis]] = rest % dims[axis];
                rest /= dims[axis];
            }
            let offset = position
                .iter()
                .zip(tensor.dims())
                .fold(0, |offset, (&at, &dim)| offset * dim + at);
            source[offset]
        })
        .collect();
    Tensor::from_slice(&dims, &elements).expect("the same length")
}

#[test]
fn fused_matmul_turns_its_operands() {
    for flags in 0..16u32 {
        let flag = |bit: u32| flags >> bit & 1 == 1;
        for constants in [&[][..], &[1]] {
            let (a, b) = (
                counting(&[2, 5, 3, 4], |v| v),
                counting(&[2, 5, 4, 6], |v| v),
            );
            let plain = Case {
                inputs: vec![a, b],
                ..matmul(&[1, 1], &[1, 1], constants)
            };
            let expected = expected_matmul(&plain);
            // The operand as it must be given, so that turning it gives the plain one.
            let given = |input: &Option<Tensor>, transpose: bool, batch_first: bool| {
                let mut tensor = input.as_ref().expect("given").try_clone().expect("memory");
                if transpose {
                    tensor = permuted(&tensor, &[0, 1, 3, 2]);
                }
                if batch_first {
                    tensor = permuted(&tensor, &[2, 0, 1, 3]);
                }
                Some(tensor)
            };
            let int = |bit| Attribute::Int(i64::from(flag(bit)));
            let case = Case {
                op_type: "FusedMatMul",
                opset: 1,
                inputs: vec![
                    given(&plain.inputs[0], flag(0), flag(1)),
                    given(&plain.inputs[1], flag(2), flag(3)),
                ],
                attributes: vec![
                    ("alpha", Attribute::Float(0.5)),
                    ("transA", int(0)),
                    ("transBatchA", int(1)),
                    ("transB", int(2)),
                    ("transBatchB", int(3)),
                ],
                constants,
            };
            let output = case.run(2).expect("a valid product");
            let halved: Vec<f32> = expected.1.iter().map(|x| x / 2.0).collect();
            assert_eq!(output.dims(), expected.0, "flags {flags:04b}");
            assert_eq!(
                output.as_slice::<f32>().expect("f32"),
                halved,
                "flags {flags:04b}"
            );
        }
    }
}

#[test]
fn gemm_of_integers_wraps_around_and_scales() {
    let case = |attributes, c: [i32; 2]| Case {
        op_type: "Gemm",
        opset: 9,
        inputs: vec![
            Some(Tensor::from_slice(&[1, 2], &[i32::MAX, 3]).expect("two")),
            Some(Tensor::from_slice(&[2, 2], &[2, 1, 0, 5]).expect("four")),
            Some(Tensor::from_slice(&[2], &c).expect("two")),
        ],
        attributes,
        constants: &[],
    };
    let run = |case: Case<'_>| {
        let output = case.run(2).expect("a valid product");
        output.as_slice::<i32>().expect("i32").to_vec()
    };
    // 2 · (2³¹ − 1) wraps to −2, 2³¹ − 1 + 15 to −2³¹ + 14.
    assert_eq!(run(case(Vec::new(), [7, -4])), [5, i32::MIN + 10]);
    let factors = vec![
        ("alpha", Attribute::Float(-1.5)),
        ("beta", Attribute::Float(0.25)),
    ];
    assert_eq!(run(case(factors, [3, 0])), [3, i32::MAX]);
}

#[test]
fn optional_c_may_be_omitted_by_name() {
    let mut case = gemm(&[&[3, 4], &[4, 5]], Vec::new());
    case.inputs.push(None);
    let expected = expected_gemm(&case, (3, 5, 4), (false, false), (1.0, 1.0));
    assert_eq!(
        case.run(1).expect("valid").as_slice::<f32>().expect("f32"),
        expected
    );
}

#[test]
fn candidates_fit_the_schema_and_have_names_of_their_own() {
    for &element_type in FLOATS {
        let context = SearchContext {
            element_type,
            participants: 4,
            l1d_bytes: None,
            l2_bytes: Some(1 << 20),
        };
        let Search::Candidates(candidates) = search(&context) else {
            panic!("rows compete")
        };
        let mut names: Vec<&str> = candidates.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), candidates.len());
        for candidate in &candidates {
            assert_eq!(
                GemmConfig::schema().check_row(&candidate.values),
                Ok(()),
                "{}",
                candidate.name
            );
            assert_ne!(
                candidate.values,
                GemmConfig::schema().defaults(),
                "{}",
                candidate.name
            );
        }
    }
    assert_eq!(GemmConfig::schema().check_definition(), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn matmul_of_random_batches(
        batch in prop::collection::vec((0usize..4, any::<bool>(), any::<bool>()), 0..3),
        (m, k, n) in (0usize..7, 0usize..9, 0usize..40),
        constant in any::<bool>(),
    ) {
        let side = |broadcast: fn(&(usize, bool, bool)) -> bool, tail: [usize; 2]| -> Vec<usize> {
            batch.iter().map(|b| if broadcast(b) { 1 } else { b.0 }).chain(tail).collect()
        };
        let (a, b) = (side(|b| b.1, [m, k]), side(|b| b.2, [k, n]));
        let case = matmul(&a, &b, if constant { &[1] } else { &[] });
        let (dims, values) = expected_matmul(&case);
        let output = case.run(3).expect("a valid product");
        prop_assert_eq!(output.dims(), dims);
        prop_assert_eq!(output.as_slice::<f32>().expect("f32"), values);
    }
}
