//! A run on tensors of rank 6 and less allocates nothing.

use onl_cpu::IsaTier;
use onl_elementwise::{
    Binary, BinaryOp, Clip, Pow, Select, Unary, UnaryOp, Variadic, VariadicOp, broadcast_shape,
};
use onl_executor::Lanes;
use onl_snapshot::{ParallelConfig, TunedConfig};
use onl_tensor::{ElementType, Tensor};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged; the counter needs no allocation of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's obligations are those of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn expect_none(case: &str, run: impl FnOnce()) {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    assert_eq!(ALLOCATIONS.with(Cell::get), before, "{case} allocates");
}

#[test]
fn runs_allocate_nothing() {
    let (f32s, tier, lanes) = (ElementType::Float32, IsaTier::detect(), Lanes::serial());
    let config = ParallelConfig::from_row(&ParallelConfig::schema().defaults());
    let zeros = |t, dims: &[usize]| Tensor::zeros(t, dims).unwrap();
    let full = zeros(f32s, &[2, 3, 4, 5, 6, 7]);
    let part = zeros(f32s, &[3, 1, 5, 1, 7]);
    let condition = zeros(ElementType::Bool, &[4, 1, 6, 1]);
    let scalar = zeros(f32s, &[]);
    let mut output = zeros(f32s, full.dims());

    let abs = Unary::new(UnaryOp::Tanh, f32s, tier).unwrap();
    expect_none("unary", || {
        abs.run(full.view(), &mut output.view_mut().unwrap(), &config, lanes)
            .unwrap();
    });
    let clip = Clip::new(f32s, tier).unwrap();
    expect_none("clip", || {
        let (low, output) = (Some(scalar.view()), &mut output.view_mut().unwrap());
        clip.run(full.view(), low, None, output, &config, lanes)
            .unwrap();
    });
    let add = Binary::new(BinaryOp::Add, f32s, tier).unwrap();
    expect_none("binary", || {
        let shape = broadcast_shape(&[full.dims(), part.dims()]).unwrap();
        assert_eq!(shape.dims(), full.dims());
        let output = &mut output.view_mut().unwrap();
        add.run(full.view(), part.view(), output, &config, lanes)
            .unwrap();
    });
    let pow = Pow::new(f32s, f32s, tier).unwrap();
    expect_none("pow", || {
        let output = &mut output.view_mut().unwrap();
        pow.run(full.view(), part.view(), output, &config, lanes)
            .unwrap();
    });
    let select = Select::new(f32s, tier).unwrap();
    expect_none("select", || {
        let output = &mut output.view_mut().unwrap();
        let (x, y) = (full.view(), part.view());
        select
            .run(condition.view(), x, y, output, &config, lanes)
            .unwrap();
    });
    let max = Variadic::new(VariadicOp::Max, f32s, tier).unwrap();
    expect_none("variadic", || {
        let operands = [full.view(), part.view(), scalar.view()];
        max.run(&operands, &mut output.view_mut().unwrap(), &config, lanes)
            .unwrap();
    });
}
