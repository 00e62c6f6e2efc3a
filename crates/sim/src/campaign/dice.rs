//! Random schedules from a seed.

use crate::faults::{Fault, Incident, Moment, Schedule};

/// SplitMix64: the same throws for the same seed, on every machine.
pub struct Dice {
    state: u64,
    faults: Vec<Fault>,
}

impl Dice {
    /// Throws for these faults.
    pub fn new(seed: u64, faults: Vec<Fault>) -> Self {
        Dice { state: seed, faults }
    }

    fn throw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.throw() % bound.max(1) as u64).unwrap_or(0)
    }

    /// One to three faults.
    pub fn schedule(&mut self, writes: usize) -> Schedule {
        let count = 1 + self.below(3);
        let incidents = (0..count).map(|_| {
            let index = self.below(self.faults.len() + 2);
            let what = match self.faults.get(index) {
                Some(fault) => fault.clone(),
                None => Fault::LandsAfter(1 + self.below(writes)),
            };
            // A run with faults makes more writes than one without.
            Incident { at: Moment::Write(1 + self.below(writes + writes / 2)), what }
        });
        let mut incidents: Vec<Incident> = incidents.collect();
        incidents.sort_by_key(|incident| match incident.at {
            Moment::Write(write) => write,
            _ => 0,
        });
        Schedule { faults: incidents }
    }
}
