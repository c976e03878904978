//! Products of 8-bit integers against a plain reference in 64-bit integers; equality is exact.

use onl_cpu::IsaTier;
use onl_executor::{CpuExecutor, Lanes};
use onl_gemm::{
    Batch, GemmError, Instructions, Matrix, PackedQuantized, QuantizedConfig, QuantizedFactor,
    QuantizedMatrix, QuantizedOutput, QuantizedPath, QuantizedPlan, QuantizedProblem,
    Requantization, Scales, ZeroPoints, quantized_product,
};
use onl_tensor::{AlignedBuffer, bf16, f16};

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

    /// Bytes, every fourth one at an end of a range.
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .map(|_| match self.below(16) {
                0 => 0,
                1 => 255,
                2 => 128,
                3 => 127,
                _ => self.next() as u8,
            })
            .collect()
    }
}

fn value(byte: u8, signed: bool) -> i64 {
    if signed {
        i64::from(byte as i8)
    } else {
        i64::from(byte)
    }
}

#[derive(Debug, Clone, Copy)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    /// Matrices of A and of B; one of them may be 1.
    matrices: (usize, usize),
    signed: (bool, bool),
    /// 0 none, 1 for all, 2 for each row or column, 3 for each of each matrix.
    zero_points: (usize, usize),
    transposed: (bool, bool),
    constant: bool,
}

const PLAIN: Case = Case {
    m: 1,
    n: 1,
    k: 1,
    matrices: (1, 1),
    signed: (false, true),
    zero_points: (0, 0),
    transposed: (false, false),
    constant: false,
};

struct Data {
    case: Case,
    a: Vec<u8>,
    b: Vec<u8>,
    a_zero_points: Vec<u8>,
    b_zero_points: Vec<u8>,
}

impl Data {
    fn new(case: Case, seed: u64) -> Data {
        let mut random = Random(seed);
        let Case {
            m, n, k, matrices, ..
        } = case;
        let count = |kind, each: usize, matrices: usize| match kind {
            0 => 0,
            1 => 1,
            2 => each,
            _ => each * matrices,
        };
        Data {
            case,
            a: random.bytes(matrices.0 * m * k),
            b: random.bytes(matrices.1 * k * n),
            a_zero_points: random.bytes(count(case.zero_points.0, m, matrices.0)),
            b_zero_points: random.bytes(count(case.zero_points.1, n, matrices.1)),
        }
    }

    fn batches(&self) -> usize {
        self.case.matrices.0.max(self.case.matrices.1)
    }

    /// Sums in 64 bits, of every product.
    fn reference(&self) -> Vec<i64> {
        let Case {
            m,
            n,
            k,
            matrices,
            signed,
            transposed,
            ..
        } = self.case;
        let zero = |points: &[u8], index: usize, signed| match points.len() {
            0 => 0,
            length => value(points[index % length], signed),
        };
        let mut sums = Vec::new();
        for batch in 0..self.batches() {
            let (a_matrix, b_matrix) = (batch % matrices.0, batch % matrices.1);
            for i in 0..m {
                for j in 0..n {
                    let za = zero(&self.a_zero_points, a_matrix * m + i, signed.0);
                    let zb = zero(&self.b_zero_points, b_matrix * n + j, signed.1);
                    let sum = (0..k)
                        .map(|step| {
                            let x = if transposed.0 {
                                step * m + i
                            } else {
                                i * k + step
                            };
                            let y = if transposed.1 {
                                j * k + step
                            } else {
                                step * n + j
                            };
                            let a = value(self.a[a_matrix * m * k + x], signed.0);
                            let b = value(self.b[b_matrix * k * n + y], signed.1);
                            (a - za) * (b - zb)
                        })
                        .sum();
                    sums.push(sum);
                }
            }
        }
        sums
    }

