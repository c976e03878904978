use crate::table::{bytes, duration, table};
use onl_evidence::attribution::{
    Arm, ArmFigures, AttributionReport, Comparison, ModelAttribution, Phase, Quantity, RatioVerdict,
};
use std::fmt::Write;

/// Operators that are shown.
const MOST_OPERATORS: usize = 12;

/// What the ratios of a table are of.
const COMPARED: [(Quantity, &str); 4] = [
    (Quantity::Load, "load"),
    (Quantity::FirstRun, "first run"),
    (Quantity::Steady, "steady"),
    (Quantity::PeakMemory, "memory"),
];

/// A report for people.
pub fn render(report: &AttributionReport) -> String {
    let execution = &report.head.execution;
    let mut text = format!(
        "{} threads, {} wait, affinity {}; onnxruntime {}; {} rounds, {} % intervals\n",
        execution.participants,
        execution.wait_mode,
        execution.affinity,
        report.onnxruntime.version,
        report.protocol.rounds,
        (100.0 * report.protocol.confidence).round(),
    );
    for model in &report.models {
        text.push('\n');
        of_model(&mut text, model);
    }
    text
}

fn of_model(text: &mut String, model: &ModelAttribution) {
    let inputs: Vec<String> = model
        .model
        .inputs
        .iter()
        .map(|input| {
            let dims: Vec<String> = input.dims.iter().map(usize::to_string).collect();
            format!("{} {} {}", input.name, input.element_type, dims.join("x"))
        })
        .collect();
    let lines = [
        format!("{}: {}", model.model.name, inputs.join(", ")),
        String::new(),
        figures(model),
        String::new(),
        ratios(model),
        String::new(),
        operators(model),
        String::new(),
        outputs(model),
        format!(
            "decision {}: {}",
            model.decision.kind.name(),
            model.decision.sentence
        ),
    ];
    for line in lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn figures(model: &ModelAttribution) -> String {
    let columns = [
        "consumer",
        "open",
        "parse",
        "resolve",
        "ready",
        "load",
        "first run",
        "steady",
        "memory",
    ];
    let mut rows = table(&columns, &columns[1..]);
    for arm in Arm::ALL {
        if let Some(figures) = model.figures.iter().find(|figures| figures.arm == arm) {
            rows.add_row(figures_of(figures));
        }
    }
    let mut text = trimmed(&rows.to_string());
    for unsupported in &model.unsupported {
        let _ = write!(
            text,
            "\n {}: unsupported: {}",
            unsupported.arm, unsupported.reason
        );
    }
    text
}

fn figures_of(figures: &ArmFigures) -> Vec<String> {
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), duration);
    let phase = |ns: Option<f64>| ns.map_or_else(|| format!("in {}", Phase::Ready), duration);
    vec![
        figures.arm.to_string(),
        phase(figures.open_ns),
        phase(figures.parse_ns),
        phase(figures.resolve_ns),
        time(figures.ready_ns),
        time(figures.load_ns),
        time(figures.first_run_ns),
        time(figures.steady_ns),
        figures
            .peak_memory_bytes
            .map_or_else(|| "-".to_owned(), |count| bytes(count as u64)),
    ]
}

fn ratios(model: &ModelAttribution) -> String {
    let mut header = vec!["time or size of"];
    header.extend(COMPARED.iter().map(|(_, name)| *name));
    let mut rows = table(&header, &header[1..]);
    for pair in model
        .comparisons
        .iter()
        .filter(|pair| (pair.arm, pair.reference) != (Arm::OnlAgain, Arm::Onl))
    {
        let mut row = vec![format!("{} / {}", pair.arm, pair.reference)];
        row.extend(COMPARED.iter().map(|(quantity, _)| ratio(pair, *quantity)));
        rows.add_row(row);
    }
    let mut noise = vec!["noise of onl against itself".to_owned()];
    noise.extend(COMPARED.iter().map(|(quantity, _)| {
        let found = model.noise.iter().find(|noise| noise.quantity == *quantity);
        let floor = found.and_then(|noise| noise.floor);
        floor.map_or_else(|| "-".to_owned(), |floor| format!("{:.1} %", 100.0 * floor))
    }));
    rows.add_row(noise);
    trimmed(&rows.to_string())
}

