//! Times of movements on one lane beside a plain copy of as many bytes.
//!
//! Every round times each case and the copy of its bytes in turn; the medians over rounds are printed, and the share
//! of the copy's bandwidth that the case reaches. Run with `cargo bench -p onl-movement --bench movement [-- FILTER]`.

use onl_cpu::IsaTier;
use onl_executor::Lanes;
use onl_movement::{
    CastRules, Execution, PadMode, Reduction, SliceAxis, cast, concat, expand, gather,
    gather_elements, gather_nd, pad, scatter_elements, scatter_nd, slice, split, tile, transpose,
};
use onl_snapshot::{ParallelConfig, TunedConfig};
use onl_tensor::{ElementType, Tensor, TensorViewMut};
use std::hint::black_box;
use std::time::Instant;

/// Rounds that medians are taken over.
const ROUNDS: usize = 15;

type Operation = Box<dyn Fn(&[Tensor], &mut [TensorViewMut<'_>], &Execution<'_>)>;

struct Case {
    name: String,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// Bytes read and written.
    bytes: usize,
    operation: Operation,
}

fn tensor(element_type: ElementType, dims: &[usize]) -> Tensor {
    let mut tensor = Tensor::zeros(element_type, dims).expect("memory");
    let bytes = tensor.view_mut().expect("no strings");
    let mut bytes = bytes;
    for (i, byte) in bytes.bytes_mut().iter_mut().enumerate() {
        *byte = (i * 37 % 61) as u8;
    }
    tensor
}

fn indices(dims: &[usize], below: usize) -> Tensor {
    let count = dims.iter().product();
    let mut state = 1_u64;
    let values: Vec<i64> = (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) as usize % below) as i64
        })
        .collect();
    Tensor::from_slice(dims, &values).expect("as many indices as elements")
}