    fn run(
        &self,
        config: &QuantizedConfig,
        instructions: Instructions,
        lanes: Lanes<'_>,
        requantization: Option<Requantization<'_>>,
    ) -> (Vec<i32>, Vec<u8>) {
        let Case {
            m,
            n,
            k,
            matrices,
            signed,
            transposed,
            constant,
            ..
        } = self.case;
        let matrix = |bytes, transposed, rows, columns| match transposed {
            true => Matrix::transposed(bytes, rows, columns),
            false => Matrix::row_major(bytes, rows, columns),
        };
        let b = QuantizedMatrix {
            bytes: matrix(&self.b, transposed.1, k, n),
            signed: signed.1,
        };
        let packed = constant.then(|| {
            PackedQuantized::new(&b, matrices.1, k, n, instructions, signed.0).expect("memory")
        });
        let problem = QuantizedProblem {
            m,
            n,
            k,
            a: QuantizedMatrix {
                bytes: matrix(&self.a, transposed.0, m, k),
                signed: signed.0,
            },
            b: packed
                .as_ref()
                .map_or(QuantizedFactor::Matrix(b), QuantizedFactor::Packed),
            batch: Batch {
                dims: &[self.batches()],
                a_strides: &[usize::from(matrices.0 > 1)],
                b_strides: &[usize::from(matrices.1 > 1)],
            },
            a_zero_points: ZeroPoints {
                bytes: &self.a_zero_points,
                signed: signed.0,
            },
            b_zero_points: ZeroPoints {
                bytes: &self.b_zero_points,
                signed: signed.1,
            },
        };
        let plan = QuantizedPlan::new(
            problem.shape(requantization.is_some()),
            config,
            instructions,
        );
        let mut workspace = AlignedBuffer::zeroed(plan.workspace(lanes.count())).expect("memory");
        workspace.as_bytes_mut().fill(0xa5);
        let count = self.batches() * m * n;
        let (mut sums, mut bytes) = (Vec::new(), Vec::new());
        let output = match requantization {
            None => {
                sums.resize(count, -7);
                QuantizedOutput::Sums(&mut sums)
            }
            Some(requantization) => {
                bytes.resize(count, 99);
                QuantizedOutput::Bytes(&mut bytes, requantization)
            }
        };
        quantized_product(&plan, &problem, output, workspace.as_bytes_mut(), lanes)
            .expect("a valid product");
        (sums, bytes)
    }

    fn check(&self, config: &QuantizedConfig, instructions: Instructions, lanes: Lanes<'_>) {
        let (sums, _) = self.run(config, instructions, lanes, None);
        for (index, (&sum, &expected)) in sums.iter().zip(&self.reference()).enumerate() {
            assert_eq!(
                sum, expected as i32,
                "{:?} on {instructions}, {config:?}, element {index}",
                self.case
            );
        }
    }
}

const SIGNS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

fn forms() -> Vec<(bool, QuantizedConfig)> {
    let config = |path| QuantizedConfig {
        path,
        ..QuantizedConfig::default()
    };
    vec![
        (true, config(QuantizedPath::Auto)),
        (false, config(QuantizedPath::Packed)),
        (false, config(QuantizedPath::Unpacked)),
    ]
}

#[test]
fn every_instruction_path_sign_and_zero_point_gives_the_integers() {
    let shapes = [
        (1, 1, 1),
        (1, 70, 3),
        (3, 17, 5),
        (5, 33, 64),
        (13, 65, 7),
        (25, 130, 18),
        (4, 64, 33),
        (2, 9, 0),
    ];
    let mut seed = 1;
    for instructions in Instructions::available() {
        for (m, n, k) in shapes {
            for signed in SIGNS {
                for zero_points in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (2, 2)] {
                    for (constant, config) in forms() {
                        seed += 1;
                        let case = Case {
                            m,
                            n,
                            k,
                            signed,
                            zero_points,
                            constant,
                            ..PLAIN
                        };
                        Data::new(case, seed).check(&config, instructions, Lanes::serial());
                    }
                }
            }
        }
    }
}

#[test]
fn random_problems_on_several_lanes_give_the_integers() {
    let mut random = Random(77);
    let executors = [1, 2, 3, 7].map(CpuExecutor::with_lanes);
    for round in 0..120 {
        let matrices = [(1, 1), (3, 3), (1, 3), (3, 1)][random.below(4)];
        let (constant, mut config) = forms()[random.below(3)];
        config.fmas_per_work_unit = 1 << 10;
        config.grain_elements = 64;
        config.tile_m = 12 + random.below(40);
        config.tile_n = 16 + random.below(100);
        config.skinny_m_limit = random.below(10);
        let case = Case {
            m: 1 + random.below(60),
            n: 1 + random.below(200),
            k: random.below(90),
            matrices,
            signed: SIGNS[random.below(4)],
            zero_points: (random.below(4), random.below(4)),
            transposed: (random.below(3) == 0, random.below(3) == 0),
            constant,
        };
        let data = Data::new(case, round);
        let available = Instructions::available();
        let instructions = available[random.below(available.len())];
        for executor in &executors {
            data.check(&config, instructions, executor.enter().lanes());
        }
    }
}

