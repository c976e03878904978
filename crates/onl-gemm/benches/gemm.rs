//! Rates of products beside the rate of fused multiply-adds that the same minutes allow.
//!
//! Every round times the probe and every case once; over rounds, the best and the 90th percentile are printed, and the
//! median of the ratio to the probe beside it. Run with `cargo bench -p onl-gemm --bench gemm`. Environment:
//!
//! - `ONL_BENCH_CASES`: cases as `f32:128x768x3072:c`, or `f32:12*128x64x128:v`: type, batches, m x k x n, and whether
//!   B is constant, varying or (`t`) varying and transposed; separated by commas.
//! - `ONL_BENCH_ROWS`: parameters of the schema that differ from the defaults, as `algorithm.tile_m=72+algorithm.tile_k=512`;
//!   several rows, separated by commas, compete, the defaults first.
//! - `ONL_BENCH_LANES`, `ONL_BENCH_ROUNDS`, `ONL_BENCH_TIER` (`avx2`): lanes, rounds, tier.
//! - `ONL_BENCH_SERVE`: cases are run as their numbers come on standard input, each answered by its rate; for scripts
//!   that interleave another library.

use onl_cpu::IsaTier;
use onl_executor::{CpuExecutor, Lanes};
use onl_gemm::{
    Batch, Epilogue, Factor, GemmConfig, Matrix, Output, PackedB, Plan, Problem, Storage, gemm,
};
use onl_snapshot::{ParameterRow, ParameterValue, TunedConfig};
use onl_tensor::{AlignedBuffer, Tensor, bf16, f16};
use std::hint::black_box;
use std::io::BufRead;
use std::time::Instant;

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

/// GFLOP/s of f32 multiply-adds that depend on nothing but registers.
fn probe(tier: IsaTier) -> f64 {
    let start = thread_ns();
    let (sum, count) = onl_simd::probe::multiply_adds(tier, black_box(60_000));
    black_box(sum);
    count as f64 / (thread_ns() - start)
}

/// Nanoseconds of the caller alone, or of the wall where lanes work together.
fn timed(lanes: usize, body: impl FnOnce()) -> f64 {
    if lanes == 1 {
        let start = thread_ns();
        body();
        thread_ns() - start
    } else {
        let start = Instant::now();
        body();
        start.elapsed().as_nanos() as f64
    }
}

trait Run {
    fn run(&mut self, lanes: Lanes<'_>);
    fn flops(&self) -> f64;
    fn path(&self) -> &'static str;
}

struct Case<S: Storage> {
    dims: [usize; 4],
    transposed: bool,
    plan: Plan,
    a: Tensor,
    b: Tensor,
    packed: Option<PackedB<S>>,
    output: Tensor,
    workspace: AlignedBuffer,
}

impl<S: Storage> Case<S> {
    fn boxed(
        dims: [usize; 4],
        form: &str,
        config: &GemmConfig,
        tier: IsaTier,
        lanes: usize,
    ) -> Box<dyn Run> {
        let [batches, m, k, n] = dims;
        // Tensors, so that data lie as they do in a session: on cache lines, large ones on huge pages.
        let fill = |rows: usize, columns: usize| {
            let count = batches * rows * columns;
            let values: Vec<f32> = (0..count)
                .map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0)
                .collect();
            let mut elements = vec![<S as bytemuck::Zeroable>::zeroed(); count];
            for (value, element) in values.iter().zip(&mut elements) {
                S::narrow_slice(
                    tier,
                    &[onl_gemm::Compute::from_f32(*value)],
                    std::slice::from_mut(element),
                );
            }
            Tensor::from_slice(&[batches, rows, columns], &elements).expect("memory for an operand")
        };
        let (a, b) = (fill(m, k), fill(k, n));
        let output = Tensor::zeros(S::TYPE, &[batches, m, n]).expect("memory for a result");
        let transposed = form == "t";
        let packed = (form == "c").then(|| {
            let b = Matrix::row_major(b.as_slice::<S>().expect("type"), k, n);
            PackedB::new(&b, batches, k, n, tier).expect("memory for B")
        });
        let problem_of_form = problem(dims, transposed, &a, &b, packed.as_ref(), &STRIDES);
        let plan = Plan::new::<S>(
            problem_of_form.dimensions(),
            (k, 1),
            problem_of_form.b_form(),
            config,
            tier,
        );
        let workspace = AlignedBuffer::zeroed(plan.workspace(lanes)).expect("memory for scratch");
        Box::new(Case {
            dims,
            transposed,
            plan,
            a,
            b,
            packed,
            output,
            workspace,
        })
    }
}

const STRIDES: [usize; 1] = [1];

fn problem<'a, S: Storage>(
    dims: [usize; 4],
    transposed: bool,
    a: &'a Tensor,
    b: &'a Tensor,
    packed: Option<&'a PackedB<S>>,
    strides: &'a [usize; 1],
) -> Problem<'a, S> {
    let [_, m, k, n] = dims;
    let elements = b.as_slice::<S>().expect("type");
    let matrix = if transposed {
        Matrix::transposed(elements, k, n)
    } else {
        Matrix::row_major(elements, k, n)
    };
    Problem {
        m,
        n,
        k,
        a: Matrix::row_major(a.as_slice::<S>().expect("type"), m, k),
        b: packed.map_or(Factor::Matrix(matrix), Factor::Packed),
        batch: Batch {
            dims: std::slice::from_ref(&a.dims()[0]),
            a_strides: strides,
            b_strides: strides,
        },
    }
}

