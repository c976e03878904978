//! Everything in a report that follows from its raw figures.

use super::BaselineReport;
use super::rank;
use super::report::{CaseRow, MedianTime, NoiseFloor, RooflineShare, ThreadSetting};
use onl_tuning::identity::sha256_hex;
use onl_tuning::roofline::{ParticipantCeilings, highest};
use onl_tuning::statistics::{WalshAverages, median, median_interval};

/// 64-bit floats fill half as many lanes as the 32-bit ones that the ceiling of operations is measured with.
const F64_WEIGHT: u64 = 2;

/// Derives medians, intervals, achieved rates, shares of the roofline, the noise floor, the ranked lists and the digest
/// from the raw figures of a report.
pub fn derive(report: &mut BaselineReport) {
    for participants in &mut report.ceilings {
        let levels = participants.bandwidth.iter_mut().flat_map(|level| {
            [
                &mut level.read,
                &mut level.add,
                &mut level.copy,
                &mut level.write,
            ]
        });
        for rate in levels.chain([&mut participants.fma]) {
            rate.best = highest(&rate.repetitions);
        }
    }
    derive_noise(&mut report.noise);
    for row in &mut report.cases {
        derive_row(row, report.settings.confidence, &report.ceilings);
    }
    (report.serial_regions, report.parallel_regions) = rank::lists(&report.models);
    report.digest = digest(report);
}

fn derive_noise(noise: &mut NoiseFloor) {
    for pair in &mut noise.pairs {
        let gains = pair.a_ns.iter().zip(&pair.b_ns).map(|(a, b)| (a / b).ln());
        let gains: Vec<f64> = gains.collect();
        pair.ratio = match WalshAverages::new(&gains).estimate() {
            Some(estimate) => (-estimate).exp(),
            None => 1.0,
        };
    }
    let distance = |ratio: f64| ratio.max(1.0 / ratio) - 1.0;
    let distances: Vec<f64> = noise
        .pairs
        .iter()
        .map(|pair| distance(pair.ratio))
        .collect();
    noise.largest = distances.iter().copied().reduce(f64::max);
    noise.median = median(&distances);
}

fn derive_row(row: &mut CaseRow, confidence: f64, ceilings: &[ParticipantCeilings]) {
    let middle = median(&row.samples_ns).unwrap_or(0.0);
    let interval = median_interval(&row.samples_ns, confidence);
    row.time = MedianTime {
        median_ns: middle,
        lower_ns: interval.map(|(lower, _)| lower),
        upper_ns: interval.map(|(_, upper)| upper),
    };
    row.dispatch_ns = median(&row.dispatch_samples_ns);
    let bytes = row.bytes_read + row.bytes_written;
    let rate = |amount: u64| (amount > 0 && middle > 0.0).then(|| amount as f64 / middle);
    (row.gflops, row.gbytes) = (rate(row.flops), rate(bytes));
    row.roofline = roofline(row, middle, ceilings);
}

/// Participants that a row's kernel had at its disposal: those that took part in one of its regions.
fn participants(row: &CaseRow) -> u32 {
    let most = row.regions.iter().map(|region| region.participants.maximum);
    match row.threads {
        ThreadSetting::Serial => 1,
        ThreadSetting::Session => most.max().unwrap_or(1).max(1),
    }
}

fn roofline(
    row: &CaseRow,
    median_ns: f64,
    ceilings: &[ParticipantCeilings],
) -> Option<RooflineShare> {
    let participants = participants(row);
    // Ceilings of the nearest number that is not smaller, else of the largest.
    let enough = ceilings.iter().filter(|c| c.participants >= participants);
    let ceilings = enough
        .min_by_key(|c| c.participants)
        .or_else(|| ceilings.iter().max_by_key(|c| c.participants))?;
    let flops = match row.element_type.as_str() {
        "f64" => row.flops * F64_WEIGHT,
        _ => row.flops,
    };
    let (least_ns, ceiling) = ceilings.least_ns(flops, row.bytes_read, row.bytes_written)?;
    (median_ns > 0.0).then(|| RooflineShare {
        ceiling: ceiling.to_owned(),
        participants: ceilings.participants,
        least_ns,
        share: least_ns / median_ns,
    })
}

/// SHA-256 of the report's JSON without its digest.
fn digest(report: &BaselineReport) -> String {
    let bare = BaselineReport {
        digest: String::new(),
        ..report.clone()
    };
    // A report holds nothing that JSON does not.
    sha256_hex(&serde_json::to_vec(&bare).unwrap_or_default())
}
