//! Register tiles keep their accumulators in registers: read from the disassembly of this very test, where `objdump`
//! is there to give it. Only optimized builds are held to it.

#![cfg(all(target_arch = "x86_64", target_os = "linux", not(debug_assertions)))]

use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_gemm::{Batch, Epilogue, Factor, GemmConfig, Matrix, Output, Plan, Problem, gemm};
use onl_tensor::AlignedBuffer;
use std::process::Command;

/// Refers to all tiles, so that the linker keeps them.
fn use_tiles() {
    let (a, b, mut c) = ([1.0f32; 4], [1.0f32; 4], [0.0f32; 4]);
    let problem = Problem {
        m: 2,
        n: 2,
        k: 2,
        a: Matrix::row_major(&a, 2, 2),
        b: Factor::Matrix(Matrix::row_major(&b, 2, 2)),
        batch: Batch::ONE,
    };
    let config = GemmConfig::default();
    let plan = Plan::new::<f32>(
        problem.dimensions(),
        (2, 1),
        problem.b_form(),
        &config,
        IsaTier::detect(),
    );
    let mut workspace = AlignedBuffer::zeroed(plan.workspace(1)).expect("memory");
    gemm(
        &plan,
        &problem,
        Output::row_major(&mut c, 2, 2),
        &Epilogue::NONE,
        workspace.as_bytes_mut(),
        Lanes::serial(),
    )
    .expect("a valid product");
    assert_eq!(c, [2.0; 4]);
}

#[test]
fn tiles_of_512_bits_leave_no_accumulator_in_memory() {
    use_tiles();
    let program = std::env::current_exe().expect("the path of this test");
    let Ok(output) = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn"])
        .arg(program)
        .output()
    else {
        eprintln!("objdump is not there; nothing was checked");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut tiles, mut tallest) = (0, 0);
    for function in text.split("\n\n") {
        let Some((head, body)) = function.trim_start().split_once('\n') else {
            continue;
        };
        if !(head.contains("onl_gemm") && head.contains("avx512_f32") && head.contains("tile17h")) {
            continue;
        }
        tiles += 1;
        let lines = || body.lines();
        let spills: Vec<&str> = lines()
            .filter(|line| line.contains("zmm") && line.contains("(%rsp"))
            .collect();
        assert!(spills.is_empty(), "{head}: {spills:#?}");
        let multiply_adds = lines().filter(|line| line.contains("vfmadd")).count();
        let broadcasts = lines().filter(|line| line.contains("vbroadcastss")).count();
        tallest = tallest.max(multiply_adds);
        // Where rows have two vectors, a broadcast serves both.
        assert!(
            multiply_adds < 96 || broadcasts * 2 <= multiply_adds,
            "{head}: {broadcasts} broadcasts for {multiply_adds} multiply-adds"
        );
    }
    assert!(tiles >= 24, "{tiles} tiles found");
    assert!(
        tallest >= 96,
        "four steps of twelve rows by two vectors are unrolled"
    );
}
