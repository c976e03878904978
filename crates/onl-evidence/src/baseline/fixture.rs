//! A report of an imagined machine for tests: complete, consistent, and small.

use super::report::*;
use super::{BASELINE_SCHEMA, CORPUS, CorpusCase, derive};
use crate::inventory::SerialReason;
use crate::report::{BuildInfo, ReportHead, ReportKind};
use onl::KernelTable;
use onl_cpu::{CpuDescriptor, CpuExecutionDescriptor};
use onl_profiling::{CounterSet, CounterStatus, Spread};
use onl_snapshot::CacheState;
use onl_tuning::roofline::{CeilingRate, DRAM, LevelCeilings, ParticipantCeilings};
use std::collections::BTreeMap;

const REPEAT: u32 = 7;

/// A report of the whole corpus and two models.
///
/// # Panics
/// When the corpus names a kernel that the table does not have.
pub fn report() -> BaselineReport {
    let table = KernelTable::builtin();
    let (serial, session) = (execution(1), execution(2));
    let mut cases = Vec::new();
    let mut pairs = Vec::new();
    for case in CORPUS {
        for &size in case.sizes {
            for threads in ThreadSetting::ALL {
                let row = row(case, size, threads, &table);
                if case.twice {
                    pairs.push(NoisePair {
                        case: row.case.clone(),
                        threads,
                        b_ns: row.samples_ns.iter().map(|ns| 1.01 * ns).collect(),
                        a_ns: row.samples_ns.clone(),
                        ratio: 0.0,
                    });
                }
                cases.push(row);
            }
        }
    }
    let mut report = BaselineReport {
        head: ReportHead {
            kind: ReportKind::Baseline,
            schema: BASELINE_SCHEMA,
            build: BuildInfo {
                version: "1.0.0".to_owned(),
                commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
                dirty: false,
                profile: "release".to_owned(),
                compiler: "rustc 1.95.0".to_owned(),
                target: "x86_64-unknown-linux-gnu".to_owned(),
                flags: String::new(),
            },
            cpu: CpuDescriptor {
                architecture: "x86_64".to_owned(),
                vendor: Some("imagined".to_owned()),
                l3_bytes: Some(32 << 20),
                brand: Some("Imagined Processor".to_owned()),
                ..CpuDescriptor::default()
            },
            emulated: false,
            execution: session.clone(),
        },
        settings: BaselineSettings {
            repeat: REPEAT,
            ..BaselineSettings::default()
        },
        policy: BaselinePolicy {
            denormals: "preserve".to_owned(),
            tier: "avx512".to_owned(),
            profiles: false,
            serial,
            session,
        },
        ceilings: vec![ceilings(1), ceilings(2)],
        noise: NoiseFloor {
            pairs,
            ..NoiseFloor::default()
        },
        cases,
        models: vec![model("alpha", 4.0), model("beta", 1.0)],
        serial_regions: Vec::new(),
        parallel_regions: Vec::new(),
        digest: String::new(),
    };
    derive(&mut report);
    report
}

fn execution(participants: u32) -> CpuExecutionDescriptor {
    CpuExecutionDescriptor {
        architecture: "x86_64".to_owned(),
        vendor: Some("imagined".to_owned()),
        family: Some(1),
        model: Some(2),
        stepping: Some(3),
        features: ["avx2", "fma"].map(str::to_owned).into(),
        l1d_bytes: Some(48 << 10),
        l2_bytes: Some(1 << 20),
        physical_cores: Some(2),
        logical_cores: Some(2),
        participants,
        smt_used: false,
        affinity: "none".to_owned(),
        wait_mode: "balanced".to_owned(),
        quota: "unlimited".to_owned(),
    }
}

fn ceilings(participants: u32) -> ParticipantCeilings {
    let lanes = f64::from(participants);
    let rate = |rate: f64| CeilingRate::new(vec![0.97 * rate * lanes, rate * lanes]);
    let level = |name: &str, capacity: Option<u64>, rates: [f64; 4]| LevelCeilings {
        level: name.to_owned(),
        capacity_bytes: capacity,
        working_set_bytes: capacity.unwrap_or(256 << 20) / 2,
        read: rate(rates[0]),
        add: rate(rates[1]),
        copy: rate(rates[2]),
        write: rate(rates[3]),
    };
    let own = u64::from(participants);
    ParticipantCeilings {
        participants,
        fma: rate(200.0),
        bandwidth: vec![
            level("L1d", Some(own * (48 << 10)), [400.0, 500.0, 380.0, 190.0]),
            level("L2", Some(own << 20), [150.0, 130.0, 80.0, 48.0]),
            level("L3", Some(32 << 20), [60.0, 55.0, 40.0, 50.0]),
            level(DRAM, None, [16.0, 15.0, 14.0, 10.0]),
        ],
    }
}

fn counters() -> CounterFigures {
    let set = CounterSet::Hardware;
    let values = [Some(3_000), Some(6_000), None, None];
    let count = |(name, value): (&str, Option<u64>)| CounterFigure {
        name: name.to_owned(),
        status: match value {
            Some(_) => CounterStatus::Valid,
            None => CounterStatus::Unsupported,
        },
        value,
    };
    CounterFigures {
        set,
        status: CounterStatus::Partial,
        counts: set.names().into_iter().zip(values).map(count).collect(),
    }
}

fn every(count: u32) -> Spread {
    Spread {
        minimum: count,
        median: count,
        maximum: count,
    }
}

