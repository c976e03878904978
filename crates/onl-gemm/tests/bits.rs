//! Bits of products against a plain form of the order of arithmetic.

use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_gemm::{
    Activation, Addend, BLOCK, Batch, Compute, Epilogue, Factor, GemmConfig, Matrix, Output,
    PackedB, Plan, Problem, Storage, gemm,
};
use onl_snapshot::{ParameterRow, ParameterValue, TunedConfig};
use onl_tensor::{AlignedBuffer, bf16, f16};
use proptest::prelude::*;

/// Small deterministic generator (the multiplier and increment of Knuth's MMIX).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }
}

trait Sample: Storage {
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
    fn same(self, other: Self) -> bool;
}

macro_rules! sample {
    ($t:ty, $from:expr, $to:expr) => {
        impl Sample for $t {
            fn from_f64(value: f64) -> Self {
                $from(value)
            }
            fn to_f64(self) -> f64 {
                $to(self)
            }
            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan()
            }
        }
    };
}

sample!(f32, |v| v as f32, f64::from);
sample!(f64, |v| v, |v| v);
sample!(f16, f16::from_f64, f16::to_f64);
sample!(bf16, bf16::from_f64, bf16::to_f64);

fn elements<S: Sample>(random: &mut Random, count: usize, special: bool) -> Vec<S> {
    (0..count)
        .map(|_| {
            let plain = (random.next() as f64 / (1u64 << 30) as f64 - 1.0) * 2.0;
            let value = match random.below(if special { 40 } else { 1_000_000 }) {
                0 if special => f64::NAN,
                1 if special => f64::INFINITY,
                2 if special => f64::NEG_INFINITY,
                3 => -0.0,
                4 => 0.0,
                5 => f64::from(f32::from_bits(1 + random.below(1_000) as u32)),
                6 => -f64::from(f32::MIN_POSITIVE) / 4.0,
                7 if special => 3.0e38,
                _ => plain,
            };
            S::from_f64(value)
        })
        .collect()
}

/// The specification of the crate, one element at a time.
fn reference<S: Storage>(
    k: usize,
    a: impl Fn(usize) -> S,
    b: impl Fn(usize) -> S,
    c: Option<S>,
    residual: Option<S>,
    case: &Case,
) -> S {
    let (alpha, beta) = case.factors;
    let mut sum = S::Compute::ZERO;
    for start in (0..k).step_by(BLOCK) {
        let mut chain = S::Compute::ZERO;
        for step in start..(start + BLOCK).min(k) {
            chain = a(step).widen().mul_add(b(step).widen(), chain);
        }
        sum = if start == 0 { chain } else { sum.add(chain) };
    }
    let scaled = if alpha == 1.0 {
        sum
    } else {
        S::Compute::from_f32(alpha).mul(sum)
    };
    let added = match c {
        None => scaled,
        Some(c) => S::Compute::from_f32(beta).mul_add(c.widen(), scaled),
    };
    let mut result = [residual.map_or(added, |r| added.add(r.widen()))];
    S::Compute::activate(IsaTier::Scalar, case.activation, &mut result);
    let mut output = [<S as bytemuck::Zeroable>::zeroed()];
    S::narrow_slice(IsaTier::Scalar, &result, &mut output);
    output[0]
}

#[derive(Debug, Clone, Copy)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    batches: usize,
    transpose_a: bool,
    transpose_b: bool,
    constant: bool,
    /// 0 none, 1 full, 2 a row, 3 a column, 4 a scalar.
    addend: usize,
    factors: (f32, f32),
    residual: bool,
    activation: Activation,
    special: bool,
    seed: u64,
}

const PLAIN: Case = Case {
    m: 1,
    n: 1,
    k: 1,
    batches: 1,
    transpose_a: false,
    transpose_b: false,
    constant: false,
    addend: 0,
    factors: (1.0, 1.0),
    residual: false,
    activation: Activation::Identity,
    special: false,
    seed: 1,
};

struct Data<S> {
    a: Vec<S>,
    b: Vec<S>,
    c: Vec<S>,
    residual: Vec<S>,
    expected: Vec<S>,
}

