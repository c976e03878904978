//! Memory and dimensions that do not fit together are refused before anything is written.

use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_gemm::{
    Addend, Batch, Epilogue, Factor, GemmConfig, GemmError, Matrix, Output, PackedB, Plan, Problem,
    gemm,
};
use onl_tensor::AlignedBuffer;

const M: usize = 3;
const N: usize = 5;
const K: usize = 4;

struct Memory {
    a: Vec<f32>,
    b: Vec<f32>,
    output: Vec<f32>,
    c: Option<(Vec<f32>, usize, usize)>,
    row_stride: usize,
    batches: usize,
    workspace: Option<usize>,
    plan_k: usize,
}

fn fitting() -> Memory {
    Memory {
        a: vec![1.0; M * K],
        b: vec![1.0; K * N],
        output: vec![-7.0; M * N],
        c: None,
        row_stride: N,
        batches: 1,
        workspace: None,
        plan_k: K,
    }
}

fn run(memory: &mut Memory) -> Result<(), GemmError> {
    let problem = Problem {
        m: M,
        n: N,
        k: K,
        a: Matrix::row_major(&memory.a, M, K),
        b: Factor::Matrix(Matrix::row_major(&memory.b, K, N)),
        batch: Batch {
            dims: &[memory.batches],
            a_strides: &[1],
            b_strides: &[1],
        },
    };
    let mut dims = problem.dimensions();
    dims.k = memory.plan_k;
    let config = GemmConfig::default();
    let tier = IsaTier::detect();
    let plan = Plan::new::<f32>(dims, (K, 1), problem.b_form(), &config, tier);
    let bytes = memory.workspace.unwrap_or(plan.workspace(1));
    let mut workspace = AlignedBuffer::zeroed(bytes)?;
    let output = Output {
        elements: &mut memory.output,
        row_stride: memory.row_stride,
        batch_stride: M * N,
    };
    let c = memory
        .c
        .as_ref()
        .map(|(elements, row_stride, column_stride)| Addend {
            elements,
            row_stride: *row_stride,
            column_stride: *column_stride,
        });
    let epilogue = Epilogue {
        c,
        ..Epilogue::NONE
    };
    gemm(
        &plan,
        &problem,
        output,
        &epilogue,
        workspace.as_bytes_mut(),
        Lanes::serial(),
    )
}

#[test]
fn what_fits_is_computed() {
    let mut memory = fitting();
    assert_eq!(run(&mut memory), Ok(()));
    assert_eq!(memory.output, vec![K as f32; M * N]);
}

#[test]
fn what_does_not_fit_is_named() {
    let cases: [(&str, fn(&mut Memory)); 8] = [
        ("A", |m| m.a.truncate(M * K - 1)),
        ("B", |m| m.b.truncate(K * N - 1)),
        ("output", |m| m.output.truncate(M * N - 1)),
        ("output", |m| m.row_stride = N - 1),
        ("output", |m| m.row_stride = N + 1),
        ("A", |m| m.batches = 2),
        ("C", |m| m.c = Some((vec![1.0; M * N - 1], N, 1))),
        ("C", |m| m.c = Some((vec![1.0; 100], N, 2))),
    ];
    for (index, (name, change)) in cases.into_iter().enumerate() {
        let mut memory = fitting();
        change(&mut memory);
        let before = memory.output.clone();
        match run(&mut memory) {
            Err(GemmError::Operand { operand, .. }) => assert_eq!(operand, name, "case {index}"),
            other => panic!("case {index}, {name}: {other:?}"),
        }
        assert_eq!(memory.output, before, "case {index} wrote nothing");
    }
}

#[test]
fn a_plan_of_another_problem_is_refused() {
    let mut memory = fitting();
    memory.plan_k = K + 1;
    assert_eq!(run(&mut memory), Err(GemmError::Plan));
}

#[test]
fn too_little_scratch_is_refused() {
    let mut memory = fitting();
    memory.workspace = Some(0);
    assert!(
        matches!(run(&mut memory), Err(GemmError::Workspace { needed, actual: 0 }) if needed > 0)
    );
}

#[test]
fn a_constant_that_does_not_reach_is_refused() {
    let elements = [1.0f32; 11];
    let matrix = Matrix::row_major(&elements, 3, 4);
    let packed = PackedB::new(&matrix, 1, 3, 4, IsaTier::Scalar);
    assert_eq!(
        packed.err(),
        Some(GemmError::Operand {
            operand: "B",
            length: 11
        })
    );
}
