//! Rates of products on one thread beside the rate of fused multiply-adds that the same minutes allow.
//!
//! Every round times the probe and every shape once; the best and the 90th percentile over rounds are printed. Run
//! with `cargo bench -p onl-gemm --bench gemm [-- FILTER]`.

use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_gemm::{Batch, Epilogue, Factor, GemmConfig, Matrix, Output, PackedB, Plan, Problem, gemm};
use onl_snapshot::{ParameterValue, TunedConfig};
use onl_tensor::{AlignedBuffer, ElementType, Tensor};
use std::hint::black_box;

/// Accumulators of the probe: enough to cover the latency of two units.
const CHAINS: usize = 24;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn probe_avx512(steps: usize) -> (f32, usize) {
    use std::arch::x86_64::*;
    let (x, y) = (
        _mm512_set1_ps(black_box(0.999)),
        _mm512_set1_ps(black_box(0.001)),
    );
    let mut sums = [_mm512_set1_ps(black_box(1.0)); CHAINS];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, x, y);
        }
    }
    let mut total = sums[0];
    for sum in &sums[1..] {
        total = _mm512_add_ps(total, *sum);
    }
    (_mm512_reduce_add_ps(total), 16)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn probe_avx2(steps: usize) -> (f32, usize) {
    use std::arch::x86_64::*;
    const CHAINS: usize = 12;
    let (x, y) = (
        _mm256_set1_ps(black_box(0.999)),
        _mm256_set1_ps(black_box(0.001)),
    );
    let mut sums = [_mm256_set1_ps(black_box(1.0)); CHAINS];
    for _ in 0..2 * steps {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, x, y);
        }
    }
    let mut total = sums[0];
    for sum in &sums[1..] {
        total = _mm256_add_ps(total, *sum);
    }
    let mut lanes = [0.0; 8];
    // SAFETY: the array is a whole vector.
    unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), total) };
    (lanes.iter().sum(), 8)
}

fn probe_portable(steps: usize) -> (f32, usize) {
    let (x, y) = (black_box(0.999_f32), black_box(0.001_f32));
    let mut sums = [[black_box(1.0_f32); 4]; CHAINS];
    for _ in 0..steps {
        for sum in sums.iter_mut().flatten() {
            *sum = sum.mul_add(x, y);
        }
    }
    (sums.iter().flatten().sum(), 4)
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

/// GFLOP/s of fused multiply-adds that depend on nothing but registers.
fn probe(tier: IsaTier) -> f64 {
    const STEPS: usize = 100_000;
    let start = thread_ns();
    let (sum, lanes) = match tier {
        // SAFETY: the tier was detected, here and below.
        #[cfg(target_arch = "x86_64")]
        IsaTier::Avx512 => unsafe { probe_avx512(black_box(STEPS)) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        IsaTier::Avx2 => unsafe { probe_avx2(black_box(STEPS)) },
        _ => probe_portable(black_box(STEPS)),
    };
    black_box(sum);
    (2 * STEPS * CHAINS * lanes) as f64 / (thread_ns() - start)
}

struct Case {
    name: String,
    m: usize,
    k: usize,
    n: usize,
    plan: Plan,
    a: Tensor,
    b: Tensor,
    packed: Option<PackedB<f32>>,
    output: Tensor,
    workspace: AlignedBuffer,
    rates: Vec<f64>,
}

impl Case {
    fn new(
        m: usize,
        k: usize,
        n: usize,
        constant: bool,
        config: &GemmConfig,
        tier: IsaTier,
        label: &str,
    ) -> Case {
        // Tensors, so that data lie as they do in a session: on cache lines, large ones on huge pages.
        let fill = |rows: usize, columns: usize| {
            let elements: Vec<f32> = (0..rows * columns)
                .map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0)
                .collect();
            Tensor::from_slice(&[rows, columns], &elements).expect("memory for an operand")
        };
        let (a, b) = (fill(m, k), fill(k, n));
        let output = Tensor::zeros(ElementType::Float32, &[m, n]).expect("memory for a result");
        let packed = constant.then(|| {
            PackedB::new(&Matrix::row_major(floats(&b), k, n), 1, k, n, tier).expect("memory for B")
        });
        let problem = problem(m, k, n, floats(&a), floats(&b), packed.as_ref());
        let plan = Plan::new::<f32>(problem.dimensions(), (k, 1), problem.b_form(), config, tier);
        let workspace = AlignedBuffer::zeroed(plan.workspace(1)).expect("memory for scratch");
        let name = format!("{m}x{k}x{n} {}{label}", plan.path());
        Case {
            name,
            m,
            k,
            n,
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
        let flops = 2.0 * (self.m * self.k * self.n) as f64;
        let times = (2e7 / flops).ceil() as usize;
        let problem = problem(
            self.m,
            self.k,
            self.n,
            floats(&self.a),
            floats(&self.b),
            self.packed.as_ref(),
        );
        let start = thread_ns();
        for _ in 0..times {
            let mut output = self.output.view_mut().expect("owned memory");
            let output = Output::row_major(output.as_slice_mut().expect("f32"), self.m, self.n);
            let workspace = self.workspace.as_bytes_mut();
            gemm(
                &self.plan,
                &problem,
                output,
                &Epilogue::NONE,
                workspace,
                Lanes::serial(),
            )
            .expect("a valid product");
        }
        self.rates
            .push(flops * times as f64 / (thread_ns() - start));
        black_box(&self.output);
    }
}

fn floats(tensor: &Tensor) -> &[f32] {
    tensor.as_slice().expect("f32")
}

fn problem<'a>(
    m: usize,
    k: usize,
    n: usize,
    a: &'a [f32],
    b: &'a [f32],
    packed: Option<&'a PackedB<f32>>,
) -> Problem<'a, f32> {
    let b = packed.map_or_else(
        || Factor::Matrix(Matrix::row_major(b, k, n)),
        Factor::Packed,
    );
    Problem {
        m,
        n,
        k,
        a: Matrix::row_major(a, m, k),
        b,
        batch: Batch::ONE,
    }
}

