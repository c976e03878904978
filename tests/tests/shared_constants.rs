//! Sessions of one process share the packed form of constants that they both have.

use onl::{CpuExecutionPolicy, ProfileSource, Session, Tensor, Value};
use onl_tensor::ElementType;
use onl_tests::ModelBuilder;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIZE: usize = 1_024;

fn model() -> Vec<u8> {
    let values: Vec<f32> = (0..SIZE * SIZE)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 1024.0)
        .collect();
    let weights = Tensor::from_slice(&[SIZE, SIZE], &values).expect("sizes agree");
    ModelBuilder::new(17)
        .input("x", ElementType::Float32, &[-1, SIZE as i64])
        .initializer("w", weights)
        .node("MatMul", &["x", "w"], &["y"])
        .output("y", ElementType::Float32)
        .bytes()
}

/// A session of a model, and the bytes that were allocated while it was built.
fn session(model: Vec<u8>) -> (Session, usize) {
    let before = BYTES.load(Ordering::Relaxed);
    let session = Session::builder()
        .profiles(ProfileSource::None)
        .policy(CpuExecutionPolicy {
            threads: 1,
            ..CpuExecutionPolicy::default()
        })
        .model_bytes(model)
        .build()
        .expect("the model is sound");
    (session, BYTES.load(Ordering::Relaxed) - before)
}

fn output(session: &Session) -> Vec<u8> {
    let input = Tensor::from_slice(&[2, SIZE], &vec![0.5f32; 2 * SIZE]).expect("sizes agree");
    let outputs = session.run(&[("x", Value::from(input))]);
    let outputs = outputs.expect("the model runs");
    outputs[0].as_tensor().expect("a tensor").bytes().to_vec()
}

#[test]
fn a_second_session_of_a_model_packs_nothing() {
    let packed = SIZE * SIZE * size_of::<f32>();
    let [first_model, second_model, third_model] = std::array::from_fn(|_| model());
    let (first, first_bytes) = session(first_model);
    let (second, second_bytes) = session(second_model);
    assert!(
        second_bytes + packed <= first_bytes,
        "the second session allocated {second_bytes} bytes, the first {first_bytes}"
    );
    assert_eq!(output(&first), output(&second));
    let expected = output(&first);
    drop((first, second));
    let (third, third_bytes) = session(third_model);
    assert!(
        third_bytes >= packed,
        "the constants of sessions that are gone should be gone: {third_bytes} bytes"
    );
    assert_eq!(output(&third), expected);
}