impl<S: Storage> Run for Case<S> {
    fn run(&mut self, lanes: Lanes<'_>) {
        let [_, m, _, n] = self.dims;
        let problem = problem(
            self.dims,
            self.transposed,
            &self.a,
            &self.b,
            self.packed.as_ref(),
            &STRIDES,
        );
        let mut output = self.output.view_mut().expect("owned memory");
        let output = Output::row_major(output.as_slice_mut().expect("type"), m, n);
        let workspace = self.workspace.as_bytes_mut();
        gemm(
            &self.plan,
            &problem,
            output,
            &Epilogue::NONE,
            workspace,
            lanes,
        )
        .expect("a valid product");
        black_box(&self.output);
    }

    fn flops(&self) -> f64 {
        2.0 * self.dims.iter().product::<usize>() as f64
    }

    fn path(&self) -> &'static str {
        self.plan.path()
    }
}

fn parse(text: &str, config: &GemmConfig, tier: IsaTier, lanes: usize) -> Box<dyn Run> {
    let fields: Vec<&str> = text.split(':').collect();
    let [element_type, shape, form] = fields[..] else {
        panic!("a case is type:shape:form, not '{text}'")
    };
    let (batches, shape) = shape.split_once('*').unwrap_or(("1", shape));
    let mut dims = [batches.parse().expect("batches"), 0, 0, 0];
    for (dim, text) in dims[1..].iter_mut().zip(shape.split('x')) {
        *dim = text.parse().expect("a size");
    }
    match element_type {
        "f64" => Case::<f64>::boxed(dims, form, config, tier, lanes),
        "f16" => Case::<f16>::boxed(dims, form, config, tier, lanes),
        "bf16" => Case::<bf16>::boxed(dims, form, config, tier, lanes),
        _ => Case::<f32>::boxed(dims, form, config, tier, lanes),
    }
}

const DEFAULT_CASES: &str = "f32:64x64x64:c,f32:128x128x128:c,f32:256x256x256:c,f32:512x512x512:c,\
    f32:1024x1024x1024:c,f32:128x768x768:c,f32:128x768x3072:c,f32:128x3072x768:c,f32:16x1024x1024:c,\
    f32:1x4096x4096:c,f32:64x64x64:v,f32:128x128x128:v,f32:256x256x256:v,f32:1024x1024x1024:v,\
    f32:128x768x768:v,f32:16x1024x1024:v,f32:1x4096x4096:v,f32:12*128x64x128:v,f32:12*128x128x64:v,\
    f64:512x512x512:c,f16:128x768x768:c,bf16:128x768x768:c,f16:1x4096x4096:c";

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn main() {
    let number =
        |name, default| setting(name).map_or(default, |text| text.parse().expect("a number"));
    let (rounds, lanes) = (number("ONL_BENCH_ROUNDS", 15), number("ONL_BENCH_LANES", 1));
    let tier = match setting("ONL_BENCH_TIER").as_deref() {
        Some("avx2") => IsaTier::Avx2,
        Some("scalar") => IsaTier::Scalar,
        _ => IsaTier::detect(),
    };
    let mut configs = vec![(String::new(), GemmConfig::default())];
    for row in setting("ONL_BENCH_ROWS")
        .iter()
        .flat_map(|rows| rows.split(','))
    {
        let values = row.split('+').map(|assignment| {
            let (name, value) = assignment.split_once('=').expect("name=value");
            let value = match value.parse() {
                Ok(value) => ParameterValue::Integer(value),
                Err(_) => ParameterValue::Choice(value.to_owned()),
            };
            (name.to_owned(), value)
        });
        configs.push((
            row.to_owned(),
            GemmConfig::from_row(&ParameterRow(values.collect())),
        ));
    }
    let list = setting("ONL_BENCH_CASES").unwrap_or_else(|| DEFAULT_CASES.to_owned());
    let mut cases = Vec::new();
    for text in list.split(',') {
        for (label, config) in &configs {
            let case = parse(text.trim(), config, tier, lanes);
            cases.push((format!("{text} {} {label}", case.path()), case, Vec::new()));
        }
    }
    let executor = CpuExecutor::with_lanes(lanes);
    let entered = executor.enter();
    let measure = |case: &mut Box<dyn Run>, flops_a_sample: f64| {
        let times = (flops_a_sample / case.flops()).ceil() as usize;
        let ns = timed(lanes, || (0..times).for_each(|_| case.run(entered.lanes())));
        case.flops() * times as f64 / ns
    };
    if setting("ONL_BENCH_SERVE").is_some() {
        for line in std::io::stdin().lock().lines() {
            let Ok(index) = line.expect("a line").trim().parse::<usize>() else {
                return;
            };
            println!("{}", measure(&mut cases[index].1, 4e8));
        }
        return;
    }
    let mut peaks = Vec::new();
    for _ in 0..rounds {
        for (_, case, samples) in &mut cases {
            let before = probe(tier);
            let rate = measure(case, 5e7);
            let peak = before.max(probe(tier));
            samples.push((rate, rate / peak));
            peaks.push(peak);
        }
    }
    peaks.sort_by(f64::total_cmp);
    println!(
        "{tier}, {lanes} lanes, {rounds} rounds; probe: best {:.1} GFLOP/s, median {:.1}",
        peaks[peaks.len() - 1],
        peaks[peaks.len() / 2]
    );
    println!(
        "{:<60} {:>8} {:>8} {:>8}",
        "case, path", "best", "p90", "of probe"
    );
    for (name, _, samples) in &mut cases {
        let sorted = |pick: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = samples.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let (rates, ratios) = (sorted(|s| s.0), sorted(|s| s.1));
        println!(
            "{name:<60} {:>8.1} {:>8.1} {:>7.1}%",
            rates[rates.len() - 1],
            rates[(rates.len() - 1) * 9 / 10],
            100.0 * ratios[ratios.len() / 2]
        );
    }
}
