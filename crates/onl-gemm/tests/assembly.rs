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

/// Bodies of all functions of this program whose names have these parts; `None` without `objdump`.
fn functions(parts: &[&str]) -> Option<Vec<(String, Vec<String>)>> {
    use_tiles();
    let program = std::env::current_exe().expect("the path of this test");
    let Ok(output) = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn"])
        .arg(program)
        .output()
    else {
        eprintln!("objdump is not there; nothing was checked");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let functions = text.split("\n\n").filter_map(|function| {
        let (head, body) = function.trim_start().split_once('\n')?;
        let wanted = parts.iter().all(|part| head.contains(part));
        wanted.then(|| (head.to_owned(), body.lines().map(str::to_owned).collect()))
    });
    Some(functions.collect())
}

fn count(lines: &[String], part: &str) -> usize {
    lines.iter().filter(|line| line.contains(part)).count()
}

#[test]
fn tiles_of_512_bits_leave_no_accumulator_in_memory() {
    let Some(tiles) = functions(&["onl_gemm", "avx512_f32", "tile17h"]) else {
        return;
    };
    let mut tallest = 0;
    for (head, lines) in &tiles {
        let spills: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains("zmm") && line.contains("(%rsp"))
            .collect();
        assert!(spills.is_empty(), "{head}: {spills:#?}");
        let multiply_adds = count(lines, "vfmadd");
        let broadcasts = count(lines, "vbroadcastss");
        tallest = tallest.max(multiply_adds);
        // Where rows have two vectors, a broadcast serves both.
        assert!(
            multiply_adds < 96 || broadcasts * 2 <= multiply_adds,
            "{head}: {broadcasts} broadcasts for {multiply_adds} multiply-adds"
        );
    }
    assert!(tiles.len() >= 24, "{} tiles found", tiles.len());
    assert!(
        tallest >= 96,
        "four steps of twelve rows by two vectors are unrolled"
    );
}

#[test]
fn tiles_of_256_bits_leave_no_accumulator_in_memory() {
    let Some(tiles) = functions(&["onl_gemm", "avx2_f32", "tile17h"]) else {
        return;
    };
    // Conversions of 16-bit elements need registers beyond those of the tile.
    let native = tiles
        .iter()
        .filter(|(_, lines)| count(lines, "vcvtph2ps") == 0);
    for (head, lines) in native {
        let spills: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains("ymm") && line.contains("(%rsp"))
            .collect();
        assert!(spills.is_empty(), "{head}: {spills:#?}");
    }
    assert!(tiles.len() >= 12, "{} tiles found", tiles.len());
    let tallest = tiles.iter().map(|(_, lines)| count(lines, "vfmadd")).max();
    assert!(
        tallest >= Some(48),
        "four steps of six rows by two vectors are unrolled"
    );
}