fn data<S: Sample>(case: &Case) -> Data<S> {
    let Case {
        m, n, k, batches, ..
    } = *case;
    let mut random = Random(case.seed);
    let a: Vec<S> = elements(&mut random, batches * m * k, case.special);
    let b: Vec<S> = elements(&mut random, k * n, case.special);
    let c: Vec<S> = elements(&mut random, m * n + m + n + 1, case.special);
    let residual: Vec<S> = elements(&mut random, batches * m * n, case.special);
    let mut expected = Vec::with_capacity(batches * m * n);
    for batch in 0..batches {
        for i in 0..m {
            for j in 0..n {
                let at_a = |p: usize| {
                    a[batch * m * k
                        + if case.transpose_a {
                            p * m + i
                        } else {
                            i * k + p
                        }]
                };
                let at_b = |p: usize| {
                    b[if case.transpose_b {
                        j * k + p
                    } else {
                        p * n + j
                    }]
                };
                let c =
                    addend(case, &c).map(|c| c.elements[i * c.row_stride + j * c.column_stride]);
                let r = case.residual.then(|| residual[(batch * m + i) * n + j]);
                expected.push(reference(k, at_a, at_b, c, r, case));
            }
        }
    }
    Data {
        a,
        b,
        c,
        residual,
        expected,
    }
}

fn addend<'a, S>(case: &Case, c: &'a [S]) -> Option<Addend<'a, S>> {
    let (row_stride, column_stride) = match case.addend {
        0 => return None,
        1 => (case.n, 1),
        2 => (0, 1),
        3 => (1, 0),
        _ => (0, 0),
    };
    Some(Addend {
        elements: c,
        row_stride,
        column_stride,
    })
}

fn run<S: Sample>(
    case: &Case,
    data: &Data<S>,
    config: &GemmConfig,
    tier: IsaTier,
    lanes: usize,
) -> Vec<S> {
    let Case {
        m, n, k, batches, ..
    } = *case;
    let matrix = |elements, rows, columns, transposed: bool| {
        if transposed {
            Matrix::transposed(elements, rows, columns)
        } else {
            Matrix::row_major(elements, rows, columns)
        }
    };
    let b = matrix(&data.b[..], k, n, case.transpose_b);
    let packed = case
        .constant
        .then(|| PackedB::new(&b, 1, k, n, tier).expect("operands fit"));
    let problem = Problem {
        m,
        n,
        k,
        a: matrix(&data.a[..], m, k, case.transpose_a),
        b: packed.as_ref().map_or(Factor::Matrix(b), Factor::Packed),
        batch: Batch {
            dims: &[batches],
            a_strides: &[1],
            b_strides: &[0],
        },
    };
    let strides = (problem.a.row_stride, problem.a.column_stride);
    let plan = Plan::new::<S>(
        problem.dimensions(),
        strides,
        problem.b_form(),
        config,
        tier,
    );
    // Outputs start as NaN: an element that is not written is found.
    let mut output = vec![S::from_f64(f64::NAN); batches * m * n];
    let mut workspace = AlignedBuffer::zeroed(plan.workspace(lanes)).expect("memory for scratch");
    workspace.as_bytes_mut().fill(0xff);
    let executor = CpuExecutor::with_lanes(lanes);
    let team = executor.enter();
    let epilogue = Epilogue {
        alpha: case.factors.0,
        beta: case.factors.1,
        c: addend(case, &data.c),
        residual: case
            .residual
            .then(|| Matrix::row_major(&data.residual[..], m, n)),
        activation: case.activation,
    };
    let target = Output::row_major(&mut output, m, n);
    gemm(
        &plan,
        &problem,
        target,
        &epilogue,
        workspace.as_bytes_mut(),
        team.lanes(),
    )
    .expect("operands fit");
    output
}

fn assert_bits<S: Sample>(case: &Case, config: &GemmConfig, lanes: &[usize]) {
    let data = data::<S>(case);
    for &tier in IsaTier::available() {
        for &lanes in lanes {
            let actual = run(case, &data, config, tier, lanes);
            for (index, (&x, &y)) in actual.iter().zip(&data.expected).enumerate() {
                assert!(
                    x.same(y),
                    "{case:?} {config:?} {tier} {lanes} lanes: element {index} is {x:?}, the specification gives {y:?}"
                );
            }
        }
    }
}

