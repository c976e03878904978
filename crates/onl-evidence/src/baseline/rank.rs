//! Regions of models, ranked by what they cost.

use super::report::{
    CounterFigure, CounterFigures, ModelNode, ModelProfile, ModelRegion, Operand, RankedPart,
    RankedRegion,
};
use onl_profiling::CounterStatus;
use std::collections::BTreeMap;

/// What of a node is ranked: the time of a region's calls, or the time outside regions.
struct Item<'m> {
    model: &'m ModelProfile,
    node: &'m ModelNode,
    region: Option<&'m ModelRegion>,
    ns: u64,
    calls: u64,
    /// Part of the time that is lost.
    lost: f64,
}

/// The serial list and the parallel list. Models of which events were dropped are left out.
pub fn lists(models: &[ModelProfile]) -> (Vec<RankedRegion>, Vec<RankedRegion>) {
    let (mut serial, mut parallel) = (Vec::new(), Vec::new());
    for model in models.iter().filter(|model| model.complete) {
        let alone = 1.0 - 1.0 / f64::from(model.participants.max(1));
        for node in &model.nodes {
            serial.push(Item {
                model,
                node,
                region: None,
                ns: node.serial_ns,
                calls: node.calls,
                lost: alone,
            });
        }
        for region in &model.regions {
            let Some(node) = model.nodes.iter().find(|node| node.node == region.node) else {
                continue;
            };
            let item = |lost| Item {
                model,
                node,
                region: Some(region),
                ns: region.figures.wall_ns,
                calls: region.figures.calls,
                lost,
            };
            if region.divided {
                // What is not known to be lost does not count.
                let utilization = region.figures.utilization.unwrap_or(1.0);
                parallel.push(item(1.0 - utilization));
            } else {
                serial.push(item(alone));
            }
        }
    }
    (ranked(&serial), ranked(&parallel))
}

fn ranked(items: &[Item<'_>]) -> Vec<RankedRegion> {
    let mut groups: BTreeMap<(&str, Option<&str>), Vec<&Item<'_>>> = BTreeMap::new();
    for item in items.iter().filter(|item| item.ns > 0) {
        let label = item.region.map(|region| region.figures.label.as_str());
        groups
            .entry((item.node.key.as_str(), label))
            .or_default()
            .push(item);
    }
    let mut regions: Vec<RankedRegion> = groups.into_values().map(|group| sum(&group)).collect();
    regions.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(&b.key)));
    for (place, region) in regions.iter_mut().enumerate() {
        region.rank = place as u32 + 1;
    }
    regions
}

/// Items of one kernel and region; there is at least one.
fn sum(group: &[&Item<'_>]) -> RankedRegion {
    let node = group[0].node;
    let mut parts: BTreeMap<(&str, &[Option<Operand>]), (RankedPart, Vec<u32>)> = BTreeMap::new();
    let mut inline_reasons = BTreeMap::new();
    let (mut busy, mut sampled) = (0.0, 0.0);
    let mut counters: Option<CounterFigures> = None;
    for item in group {
        let model = item.model;
        let runs = model.run_ns.len().max(1) as f64;
        let wall: u64 = model.run_ns.iter().sum();
        let share = if wall > 0 {
            item.ns as f64 / wall as f64
        } else {
            0.0
        };
        let (part, nodes) = parts
            .entry((&model.model, &item.node.inputs))
            .or_insert_with(|| (new_part(model, item.node), Vec::new()));
        if !nodes.contains(&item.node.node) {
            nodes.push(item.node.node);
        }
        part.nodes = nodes.len() as u64;
        part.calls_per_run += item.calls as f64 / runs;
        part.ns_per_run += item.ns as f64 / runs;
        part.share += share;
        part.score += share * item.lost;
        let Some(region) = item.region else { continue };
        for (reason, calls) in &region.figures.inline_reasons {
            *inline_reasons.entry(reason.clone()).or_insert(0) += calls;
        }
        if let Some(utilization) = region.figures.utilization.filter(|_| region.divided) {
            busy += utilization * item.ns as f64;
            sampled += item.ns as f64;
        }
        let own = &region.figures.counters;
        counters = Some(match counters {
            Some(sum) => add(&sum, own),
            None => own.clone(),
        });
    }
    let mut parts: Vec<RankedPart> = parts.into_values().map(|(part, _)| part).collect();
    parts.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut models: Vec<String> = parts.iter().map(|part| part.model.clone()).collect();
    models.sort_unstable();
    models.dedup();
    RankedRegion {
        rank: 0,
        score: parts.iter().map(|part| part.score).sum(),
        share: parts.iter().map(|part| part.share).sum(),
        operator: node.operator.clone(),
        element_type: node.element_type.clone(),
        key: node.key.clone(),
        state: node.state.clone(),
        serial_reason: node.serial_reason.clone(),
        region: group[0].region.map(|region| region.figures.label.clone()),
        models,
        utilization: (sampled > 0.0).then(|| busy / sampled),
        inline_reasons,
        counters,
        parts,
    }
}

fn new_part(model: &ModelProfile, node: &ModelNode) -> RankedPart {
    RankedPart {
        model: model.model.clone(),
        inputs: node.inputs.clone(),
        nodes: 0,
        calls_per_run: 0.0,
        ns_per_run: 0.0,
        share: 0.0,
        score: 0.0,
    }
}

/// Sum of counts: valid where both are, the common reason where both are missing for one, else partial.
fn add(a: &CounterFigures, b: &CounterFigures) -> CounterFigures {
    let both = |x: CounterStatus, y: CounterStatus| if x == y { x } else { CounterStatus::Partial };
    let counts: Vec<CounterFigure> = a
        .counts
        .iter()
        .zip(&b.counts)
        .map(|(x, y)| {
            let value = x.value.zip(y.value).and_then(|(x, y)| x.checked_add(y));
            let status = match both(x.status, y.status) {
                CounterStatus::Valid if value.is_none() => CounterStatus::Partial,
                status => status,
            };
            CounterFigure {
                name: x.name.clone(),
                status,
                value,
            }
        })
        .collect();
    CounterFigures {
        set: a.set,
        status: both(a.status, b.status),
        counts,
    }
}
