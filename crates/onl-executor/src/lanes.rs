use crate::DisjointSlice;
use onl_profiling::RegionSite;
use std::marker::PhantomData;
use std::ops::Range;
use thiserror::Error;

/// How a kernel wants a region divided. Chunk `i` covers `[i · grain, min((i + 1) · grain, total))`: boundaries
/// depend on nothing else.
#[derive(Debug, Clone, Copy)]
pub struct RegionSpec {
    /// Work units.
    pub total: usize,
    /// Units per chunk, at least 1.
    pub grain: usize,
    /// Below this total the region runs on the caller (`below_threshold`).
    pub minimum_total: usize,
    /// Most lanes that may take part; 0 leaves it to the session.
    pub max_participants: usize,
    /// Estimated serial nanoseconds of the whole region, 0 when unknown.
    pub serial_ns: u64,
    /// Algorithm that the kernel chose, recorded in the event; empty when there is only one.
    pub path: &'static str,
    /// Tiles that the kernel divided its problem into, recorded in the event; 0 when it has none.
    pub tiles: u64,
}

impl RegionSpec {
    /// Units in chunks of `grain`, without threshold, limit or estimate.
    pub fn new(total: usize, grain: usize) -> Self {
        RegionSpec {
            total,
            grain: grain.max(1),
            minimum_total: 0,
            max_participants: 0,
            serial_ns: 0,
            path: "",
            tiles: 0,
        }
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.total.div_ceil(self.grain.max(1))
    }
}

/// A part of a region that one lane works on.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Number of the chunk.
    pub index: usize,
    /// Work units.
    pub range: Range<usize>,
    /// Lane that runs the chunk, below [`Lanes::count`]; selects per-lane scratch.
    pub lane: usize,
}

/// Why a region did not finish.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegionError {
    /// A chunk panicked; the executor stays usable.
    #[error("lane {lane} panicked in region '{site}': {message}")]
    Panicked {
        /// Lane that ran the chunk.
        lane: usize,
        /// Label of the region's site.
        site: &'static str,
        /// Panic message.
        message: String,
    },
}

/// The lanes of a run: what a kernel gets to open regions with.
#[derive(Clone, Copy)]
pub struct Lanes<'run> {
    count: usize,
    _run: PhantomData<&'run ()>,
}

impl<'run> Lanes<'run> {
    /// Lanes of a caller that works alone.
    pub fn serial() -> Lanes<'static> {
        Lanes {
            count: 1,
            _run: PhantomData,
        }
    }

    pub(crate) fn with_count(count: usize) -> Self {
        Lanes {
            count,
            _run: PhantomData,
        }
    }

    /// The same lanes with regions attributed to a node.
    pub fn for_node(self, node: u32) -> Self {
        let _ = node;
        self
    }

    /// Most lanes that a region can get, the caller included; per-lane scratch is sized by it.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs `body` once for every chunk of the region, in any order and on any lane, and returns when all are done.
    /// A region opened inside a chunk runs inline.
    ///
    /// # Errors
    /// [`RegionError::Panicked`] when a chunk panicked; the other claimed chunks are complete.
    pub fn region<F: Fn(Chunk) + Sync>(
        &self,
        site: &'static RegionSite,
        spec: RegionSpec,
        body: F,
    ) -> Result<(), RegionError> {
        let _ = site;
        for index in 0..spec.chunks() {
            let start = index * spec.grain;
            body(Chunk {
                index,
                range: start..(start + spec.grain).min(spec.total),
                lane: 0,
            });
        }
        Ok(())
    }

    /// As [`region`](Self::region), and gives each chunk its own part of `output`: unit `u` owns elements
    /// `[u · per_unit, (u + 1) · per_unit)`.
    ///
    /// # Errors
    /// As [`region`](Self::region).
    ///
    /// # Panics
    /// When `output` does not have `total · per_unit` elements.
    pub fn region_over<T: Send, F: Fn(Chunk, &mut [T]) + Sync>(
        &self,
        site: &'static RegionSite,
        spec: RegionSpec,
        output: &mut [T],
        per_unit: usize,
        body: F,
    ) -> Result<(), RegionError> {
        assert_eq!(
            output.len(),
            spec.total * per_unit,
            "output of a region has per_unit elements a unit"
        );
        let output = DisjointSlice::new(output);
        self.region(site, spec, |chunk| {
            let range = chunk.range.start * per_unit..chunk.range.end * per_unit;
            // SAFETY: chunks of a region are disjoint ranges of units, and each is run once.
            let part = unsafe { output.part(range) };
            body(chunk, part)
        })
    }
}
