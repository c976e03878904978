//! Records ten runs of a model, prints what its nodes took, and writes a trace that Perfetto opens:
//! `cargo run --release -p onl --example profile -- model.onnx trace.json`.

use onl::profiling::{Collector, Summary, Trace};
use onl::{CancelToken, Dim, RunControl, Session, TypeInfo, Value, random_tensor};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(trace)) = (arguments.next(), arguments.next()) else {
        return Err("usage: profile MODEL TRACE".into());
    };
    let session = Session::builder().model_path(model).build()?;
    let inputs = inputs(&session)?;
    let inputs: Vec<(&str, Value)> = inputs
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    // The first run of a set of shapes plans memory; it is not like the others.
    session.run(&inputs)?;

    let collector = Collector::new(1 << 16);
    let cancel = CancelToken::new();
    for _ in 0..10 {
        session.run_with(
            &inputs,
            RunControl {
                collector: Some(&collector),
                cancel: Some(&cancel),
                deadline: Some(Instant::now() + Duration::from_secs(60)),
            },
        )?;
    }
    let (events, dropped) = (collector.drain(), collector.dropped());

    let names: Vec<String> = session
        .runtime()
        .nodes()
        .map(|info| format!("{} {}", info.op_type, info.name))
        .collect();
    let summary = Summary::new(&events, dropped);
    for node in summary.nodes.iter().take(10) {
        println!(
            "{:5.1} %  {}",
            100.0 * node.share,
            names[node.node as usize]
        );
    }
    let node_name = |node: u32| names.get(node as usize).cloned();
    let mut file = BufWriter::new(File::create(trace)?);
    Trace::new(&events)
        .node_names(&node_name)
        .dropped(dropped)
        .write(&mut file)?;
    file.flush()?;
    Ok(())
}

/// Random inputs; dimensions without a size are taken as 1.
fn inputs(session: &Session) -> Result<Vec<(String, Value)>, Box<dyn Error>> {
    let mut inputs = Vec::new();
    for input in session.inputs() {
        let Some(TypeInfo::Tensor(tensor)) = &input.value_type else {
            return Err(format!("input '{}' is not a tensor", input.name).into());
        };
        let dims: Vec<usize> = tensor
            .dims
            .iter()
            .flatten()
            .map(|dim| match dim {
                Dim::Known(size) => *size,
                _ => 1,
            })
            .collect();
        let value = random_tensor(tensor.element_type, &dims, 0)?;
        inputs.push((input.name, value.into()));
    }
    Ok(inputs)
}