fn case(
    name: &str,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    read: Option<usize>,
    operation: impl Fn(&[Tensor], &mut [TensorViewMut<'_>], &Execution<'_>) + 'static,
) -> Case {
    let written: usize = outputs.iter().map(|t| t.view().bytes().len()).sum();
    Case {
        name: name.to_owned(),
        bytes: written + read.unwrap_or(written),
        inputs,
        outputs,
        operation: Box::new(operation),
    }
}

fn cases() -> Vec<Case> {
    use ElementType::*;
    let mut cases = Vec::new();
    let mut transposes = |name: &str, element_type, dims: &[usize], perm: &'static [usize]| {
        let output: Vec<usize> = perm.iter().map(|&a| dims[a]).collect();
        cases.push(case(
            &format!("transpose {name} {element_type}"),
            vec![tensor(element_type, dims)],
            vec![tensor(element_type, &output)],
            None,
            |x, y, e| transpose(x[0].view(), perm, &mut y[0], e).expect("shapes fit"),
        ));
    };
    for element_type in [Float32, Float16, UInt8, Int64] {
        transposes("1024x1024", element_type, &[1024, 1024], &[1, 0]);
        transposes("1000x1000", element_type, &[1000, 1000], &[1, 0]);
        transposes("0213", element_type, &[1, 128, 12, 64], &[0, 2, 1, 3]);
        transposes("0132", element_type, &[1, 128, 12, 64], &[0, 1, 3, 2]);
        transposes(
            "nchw to nhwc",
            element_type,
            &[1, 64, 56, 56],
            &[0, 2, 3, 1],
        );
        transposes(
            "nhwc to nchw",
            element_type,
            &[1, 56, 56, 64],
            &[0, 3, 1, 2],
        );
        transposes("hwc to chw", element_type, &[1, 224, 224, 3], &[0, 3, 1, 2]);
        transposes("chw to hwc", element_type, &[1, 3, 224, 224], &[0, 2, 3, 1]);
    }
    for (from, to) in [
        (Float32, Float16),
        (Float16, Float32),
        (Float32, BFloat16),
        (Float32, Int32),
        (Int32, Float32),
        (Float32, Int64),
        (Int64, Float32),
        (Int64, Int32),
        (Int32, Int64),
        (Float32, UInt8),
        (UInt8, Float32),
        (Float32, Int8),
        (Float32, Bool),
        (Bool, Float32),
        (Float64, Float32),
        (Float16, Int32),
        (Int32, Float16),
        (Float16, Bool),
        (Float32, Float8E4M3FN),
        (Float8E4M3FN, Float32),
    ] {
        let dims = [512, 512];
        cases.push(case(
            &format!("cast {from} to {to}"),
            vec![tensor(from, &dims)],
            vec![tensor(to, &dims)],
            Some(dims.iter().product::<usize>() * from.bits() / 8),
            |x, y, e| cast(x[0].view(), CastRules::default(), &mut y[0], e).expect("served"),
        ));
    }
    let f = |dims: &[usize]| tensor(Float32, dims);
    for (name, axis, a, b, joined) in [
        ("inner", 1, [1024, 128], [1024, 128], [1024, 256]),
        ("outer", 0, [512, 256], [512, 256], [1024, 256]),
        ("small", 1, [40_000, 3], [40_000, 5], [40_000, 8]),
    ] {
        cases.push(case(
            &format!("concat {name}"),
            vec![f(&a), f(&b)],
            vec![f(&joined)],
            None,
            move |x, y, e| {
                concat(&[x[0].view(), x[1].view()], axis, &mut y[0], e).expect("shapes fit")
            },
        ));
    }
    cases.push(case(
        "split 3",
        vec![f(&[512, 768])],
        vec![f(&[512, 256]), f(&[512, 256]), f(&[512, 256])],
        None,
        |x, y, e| split(x[0].view(), 1, y, e).expect("shapes fit"),
    ));
    for (name, start, step, length) in [
        ("columns", 128, 1, 256),
        ("step 2", 0, 2, 256),
        ("reversed", 511, -1, 512),
    ] {
        cases.push(case(
            &format!("slice {name}"),
            vec![f(&[1024, 512])],
            vec![f(&[1024, length])],
            None,
            move |x, y, e| {
                let axes = [
                    SliceAxis::whole(1024),
                    SliceAxis {
                        start,
                        step,
                        length,
                    },
                ];
                slice(x[0].view(), &axes, &mut y[0], e).expect("inside");
            },
        ));
    }
    for (name, from, to) in [
        ("rows", vec![1, 512], vec![1024, 512]),
        ("columns", vec![1024, 1], vec![1024, 512]),
        ("middle", vec![64, 1, 64], vec![64, 64, 64]),
    ] {
        cases.push(case(
            &format!("expand {name}"),
            vec![f(&from)],
            vec![f(&to)],
            Some(0),
            |x, y, e| {
                expand(x[0].view(), &mut y[0], e).expect("shapes fit");
            },
        ));
    }
    cases.push(case(
        "tile 2 2",
        vec![f(&[256, 256])],
        vec![f(&[512, 512])],
        Some(1 << 18),
        |x, y, e| {
            tile(x[0].view(), &[2, 2], &mut y[0], e).expect("shapes fit");
        },
    ));
    cases.push(case(
        "tile short",
        vec![f(&[100, 3])],
        vec![f(&[1000, 300])],
        Some(0),
        |x, y, e| {
            tile(x[0].view(), &[10, 100], &mut y[0], e).expect("shapes fit");
        },
    ));
    for (name, mode, by) in [
        ("constant", PadMode::Constant, 1),
        ("reflect", PadMode::Reflect, 3),
        ("edge", PadMode::Edge, 1),
    ] {
        let side = 56 + 2 * by as usize;
        cases.push(case(
            &format!("pad {name}"),
            vec![f(&[1, 64, 56, 56])],
            vec![f(&[1, 64, side, side])],
            None,
            move |x, y, e| {
                pad(x[0].view(), &[0, 0, by, by], mode, None, &mut y[0], e).expect("shapes fit")
            },
        ));
    }
    for (name, table, rows, axis, output) in [
        ("rows", [30_522, 768], vec![8, 128], 0, vec![8, 128, 768]),
        ("short rows", [512, 64], vec![4096], 0, vec![4096, 64]),
        ("columns", [1024, 512], vec![256], 1, vec![1024, 256]),
    ] {
        cases.push(case(
            &format!("gather {name}"),
            vec![f(&table), indices(&rows, table[axis])],
            vec![f(&output)],
            None,
            move |x, y, e| gather(x[0].view(), x[1].view(), axis, &mut y[0], e).expect("inside"),
        ));
    }
    for (name, axis, shape) in [
        ("along rows", 1, [1024, 256]),
        ("along columns", 0, [512, 512]),
    ] {
        let size = [1024, 512][axis];
        cases.push(case(
            &format!("gather_elements {name}"),
            vec![f(&[1024, 512]), indices(&shape, size)],
            vec![f(&shape)],
            Some(12 * shape[0] * shape[1]),
            move |x, y, e| {
                gather_elements(x[0].view(), x[1].view(), axis, &mut y[0], e).expect("inside")
            },
        ));
        cases.push(case(
            &format!("scatter_elements {name}"),
            vec![f(&[1024, 512]), indices(&shape, size), f(&shape)],
            vec![f(&[1024, 512])],
            Some(4 * 1024 * 512 + 12 * shape[0] * shape[1]),
            move |x, y, e| {
                let [data, indices, updates] = [0, 1, 2].map(|i| x[i].view());
                scatter_elements(data, indices, updates, axis, Reduction::None, &mut y[0], e)
                    .expect("inside");
            },
        ));
    }
    cases.push(case(
        "gather_nd slices",
        vec![f(&[64, 64, 128]), indices(&[2048, 2], 64)],
        vec![f(&[2048, 128])],
        None,
        |x, y, e| gather_nd(x[0].view(), x[1].view(), 0, &mut y[0], e).expect("inside"),
    ));
    cases.push(case(
        "gather_nd elements",
        vec![f(&[256, 256]), indices(&[100_000, 2], 256)],
        vec![f(&[100_000])],
        Some(20 * 100_000),
        |x, y, e| gather_nd(x[0].view(), x[1].view(), 0, &mut y[0], e).expect("inside"),
    ));
    cases.push(case(
        "scatter_nd slices",
        vec![f(&[4096, 64]), indices(&[1024, 1], 4096), f(&[1024, 64])],
        vec![f(&[4096, 64])],
        Some(4 * 5120 * 64),
        |x, y, e| {
            let [data, indices, updates] = [0, 1, 2].map(|i| x[i].view());
            scatter_nd(data, indices, updates, Reduction::None, &mut y[0], e).expect("inside");
        },
    ));
    cases
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Nanoseconds of one call, of as many as fill about a millisecond.
fn time(mut body: impl FnMut()) -> f64 {
    body();
    let start = Instant::now();
    body();
    let calls = (1e6 / start.elapsed().as_nanos() as f64).clamp(1.0, 1000.0) as usize;
    let start = Instant::now();
    for _ in 0..calls {
        body();
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn main() {
    let filter: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let config = ParallelConfig::from_row(&ParallelConfig::schema().defaults());
    for tier in IsaTier::available().iter().rev().take(1) {
        let execution = Execution::new(Lanes::serial(), config, *tier);
        println!(
            "{:<36} {:>10} {:>8} {:>8}",
            format!("{tier}"),
            "µs",
            "GB/s",
            "of copy"
        );
        for mut case in cases() {
            if !filter.is_empty() && !filter.iter().any(|f| case.name.contains(f)) {
                continue;
            }
            let mut outputs: Vec<TensorViewMut<'_>> = case
                .outputs
                .iter_mut()
                .map(|t| t.view_mut().expect("no strings"))
                .collect();
            let source = vec![1_u8; case.bytes / 2];
            let mut target = vec![0_u8; case.bytes / 2];
            let (mut own, mut copy) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                own.push(time(|| {
                    (case.operation)(&case.inputs, &mut outputs, &execution)
                }));
                copy.push(time(|| {
                    black_box(&mut target).copy_from_slice(black_box(&source));
                }));
            }
            let (own, copy) = (median(&mut own), median(&mut copy));
            println!(
                "{:<36} {:>10.2} {:>8.1} {:>7.0}%",
                case.name,
                own / 1e3,
                case.bytes as f64 / own,
                100.0 * copy / own
            );
        }
    }
}
