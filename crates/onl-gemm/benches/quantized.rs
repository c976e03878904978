//! Rates of products of 8-bit integers on one thread beside the rate of dot products that the same minutes allow.
//!
//! Every round times the probe and every case once; the best and the median over rounds are printed. Run with
//! `cargo bench -p onl-gemm --bench quantized [-- FILTER]`; `ONL_BENCH_INSTRUCTIONS` names other instructions than the
//! best, `ONL_BENCH_ROUNDS` the number of rounds, `ONL_BENCH_WIDE` gives B values of all 8 bits instead of 7.

use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_gemm::{
    Batch, Instructions, Matrix, PackedQuantized, QuantizedConfig, QuantizedFactor,
    QuantizedMatrix, QuantizedOutput, QuantizedPlan, QuantizedProblem, Requantization, Scales,
    ZeroPoints, quantized_product,
};
use onl_tensor::{AlignedBuffer, ElementType, Tensor};
use std::hint::black_box;

/// Sums of the probe: enough to cover the latency of two units.
const CHAINS: usize = 24;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn probe_vnni(steps: usize) -> i32 {
    use std::arch::x86_64::*;
    let (x, y) = (
        _mm512_set1_epi32(black_box(0x0102_0304)),
        _mm512_set1_epi32(black_box(0x7f01_ff02)),
    );
    let mut sums = [_mm512_set1_epi32(black_box(1)); CHAINS];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, x, y);
        }
    }
    let total = sums
        .into_iter()
        .reduce(|a, b| _mm512_add_epi32(a, b))
        .unwrap_or(x);
    _mm512_reduce_add_epi32(total)
}

/// Nanoseconds that this thread has computed. Time that a busy machine gives to others does not count.
fn thread_ns() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is valid for writing.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "the clock of threads is there");
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// GOP/s of dot products that depend on nothing but registers, a multiply-add counting as two; `None` without VNNI.
fn probe() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    if Instructions::Avx512Vnni.is_available() {
        const STEPS: usize = 50_000;
        let start = thread_ns();
        // SAFETY: the features were detected.
        black_box(unsafe { probe_vnni(black_box(STEPS)) });
        return Some((2 * STEPS * CHAINS * 64) as f64 / (thread_ns() - start));
    }
    None
}

struct Case {
    name: String,
    m: usize,
    k: usize,
    n: usize,
    signed: (bool, bool),
    plan: QuantizedPlan,
    a: Tensor,
    b: Tensor,
    packed: Option<PackedQuantized>,
    output: Tensor,
    workspace: AlignedBuffer,
    rates: Vec<f64>,
}

impl Case {
    fn new(
        (m, k, n): (usize, usize, usize),
        signed: (bool, bool),
        constant: bool,
        requantized: bool,
        instructions: Instructions,
    ) -> Case {
        // Tensors, so that data lie as they do in a session: on cache lines, large ones on huge pages.
        let fill = |rows: usize, columns: usize, values: usize, first: u8| {
            let value = |i: usize| ((i * 37 % values) as u8).wrapping_add(first);
            let elements: Vec<u8> = (0..rows * columns).map(value).collect();
            Tensor::from_slice(&[rows, columns], &elements).expect("memory for an operand")
        };
        let (values, middle) = match std::env::var_os("ONL_BENCH_WIDE") {
            Some(_) => (251, 125),
            None => (127, 63),
        };
        let zero: u8 = if signed.1 { 0 } else { 128 };
        let (a, b) = (
            fill(m, k, 251, 0),
            fill(k, n, values, zero.wrapping_sub(middle)),
        );
        let output_type = if requantized {
            ElementType::UInt8
        } else {
            ElementType::Int32
        };
        let output = Tensor::zeros(output_type, &[m, n]).expect("memory for a result");
        let matrix = QuantizedMatrix {
            bytes: Matrix::row_major(b.bytes(), k, n),
            signed: signed.1,
        };
        let packed = constant.then(|| {
            PackedQuantized::new(&matrix, 1, k, n, instructions, signed.0).expect("memory for B")
        });
        let shape =
            problem(m, k, n, signed, a.bytes(), b.bytes(), packed.as_ref()).shape(requantized);
        let plan = QuantizedPlan::new(shape, &QuantizedConfig::default(), instructions);
        let workspace = AlignedBuffer::zeroed(plan.workspace(1)).expect("memory for scratch");
        let sign = |signed| if signed { "s8" } else { "u8" };
        let name = format!(
            "{m}x{k}x{n} {}{} {}{}",
            sign(signed.0),
            sign(signed.1),
            plan.path(),
            if requantized { " requantized" } else { "" }
        );
        Case {
            name,
            m,
            k,
            n,
            signed,
            plan,
            a,
            b,
            packed,
            output,
            workspace,
            rates: Vec::new(),
        }
    }