fn ratio(pair: &Comparison, quantity: Quantity) -> String {
    let Some(found) = pair.ratios.iter().find(|ratio| ratio.quantity == quantity) else {
        return "-".to_owned();
    };
    let r = &found.ratio;
    let mark = match found.verdict {
        RatioVerdict::WithinNoise => " ~",
        RatioVerdict::Less | RatioVerdict::Greater => "",
    };
    format!("{:.3} [{:.3}, {:.3}]{mark}", r.estimate, r.lower, r.upper)
}

fn operators(model: &ModelAttribution) -> String {
    let columns = [
        "operator",
        "onl nodes",
        "onl",
        "onnxruntime nodes",
        "onnxruntime",
        "difference",
    ];
    let mut rows = table(&columns, &columns[1..]);
    let all = &model.operators.operators;
    let signed = |ns: f64| {
        let sign = if ns < 0.0 { "-" } else { "+" };
        format!("{sign}{}", duration(ns.abs()))
    };
    let time = |nodes: u64, ns: f64| {
        if nodes == 0 {
            "-".to_owned()
        } else {
            duration(ns)
        }
    };
    let (shown, rest) = all.split_at(MOST_OPERATORS.min(all.len()));
    let mut add = |name: &str, onl: (u64, f64), other: (u64, f64)| {
        rows.add_row([
            name.to_owned(),
            onl.0.to_string(),
            time(onl.0, onl.1),
            other.0.to_string(),
            time(other.0, other.1),
            signed(onl.1 - other.1),
        ]);
    };
    for row in shown {
        add(
            &row.operator,
            (row.onl_nodes, row.onl_ns),
            (row.onnxruntime_nodes, row.onnxruntime_ns),
        );
    }
    if !rest.is_empty() {
        add(
            &format!("{} others", rest.len()),
            (
                rest.iter().map(|row| row.onl_nodes).sum(),
                rest.iter().map(|row| row.onl_ns).sum(),
            ),
            (
                rest.iter().map(|row| row.onnxruntime_nodes).sum(),
                rest.iter().map(|row| row.onnxruntime_ns).sum(),
            ),
        );
    }
    trimmed(&rows.to_string())
}

fn outputs(model: &ModelAttribution) -> String {
    let equal = |equal: Option<bool>| match equal {
        Some(true) => "equal bits",
        Some(false) => "OTHER BITS",
        None => "not there",
    };
    let mut text = format!(
        "outputs: onnxruntime with onl's loader against protobuf {}, with .ort {}; relative L2 distance of onl {}",
        equal(model.outputs.loader_equals_protobuf),
        equal(model.outputs.ort_format_equals_protobuf),
        model.outputs.onl_relative_l2.map_or_else(
            || "unknown".to_owned(),
            |distance| format!("{distance:.1e}")
        ),
    );
    if !model.outputs.unstable.is_empty() {
        let arms: Vec<&str> = model
            .outputs
            .unstable
            .iter()
            .map(|arm| arm.name())
            .collect();
        let _ = write!(
            text,
            "; bits differ from round to round in {}",
            arms.join(", ")
        );
    }
    text
}

fn trimmed(text: &str) -> String {
    text.lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use onl_evidence::attribution::fixtures::ScriptedRunner;

    #[test]
    fn a_report_shows_consumers_ratios_operators_outputs_and_decision() {
        let mut runner = ScriptedRunner::equal();
        runner.onl(|arm| {
            arm.steady = 30_000_000;
            arm.output = vec![3.0, 4.5];
        });
        runner.onl_operators = vec![("MatMul", 24, 27_000_000), ("Erf", 3, 1_500_000)];
        runner.arm(Arm::Onnxruntime, |arm| {
            arm.load = [None, None, None, Some(90_000_000)];
            arm.memory = 200 << 20;
        });
        runner.arm(Arm::OnnxruntimeOrtFormat, |arm| {
            arm.unsupported = Some("the file would be too large".to_owned());
        });
        let report = runner.report(10).expect("a script has every answer");
        insta::assert_snapshot!(render(&report));
    }
}
