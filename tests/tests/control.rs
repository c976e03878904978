//! Runs that are cancelled, limited in time, or recorded.

use onl::profiling::{Collector, InlineReason};
use onl::{
    CancelReason, CancelToken, Cancelled, CpuExecutionPolicy, Error, ProfileSource, RunControl,
    RunError, Session, Tensor, Value,
};
use onl_tensor::ElementType;
use onl_tests::ModelBuilder;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NODES: usize = 40;

/// A chain of matrix products, large enough to be divided among lanes.
fn model() -> Vec<u8> {
    let values: Vec<f32> = (0..256 * 256)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 1024.0)
        .collect();
    let weights = Tensor::from_slice(&[256, 256], &values).expect("sizes agree");
    let mut builder = ModelBuilder::new(17)
        .input("x0", ElementType::Float32, &[-1, 256])
        .initializer("w", weights);
    for node in 0..NODES {
        let (from, to) = (format!("x{node}"), format!("x{}", node + 1));
        builder = builder.node("MatMul", &[&from, "w"], &[&to]);
    }
    builder
        .output(&format!("x{NODES}"), ElementType::Float32)
        .bytes()
}

fn session(threads: u32, model: Vec<u8>) -> Session {
    Session::builder()
        .profiles(ProfileSource::None)
        .policy(CpuExecutionPolicy {
            threads,
            ..CpuExecutionPolicy::default()
        })
        .model_bytes(model)
        .build()
        .expect("the model is sound")
}

fn input() -> Tensor {
    Tensor::from_slice(&[128, 256], &vec![0.5f32; 128 * 256]).expect("sizes agree")
}

fn named(tensor: &Tensor) -> [(&'static str, Value); 1] {
    [("x0", tensor.try_clone().expect("memory").into())]
}

fn cancellation(error: Error) -> (String, Cancelled) {
    match error {
        Error::Run(RunError::Cancelled { node, cancelled }) => (node, cancelled),
        other => panic!("not a cancellation: {other}"),
    }
}

#[test]
fn a_cancelled_session_says_where_and_stays_usable() {
    for threads in [1, 2] {
        let session = session(threads, model());
        let input = input();
        let token = CancelToken::new();
        let control = RunControl {
            cancel: Some(&token),
            ..RunControl::default()
        };
        let expected = session.run(&named(&input)).expect("the model runs");
        let expected = expected[0].as_tensor().expect("a tensor");
        let mut outputs = [expected.try_clone().expect("memory")];
        token.cancel();
        for recording in [true, false] {
            // A shape that has not been run takes the way without a plan.
            let rows = if recording { 64 } else { 128 };
            let other = Tensor::from_slice(&[rows, 256], &vec![0.5f32; rows * 256]).expect("sizes");
            let error = session.run_with(&named(&other), control).unwrap_err();
            let (node, cancelled) = cancellation(error);
            assert_eq!(cancelled.reason, CancelReason::Requested);
            assert!(node.contains("MatMul"), "{node}");
        }
        let error = session
            .run_into_with(&[input.view()], &mut outputs, control)
            .unwrap_err();
        assert_eq!(cancellation(error).1.reason, CancelReason::Requested);
        assert_eq!(
            outputs[0].dims(),
            expected.dims(),
            "the output keeps its memory"
        );
        session
            .run_into(&[input.view()], &mut outputs)
            .expect("the session is usable");
        assert_eq!(outputs[0].bytes(), expected.bytes());
    }
}

#[test]
#[allow(clippy::disallowed_methods)] // the thread that cancels is a user's
fn a_token_ends_a_run_from_another_thread() {
    let session = session(2, model());
    let input = input();
    let token = CancelToken::new();
    let running = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !running.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            token.cancel();
        });
        let error = loop {
            running.store(true, Ordering::Release);
            let control = RunControl {
                cancel: Some(&token),
                ..RunControl::default()
            };
            if let Err(error) = session.run_with(&named(&input), control) {
                break error;
            }
        };
        assert_eq!(cancellation(error).1.reason, CancelReason::Requested);
    });
    session.run(&named(&input)).expect("the session is usable");
}

#[test]
fn a_deadline_that_has_passed_ends_a_run_and_a_far_one_does_not() {
    let session = session(2, model());
    let input = input();
    let with = |deadline| {
        session.run_with(
            &named(&input),
            RunControl {
                deadline: Some(deadline),
                ..RunControl::default()
            },
        )
    };
    let error = with(Instant::now()).unwrap_err();
    let text = error.to_string();
    let (_, cancelled) = cancellation(error);
    assert_eq!(cancelled.reason, CancelReason::Deadline);
    assert!(text.contains("its deadline passed"), "{text}");
    with(Instant::now() + Duration::from_secs(600)).expect("time enough");
}