#[test]
fn extreme_sums_wrap_around() {
    let case = Case {
        m: 2,
        n: 3,
        k: 40_001,
        zero_points: (1, 1),
        ..PLAIN
    };
    for signed in SIGNS {
        let case = Case { signed, ..case };
        let mut data = Data::new(case, 5);
        let low = |signed| if signed { 128 } else { 0 };
        let high = |signed| if signed { 127 } else { 255 };
        data.a.fill(high(signed.0));
        data.b.fill(high(signed.1));
        data.a_zero_points.fill(low(signed.0));
        data.b_zero_points.fill(low(signed.1));
        assert!(data.reference()[0] > i64::from(i32::MAX));
        for instructions in Instructions::available() {
            for (constant, config) in forms() {
                data.case.constant = constant;
                data.check(&config, instructions, Lanes::serial());
            }
        }
    }
}

/// Strips of B that bytes multiply exactly stand beside strips that they do not, and pairs at the limit beside pairs
/// beyond it.
#[test]
fn pairs_at_the_limit_of_16_bits_give_the_integers() {
    let limits: [(i8, i8); 8] = [
        (64, 64),
        (-64, -64),
        (127, 1),
        (-128, 0),
        (65, 64),
        (-64, -65),
        (127, 127),
        (-128, -1),
    ];
    let mut seed = 500;
    for signed in SIGNS {
        for (first, second) in limits {
            for column in [0, 40, 95] {
                for k in [2, 7, 34] {
                    for (constant, config) in forms() {
                        seed += 1;
                        let case = Case {
                            m: 8,
                            n: 97,
                            k,
                            matrices: (1, 2),
                            signed,
                            zero_points: (1, 2),
                            transposed: (k == 7, false),
                            constant,
                        };
                        let mut data = Data::new(case, seed);
                        let center = if signed.1 { 0 } else { 128 };
                        data.a.fill(if signed.0 { 127 } else { 255 });
                        for byte in &mut data.b {
                            *byte = (*byte % 128).wrapping_sub(64).wrapping_add(center);
                        }
                        let pair = (k - 2) / 2 * 2;
                        for (step, value) in [first, second].into_iter().enumerate() {
                            let index = (pair + step) * case.n + column;
                            data.b[index] = (value as u8).wrapping_add(center);
                        }
                        for instructions in Instructions::available() {
                            data.check(&config, instructions, Lanes::serial());
                        }
                    }
                }
            }
        }
    }
}

/// The specification, one element at a time.
fn requantized(sum: i64, a: f32, b: f32, y: f32, zero_point: i32, signed: bool) -> u8 {
    let value = sum as i32 as f32 * (a * b / y);
    let (low, high) = if signed { (-128, 127) } else { (0, 255) };
    let rounded = if value.is_nan() {
        f64::NEG_INFINITY
    } else {
        f64::from(value).round_ties_even()
    };
    (rounded + f64::from(zero_point)).clamp(f64::from(low), f64::from(high)) as i32 as u8
}