    fn run(&mut self) {
        let operations = 2.0 * (self.m * self.k * self.n) as f64;
        let times = (1e8 / operations).ceil() as usize;
        let problem = problem(
            self.m,
            self.k,
            self.n,
            self.signed,
            self.a.bytes(),
            self.b.bytes(),
            self.packed.as_ref(),
        );
        let start = thread_ns();
        for _ in 0..times {
            let mut output = self.output.view_mut().expect("owned memory");
            let output = match output.element_type() {
                ElementType::Int32 => QuantizedOutput::Sums(output.as_slice_mut().expect("i32")),
                _ => QuantizedOutput::Bytes(
                    output.bytes_mut(),
                    Requantization {
                        a_scales: Scales::Float32(&[0.01]),
                        b_scales: Scales::Float32(&[0.01]),
                        y_scale: 0.5,
                        y_zero_point: 128,
                        signed: false,
                    },
                ),
            };
            let workspace = self.workspace.as_bytes_mut();
            quantized_product(&self.plan, &problem, output, workspace, Lanes::serial())
                .expect("a valid product");
        }
        self.rates
            .push(operations * times as f64 / (thread_ns() - start));
        black_box(&self.output);
    }
}

fn problem<'a>(
    m: usize,
    k: usize,
    n: usize,
    signed: (bool, bool),
    a: &'a [u8],
    b: &'a [u8],
    packed: Option<&'a PackedQuantized>,
) -> QuantizedProblem<'a> {
    let matrix = |bytes, rows, columns, signed| QuantizedMatrix {
        bytes: Matrix::row_major(bytes, rows, columns),
        signed,
    };
    QuantizedProblem {
        m,
        n,
        k,
        a: matrix(a, m, k, signed.0),
        b: packed.map_or_else(
            || QuantizedFactor::Matrix(matrix(b, k, n, signed.1)),
            QuantizedFactor::Packed,
        ),
        batch: Batch::ONE,
        a_zero_points: ZeroPoints::NONE,
        b_zero_points: ZeroPoints::NONE,
    }
}

fn best_and_median(rates: &mut [f64]) -> (f64, f64) {
    rates.sort_by(f64::total_cmp);
    (rates[rates.len() - 1], rates[rates.len() / 2])
}

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|a| !a.starts_with('-'))
        .unwrap_or_default();
    let rounds = std::env::var("ONL_BENCH_ROUNDS")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(15);
    let named = std::env::var("ONL_BENCH_INSTRUCTIONS").ok();
    let instructions = Instructions::available()
        .into_iter()
        .find(|i| named.as_ref().is_some_and(|name| i.to_string() == *name))
        .unwrap_or(Instructions::of_tier(IsaTier::detect()));
    let shapes = [
        (16, 16, 16),
        (64, 64, 64),
        (128, 128, 128),
        (256, 256, 256),
        (512, 512, 512),
        (1024, 1024, 1024),
        (128, 768, 3072),
        (128, 64, 128),
        (16, 1024, 1024),
        (4, 1024, 1024),
        (1, 1024, 1024),
        (1, 4096, 4096),
    ];
    let mut cases = Vec::new();
    for shape in shapes {
        for signed in [(false, true), (true, true), (false, false)] {
            for (constant, requantized) in [(true, false), (false, false), (true, true)] {
                let case = Case::new(shape, signed, constant, requantized, instructions);
                if case.name.contains(&filter) {
                    cases.push(case);
                }
            }
        }
    }
    let mut peaks = Vec::new();
    for _ in 0..rounds {
        for case in &mut cases {
            peaks.extend(probe());
            case.run();
        }
    }
    let (peak, median_peak) = if peaks.is_empty() {
        (f64::NAN, f64::NAN)
    } else {
        best_and_median(&mut peaks)
    };
    println!(
        "{instructions}, {rounds} rounds; probe: best {peak:.1} GOP/s, median {median_peak:.1}"
    );
    println!(
        "{:<46} {:>8} {:>8} {:>8} {:>8}",
        "m x k x n, signs, path", "best", "of best", "median", "of median"
    );
    for case in &mut cases {
        let (best, median) = best_and_median(&mut case.rates);
        println!(
            "{:<46} {best:>8.1} {:>7.1}% {median:>8.1} {:>7.1}%",
            case.name,
            100.0 * best / peak,
            100.0 * median / median_peak
        );
    }
}
