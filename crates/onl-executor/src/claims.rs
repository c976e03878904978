//! The word from which lanes take chunks of a region.
//!
//! A region's work is divided into at most [`MAX_UNITS`] *units* of consecutive chunks. One word holds the region's
//! generation, the units that wait for a preferred lane, and the number of units left in the tail:
//!
//! ```text
//! generation : 36 | preferred : 12 | tail : 16
//! ```
//!
//! The lane of number `l < 12` takes unit `l` first, if nobody else did; everything else goes in order. Because the
//! generation is compared in the same instruction that takes a unit, a lane that comes late, after the region was
//! finished and its descriptor reused, takes nothing. A lane that holds a unit has not reported it, so its caller
//! still waits and the descriptor stays. (A generation repeats after 2³⁶ regions of one leader, many hours; a lane
//! would have to sleep through exactly that many between two of its instructions.)

use crate::sync::{AtomicU64, Ordering};

const TAIL_BITS: u32 = 16;
const PREFERRED_BITS: u32 = 12;
const GENERATION_SHIFT: u32 = TAIL_BITS + PREFERRED_BITS;

/// Lanes that have a preferred unit.
pub(crate) const PREFERRED_LANES: usize = PREFERRED_BITS as usize;
/// Most units of a region.
pub(crate) const MAX_UNITS: usize = (1 << TAIL_BITS) - 1;
/// Bits of a generation.
pub(crate) const GENERATION_MASK: u64 = (1 << (64 - GENERATION_SHIFT)) - 1;

/// A unit that the calling lane owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// The unit of this number.
    Unit(usize),
    /// The unit this many places before the end.
    FromEnd(usize),
}

impl Claim {
    /// Number of the unit in a region of `units`.
    pub(crate) fn unit(self, units: usize) -> usize {
        match self {
            Claim::Unit(unit) => unit,
            Claim::FromEnd(places) => units - places,
        }
    }
}

/// The claim word of one region descriptor.
pub(crate) struct Claims(AtomicU64);

impl Claims {
    pub(crate) fn new() -> Self {
        Claims(AtomicU64::new(0))
    }

    /// Opens a region of `units`, of which unit 0 belongs to the caller already and `1..preferred` wait for the lanes of
    /// their number. The descriptor must be complete.
    pub(crate) fn open(&self, generation: u64, units: usize, preferred: usize) {
        debug_assert!(1 <= preferred && preferred <= PREFERRED_LANES.min(units));
        debug_assert!(units <= MAX_UNITS && generation <= GENERATION_MASK);
        let waiting = ((1u64 << preferred) - 1) & !1;
        let word =
            generation << GENERATION_SHIFT | waiting << TAIL_BITS | (units - preferred) as u64;
        self.0.store(word, Ordering::Release);
    }

    /// Takes a unit of the region of this generation for `lane`; `None` when there is none left or another region is
    /// open. `first` says that the lane has taken none yet.
    pub(crate) fn take(&self, generation: u64, lane: usize, first: bool) -> Option<Claim> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word >> GENERATION_SHIFT != generation {
                return None;
            }
            let preferred = word >> TAIL_BITS & ((1 << PREFERRED_BITS) - 1);
            let tail = word & ((1 << TAIL_BITS) - 1);
            let bit = |unit: usize| 1u64 << (TAIL_BITS as usize + unit);
            let (taken, claim) = if first && lane < PREFERRED_LANES && preferred >> lane & 1 == 1 {
                (word & !bit(lane), Claim::Unit(lane))
            } else if tail > 0 {
                (word - 1, Claim::FromEnd(tail as usize))
            } else if preferred != 0 {
                let unit = preferred.trailing_zeros() as usize;
                (word & !bit(unit), Claim::Unit(unit))
            } else {
                return None;
            };
            match self
                .0
                .compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Some(claim),
                Err(now) => word = now,
            }
        }
    }

    /// Takes every unit that is left and returns their number. Only for a lane that holds a unit of this generation.
    pub(crate) fn close(&self, generation: u64) -> usize {
        let word = self
            .0
            .swap(generation << GENERATION_SHIFT, Ordering::Acquire);
        debug_assert_eq!(word >> GENERATION_SHIFT, generation);
        let preferred = word >> TAIL_BITS & ((1 << PREFERRED_BITS) - 1);
        preferred.count_ones() as usize + (word & ((1 << TAIL_BITS) - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_taken_once_and_preferred_ones_first() {
        let claims = Claims::new();
        claims.open(5, 7, 3);
        let unit = |claim: Option<Claim>| claim.map(|claim| claim.unit(7));
        assert_eq!(unit(claims.take(5, 2, true)), Some(2));
        assert_eq!(unit(claims.take(5, 2, false)), Some(3));
        assert_eq!(unit(claims.take(5, 0, false)), Some(4));
        assert_eq!(unit(claims.take(5, 0, false)), Some(5));
        assert_eq!(unit(claims.take(5, 0, false)), Some(6));
        // Lane 1 never came: its unit goes to whoever asks.
        assert_eq!(unit(claims.take(5, 0, false)), Some(1));
        assert_eq!(claims.take(5, 1, true), None);
    }

    #[test]
    fn a_late_lane_takes_nothing_of_another_generation() {
        let claims = Claims::new();
        claims.open(5, 7, 3);
        claims.open(6, 7, 3);
        assert_eq!(claims.take(5, 1, true), None);
        assert_eq!(claims.close(6), 6);
        assert_eq!(claims.take(6, 1, true), None);
    }

    #[test]
    fn extremes_fit_the_word() {
        let claims = Claims::new();
        claims.open(GENERATION_MASK, MAX_UNITS, 1);
        assert_eq!(
            claims
                .take(GENERATION_MASK, 4095, true)
                .map(|c| c.unit(MAX_UNITS)),
            Some(1)
        );
        assert_eq!(claims.close(GENERATION_MASK), MAX_UNITS - 2);
        claims.open(0, PREFERRED_LANES, PREFERRED_LANES);
        assert_eq!(claims.close(0), PREFERRED_LANES - 1);
    }
}