fn config(values: &[(&str, i64)], path: &str) -> GemmConfig {
    let row = values
        .iter()
        .fold(GemmConfig::schema().defaults(), |row, &(name, value)| {
            row.with(name, ParameterValue::Integer(value))
        });
    from_checked(&row.with("algorithm.path", ParameterValue::Choice(path.to_owned())))
}

fn from_checked(row: &ParameterRow) -> GemmConfig {
    GemmConfig::schema().check_row(row).expect("a legal row");
    GemmConfig::from_row(row)
}

/// Small tiles and chunks, so that small problems have many units.
fn small_tiles(path: &str) -> GemmConfig {
    config(
        &[
            ("algorithm.tile_m", 12),
            ("algorithm.tile_n", 16),
            ("algorithm.tile_k", 64),
            ("parallel.fmas_per_work_unit", 1 << 10),
            ("algorithm.pack_b_minimum_elements", 500),
            ("algorithm.skinny_m_limit", 2),
        ],
        path,
    )
}

const ACTIVATIONS: [Activation; 7] = [
    Activation::Identity,
    Activation::Relu,
    Activation::LeakyRelu { slope: -0.25 },
    Activation::Clip {
        low: -0.5,
        high: 0.75,
    },
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::Gelu,
];

#[test]
fn epilogues_of_long_rows_and_many_slices() {
    for activation in ACTIVATIONS {
        for (m, n, k) in [(1, 200, 9), (14, 20, 4_100), (2, 1, 65), (100, 1, 130)] {
            for constant in [false, true] {
                let case = Case {
                    m,
                    n,
                    k,
                    batches: 2,
                    constant,
                    addend: 2,
                    factors: (0.5, 2.0),
                    residual: true,
                    activation,
                    special: true,
                    ..PLAIN
                };
                for config in [small_tiles("auto"), GemmConfig::default()] {
                    assert_bits::<f32>(&case, &config, &[2]);
                    assert_bits::<bf16>(&case, &config, &[2]);
                }
            }
        }
    }
}

#[test]
fn edges_of_tiles_and_vectors() {
    for config in [
        small_tiles("auto"),
        small_tiles("packed"),
        small_tiles("unpacked"),
        GemmConfig::default(),
    ] {
        for m in [0, 1, 2, 5, 6, 7, 11, 12, 13, 25, 37] {
            for n in [0, 1, 3, 8, 15, 16, 17, 31, 32, 33, 67] {
                let k = [0, 1, 3, 4, 5, 63, 64, 65, 129][(m * 7 + n) % 9];
                for constant in [false, true] {
                    let case = Case {
                        m,
                        n,
                        k,
                        constant,
                        seed: (m * 100 + n) as u64,
                        ..PLAIN
                    };
                    assert_bits::<f32>(&case, &config, &[3]);
                    assert_bits::<f64>(&case, &config, &[1]);
                }
            }
        }
    }
}

#[test]
fn blocks_of_k() {
    for config in [
        small_tiles("auto"),
        small_tiles("unpacked"),
        GemmConfig::default(),
    ] {
        for k in [4_095, 4_096, 4_097, 8_191, 8_192, 8_193] {
            for (m, n) in [(1, 35), (1, 1), (3, 20), (14, 18)] {
                for constant in [false, true] {
                    let case = Case {
                        m,
                        n,
                        k,
                        constant,
                        addend: 2,
                        seed: k as u64,
                        ..PLAIN
                    };
                    assert_bits::<f32>(&case, &config, &[2]);
                }
                assert_bits::<f64>(&Case { m, n, k, ..PLAIN }, &config, &[1]);
                assert_bits::<bf16>(&Case { m, n, k, ..PLAIN }, &config, &[1]);
            }
        }
    }
}

