//! Random schedules from a seed.

use crate::faults::{Fault, Incident, Moment, Schedule};

/// SplitMix64: the same throws for the same seed, on every machine.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.throw() % bound.max(1) as u64).unwrap_or(0)
    }

    /// One to three faults.
    pub fn schedule(&mut self, writes: usize) -> Schedule {
        let faults = Fault::at_every_write();
        let count = 1 + self.below(3);
        let incidents = (0..count).map(|_| {
            let what = match self.below(faults.len() + 2) {
                index if index < faults.len() => faults[index].clone(),
                _ => Fault::LandsAfter(1 + self.below(writes)),
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
