//! How bytes of any sizes become parts of whole elements.

use bytes::Bytes;

/// What has come and is in no part yet.
#[derive(Debug)]
pub(super) struct Carry {
    element: usize,
    /// Bytes of a whole part.
    part: usize,
    /// The part that is being filled.
    filling: Vec<u8>,
    /// What came last, behind that.
    coming: Bytes,
}

/// What comes in pieces of this share of a part, or more, goes as it came: to copy it would take longer than another launch.
const WORTH_A_PART: usize = 4;

impl Carry {
    pub(super) fn new(element: usize, elements: usize) -> Self {
        let part = element.saturating_mul(elements);
        Carry { element, part, filling: Vec::new(), coming: Bytes::new() }
    }

    /// Takes more in. Nothing may be left that [`Carry::part`] would give.
    pub(super) fn push(&mut self, bytes: Bytes) {
        debug_assert!(self.coming.is_empty());
        self.coming = bytes;
    }

    /// A part that is worth to be sent on.
    pub(super) fn part(&mut self) -> Option<Bytes> {
        let direct = self.coming.len().min(self.part) / self.element * self.element;
        if self.filling.is_empty() && direct >= self.part.div_ceil(WORTH_A_PART) {
            // All of it, where it is the last: then nobody else has these bytes.
            return Some(match direct == self.coming.len() {
                true => std::mem::take(&mut self.coming),
                false => self.coming.split_to(direct),
            });
        }
        let more = self.coming.split_to(self.coming.len().min(self.part - self.filling.len()));
        self.filling.extend_from_slice(&more);
        (self.filling.len() == self.part).then(|| std::mem::take(&mut self.filling).into())
    }

    /// The whole elements that there are, where nothing is to be waited for. Comes behind [`Carry::part`].
    pub(super) fn rest(&mut self) -> Option<Bytes> {
        let whole = self.filling.len() / self.element * self.element;
        if whole == 0 {
            return None;
        }
        let left = self.filling.split_off(whole);
        Some(std::mem::replace(&mut self.filling, left).into())
    }

    /// Bytes of an element that has not come whole.
    pub(super) fn left(&self) -> usize {
        self.filling.len()
    }
}

#[cfg(test)]
mod tests {
    use windlass_testkit::Rng;

    use super::*;

    /// Whatever sizes bytes come in, parts are whole elements, in order, none of them too large, and nothing is lost.
    ///
    /// Seen to fail with `direct` not cut to whole elements, and with what is left over dropped in `rest`.
    #[test]
    fn nothing_is_lost_between_pieces_and_parts() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let (element, elements) = (1 + rng.below(8), 1 + rng.below(20));
            let mut carry = Carry::new(element, elements);
            let (mut came, mut went) = (Vec::new(), Vec::new());
            let mut next = 0_u8;
            for _ in 0..rng.below(30) {
                let piece: Vec<u8> = (0..rng.below(3 * element * elements))
                    .map(|_| {
                        next = next.wrapping_add(1);
                        next
                    })
                    .collect();
                came.extend_from_slice(&piece);
                carry.push(piece.into());
                let flush = rng.below(4) == 0;
                let mut taken = Vec::new();
                while let Some(part) = carry.part() {
                    taken.push(part);
                }
                taken.extend(flush.then(|| carry.rest()).flatten());
                for part in taken {
                    assert!(
                        !part.is_empty() && part.len() % element == 0 && part.len() <= element * elements
                    );
                    went.extend_from_slice(&part);
                }
            }
            went.extend_from_slice(&carry.rest().unwrap_or_default());
            assert_eq!(carry.left(), came.len() % element, "seed {seed}");
            assert_eq!(went[..], came[..came.len() - carry.left()], "seed {seed}");
        }
    }
}