#[test]
fn whole_slices_of_4096() {
    let config = config(&[("algorithm.tile_k", 4_096)], "auto");
    for k in [4_096, 4_097, 8_193] {
        assert_bits::<f32>(
            &Case {
                m: 13,
                n: 33,
                k,
                seed: 5,
                ..PLAIN
            },
            &config,
            &[1, 2],
        );
        assert_bits::<f16>(
            &Case {
                m: 13,
                n: 33,
                k,
                seed: 5,
                ..PLAIN
            },
            &config,
            &[1],
        );
    }
}

#[test]
fn strides_that_alias_in_the_cache() {
    for k in [512, 1_024] {
        assert_bits::<f32>(
            &Case {
                m: 29,
                n: 70,
                k,
                seed: 3,
                ..PLAIN
            },
            &GemmConfig::default(),
            &[2],
        );
        assert_bits::<f64>(
            &Case {
                m: 29,
                n: 70,
                k,
                seed: 3,
                ..PLAIN
            },
            &GemmConfig::default(),
            &[2],
        );
    }
}

#[test]
fn every_candidate_and_limit_of_the_schema() {
    let case = Case {
        m: 61,
        n: 77,
        k: 203,
        addend: 1,
        factors: (0.5, -1.5),
        ..PLAIN
    };
    let mut rows: Vec<ParameterRow> =
        GemmConfig::candidates(GemmConfig::schema(), 4, Some(1 << 20))
            .into_iter()
            .map(|c| c.values)
            .collect();
    for parameter in GemmConfig::schema().parameters {
        if let onl_snapshot::ParameterKind::Integer {
            minimum, maximum, ..
        } = parameter.kind
        {
            for value in [minimum, maximum] {
                rows.push(
                    GemmConfig::schema()
                        .defaults()
                        .with(parameter.name, ParameterValue::Integer(value)),
                );
            }
        }
    }
    for row in rows {
        let config = from_checked(&row);
        for constant in [false, true] {
            assert_bits::<f32>(&Case { constant, ..case }, &config, &[1, 2, 3, 7]);
        }
    }
}

#[test]
fn results_are_near_the_exact_product() {
    // A chain of k fused multiply-adds errs by at most k · u · Σ|a·b| (Higham, Accuracy and Stability of Numerical
    // Algorithms, section 3.1), u being half an ulp of 1.
    let case = Case {
        m: 23,
        n: 45,
        k: 700,
        seed: 11,
        ..PLAIN
    };
    let data = data::<f32>(&case);
    let actual = run(&case, &data, &GemmConfig::default(), IsaTier::detect(), 2);
    for i in 0..case.m {
        for j in 0..case.n {
            let products = (0..case.k)
                .map(|p| data.a[i * case.k + p].to_f64() * data.b[p * case.n + j].to_f64());
            let (exact, magnitude) = products.fold((0.0, 0.0), |(s, t), x| (s + x, t + x.abs()));
            let bound = case.k as f64 * f64::from(f32::EPSILON) / 2.0 * magnitude;
            let error = (actual[i * case.n + j].to_f64() - exact).abs();
            assert!(
                error <= bound,
                "element ({i}, {j}) errs by {error:e}, the bound is {bound:e}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn random_problems(
        (m, n, k) in (0usize..40, 0usize..90, 0usize..150),
        batches in 0usize..4,
        (transpose_a, transpose_b, constant, special) in any::<(bool, bool, bool, bool)>(),
        addend in 0usize..5,
        alpha in prop::sample::select(vec![1.0f32, 0.0, -0.75, 3.5]),
        beta in prop::sample::select(vec![1.0f32, 0.0, 0.3]),
        path in prop::sample::select(vec!["auto", "packed", "unpacked"]),
        residual in any::<bool>(),
        activation in prop::sample::select(ACTIVATIONS.to_vec()),
        seed in any::<u64>(),
    ) {
        let case = Case {
            m, n, k, batches, transpose_a, transpose_b, constant, addend, factors: (alpha, beta), residual, activation,
            special, seed,
        };
        for config in [small_tiles(path), GemmConfig::default()] {
            assert_bits::<f32>(&case, &config, &[1, 2, 3, 7]);
            assert_bits::<f64>(&case, &config, &[2]);
            assert_bits::<f16>(&case, &config, &[2]);
            assert_bits::<bf16>(&case, &config, &[3]);
        }
    }
}