fn region(label: &str, total: u64, wall_ns: u64, lanes: u32) -> RegionFigures {
    let divided = lanes > 1;
    let reasons = [("below_threshold".to_owned(), 10)];
    RegionFigures {
        label: label.to_owned(),
        path: if label.starts_with("gemm") {
            "packed"
        } else {
            ""
        }
        .to_owned(),
        tiles: 0,
        total,
        grain: if divided { total / 4 + 1 } else { total },
        calls: 10,
        wall_ns,
        requested: every(2),
        admitted: every(lanes),
        participants: every(lanes),
        inline_reasons: if divided {
            BTreeMap::new()
        } else {
            reasons.into()
        },
        utilization: Some(if divided { 0.75 } else { 1.0 }),
        imbalance: Some(1.0),
        counters: counters(),
    }
}

fn row(case: &CorpusCase, size: usize, threads: ThreadSetting, table: &KernelTable) -> CaseRow {
    let entry = case.entry(table).expect("the corpus is of builtin kernels");
    let key = entry.key(case.element_type);
    let divided = threads == ThreadSetting::Session && size > 50_000 && !entry.regions.is_empty();
    let session_lanes = match threads {
        ThreadSetting::Serial => 1,
        ThreadSetting::Session => 2,
    };
    let lanes = if divided { 2 } else { 1 };
    let product = matches!(case.operator, "Gemm" | "MatMul");
    let flops = if product { 2 * size as u64 } else { 0 };
    let time = (100.0 + size as f64 / if product { 90.0 } else { 4.0 }) / f64::from(lanes);
    let edge = (size as f64).cbrt().round() as usize;
    let operand = Operand {
        element_type: case.element_type.to_string(),
        dims: if product {
            vec![edge, edge]
        } else {
            vec![size]
        },
        constant: false,
    };
    let bytes = 4 * operand.dims.iter().product::<usize>() as u64;
    let regions = entry.regions.first().map(|site| {
        let wall_ns = (10.0 * time) as u64;
        RegionFigures {
            requested: every(session_lanes),
            ..region(site.label, size as u64, wall_ns, lanes)
        }
    });
    CaseRow {
        case: case.name(size),
        origin: CaseOrigin::Corpus,
        key: key.to_string(),
        revision: key.revision,
        operator: case.operator.to_owned(),
        element_type: case.element_type.to_string(),
        size: size as u64,
        inputs: vec![Some(operand.clone())],
        outputs: vec![operand],
        cache_state: CacheState::OwnWarm,
        flops,
        bytes_read: if product { 2 * bytes } else { bytes },
        bytes_written: bytes,
        threads,
        session_lanes,
        threshold: entry.coverage.schema().map(|_| 32_768),
        value_source: entry
            .coverage
            .schema()
            .map(|_| "portable_default".to_owned()),
        startup_ns: 3e5 + time,
        build_ns: 2e5,
        runs_per_sample: 1,
        samples_ns: (0..REPEAT)
            .map(|i| time * (1.0 + 0.004 * f64::from(i * 3 % REPEAT)))
            .collect(),
        time: MedianTime::default(),
        dispatch_samples_ns: vec![310.0, 300.0, 330.0],
        dispatch_ns: None,
        regions: regions.into_iter().collect(),
        gflops: None,
        gbytes: None,
        roofline: None,
    }
}

/// A model of four nodes: a product that is divided, a small addition that runs inline, a serial one, and a reduction of
/// which half lies outside regions.
fn model(name: &str, weight: f64) -> ModelProfile {
    let ns = |of_run: f64| (10.0 * weight * of_run) as u64;
    let node = |node: u32, operator: &str, state: &str, wall: f64, outside: f64| ModelNode {
        node,
        name: format!("{operator}_{node}"),
        operator: operator.to_owned(),
        element_type: "f32".to_owned(),
        key: format!("onl/{operator}/vector/f32"),
        state: state.to_owned(),
        serial_reason: (state == "serial").then(|| SerialReason {
            category: "ordered".to_owned(),
            reason: "Indices are found in order.".to_owned(),
            evidence: None,
            look_again_elements: None,
        }),
        inputs: vec![Some(Operand {
            element_type: "f32".to_owned(),
            dims: vec![1, 128, 384],
            constant: false,
        })],
        calls: 10,
        wall_ns: ns(wall),
        serial_ns: ns(outside),
    };
    let of_node = |node: u32, label: &str, wall: f64, lanes: u32| ModelRegion {
        node,
        divided: lanes > 1,
        figures: region(label, 49_152, ns(wall), lanes),
    };
    ModelProfile {
        model: name.to_owned(),
        file_bytes: 1 << 20,
        inputs: BTreeMap::from([(
            "x".to_owned(),
            Operand {
                element_type: "f32".to_owned(),
                dims: vec![1, 128, 384],
                constant: false,
            },
        )]),
        participants: 2,
        run_ns: vec![ns(1e5) / 10; 10],
        complete: true,
        nodes: vec![
            node(0, "MatMul", "calibratable", 6e4, 1e3),
            node(1, "Add", "calibratable", 1e4, 5e2),
            node(2, "NonZero", "serial", 1.5e4, 1.5e4),
            node(3, "Softmax", "tunable", 1e4, 5e3),
        ],
        regions: vec![
            of_node(0, "gemm.product", 5.9e4, 2),
            of_node(1, "elementwise.binary", 9.5e3, 1),
            of_node(3, "reduce.softmax", 5e3, 2),
        ],
    }
}
