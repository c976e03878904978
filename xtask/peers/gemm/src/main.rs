//! Multiplies matrices with the crate `gemm` and measures blocks of runs as it is told on stdin, one JSON document in a
//! line, in the language of `onl peer-process`. The argument is the number of threads.

use anyhow::{Context, Result, bail};
use gemm::Parallelism;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

const SAMPLES: u32 = 20;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    Product {
        batches: usize,
        m: usize,
        k: usize,
        n: usize,
        element_type: String,
    },
    Measure {
        least_ns: u64,
    },
    Close,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Opened {
        output_bytes: u64,
    },
    Measured {
        runs_per_sample: u32,
        samples_ns: Vec<u64>,
        units: u64,
    },
    Done,
    Failed {
        reason: String,
    },
}

fn main() -> Result<()> {
    let threads: usize = std::env::args()
        .nth(1)
        .context("the number of threads is missing")?
        .parse()?;
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()?;
    let parallelism = if threads > 1 {
        Parallelism::Rayon(threads)
    } else {
        Parallelism::None
    };
    let mut work: Option<Box<dyn FnMut()>> = None;
    for line in std::io::stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?)? {
            Request::Product {
                batches,
                m,
                k,
                n,
                element_type,
            } => match product(batches, m, k, n, &element_type, parallelism) {
                Ok(product) => {
                    work = Some(product);
                    Answer::Opened { output_bytes: 0 }
                }
                Err(error) => Answer::Failed {
                    reason: error.to_string(),
                },
            },
            Request::Measure { least_ns } => match &mut work {
                Some(work) => block(Duration::from_nanos(least_ns), work),
                None => Answer::Failed {
                    reason: "nothing is open".to_owned(),
                },
            },
            Request::Close => {
                work = None;
                Answer::Done
            }
        };
        let mut output = std::io::stdout().lock();
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

fn block(least: Duration, work: &mut dyn FnMut()) -> Answer {
    let warming = Instant::now();
    let mut shortest = Duration::MAX;
    loop {
        let start = Instant::now();
        work();
        shortest = shortest.min(start.elapsed());
        if warming.elapsed() >= least / 4 {
            break;
        }
    }
    let of_sample = (least / SAMPLES).as_nanos();
    let runs_per_sample = (of_sample / shortest.as_nanos().max(1)).clamp(1, 1_000_000) as u32;
    let mut samples_ns = Vec::new();
    let started = Instant::now();
    while samples_ns.len() < 3
        || (started.elapsed() < least && samples_ns.len() < 2 * SAMPLES as usize)
    {
        let start = Instant::now();
        for _ in 0..runs_per_sample {
            work();
        }
        samples_ns.push(start.elapsed().as_nanos() as u64);
    }
    Answer::Measured {
        runs_per_sample,
        samples_ns,
        units: 0,
    }
}

fn product(
    batches: usize,
    m: usize,
    k: usize,
    n: usize,
    element_type: &str,
    parallelism: Parallelism,
) -> Result<Box<dyn FnMut()>> {
    let sizes = (batches, m, k, n);
    Ok(match element_type {
        "f32" => typed::<f32>(sizes, parallelism, |x| x, 0.0, 1.0),
        "f64" => typed::<f64>(sizes, parallelism, f64::from, 0.0, 1.0),
        "f16" => typed::<half::f16>(
            sizes,
            parallelism,
            half::f16::from_f32,
            half::f16::ZERO,
            half::f16::ONE,
        ),
        other => bail!("products of {other} are not among those of the crate"),
    })
}

fn typed<T: Copy + 'static>(
    (batches, m, k, n): (usize, usize, usize, usize),
    parallelism: Parallelism,
    element: impl Fn(f32) -> T,
    zero: T,
    one: T,
) -> Box<dyn FnMut()> {
    let mut state = 1u32;
    let mut matrix = |elements: usize| -> Vec<T> {
        (0..elements)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                element((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
            })
            .collect()
    };
    let (a, b) = (matrix(batches * m * k), matrix(batches * k * n));
    let mut c = vec![zero; batches * m * n];
    Box::new(move || {
        for batch in 0..batches {
            let (a, b) = (&a[batch * m * k..][..m * k], &b[batch * k * n..][..k * n]);
            let c = &mut c[batch * m * n..][..m * n];
            // SAFETY: the slices are whole row-major matrices of these dimensions.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    c.as_mut_ptr(),
                    1,
                    n as isize,
                    false,
                    a.as_ptr(),
                    1,
                    k as isize,
                    b.as_ptr(),
                    1,
                    n as isize,
                    zero,
                    one,
                    false,
                    false,
                    false,
                    parallelism,
                );
            }
        }
    })
}
