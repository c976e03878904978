//! The words from which lanes take chunks of a region.
//!
//! A region's work is divided into at most [`MAX_UNITS`] *units* of consecutive chunks, and the units into one segment
//! per lane. A segment is a word with the region's generation and the units that are left in it:
//!
//! ```text
//! generation : 32 | first : 16 | end : 16
//! ```
//!
//! A lane takes the units of its own segment in order, so that regions of equal division find a lane's data in its own
//! cache; when the segment is empty it takes the last units of the others. Because the generation is compared in the
//! same instruction that takes a unit, a lane that comes late, after the region was finished and its descriptor reused,
//! takes nothing. A lane that holds a unit has not reported it, so its caller still waits and the descriptor stays. (A
//! generation repeats after 2³² regions of one leader; a lane would have to sleep through exactly that many between two
//! of its instructions.)

use crate::sync::{AtomicU64, Ordering, Point, kept, ordering_at};
use crossbeam::utils::CachePadded;

const FIRST_SHIFT: u32 = 16;
const GENERATION_SHIFT: u32 = 32;
const UNIT_MASK: u64 = 0xffff;

/// Most segments of a region; lanes beyond share them.
const MAX_SEGMENTS: usize = 16;
/// Most units of a region.
pub(crate) const MAX_UNITS: usize = UNIT_MASK as usize;
/// Bits of a generation.
pub(crate) const GENERATION_MASK: u64 = (1 << (64 - GENERATION_SHIFT)) - 1;

/// The claim words of one region descriptor.
pub(crate) struct Claims {
    segments: Box<[CachePadded<AtomicU64>]>,
}

impl Claims {
    /// Words for regions of up to this many lanes.
    pub(crate) fn new(lanes: usize) -> Self {
        let segments = lanes.clamp(1, MAX_SEGMENTS);
        Claims {
            segments: (0..segments)
                .map(|_| CachePadded::new(AtomicU64::new(0)))
                .collect(),
        }
    }

    /// Opens a region of `units` for `lanes` lanes; unit 0 belongs to the caller, lane 0, already. The descriptor must
    /// be complete. Generations are not 0.
    pub(crate) fn open(&self, generation: u64, units: usize, lanes: usize) {
        debug_assert!((1..=MAX_UNITS).contains(&units) && generation <= GENERATION_MASK);
        let count = lanes.clamp(1, self.segments.len()).min(units);
        for (index, segment) in self.segments[..count].iter().enumerate() {
            let first = (units * index / count).max(1);
            let end = units * (index + 1) / count;
            segment.store(
                generation << GENERATION_SHIFT | (first as u64) << FIRST_SHIFT | end as u64,
                ordering_at(Point::Publish, Ordering::Release),
            );
        }
    }

    /// Takes a unit of the region of this generation for `lane`; `None` when there is none left or another region is
    /// open.
    pub(crate) fn take(&self, generation: u64, lane: usize) -> Option<usize> {
        let home = lane % self.segments.len();
        if let Some(unit) = take_first(&self.segments[home], generation) {
            return Some(unit);
        }
        let (before, after) = self.segments.split_at(home);
        after[1..]
            .iter()
            .chain(before)
            .find_map(|segment| take_last(segment, generation))
    }

    /// Takes every unit that is left and returns their number. Only for a lane that holds a unit of this generation.
    pub(crate) fn close(&self, generation: u64) -> usize {
        self.segments
            .iter()
            .map(|segment| {
                let mut taken = 0;
                while take_first(segment, generation).is_some() {
                    taken += 1;
                }
                taken
            })
            .sum()
    }
}

fn take_first(segment: &AtomicU64, generation: u64) -> Option<usize> {
    take(segment, generation, |first, _| (first, 1 << FIRST_SHIFT))
}

fn take_last(segment: &AtomicU64, generation: u64) -> Option<usize> {
    // One less in the lowest field.
    take(segment, generation, |_, end| (end - 1, u64::MAX))
}

/// Takes the unit that `choose` names, by adding what it says to the word.
fn take(
    segment: &AtomicU64,
    generation: u64,
    choose: impl Fn(u64, u64) -> (u64, u64),
) -> Option<usize> {
    let mut word = segment.load(Ordering::Relaxed);
    loop {
        if word >> GENERATION_SHIFT != generation && kept(Point::CompareGeneration) {
            return None;
        }
        let (first, end) = (word >> FIRST_SHIFT & UNIT_MASK, word & UNIT_MASK);
        if first >= end {
            return None;
        }
        let (unit, change) = choose(first, end);
        match segment.compare_exchange_weak(
            word,
            word.wrapping_add(change),
            ordering_at(Point::Claim, Ordering::Acquire),
            Ordering::Relaxed,
        ) {
            Ok(_) => return Some(unit as usize),
            Err(now) => word = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_takes_its_own_segment_in_order_and_then_the_ends_of_others() {
        let claims = Claims::new(2);
        claims.open(5, 7, 2);
        let take = |lane| claims.take(5, lane);
        assert_eq!(take(1), Some(3));
        assert_eq!(take(1), Some(4));
        assert_eq!(take(0), Some(1));
        assert_eq!(take(1), Some(5));
        assert_eq!(take(1), Some(6));
        assert_eq!(take(1), Some(2));
        assert_eq!(take(1), None);
        assert_eq!(take(0), None);
    }

    #[test]
    fn every_unit_is_taken_once_whatever_lanes_come() {
        for lanes in [1, 2, 3, 7, 40] {
            for units in [1, 2, 5, 16, 17, 100, MAX_UNITS] {
                let claims = Claims::new(lanes);
                claims.open(9, units, lanes);
                let mut taken = vec![false; units];
                taken[0] = true;
                let mut lane = 0;
                while let Some(unit) = claims.take(9, lane % lanes) {
                    assert!(!taken[unit], "unit {unit} of {units} on {lanes} lanes");
                    taken[unit] = true;
                    lane += 1;
                }
                assert!(taken.iter().all(|&t| t), "{units} units on {lanes} lanes");
            }
        }
    }

    #[test]
    fn a_late_lane_takes_nothing_of_another_generation() {
        let claims = Claims::new(3);
        claims.open(5, 7, 3);
        while claims.take(5, 0).is_some() {}
        claims.open(6, 7, 3);
        assert_eq!(claims.take(5, 1), None);
        assert_eq!(claims.close(6), 6);
        assert_eq!(claims.take(6, 1), None);
    }

    #[test]
    fn a_region_of_fewer_lanes_leaves_the_other_segments_closed() {
        let claims = Claims::new(4);
        claims.open(5, 4, 4);
        assert_eq!(claims.close(5), 3);
        claims.open(6, 4, 2);
        assert_eq!(claims.take(6, 3), Some(1));
        assert_eq!(claims.close(6), 2);
    }

    #[test]
    fn extremes_fit_the_word() {
        let claims = Claims::new(1);
        claims.open(GENERATION_MASK, MAX_UNITS, 1);
        assert_eq!(claims.take(GENERATION_MASK, 4095), Some(1));
        assert_eq!(claims.close(GENERATION_MASK), MAX_UNITS - 2);
    }
}
