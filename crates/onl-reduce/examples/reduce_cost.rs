//! Times of one operation, beside a loop that only reads its input.
//!
//! Reads lines `OPERATION OUTER LENGTH INNER THREADS [masked]` and answers each with nanoseconds of a run and of the
//! reading loop (medians of batches), so that another runtime can be measured between the lines.
//!
//! Operations: softmax, log_softmax, layer_norm, rms_norm, batch_norm, instance_norm, lp_norm, sum, mean, max, l2,
//! log_sum_exp, arg_max, cum_sum, top_k (k = 5, or 100 of rows above 10 000 elements).

use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_reduce::*;
use onl_simd::{Isa, SimdOp, dispatch};
use onl_snapshot::ParallelConfig;
use onl_tensor::{AlignedBuffer, ElementType, TensorView, TensorViewMut};
use std::hint::black_box;
use std::io::BufRead;
use std::time::{Duration, Instant};

struct Read<'a>(&'a [f32]);

impl SimdOp for Read<'_> {
    type Output = bool;

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> bool {
        let mut lanes = isa.splat_f32x64(0.0);
        for block in self.0.chunks_exact(64) {
            for (v, lane) in lanes.as_mut().iter_mut().enumerate() {
                *lane = isa.max_f32(isa.load_f32(&block[v * I::F32_LANES..]), *lane);
            }
        }
        isa.any_m32(isa.is_nan_f32(lanes.as_ref()[0]))
    }
}

/// Median nanoseconds of a run.
fn measure(mut run: impl FnMut()) -> f64 {
    run();
    let once = Instant::now();
    run();
    let batch = (Duration::from_micros(200).as_nanos() / once.elapsed().as_nanos().max(1)).max(1);
    let mut times: Vec<f64> = (0..31)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..batch {
                run();
            }
            start.elapsed().as_nanos() as f64 / batch as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn numbers(count: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut unit = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..count)
        .map(|_| (unit() + unit() + unit() + unit() - 2.0) * 5.0)
        .collect()
}

/// Memory for floats, aligned as a session aligns it.
fn aligned(count: usize) -> AlignedBuffer {
    AlignedBuffer::zeroed(count * size_of::<f32>()).expect("memory for elements")
}

fn main() {
    let tier = std::env::var("ONL_TIER")
        .ok()
        .and_then(|name| {
            let mut tiers = IsaTier::available().iter();
            tiers.find(|t| t.to_string() == name).copied()
        })
        .unwrap_or_else(IsaTier::detect);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [operation, outer, length, inner, threads, rest @ ..] = words.as_slice() else {
            continue;
        };
        let size = |word: &str| word.parse::<usize>().expect("a size");
        let shape = [size(outer), size(length), size(inner)];
        let executor = CpuExecutor::with_lanes(size(threads));
        let run = executor.enter();
        let config = ParallelConfig {
            minimum_elements: 32_768,
            grain_elements: 16_384,
            maximum_participants: 0,
        };
        let execution = Execution::new(run.lanes(), config, tier);
        let mut memory = aligned(shape.iter().product());
        let values: &mut [f32] = bytemuck::cast_slice_mut(memory.as_bytes_mut());
        values.copy_from_slice(&numbers(values.len()));
        if rest.contains(&"masked") {
            for (i, x) in values.iter_mut().enumerate() {
                if i / shape[2] % shape[1] * 2 >= shape[1] {
                    *x = f32::NEG_INFINITY;
                }
            }
        }
        let time = case(operation, shape, values, size(threads), &execution);
        let read = measure(|| {
            black_box(dispatch(tier, Read(black_box(values))));
        });
        println!("{time:.1} {read:.1}");
    }
}