fn best_and_p90(rates: &mut [f64]) -> (f64, f64) {
    rates.sort_by(f64::total_cmp);
    (rates[rates.len() - 1], rates[(rates.len() - 1) * 9 / 10])
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
    let candidates = std::env::var_os("ONL_BENCH_CANDIDATES").is_some();
    let tier = IsaTier::detect();
    let defaults = GemmConfig::schema().defaults();
    let mut configs = vec![(String::new(), GemmConfig::default())];
    if candidates {
        configs.extend(
            GemmConfig::candidates(GemmConfig::schema(), 4, None)
                .into_iter()
                .map(|c| (format!(" {}", c.name), GemmConfig::from_row(&c.values))),
        );
        for (m, k) in [
            (96, 256),
            (96, 512),
            (192, 512),
            (240, 512),
            (96, 1024),
            (144, 1024),
            (240, 1024),
            (144, 2048),
        ] {
            let row = defaults
                .clone()
                .with("algorithm.tile_m", ParameterValue::Integer(m))
                .with("algorithm.tile_k", ParameterValue::Integer(k));
            configs.push((format!(" m{m} k{k}"), GemmConfig::from_row(&row)));
        }
    }
    let shapes = [
        (64, 64, 64),
        (128, 128, 128),
        (256, 256, 256),
        (512, 512, 512),
        (1024, 1024, 1024),
        (128, 768, 768),
        (128, 768, 3072),
        (128, 3072, 768),
        (16, 1024, 1024),
        (1, 4096, 4096),
    ];
    let mut cases = Vec::new();
    for (m, k, n) in shapes {
        for constant in [true, false] {
            for (label, config) in &configs {
                let case = Case::new(m, k, n, constant, config, tier, label);
                if case.name.contains(&filter) {
                    cases.push(case);
                }
            }
        }
    }
    let mut peaks = Vec::new();
    for _ in 0..rounds {
        for case in &mut cases {
            peaks.push(probe(tier));
            case.run();
        }
    }
    let (peak, peak_p90) = best_and_p90(&mut peaks);
    println!("{tier}, {rounds} rounds; probe: best {peak:.1} GFLOP/s, p90 {peak_p90:.1}");
    println!(
        "{:<40} {:>8} {:>8} {:>8} {:>8}",
        "m x k x n, path", "best", "of best", "p90", "of p90"
    );
    for case in &mut cases {
        let (best, p90) = best_and_p90(&mut case.rates);
        println!(
            "{:<40} {best:>8.1} {:>7.1}% {p90:>8.1} {:>7.1}%",
            case.name,
            100.0 * best / peak,
            100.0 * p90 / peak_p90
        );
    }
}