#[test]
fn requantized_bytes_follow_the_specification() {
    let mut random = Random(3);
    for round in 0..60 {
        let (constant, config) = forms()[random.below(3)];
        let case = Case {
            m: 1 + random.below(30),
            n: 1 + random.below(150),
            k: 1 + random.below(70),
            matrices: [(1, 1), (2, 2), (2, 1)][random.below(3)],
            signed: SIGNS[random.below(4)],
            zero_points: (random.below(4), random.below(4)),
            constant,
            ..PLAIN
        };
        let data = Data::new(case, 1_000 + round);
        let mut scales = |count: usize| -> Vec<f32> {
            (0..count)
                .map(|_| match random.below(60) {
                    0 => f32::INFINITY,
                    1 => f32::NAN,
                    2 => 0.0,
                    // Halves of integers meet ties.
                    3..30 => 0.5,
                    _ => (1 + random.below(1_000)) as f32 / 500.0,
                })
                .collect()
        };
        let rows = [1, case.m, case.m * case.matrices.0][round as usize % 3];
        let columns = [1, case.n, case.n * case.matrices.1][round as usize / 3 % 3];
        let (a, b) = (scales(rows), scales(columns));
        let y = [128.0, 64.0, 77.0, 0.001][round as usize % 4];
        let signed = round % 2 == 0;
        let zero_point = if signed {
            round as i32 * 4 - 128
        } else {
            round as i32 * 4
        };
        let halves: Vec<f16> = a.iter().map(|&x| f16::from_f32(x)).collect();
        let brains: Vec<bf16> = a.iter().map(|&x| bf16::from_f32(x)).collect();
        for form in 0..3 {
            let a_scales = [
                Scales::Float32(&a),
                Scales::Float16(&halves),
                Scales::BFloat16(&brains),
            ][form];
            let requantization = Requantization {
                a_scales,
                b_scales: Scales::Float32(&b),
                y_scale: y,
                y_zero_point: zero_point,
                signed,
            };
            let expected: Vec<u8> = data
                .reference()
                .iter()
                .enumerate()
                .map(|(index, &sum)| {
                    let batch = index / (case.m * case.n);
                    let row = batch % case.matrices.0 * case.m + index / case.n % case.m;
                    let column = batch % case.matrices.1 * case.n + index % case.n;
                    let b = b[column % b.len()];
                    requantized(sum, a_scales.at(row), b, y, zero_point, signed)
                })
                .collect();
            for instructions in Instructions::available() {
                let (_, bytes) =
                    data.run(&config, instructions, Lanes::serial(), Some(requantization));
                assert_eq!(bytes, expected, "{case:?} on {instructions}, round {round}");
            }
        }
    }
}

#[test]
fn tiers_name_available_instructions() {
    for &tier in IsaTier::available() {
        assert!(Instructions::of_tier(tier).is_available());
    }
}

fn problem<'a>(a: &'a [u8], b: &'a [u8], zero_points: &'a [u8]) -> QuantizedProblem<'a> {
    QuantizedProblem {
        m: 3,
        n: 5,
        k: 4,
        a: QuantizedMatrix {
            bytes: Matrix::row_major(a, 3, 4),
            signed: false,
        },
        b: QuantizedFactor::Matrix(QuantizedMatrix {
            bytes: Matrix::row_major(b, 4, 5),
            signed: true,
        }),
        batch: Batch::ONE,
        a_zero_points: ZeroPoints {
            bytes: zero_points,
            signed: false,
        },
        b_zero_points: ZeroPoints::NONE,
    }
}

fn refuse(
    problem: &QuantizedProblem<'_>,
    planned: &QuantizedProblem<'_>,
    output: usize,
    workspace: Option<usize>,
) -> Result<(), GemmError> {
    let plan = QuantizedPlan::new(
        planned.shape(false),
        &QuantizedConfig::default(),
        Instructions::Scalar,
    );
    let mut scratch = AlignedBuffer::zeroed(workspace.unwrap_or(plan.workspace(1)))?;
    let mut sums = vec![0; output];
    let result = quantized_product(
        &plan,
        problem,
        QuantizedOutput::Sums(&mut sums),
        scratch.as_bytes_mut(),
        Lanes::serial(),
    );
    assert!(result.is_ok() || sums.iter().all(|&sum| sum == 0));
    result
}

#[test]
fn what_does_not_fit_is_refused() {
    let (a, b) = ([1; 12], [1; 20]);
    let fitting = problem(&a, &b, &[]);
    assert_eq!(refuse(&fitting, &fitting, 15, None), Ok(()));
    let name = |result| match result {
        Err(GemmError::Operand { operand, .. }) => operand,
        other => panic!("{other:?}"),
    };
    let short = problem(&a[1..], &b, &[]);
    assert_eq!(name(refuse(&short, &fitting, 15, None)), "A");
    let short = problem(&a, &b[1..], &[]);
    assert_eq!(name(refuse(&short, &fitting, 15, None)), "B");
    assert_eq!(name(refuse(&fitting, &fitting, 14, None)), "output");
    let mut other = problem(&a, &b, &[]);
    other.k = 3;
    assert_eq!(refuse(&fitting, &other, 15, None), Err(GemmError::Plan));
    assert!(matches!(
        refuse(&fitting, &fitting, 15, Some(64)),
        Err(GemmError::Workspace { actual: 64, .. })
    ));
}