fn case(
    operation: &str,
    shape: [usize; 3],
    values: &[f32],
    lanes: usize,
    execution: &Execution<'_>,
) -> f64 {
    let f32s = ElementType::Float32;
    let [outer, length, inner] = shape;
    let rows = outer * inner;
    let input = TensorView::from_slice(&shape, values).expect("values fill the shape");
    let mut memory = aligned(values.len());
    let result: &mut [f32] = bytemuck::cast_slice_mut(memory.as_bytes_mut());
    let small = [outer, inner];
    let ones = vec![1f32; length.max(inner)];
    let scratch = |bytes: usize| AlignedBuffer::zeroed(bytes).expect("memory for scratch");
    let reduction = match operation {
        "sum" => Some(ReduceKind::Sum),
        "mean" => Some(ReduceKind::Mean),
        "max" => Some(ReduceKind::Max),
        "l2" => Some(ReduceKind::L2),
        "log_sum_exp" => Some(ReduceKind::LogSumExp),
        _ => None,
    };
    if let Some(kind) = reduction {
        let axes = [false, true, false];
        let mut memory = scratch(reduce_workspace(kind, f32s, &shape, Some(&axes)));
        return measure(|| {
            let mut output = TensorViewMut::from_slice(&small, &mut result[..rows]).expect("shape");
            reduce(
                kind,
                input,
                &axes,
                &mut output,
                memory.as_bytes_mut(),
                execution,
            )
            .expect("a reduction");
        });
    }
    let parameter = |dims| TensorView::from_slice(dims, &ones[..dims[0]]).expect("shape");
    match operation {
        "softmax" | "log_softmax" => {
            let mut memory = scratch(softmax_workspace(f32s, outer, length, inner));
            let logarithm = operation == "log_softmax";
            measure(|| {
                let mut output = TensorViewMut::from_slice(&shape, result).expect("shape");
                let memory = memory.as_bytes_mut();
                softmax(input, shape, logarithm, &mut output, memory, execution).expect("softmax");
            })
        }
        "layer_norm" | "rms_norm" => {
            let dims = [length];
            let norm = LayerNorm {
                length,
                epsilon: 1e-5,
                centre: operation == "layer_norm",
                scale: parameter(&dims),
                bias: (operation == "layer_norm").then(|| parameter(&dims)),
            };
            let mut memory = scratch(layer_norm_workspace(f32s, outer, length));
            measure(|| {
                let mut output = TensorViewMut::from_slice(&shape, result).expect("shape");
                let memory = memory.as_bytes_mut();
                layer_norm(input, &norm, &mut output, None, None, memory, execution)
                    .expect("layer normalization");
            })
        }
        "batch_norm" => {
            let dims = [length];
            let norm = BatchNorm {
                shape,
                epsilon: 1e-5,
                scale: parameter(&dims),
                bias: parameter(&dims),
                mean: parameter(&dims),
                variance: parameter(&dims),
                training: None,
            };
            let mut memory = scratch(batch_norm_workspace(f32s, shape, false));
            measure(|| {
                let mut output = TensorViewMut::from_slice(&shape, result).expect("shape");
                let memory = memory.as_bytes_mut();
                batch_norm(input, &norm, &mut output, None, memory, execution)
                    .expect("batch normalization");
            })
        }
        "instance_norm" => {
            let dims = [length];
            let norm = GroupNorm {
                shape,
                groups: length,
                epsilon: 1e-5,
                scale: parameter(&dims),
                bias: parameter(&dims),
            };
            let mut memory = scratch(group_norm_workspace(f32s, shape, length));
            measure(|| {
                let mut output = TensorViewMut::from_slice(&shape, result).expect("shape");
                let memory = memory.as_bytes_mut();
                group_norm(input, &norm, &mut output, memory, execution)
                    .expect("instance normalization");
            })
        }
        "lp_norm" => {
            let mut memory = scratch(lp_normalize_workspace(f32s, shape));
            measure(|| {
                let mut output = TensorViewMut::from_slice(&shape, result).expect("shape");
                let memory = memory.as_bytes_mut();
                lp_normalize(input, shape, true, &mut output, memory, execution).expect("norm");
            })
        }
        "arg_max" => {
            let mut places = vec![0i64; rows];
            let mut memory = scratch(arg_workspace(shape));
            measure(|| {
                let mut output = TensorViewMut::from_slice(&small, &mut places).expect("shape");
                let memory = memory.as_bytes_mut();
                arg_extreme(input, shape, true, false, &mut output, memory, execution)
                    .expect("a selection");
            })
        }
        "cum_sum" => {
            let cumulation = Cumulation {
                shape,
                product: false,
                exclusive: false,
                reverse: false,
            };
            let mut memory = scratch(cumulate_workspace(&cumulation));
            measure(|| {
                let mut output = TensorViewMut::from_slice(&shape, result).expect("shape");
                cumulate(
                    input,
                    &cumulation,
                    &mut output,
                    memory.as_bytes_mut(),
                    execution,
                )
                .expect("a cumulative sum");
            })
        }
        "top_k" => {
            let k = if length > 10_000 { 100 } else { 5.min(length) };
            let top = TopK {
                shape,
                k,
                largest: true,
            };
            let dims = [outer, k, inner];
            let mut places = vec![0i64; rows * k];
            let mut memory = scratch(top_k_workspace(f32s, shape, Some(k), lanes));
            measure(|| {
                let mut output =
                    TensorViewMut::from_slice(&dims, &mut result[..rows * k]).expect("shape");
                let mut places = TensorViewMut::from_slice(&dims, &mut places).expect("shape");
                let memory = memory.as_bytes_mut();
                top_k(input, &top, &mut output, &mut places, memory, execution).expect("top k");
            })
        }
        other => panic!("unknown operation {other}"),
    }
}