#[test]
fn recorded_runs_tell_their_nodes_and_regions() {
    let session = session(2, model());
    let input = input();
    let collector = Collector::new(4_096);
    let control = RunControl {
        collector: Some(&collector),
        ..RunControl::default()
    };
    for planned in [false, true] {
        session
            .run_with(&named(&input), control)
            .expect("the model runs");
        let events = collector.drain();
        assert_eq!(events.runs.len(), 1, "planned: {planned}");
        let nodes: Vec<u32> = events.nodes.iter().map(|event| event.node).collect();
        assert_eq!(nodes, (0..NODES as u32).collect::<Vec<_>>());
        let run = events.runs[0];
        let in_nodes: u64 = events.nodes.iter().map(|event| event.wall_ns).sum();
        // Each time is rounded to a nanosecond.
        assert!(in_nodes <= run.wall_ns + NODES as u64);
        for region in &events.regions {
            let node = region.node.expect("regions belong to nodes") as usize;
            let event = events.nodes[node];
            assert!(region.start_ns + 1 >= event.start_ns);
            assert!(region.start_ns + region.wall_ns <= event.start_ns + event.wall_ns + 2);
            assert_ne!(region.inline_reason, Some(InlineReason::Nested));
        }
        let of_nodes: std::collections::BTreeSet<_> =
            events.regions.iter().map(|region| region.node).collect();
        assert_eq!(of_nodes.len(), NODES, "every product opens a region");
    }
    assert!(collector.dropped().is_none());
}

/// A chain of sums, each too small to be worth waking a lane for.
fn small_model() -> Vec<u8> {
    let mut builder = ModelBuilder::new(17).input("x0", ElementType::Float32, &[-1]);
    for node in 0..2 {
        let (from, to) = (format!("x{node}"), format!("x{}", node + 1));
        builder = builder.node("Add", &[&from, "x0"], &[&to]);
    }
    builder.output("x2", ElementType::Float32).bytes()
}

#[test]
fn small_runs_that_follow_each_other_wake_sleeping_lanes_together() {
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        return;
    }
    let session = session(2, small_model());
    let input = Tensor::from_slice(&[32_768], &vec![0.5f32; 32_768]).expect("sizes agree");
    let collector = Collector::new(64);
    let control = RunControl {
        collector: Some(&collector),
        ..RunControl::default()
    };
    let mut outputs = [Tensor::zeros(ElementType::Float32, &[32_768]).expect("memory")];
    let mut divided = || {
        session
            .run_into_with(&[input.view()], &mut outputs, control)
            .expect("the model runs");
        let events = collector.drain();
        events.regions.iter().any(|region| region.participants > 1)
    };
    divided();
    // Long enough for lanes to fall asleep.
    std::thread::sleep(Duration::from_millis(300));
    let started = Instant::now();
    while !divided() {
        let waited = started.elapsed();
        assert!(
            waited < Duration::from_secs(30),
            "no run woke the lanes within {waited:?}"
        );
    }
}

#[test]
#[allow(clippy::disallowed_methods)] // the thread that holds the lanes is a user's
fn a_session_that_was_planned_while_lanes_were_taken_runs_with_all_of_them() {
    let input = input();
    let (stopped, started) = (AtomicBool::new(false), AtomicBool::new(false));
    let sessions: Vec<Session> = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The lanes of this executor are in use nearly all the time.
            let busy = session(2, model());
            while !stopped.load(Ordering::Acquire) {
                busy.run(&named(&input)).expect("the model runs");
                started.store(true, Ordering::Release);
            }
        });
        while !started.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let planned = (0..20).map(|_| {
            let session = session(2, model());
            session.run(&named(&input)).expect("the model runs");
            session
        });
        let planned = planned.collect();
        stopped.store(true, Ordering::Release);
        planned
    });
    for session in sessions {
        for _ in 0..2 {
            session.run(&named(&input)).expect("the model runs");
        }
    }
}

#[test]
fn booleans_of_other_bytes_than_0_and_1_are_true_in_every_run() {
    let model = ModelBuilder::new(17)
        .input("x", ElementType::Bool, &[-1])
        .node("Not", &["x"], &["y"])
        .output("y", ElementType::Bool)
        .bytes();
    let session = session(1, model);
    let input = onl::TensorView::from_bytes(ElementType::Bool, &[4], &[0, 1, 2, 255]);
    let input = input.expect("as many bytes as elements");
    let mut outputs = [Tensor::zeros(ElementType::Bool, &[4]).expect("memory")];
    for run in 0..3 {
        session
            .run_into(&[input], &mut outputs)
            .expect("the model runs");
        assert_eq!(outputs[0].bytes(), [1, 0, 0, 0], "run {run}");
    }
}

#[test]
fn conditions_of_other_bytes_than_0_and_1_choose_the_first_operand_in_every_run() {
    let model = ModelBuilder::new(17)
        .input("condition", ElementType::Bool, &[-1])
        .input("x", ElementType::Float32, &[-1])
        .input("y", ElementType::Float32, &[-1])
        .node("Where", &["condition", "x", "y"], &["z"])
        .output("z", ElementType::Float32)
        .bytes();
    let session = session(1, model);
    // A vector of conditions and a rest.
    let conditions: Vec<u8> = (0..67).map(|i| [0, 1, 2, 128, 255][i % 5]).collect();
    let condition = onl::TensorView::from_bytes(ElementType::Bool, &[67], &conditions);
    let condition = condition.expect("as many bytes as elements");
    let x = Tensor::from_slice(&[67], &[1.0f32; 67]).expect("sizes agree");
    let y = Tensor::from_slice(&[67], &[-1.0f32; 67]).expect("sizes agree");
    let expected: Vec<f32> = conditions
        .iter()
        .map(|&condition| if condition == 0 { -1.0 } else { 1.0 })
        .collect();
    let mut outputs = [Tensor::zeros(ElementType::Float32, &[67]).expect("memory")];
    for run in 0..3 {
        session
            .run_into(&[condition, x.view(), y.view()], &mut outputs)
            .expect("the model runs");
        let given = outputs[0].view();
        let given = given.as_slice::<f32>().expect("floats");
        assert_eq!(given, expected, "run {run}");
    }
}
